"""Partial updates by writers who do not see each other, and compactions among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lentic.engine import LocalEngine
from lentic.format.names import Action
from lentic.ingest.flow import prepare
from lentic.table import Table
from lentic.txn.transaction import OpenTable
from lentic.write.commit import Begun, begin_write
from lentic.write.operations import Operation, Request
from lentic.write.run import Prepared, run_write
from tests.rfc.claims import says
from tests.unit.builders import new_table

SOURCES = ("a", "b", "c")
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("day", pa.string()),
        ("ts", pa.int64()),
        *((name, pa.int64()) for source in SOURCES for name in (f"{source}_ts", source)),
    ]
)
ENGINE = LocalEngine(threads=1)
Event = tuple[str, str, int | None, int | None]
"""Source, key, time, value."""


def make() -> OpenTable:
    return new_table(
        schema=SCHEMA,
        ordering="ts",
        options={
            "lentic.partial.groups": "a_ts:a;b_ts:b;c_ts:c",
            "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
        },
    )


@dataclass(frozen=True)
class Writer:
    """A write that has begun: it sees nothing of what completes from now on."""

    table: OpenTable
    rows: pa.Table
    prepared: Prepared
    begun: Begun

    @classmethod
    def begin(cls, table: OpenTable, events: Sequence[Event]) -> Writer:
        rows = pa.Table.from_pylist([event_row(event) for event in events])
        rows = rows.cast(pa.schema([f for f in SCHEMA if f.name in rows.column_names]))
        prepared = prepare(table, ENGINE, rows, Request(Operation.UPSERT, partial=True))
        return cls(table, rows, prepared, begin_write(table, Action.DELTACOMMIT))

    def finish(self) -> None:
        run_write(self.table, ENGINE, self.rows, self.prepared, self.begun)


def event_row(event: Event) -> dict[str, Any]:
    source, key, ts, value = event
    return {"id": key, "day": "mon", "ts": ts, f"{source}_ts": ts, source: value}


def state(table: OpenTable) -> dict[str, dict[str, Any]]:
    rows = Table(table, ENGINE).read().to_pylist()
    assert len({r["id"] for r in rows}) == len(rows), "a key came twice"
    return {r["id"]: {n: v for n, v in r.items() if v is not None} for r in rows}


def test_two_sources_that_insert_one_key_at_once_lose_nothing_of_each_other() -> None:
    table = make()
    first = Writer.begin(table, [("a", "k", 5, 50), ("a", "l", 5, 51)])
    second = Writer.begin(table, [("b", "k", 9, 90)])
    second.finish()
    first.finish()
    expected = {
        "k": {"id": "k", "day": "mon", "ts": 9, "a_ts": 5, "a": 50, "b_ts": 9, "b": 90},
        "l": {"id": "l", "day": "mon", "ts": 5, "a_ts": 5, "a": 51},
    }
    assert state(table) == expected
    Table(table, ENGINE).compact()
    assert state(table) == expected


def test_a_new_row_says_nothing_of_the_columns_that_it_does_not_carry() -> None:
    """Though it is stored whole, and no ordering value tells its nulls from those of others."""
    table = make()
    first = Writer.begin(table, [("a", "k", None, 50)])
    second = Writer.begin(table, [("b", "k", 9, 90)])
    first.finish()
    second.finish()
    expected = {"k": {"id": "k", "day": "mon", "ts": 9, "a": 50, "b_ts": 9, "b": 90}}
    assert state(table) == expected
    Table(table, ENGINE).compact()
    assert state(table) == expected


@pytest.mark.parametrize("compacts", [False, True])
def test_of_equal_orderings_the_write_that_completed_later_wins(compacts: bool) -> None:
    """R17: completion decides, whichever was requested first and whatever was compacted between."""
    table = make()
    Writer.begin(table, [("a", "k", 1, 0)]).finish()
    requested_first = Writer.begin(table, [("a", "k", 7, 1)])
    requested_second = Writer.begin(table, [("a", "k", 7, 2)])
    requested_second.finish()
    if compacts:
        Table(table, ENGINE).compact()
    assert state(table)["k"]["a"] == 2
    requested_first.finish()
    assert state(table)["k"]["a"] == 1
    Table(table, ENGINE).compact()
    assert state(table)["k"]["a"] == 1


def reference(events: Sequence[Event]) -> dict[str, dict[str, Any]]:
    """Per key and source the newest event, row by row."""
    rows: dict[str, dict[str, Any]] = {}
    for event in sorted(events, key=lambda e: e[2] or 0):
        rows.setdefault(event[1], {}).update(event_row(event))
    return {key: {n: v for n, v in r.items() if v is not None} for key, r in rows.items()}


BATCHES = st.lists(
    st.tuples(
        st.sampled_from(SOURCES),
        st.integers(0, 99),
        st.dictionaries(
            st.sampled_from(["k", "l", "m"]), st.none() | st.integers(0, 99), min_size=1
        ),
    ),
    max_size=8,
    unique_by=lambda batch: batch[1],
)
STEPS = st.lists(
    st.sampled_from(["begin", "begin", "compact"]) | st.integers(0, 7),
    max_size=30,
)


@says("rfc66.join")
@settings(max_examples=100, deadline=None)
@given(batches=BATCHES, steps=STEPS)
def test_the_join_is_the_same_in_any_order_of_begins_completions_and_compactions(
    batches: list[tuple[str, int, dict[str, int | None]]], steps: list[str | int]
) -> None:
    """A number finishes one of the writers that have begun; times are in no order at all."""
    work: list[list[Event]] = [
        [(source, key, ts, value) for key, value in values.items()]
        for source, ts, values in batches
    ]
    table = make()
    running: list[Writer] = []
    todo = list(work)
    for step in [*steps, *("begin" for _ in work), *(0 for _ in work)]:
        if step == "begin" and todo:
            running.append(Writer.begin(table, todo.pop()))
        elif step == "compact":
            Table(table, ENGINE).compact()
        elif isinstance(step, int) and running:
            running.pop(step % len(running)).finish()
    expected = reference([event for batch in work for event in batch])
    assert state(table) == expected
    Table(table, ENGINE).compact()
    assert state(table) == expected
