"""Filters against their plain model: every row alike, and no row that matches is pruned."""

from __future__ import annotations

import io
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from lentic.query.parquet_stats import row_groups_that_may_match
from lentic.query.predicate import Bounds, columns_of, keys_equal, matches, may_match
from lentic.query.predicate_text import parse_predicate, to_sql
from tests.unit.query.predicate_model import (
    SCHEMA,
    Row,
    Wish,
    batch_of,
    bounds_of,
    rows,
    text_of,
    truth,
    wishes,
)

EXAMPLES = settings(max_examples=80, deadline=None)
KEYS = ("flag", "tiny", "big", "name", "day", "at", "clock", "price", "total")


@EXAMPLES
@given(wishes(), rows())
def test_a_filter_keeps_exactly_the_rows_for_which_it_is_true(wish: Wish, held: list[Row]) -> None:
    predicate = parse_predicate(text_of(wish), SCHEMA)
    batch = batch_of(held)
    found = matches(predicate, batch)
    assert found.null_count == 0
    assert found.to_pylist() == [truth(wish, row) is True for row in held]
    assert matches(predicate, batch.select(sorted(columns_of(predicate)))) == found


@EXAMPLES
@given(wishes())
def test_a_filter_survives_sql_and_pickling(wish: Wish) -> None:
    predicate = parse_predicate(text_of(wish), SCHEMA)
    again = parse_predicate(to_sql(predicate), SCHEMA)
    assert again == predicate
    assert repr(again) == repr(predicate)  # 1, 1.0 and True are equal, but not the same
    assert repr(pickle.loads(pickle.dumps(predicate))) == repr(predicate)


@EXAMPLES
@given(wishes(), rows(), st.sampled_from([0, 1, 2]), st.sets(st.sampled_from(KEYS)))
def test_rows_that_match_are_never_pruned(
    wish: Wish, held: list[Row], slack: int, forgotten: set[str]
) -> None:
    predicate = parse_predicate(text_of(wish), SCHEMA)
    known = bounds_of(held, slack)
    for number, name in enumerate(sorted(forgotten)):
        whole = known.pop(name)
        if number % 2:
            known[name] = Bounds(None, whole.maximum, None, whole.rows)
    matching = [row for row in held if truth(wish, row)]
    assert may_match(predicate, known) or not matching
    for column in KEYS:
        keys = keys_equal(predicate, column)
        assert keys is None or {row[column] for row in matching} <= keys


@EXAMPLES
@given(wishes(), rows(), st.integers(1, 3), st.booleans())
def test_the_row_groups_that_are_read_hold_every_matching_row(
    wish: Wish, held: list[Row], group_rows: int, is_old: bool
) -> None:
    data = io.BytesIO()
    table = pa.Table.from_batches([batch_of(held)])
    pq.write_table(table, data, row_group_size=group_rows, use_deprecated_int96_timestamps=is_old)
    predicate = parse_predicate(text_of(wish), SCHEMA)
    metadata = pq.read_metadata(data)
    chosen = row_groups_that_may_match(metadata, SCHEMA, predicate)
    assert chosen == sorted(set(chosen))
    assert set(chosen) <= set(range(metadata.num_row_groups))
    assert {n // group_rows for n, row in enumerate(held) if truth(wish, row)} <= set(chosen)
