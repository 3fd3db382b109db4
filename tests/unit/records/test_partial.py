"""Partial updates: each column is decided by itself."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lentic.format.record_fields import RECORD_KEY
from lentic.records.merge import Change, Deletes
from lentic.records.partial import is_partial, partial_merge

SCHEMA = pa.schema(
    [(RECORD_KEY, pa.string()), ("o", pa.int64()), ("x", pa.int64()), ("y", pa.string())]
)
Row = dict[str, Any]


def rows(*given: Row) -> pa.Table:
    """Rows with the columns of the first, in the schema's order."""
    names = [name for name in SCHEMA.names if name in given[0]]
    schema = pa.schema([SCHEMA.field(name) for name in names])
    return pa.Table.from_pylist(list(given), schema=schema)


def row(key: str, order: int, **values: Any) -> Row:
    return {RECORD_KEY: key, "o": order, **values}


def merged(base: list[Row], *changes: Change, ordering: tuple[str, ...] = ("o",)) -> dict[str, Row]:
    table = pa.Table.from_pylist(base, schema=SCHEMA)
    out = partial_merge(changes, SCHEMA, ordering).batches(table.to_batches())
    found = [r for batch in out for r in batch.to_pylist()]
    assert len({r[RECORD_KEY] for r in found}) == len(found), "a key came twice"
    return {r[RECORD_KEY]: r for r in found}


BASE = [row("a", 5, x=1, y="base"), row("b", 5, x=2, y="base")]


def test_a_partial_update_sets_its_columns_and_leaves_the_others() -> None:
    found = merged(BASE, rows(row("a", 6, x=9)))
    assert found["a"] == row("a", 6, x=9, y="base")
    assert found["b"] == BASE[1]


def test_absent_is_not_null_and_null_can_be_set() -> None:
    assert merged(BASE, rows(row("a", 6, x=None)))["a"] == row("a", 6, x=None, y="base")


def test_an_older_partial_update_changes_nothing() -> None:
    assert merged(BASE, rows(row("a", 4, x=9)))["a"] == BASE[0]


def test_two_partial_updates_of_different_columns_both_count() -> None:
    found = merged(BASE, rows(row("a", 7, x=9)), rows(row("a", 6, y="late")))
    assert found["a"] == row("a", 7, x=9, y="late")


def test_a_key_without_a_base_row_has_nulls_where_nothing_was_set() -> None:
    assert merged(BASE, rows(row("c", 1, y="new")))["c"] == row("c", 1, x=None, y="new")


def test_a_late_whole_row_completes_a_newer_partial_update_before_the_base_row_is_met() -> None:
    """As Apache Hudi and hudi-rs have it: changes are reduced among themselves first."""
    found = merged(BASE, rows(row("a", 3, x=7, y="late")), rows(row("a", 8, x=9)))
    assert found["a"] == row("a", 8, x=9, y="late")


def test_a_delete_before_a_partial_update_clears_what_was_there() -> None:
    delete = Deletes(pa.array(["a"]), None)
    found = merged(BASE, delete, rows(row("a", 6, x=9)))
    assert found["a"] == row("a", 6, x=9, y=None)
    assert merged(BASE, delete, rows(row("a", 1, x=9)))["a"] == BASE[0]
    assert "a" not in merged(BASE, rows(row("a", 9, x=9)), delete)


def test_without_ordering_the_later_change_wins_column_by_column() -> None:
    changes = (rows(row("a", 9, x=9)), rows(row("a", 1, x=8)), rows(row("a", 0, y="z")))
    assert merged(BASE, *changes, ordering=())["a"] == row("a", 0, x=8, y="z")


def test_whole_changes_are_no_partial_updates() -> None:
    assert not is_partial([rows(row("a", 1, x=1, y="z")), Deletes(pa.array(["a"]), None)], SCHEMA)
    assert is_partial([rows(row("a", 1, x=1))], SCHEMA)


CHANGES = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.integers(0, 4),
        st.sampled_from([("x",), ("y",), ("x", "y")]),
        st.integers(0, 99),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=300, deadline=None)
@given(CHANGES)
def test_the_result_is_that_of_a_replay_column_by_column(
    given_changes: list[tuple[str, int, tuple[str, ...], int]],
) -> None:
    values = {"x": lambda n: n, "y": lambda n: f"y{n}"}
    changes = [
        rows(row(key, order, **{name: values[name](n) for name in columns}))
        for key, order, columns, n in given_changes
    ]
    expected: dict[str, dict[str, tuple[int, Any]]] = {
        r[RECORD_KEY]: {name: (r["o"], r[name]) for name in ("x", "y")} for r in BASE
    }
    for key, order, columns, n in given_changes:
        state = expected.setdefault(key, {})
        for name in columns:
            if name not in state or order >= state[name][0]:
                state[name] = (order, values[name](n))
    at_once = merged(BASE, *changes)
    for key, state in expected.items():
        assert {n: at_once[key][n] for n in state} == {n: v for n, (_, v) in state.items()}, key
