"""Each sentence of the merge rules, and any history against a naive replay of it (R17)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lentic.format.record_fields import RECORD_KEY
from lentic.records.merge import IS_DELETED, Change, Deletes, Merge, reduce_changes
from tests.unit.records.merge_model import (
    PAYLOAD,
    Row,
    in_order,
    merged,
    ordering_of,
    replay,
    schema_of,
    tally_of,
)

PLAIN = schema_of(with_flag=False)
TIMED = schema_of(pa.int64())
TWICE = schema_of(pa.int64(), pa.int64())


def upsert(schema: pa.Schema, *rows: tuple[Any, ...]) -> pa.Table:
    """Rows of (key, payload, ordering values...); a payload of "x" flags the row as deleted."""
    made = []
    for key, payload, *ordering in rows:
        row: Row = {RECORD_KEY: key, PAYLOAD: None if payload == "x" else payload}
        row |= {IS_DELETED: payload == "x"} if IS_DELETED in schema.names else {}
        made.append(row | {f"o{n}": value for n, value in enumerate(ordering)})
    return pa.Table.from_pylist(made, schema=schema)


def hard(*keys: str) -> Deletes:
    return Deletes(pa.array(keys, pa.string()), None)


def timed(schema: pa.Schema, *deletes: tuple[Any, ...]) -> Deletes:
    columns = [
        pa.array([delete[n + 1] for delete in deletes], schema.field(name).type)
        for n, name in enumerate(ordering_of(schema))
    ]
    return Deletes(pa.array([delete[0] for delete in deletes], pa.string()), tuple(columns))


def left(schema: pa.Schema, base: pa.Table, *changes: Change) -> dict[str, int | None]:
    """Key -> payload of what the merge leaves."""
    rows, _ = merged(base.to_batches(), changes, schema)
    assert len({row[RECORD_KEY] for row in rows}) == len(rows), "a key came out twice"
    return {row[RECORD_KEY]: row[PAYLOAD] for row in rows}


# Without ordering fields


def test_without_ordering_the_later_change_wins() -> None:
    base = upsert(PLAIN, ("a", 1), ("b", 2))
    first, second = upsert(PLAIN, ("a", 10), ("c", 30)), upsert(PLAIN, ("c", 31), ("a", 11))
    assert left(PLAIN, base, first, second) == {"a": 11, "b": 2, "c": 31}
    assert left(PLAIN, base, second, first) == {"a": 10, "b": 2, "c": 30}


def test_without_ordering_the_last_row_of_one_batch_wins() -> None:
    changes = upsert(PLAIN, ("a", 10), ("b", 20), ("a", 11), ("a", 12))
    assert left(PLAIN, PLAIN.empty_table(), changes) == {"a": 12, "b": 20}


def test_without_ordering_a_delete_removes_and_a_later_row_comes_back() -> None:
    base = upsert(PLAIN, ("a", 1), ("b", 2))
    assert left(PLAIN, base, hard("a", "zz")) == {"b": 2}
    assert left(PLAIN, base, hard("a"), upsert(PLAIN, ("a", 3))) == {"a": 3, "b": 2}
    assert left(PLAIN, base, upsert(PLAIN, ("a", 3)), hard("a")) == {"b": 2}


def test_without_ordering_fields_a_deletes_own_ordering_is_ignored() -> None:
    with_value = Deletes(pa.array(["a"]), (pa.array([-5]),))
    assert left(PLAIN, upsert(PLAIN, ("a", 1)), upsert(PLAIN, ("a", 2)), with_value) == {}
    assert left(PLAIN, upsert(PLAIN, ("a", 1)), with_value, upsert(PLAIN, ("a", 2))) == {"a": 2}


# With ordering fields


@pytest.mark.parametrize(
    ("stored", "came", "winner"),
    [(5, 6, 2), (5, 4, 1), (5, 5, 2), (None, 0, 2), (5, None, 1), (None, None, 2), (-1, 0, 2)],
)
def test_the_greater_ordering_wins_a_tie_goes_to_the_later_and_null_is_lowest(
    stored: int | None, came: int | None, winner: int
) -> None:
    row, change = upsert(TIMED, ("a", 1, stored)), upsert(TIMED, ("a", 2, came))
    assert left(TIMED, row, change) == {"a": winner}, "against the base"
    assert left(TIMED, TIMED.empty_table(), row, change) == {"a": winner}, "between changes"
    both = pa.concat_tables([row, change])
    assert left(TIMED, TIMED.empty_table(), both) == {"a": winner}, "within one change"


def test_a_late_row_changes_nothing_and_counts_nowhere() -> None:
    base = upsert(TIMED, ("a", 1, 5), ("b", 2, 5))
    rows, tally = merged(base.to_batches(), [upsert(TIMED, ("a", 9, 4))], TIMED)
    assert in_order(rows) == in_order(base.to_pylist())
    assert (tally.inserted, tally.updated, tally.deleted) == (0, 0, 0)


def test_several_ordering_fields_are_compared_from_the_first() -> None:
    base = upsert(TWICE, ("a", 1, 5, 5))
    for came, winner in [
        ((6, 0), 2),
        ((5, 6), 2),
        ((5, 5), 2),
        ((5, 4), 1),
        ((4, 9), 1),
        ((5, None), 1),
        ((None, 9), 1),
        ((6, None), 2),
    ]:
        change = upsert(TWICE, ("a", 2, *came))
        assert left(TWICE, base, change) == {"a": winner}, came
        assert left(TWICE, TWICE.empty_table(), base, change) == {"a": winner}, came


def test_a_hard_delete_wins_over_all_before_it_and_loses_to_all_after_it() -> None:
    base = upsert(TIMED, ("a", 1, 50))
    high, low = upsert(TIMED, ("a", 2, 99)), upsert(TIMED, ("a", 3, -99))
    assert left(TIMED, base, hard("a")) == {}
    assert left(TIMED, base, high, hard("a")) == {}
    nothing = upsert(TIMED, ("b", 0, 0))
    kept = {"b": 0}
    assert left(TIMED, nothing, hard("a"), low) == kept | {"a": 3}
    assert left(TIMED, nothing, high, hard("a"), low) == kept | {"a": 3}
    assert left(TIMED, nothing, hard("a"), upsert(TIMED, ("a", 4, None))) == kept | {"a": 4}
    assert left(TIMED, base, hard("a"), low, hard("a")) == {}
    assert left(TIMED, base, high, hard("a"), high, low) == {"a": 2}


def test_a_delete_with_an_ordering_takes_part_in_the_comparison() -> None:
    base = upsert(TIMED, ("a", 1, 50))
    assert left(TIMED, base, timed(TIMED, ("a", 51))) == {}
    assert left(TIMED, base, timed(TIMED, ("a", 50))) == {}
    assert left(TIMED, base, timed(TIMED, ("a", 49))) == {"a": 1}
    assert left(TIMED, base, timed(TIMED, ("a", 60)), upsert(TIMED, ("a", 2, 55))) == {}
    assert left(TIMED, base, timed(TIMED, ("a", 60)), upsert(TIMED, ("a", 2, 60))) == {"a": 2}


def test_what_is_left_of_the_changes_meets_the_base_row_last() -> None:
    """As Apache Hudi and hudi-rs have it: after a hard delete a row that is older than the base row
    loses to it all the same."""
    base = upsert(TIMED, ("a", 1, 50))
    assert left(TIMED, base, hard("a"), upsert(TIMED, ("a", 2, 49))) == {"a": 1}
    assert left(TIMED, base, hard("a"), upsert(TIMED, ("a", 2, 50))) == {"a": 2}


def test_a_delete_right_after_a_hard_delete_counts_for_nothing() -> None:
    """As Apache Hudi and hudi-rs have it: above all it does not bring the base row back."""
    base = upsert(TIMED, ("a", 1, 50))
    for at in (1, 50, 99, None):
        late = timed(TIMED, ("a", at))
        assert left(TIMED, base, hard("a"), late) == {}
        assert left(TIMED, base, hard("a"), late, late, upsert(TIMED, ("a", 2, 60))) == {"a": 2}
        assert left(TIMED, base, hard("a"), late, hard("a")) == {}
    row = upsert(TIMED, ("a", 2, 60))
    assert left(TIMED, base, hard("a"), row, timed(TIMED, ("a", 61))) == {}
    assert left(TIMED, base, hard("a"), row, timed(TIMED, ("a", 59))) == {"a": 2}


def test_a_flagged_row_is_a_delete_with_its_ordering() -> None:
    base = upsert(TIMED, ("a", 1, 50), ("b", 2, 50))
    assert left(TIMED, base, upsert(TIMED, ("a", "x", 51), ("b", "x", 49))) == {"b": 2}
    assert left(TIMED, base, upsert(TIMED, ("a", "x", 60)), upsert(TIMED, ("a", 3, 55))) == {"b": 2}
    flagged = schema_of()
    assert left(flagged, upsert(flagged, ("a", 1)), upsert(flagged, ("a", "x"), ("b", 1))) == {
        "b": 1
    }


def test_a_null_flag_is_no_delete() -> None:
    change = upsert(TIMED, ("a", 2, 51)).set_column(2, IS_DELETED, pa.nulls(1, pa.bool_()))
    assert left(TIMED, upsert(TIMED, ("a", 1, 50)), change) == {"a": 2}


def test_a_flagged_row_without_an_ordering_value_is_a_hard_delete() -> None:
    """A delete without an ordering value is a hard delete, in whichever form it comes."""
    base = upsert(TIMED, ("a", 1, 50))
    assert left(TIMED, base, upsert(TIMED, ("a", "x", None))) == {}
    assert left(TIMED, base, upsert(TIMED, ("a", "x", None)), upsert(TIMED, ("a", 2, 60))) == {
        "a": 2
    }
    twice = upsert(TWICE, ("a", 1, 5, 5))
    assert left(TWICE, twice, upsert(TWICE, ("a", "x", None, None))) == {}
    assert left(TWICE, twice, upsert(TWICE, ("a", "x", None, 9))) == {"a": 1}


# Streaming and edges


def test_nothing_changes_nothing() -> None:
    base = upsert(TIMED, ("a", 1, 1), ("b", 2, 2))
    for changes in ([], [TIMED.empty_table()], [hard()], [timed(TIMED)]):
        rows, tally = merged(base.to_batches(), changes, TIMED)
        assert rows == base.to_pylist()
        assert (tally.inserted, tally.updated, tally.deleted) == (0, 0, 0)
        assert merged([], changes, TIMED)[0] == []


def test_base_rows_stay_in_their_order_and_new_rows_follow_in_theirs() -> None:
    base = upsert(PLAIN, ("d", 1), ("a", 2), ("c", 3), ("b", 4))
    changes = upsert(PLAIN, ("z", 5), ("a", 6), ("y", 7))
    rows, _ = merged(base.to_batches(max_chunksize=2), [changes], PLAIN)
    assert [row[RECORD_KEY] for row in rows] == ["d", "c", "b", "z", "a", "y"]


def test_batches_pass_one_by_one_and_the_tally_is_complete_at_the_end() -> None:
    base = upsert(PLAIN, *((f"k{n}", n) for n in range(6)))
    merge = Merge(reduce_changes([upsert(PLAIN, ("k5", 50), ("n", 1)), hard("k0")], PLAIN, ()), ())
    taken: list[int] = []

    def source() -> Any:
        for number, batch in enumerate(base.to_batches(max_chunksize=2)):
            taken.append(number)
            yield batch

    stream = merge.batches(source())
    assert next(stream).num_rows == 1
    assert taken == [0], "one batch in, one batch out"
    rest = list(stream)
    assert [batch.num_rows for batch in rest] == [2, 1, 2]
    assert (merge.tally.inserted, merge.tally.updated, merge.tally.deleted) == (1, 1, 1)


def test_a_delete_of_a_key_that_is_not_there_counts_nowhere() -> None:
    _, tally = merged([], [hard("a"), timed(TIMED, ("b", 1)), upsert(TIMED, ("c", "x", 1))], TIMED)
    assert (tally.inserted, tally.updated, tally.deleted) == (0, 0, 0)


def test_the_net_effect_has_one_entry_per_key() -> None:
    changes = [upsert(TIMED, ("a", 1, 5), ("b", 2, 1)), hard("c"), upsert(TIMED, ("a", 3, 4))]
    net = reduce_changes(changes, TIMED, ("o0",))
    assert net.keys.to_pylist() == ["a", "b", "c"]
    assert net.row_of.tolist() == [0, 1, -1]
    assert net.deleted.tolist() == [False, False, True]
    assert net.decided.tolist() == [False, False, True]
    assert net.ordering[0].to_pylist() == [5, 1, None]


def test_rows_of_many_chunks_are_taken_from_the_right_chunk() -> None:
    parts = [upsert(TIMED, (f"k{n}", n, n)) for n in range(9)]
    assert left(
        TIMED, TIMED.empty_table(), pa.concat_tables(parts), upsert(TIMED, ("k3", 30, 3))
    ) == {
        **{f"k{n}": n for n in range(9)},
        "k3": 30,
    }


# Floats


NAN = float("nan")


@pytest.mark.parametrize(
    ("stored", "came", "winner"),
    [
        (NAN, 1.0, 1),
        (NAN, float("inf"), 1),
        (1.0, NAN, 2),
        (NAN, NAN, 2),
        (-NAN, NAN, 2),
        (NAN, -NAN, 2),
        (NAN, None, 1),
        (None, NAN, 2),
        (0.0, -0.0, 1),
        (-0.0, 0.0, 2),
        (-1.0, -2.0, 1),
        (-2.0, -1.0, 2),
        (float("-inf"), None, 1),
        (-1e-40, 1e-40, 2),
    ],
)
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_floats_are_ordered_as_java_orders_them_wherever_they_lie(
    stored: float | None, came: float | None, winner: int, kind: pa.DataType
) -> None:
    """P22: whether the earlier row lies in the base or still in a log, the same one wins."""
    schema = schema_of(kind, with_flag=False)
    earlier, later = upsert(schema, ("a", 1, stored)), upsert(schema, ("a", 2, came))
    assert left(schema, schema.empty_table(), earlier, later) == {"a": winner}
    assert left(schema, earlier, later) == {"a": winner}


# Any history


def _ordering_values() -> list[tuple[pa.DataType, Callable[[int], Any]]]:
    """Types of ordering columns, each with a rising function from small numbers to values."""
    day, moment = date(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)
    return [
        (pa.int32(), lambda n: n - 2),
        (pa.int64(), lambda n: (n - 2) * 2**40),
        (pa.float32(), lambda n: [-1.5, -0.0, 0.0, 1.5, NAN][n]),
        (pa.float64(), lambda n: [float("-inf"), -0.0, 0.0, 1e300, NAN][n]),
        (pa.string(), lambda n: "äbc"[:n] if n < 4 else "\U0001f600"),
        (pa.date32(), lambda n: day + timedelta(days=n)),
        (pa.timestamp("us", "UTC"), lambda n: moment + timedelta(microseconds=n)),
        (pa.timestamp("us"), lambda n: (moment + timedelta(microseconds=n)).replace(tzinfo=None)),
        (pa.decimal128(12, 2), lambda n: Decimal(n - 2) / 100),
        (pa.bool_(), lambda n: n >= 2),
    ]


@st.composite
def histories(draw: st.DrawFn) -> tuple[pa.Schema, list[pa.RecordBatch], list[Change]]:
    kinds = draw(st.lists(st.sampled_from(_ordering_values()), max_size=3))
    schema = schema_of(*(kind for kind, _ in kinds), with_flag=draw(st.booleans()))
    key = st.sampled_from("abcdefgh")
    values = st.tuples(*(st.none() | st.integers(0, 4).map(of) for _, of in kinds))
    payload = st.integers(0, 99)
    written = payload | st.just("x") if IS_DELETED in schema.names else payload
    rows = st.lists(st.builds(lambda k, p, o: (k, p, *o), key, written, values), max_size=8)

    stored = draw(st.lists(st.tuples(key, payload, values), unique_by=lambda r: r[0], max_size=8))
    base = upsert(schema, *((k, p, *o) for k, p, o in stored))
    size = draw(st.integers(1, 4))
    batches = base.to_batches(max_chunksize=size)
    if draw(st.booleans()):
        batches = [pa.RecordBatch.from_pylist([], schema=schema), *batches]

    changes: list[Change] = []
    for kind in draw(st.lists(st.sampled_from(["rows", "chunks", "hard", "timed"]), max_size=6)):
        if kind in ("rows", "chunks"):
            table = upsert(schema, *draw(rows))
            parts = [table.slice(n, 1) for n in range(table.num_rows)]
            changes.append(pa.concat_tables(parts) if parts and kind == "chunks" else table)
        elif kind == "hard":
            changes.append(hard(*draw(st.lists(key, max_size=4))))
        else:
            deletes = draw(st.lists(st.tuples(key, values), max_size=4))
            changes.append(timed(schema, *((k, *o) for k, o in deletes)))
    return schema, batches, changes


@given(histories())
@settings(max_examples=800, deadline=None)
def test_any_history_merges_to_what_a_replay_of_it_leaves(
    history: tuple[pa.Schema, list[pa.RecordBatch], list[Change]],
) -> None:
    schema, batches, changes = history
    ordering = ordering_of(schema)
    stored = [row for batch in batches for row in batch.to_pylist()]
    rows, tally = merged(batches, changes, schema)
    assert in_order(rows) == in_order(replay(stored, changes, ordering))
    assert (tally.inserted, tally.updated, tally.deleted) == tally_of(stored, changes, ordering)


@given(histories(), st.data())
@settings(max_examples=300, deadline=None)
def test_merging_in_two_steps_gives_the_same_rows_while_nothing_is_deleted(
    history: tuple[pa.Schema, list[pa.RecordBatch], list[Change]], data: st.DataObject
) -> None:
    """P22: compaction between any two changes alters no winner. (A delete that was compacted away
    is forgotten with its ordering, by the format's design.)"""
    schema, batches, changes = history
    changes = [c for c in changes if not isinstance(c, Deletes) and not _has_deletes(c)]
    at = data.draw(st.integers(0, len(changes)))
    once, _ = merged(batches, changes, schema)
    between, _ = merged(batches, changes[:at], schema)
    compacted = pa.Table.from_pylist(between, schema=schema).to_batches()
    twice, _ = merged(compacted, changes[at:], schema)
    assert in_order(twice) == in_order(once)


def _has_deletes(rows: pa.Table) -> bool:
    return IS_DELETED in rows.column_names and any(rows.column(IS_DELETED).to_pylist())


def test_the_replay_is_not_blind() -> None:
    """The property above can fail: its model tells a tie from a loss."""
    base = upsert(TIMED, ("a", 1, 5)).to_pylist()
    (tie,) = replay(base, [upsert(TIMED, ("a", 2, 5))], ("o0",))
    (late,) = replay(base, [upsert(TIMED, ("a", 2, 4))], ("o0",))
    assert (tie[PAYLOAD], late[PAYLOAD]) == (2, 1)
    assert np.array_equal(tally_of(base, [hard("a")], ("o0",)), (0, 0, 1))
