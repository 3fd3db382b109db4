"""What is folded does the same as what it was folded from, to any base rows and later changes."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lentic.format.record_fields import RECORD_KEY
from lentic.records.fold import Folded, fold_changes
from lentic.records.merge import Change, Deletes, by_kind, comparable, plain
from tests.unit.records.merge_model import PAYLOAD, in_order, merged, ordering_of
from tests.unit.records.test_merge import PLAIN, TIMED, TWICE, hard, histories, timed, upsert

History = tuple[pa.Schema, list[pa.RecordBatch], list[Change]]


def stored(changes: Sequence[Change]) -> list[Change]:
    """Changes as a log holds them: a delete without any ordering value is a hard one."""
    made: list[Change] = []
    for change in changes:
        made += by_kind(change) if isinstance(change, Deletes) else [change]
    return made


def fold(changes: Sequence[Change], schema: pa.Schema) -> Folded:
    return fold_changes(changes, schema, ordering_of(schema))


def blocks(folded: Folded) -> list[Change]:
    return stored([folded.rows, folded.deletes])


@given(histories(), st.data())
@settings(max_examples=600, deadline=None)
def test_any_history_gives_the_same_rows_folded_and_folded_again(
    history: History, data: st.DataObject
) -> None:
    schema, batches, given_changes = history
    changes = stored(given_changes)
    expected, _ = merged(batches, changes, schema)
    first = data.draw(st.integers(0, len(changes)))
    second = data.draw(st.integers(first, len(changes)))
    once = blocks(fold(changes[:first], schema))
    rows, _ = merged(batches, [*once, *changes[first:]], schema)
    assert in_order(rows) == in_order(expected), "folded once"
    rows, _ = merged(batches, [*reversed(once), *changes[first:]], schema)
    assert in_order(rows) == in_order(expected), "in whatever order the blocks lie"
    twice = blocks(fold([*once, *changes[first:second]], schema))
    rows, _ = merged(batches, [*twice, *changes[second:]], schema)
    assert in_order(rows) == in_order(expected), "a chain"


@given(histories())
@settings(max_examples=200, deadline=None)
def test_of_each_key_one_change_is_left(history: History) -> None:
    schema, _, changes = history
    folded = fold(stored(changes), schema)
    keys = folded.rows.column(RECORD_KEY).to_pylist() + folded.deletes.keys.to_pylist()
    assert len(set(keys)) == len(keys)


def test_a_row_that_came_after_a_hard_delete_stays_without_it() -> None:
    folded = fold([hard("a"), upsert(TIMED, ("a", 1, 5))], TIMED)
    assert folded.rows.column(PAYLOAD).to_pylist() == [1]
    assert len(folded.deletes.keys) == 0


def test_a_delete_that_won_stays_with_its_ordering_value() -> None:
    folded = fold(
        [upsert(TIMED, ("a", 1, 5), ("b", 1, 9)), timed(TIMED, ("a", 7), ("b", 7))], TIMED
    )
    assert folded.rows.column(RECORD_KEY).to_pylist() == ["b"]
    assert folded.deletes.keys.to_pylist() == ["a"]
    assert folded.deletes.ordering is not None
    assert folded.deletes.ordering[0].to_pylist() == [7]


def test_a_delete_that_is_ordered_by_some_fields_only_cannot_be_written() -> None:
    assert fold([timed(TWICE, ("a", 1, 2)), hard("b")], TWICE).is_writable
    assert fold([upsert(TWICE, ("a", 1, 2, 3))], TWICE).is_writable
    assert not fold([timed(TWICE, ("a", 1, None))], TWICE).is_writable


def test_without_ordering_deletes_are_hard() -> None:
    folded = fold([upsert(PLAIN, ("a", 1)), hard("a")], PLAIN)
    assert folded.deletes == Deletes(pa.array(["a"]), None)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64(), pa.int64(), pa.string()])
def test_plain_is_the_way_back_from_comparable(kind: pa.DataType) -> None:
    numbers = [0.0, -0.0, 1.5, -1.5, float("inf"), float("-inf"), None, float("nan")]
    values = [str(n) for n in numbers] if kind == pa.string() else numbers
    values = [1, -1, None] if kind == pa.int64() else values
    given_values = pa.array(values, kind)
    back = plain(comparable(given_values), kind)
    assert back.type == kind
    assert repr(back.to_pylist()) == repr(given_values.to_pylist())
