"""Column groups with orderings of their own: the same rows whatever was compacted when."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lentic.config.column_groups import ColumnGroup
from lentic.format.record_fields import COMMIT_TIME, RECORD_KEY
from lentic.records.grouped import GroupedMerge, Grouping
from lentic.records.merge import Change, Deletes
from tests.unit.records.grouped_model import Gone, Model, Put, State

GROUPS = (ColumnGroup("a_ts", ("a",)), ColumnGroup("b_ts", ("b", "c")))
COLUMNS = ("ts", "a_ts", "a", "b_ts", "b", "c", "x")
SCHEMA = pa.schema(
    [(COMMIT_TIME, pa.string()), (RECORD_KEY, pa.string()), *((n, pa.int64()) for n in COLUMNS)]
)
A, B, X = ("a_ts", "a"), ("b_ts", "b", "c"), ("x",)


def put(key: str, commit: str = "1", **values: Any) -> Put:
    return Put(key, values, commit)


def changes_of(given_changes: list[Put | Gone]) -> list[Change]:
    """Each change as a block of its own."""
    found: list[Change] = []
    for change in given_changes:
        if isinstance(change, Gone):
            order = change.order
            timed = None if order is None else (pa.array([order], pa.int64()),)
            found.append(Deletes(pa.array([change.key]), timed))
            continue
        row = {COMMIT_TIME: change.commit, RECORD_KEY: change.key, **change.values}
        schema = pa.schema([f for f in SCHEMA if f.name in row])
        found.append(pa.Table.from_pylist([row], schema))
    return found


def merge_of(given_changes: list[Put | Gone], ordering: tuple[str, ...]) -> GroupedMerge:
    return GroupedMerge(tuple(changes_of(given_changes)), SCHEMA, ordering, Grouping(GROUPS))


def merged(state: State, given_changes: list[Put | Gone], ordering: tuple[str, ...] = ()) -> State:
    base = pa.Table.from_pylist(list(state.values()), SCHEMA)
    batches = merge_of(given_changes, ordering).batches(base.to_batches(max_chunksize=2))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert len({row[RECORD_KEY] for row in rows}) == len(rows), "a key came twice"
    return {row[RECORD_KEY]: row for row in rows}


def values(state: State, key: str) -> dict[str, Any]:
    return {name: value for name, value in state[key].items() if name in COLUMNS}


def test_each_group_keeps_the_version_that_its_own_ordering_says_is_newest() -> None:
    late = [put("k", a_ts=5, a=50), put("k", b_ts=9, b=1, c=2), put("k", a_ts=4, a=40)]
    found = values(merged({}, late), "k")
    assert found == dict.fromkeys(COLUMNS) | {"a_ts": 5, "a": 50, "b_ts": 9, "b": 1, "c": 2}


def test_the_columns_of_a_group_come_from_one_version_even_where_it_sets_null() -> None:
    state = merged({}, [put("k", b_ts=1, b=1, c=1)])
    assert values(merged(state, [put("k", b_ts=2, b=None, c=7)]), "k")["b"] is None
    assert values(merged(state, [put("k", b_ts=0, b=None, c=7)]), "k")["c"] == 1


def test_null_is_the_lowest_ordering_value_and_a_tie_goes_to_the_later_change() -> None:
    state = merged({}, [put("k", a_ts=None, a=1)])
    assert values(merged(state, [put("k", a_ts=None, a=2)]), "k")["a"] == 2
    state = merged(state, [put("k", a_ts=-9, a=3)])
    assert values(merged(state, [put("k", a_ts=None, a=4)]), "k")["a"] == 3
    assert values(merged(state, [put("k", a_ts=-9, a=5)]), "k")["a"] == 5


def test_a_row_that_wins_nowhere_changes_nothing_and_is_not_counted() -> None:
    state = merged({}, [put("k", commit="1", a_ts=5, a=50)])
    assert merged(state, [put("k", commit="2", a_ts=4, a=40)]) == state
    merge = merge_of([put("k", commit="2", a_ts=4, a=40), put("n", a_ts=1, a=1)], ())
    merge.count(pa.Table.from_pylist(list(state.values()), SCHEMA).to_batches())
    assert (merge.tally.inserted, merge.tally.updated, merge.tally.deleted) == (1, 0, 0)


def test_a_late_row_after_a_delete_begins_the_record_anew() -> None:
    state = merged({}, [put("k", ts=5, a_ts=5, a=50, b_ts=5, b=1, c=1, x=1)])
    for ordering, gone in (((), Gone("k", None, "2")), (("ts",), Gone("k", 5, "2"))):
        late = put("k", commit="3", ts=1, a_ts=1, a=10, x=3)
        expected = dict.fromkeys(COLUMNS) | {"ts": 1, "a_ts": 1, "a": 10, "x": 3}
        assert values(merged(state, [gone, late], ordering), "k") == expected
        assert merged(merged(state, [gone], ordering), [late], ordering) == merged(
            state, [gone, late], ordering
        )


ROWS = st.builds(
    lambda key, carried, numbers: (key, {n: numbers[i] for i, n in enumerate(carried)}),
    st.sampled_from("kln"),
    st.sampled_from([A, B, X, A + X, A + B, A + B + X]),
    st.lists(st.none() | st.integers(0, 4), min_size=7, max_size=7),
)
ORDERS = st.none() | st.integers(0, 4)
DELETES = st.tuples(st.sampled_from("kln"), ORDERS)
STORIES = st.lists(st.one_of(ROWS, ROWS, ROWS, DELETES), max_size=12)


@pytest.mark.parametrize("ordering", [(), ("ts",)], ids=["commit time", "event time"])
@settings(max_examples=300, deadline=None)
@given(
    story=STORIES,
    orders=st.lists(ORDERS, min_size=12, max_size=12),
    cuts=st.sets(st.integers(0, 12)),
)
def test_the_result_is_that_of_a_replay_wherever_it_is_compacted(
    ordering: tuple[str, ...], story: list[Any], orders: list[int | None], cuts: set[int]
) -> None:
    """With a table ordering rows carry all columns of no group, as writes make sure."""
    changes: list[Put | Gone] = []
    for number, (key, what) in enumerate(story):
        if not isinstance(what, dict):
            changes.append(Gone(key, what if ordering else None, str(number)))
        else:
            rest = {"ts": orders[number], "x": what.get("x")} if ordering else {}
            changes.append(Put(key, what | rest, str(number)))
    expected = Model(COLUMNS, GROUPS, *ordering).replay({}, changes)
    assert merged({}, changes, ordering) == expected
    state: State = {}
    edges = [0, *sorted(cuts), len(changes)]
    for start, stop in itertools.pairwise(edges):
        state = merged(state, changes[start:stop], ordering)
    assert state == expected
