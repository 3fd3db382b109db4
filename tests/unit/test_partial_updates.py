"""Partial updates: several sources, each with its own columns, joined in one table by key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lentic.errors import (
    ConfigError,
    InvalidRecord,
    SchemaMismatch,
)
from lentic.format.log_block import Header, decode_blocks
from lentic.records.merge import IS_DELETED
from tests.rfc.claims import says
from tests.unit.partial_tables import GROUPS, SCHEMA, Row, ensure_are, make, row, some, state
from tests.unit.verbs import COW, EVERY, KINDS, MOR, counts


@EVERY
def test_columns_that_are_not_carried_stay(kind: str) -> None:
    table = make(kind)
    done = table.upsert(
        some(row("k", a_ts=1, a=10, aa=11), row("l", a_ts=1, a=20, aa=21)), partial=True
    )
    assert counts(done) == (2, 0, 0)
    done = table.upsert(some(row("k", b_ts=1, b=5), row("n", b_ts=1, b=6)), partial=True)
    assert counts(done) == (1, 1, 0)
    ensure_are(
        table,
        row("k", a_ts=1, a=10, aa=11, b_ts=1, b=5),
        row("l", a_ts=1, a=20, aa=21),
        row("n", b_ts=1, b=6),
    )


@EVERY
def test_a_null_that_is_carried_is_set(kind: str) -> None:
    table = make(kind)
    table.upsert(some(row("k", a_ts=1, a=10, aa=11), row("l", a_ts=1, a=1, aa=1)), partial=True)
    table.upsert(some(row("k", a_ts=2, a=None, aa=12)), partial=True)
    ensure_are(table, row("k", a_ts=2, aa=12), row("l", a_ts=1, a=1, aa=1))


@EVERY
def test_a_late_row_changes_nothing_and_counts_nowhere(kind: str) -> None:
    table = make(kind)
    table.upsert(some(row("k", a_ts=5, a=1, aa=1)), partial=True)
    table.upsert(some(row("k", b_ts=9, b=1)), partial=True)
    assert counts(table.upsert(some(row("k", a_ts=4, a=2, aa=2)), partial=True)) == (0, 0, 0)
    assert counts(table.upsert(some(row("k", a_ts=5, a=3, aa=3)), partial=True)) == (0, 1, 0)
    ensure_are(table, row("k", a_ts=5, a=3, aa=3, b_ts=9, b=1))


@EVERY
def test_whole_rows_obey_the_groups_too(kind: str) -> None:
    table = make(kind)
    table.upsert(some(row("k", a_ts=5, a=1, aa=1)), partial=True)
    whole = row("k", a_ts=4, a=2, aa=2, b_ts=1, b=2, c_ts=None, c=None, x=7)
    assert counts(table.upsert(some(whole))) == (0, 1, 0)
    assert counts(table.insert(some(row("n") | {"x": 1}))) == (1, 0, 0)
    ensure_are(table, row("k", a_ts=5, a=1, aa=1, b_ts=1, b=2, x=7), row("n", x=1))


@EVERY
def test_rows_of_one_key_in_one_batch_become_one(kind: str) -> None:
    table = make(kind)
    rows = [row("k", a_ts=t, a=t, aa=v, b_ts=9 - t, b=v) for t, v in ((2, 1), (5, 2), (1, 3))]
    assert counts(table.upsert(some(*rows), partial=True)) == (1, 0, 0)
    ensure_are(table, row("k", a_ts=5, a=5, aa=2, b_ts=8, b=3))


@EVERY
def test_a_delete_takes_all_groups_and_a_late_row_begins_anew(kind: str) -> None:
    table = make(kind)
    table.upsert(some(row("k", a_ts=5, a=5, aa=5), row("l", a_ts=1, a=1, aa=1)), partial=True)
    table.upsert(some(row("k", b_ts=5, b=5)), partial=True)
    assert counts(table.delete(some(row("k")))) == (0, 0, 1)
    assert counts(table.upsert(some(row("k", a_ts=1, a=1, aa=1)), partial=True)) == (1, 0, 0)
    ensure_are(table, row("k", a_ts=1, a=1, aa=1), row("l", a_ts=1, a=1, aa=1))


@EVERY
def test_partial_rows_may_say_that_they_are_deleted(kind: str) -> None:
    table = make(kind, schema=SCHEMA.append(pa.field(IS_DELETED, pa.bool_())))
    table.upsert(some(row("k", a_ts=5, a=5, aa=5), row("l", a_ts=1, a=1, aa=1)), partial=True)
    gone = some(row("k", x=1, _hoodie_is_deleted=True), schema=table.schema)
    assert counts(table.upsert(gone, partial=True)) == (0, 0, 1)
    ensure_are(table, row("l", a_ts=1, a=1, aa=1))
    both = some(
        row("l", x=1, _hoodie_is_deleted=True),
        row("l", x=2, _hoodie_is_deleted=None),
        schema=table.schema,
    )
    with pytest.raises(InvalidRecord, match="Key l is deleted and written in one batch"):
        table.upsert(both, partial=True)


@EVERY
def test_without_groups_the_later_commit_wins_column_by_column(kind: str) -> None:
    table = make(kind, lentic__partial__groups="")
    table.upsert(some(row("k", a=1, b=1, x=1)))
    table.upsert(some(row("k", a=2)), partial=True)
    table.upsert(some(row("k", b=None, c=3)), partial=True)
    table.upsert(some(row("n", x=9)), partial=True)
    table.upsert(some(row("k", a=4)), partial=True)
    ensure_are(table, row("k", a=4, c=3, x=1), row("n", x=9))


def test_without_partial_a_missing_column_is_null_as_ever() -> None:
    table = make(lentic__partial__groups="")
    table.upsert(some(row("k", a=1, b=1)))
    table.upsert(some(row("k", a=2)))
    ensure_are(table, row("k", a=2))


@EVERY
def test_a_partial_update_may_bring_a_new_column(kind: str) -> None:
    table = make(kind)
    table.upsert(some(row("k", a_ts=1, a=1, aa=1)), partial=True)
    wider = SCHEMA.append(pa.field("note", pa.string()))
    table.upsert(some(row("k", note="new"), row("n", note="other"), schema=wider), partial=True)
    ensure_are(table, row("k", a_ts=1, a=1, aa=1, note="new"), row("n", note="other"))


# With an ordering of the table


def test_groups_and_the_order_of_the_table_go_together() -> None:
    schema = SCHEMA.append(pa.field("ts", pa.int64()))
    table = make(schema=schema, ordering="ts")

    def upsert(**values: Any) -> None:
        table.upsert(some(row("k", **values), schema=schema), partial=True)

    upsert(ts=5, x=1, a_ts=1, a=1, aa=1)
    upsert(ts=3, x=2, a_ts=2, a=2, aa=2)
    ensure_are(table, row("k", ts=5, x=1, a_ts=2, a=2, aa=2))
    upsert(ts=6, x=3, b_ts=1, b=1)
    ensure_are(table, row("k", ts=6, x=3, a_ts=2, a=2, aa=2, b_ts=1, b=1))


def test_rows_that_say_they_are_deleted_go_by_the_order_of_the_table() -> None:
    schema = SCHEMA.append(pa.field("ts", pa.int64())).append(pa.field(IS_DELETED, pa.bool_()))
    table = make(schema=schema, ordering="ts")

    def upsert(ts: int, gone: bool | None, **values: Any) -> tuple[int, int, int]:
        given_row = row("k", ts=ts, x=ts, _hoodie_is_deleted=gone, **values)
        return counts(table.upsert(some(given_row, schema=schema), partial=True))

    assert upsert(5, None, a_ts=5, a=5, aa=5) == (1, 0, 0)
    assert upsert(4, True) == (0, 0, 0)
    ensure_are(table, row("k", ts=5, x=5, a_ts=5, a=5, aa=5))
    assert upsert(5, True) == (0, 0, 1)
    assert upsert(1, None, b_ts=1, b=1) == (1, 0, 0), "a late row begins the record anew"
    ensure_are(table, row("k", ts=1, x=1, b_ts=1, b=1))


def test_what_would_depend_on_compactions_is_refused_before_anything_is_written() -> None:
    table = make(lentic__partial__groups="", ordering="a_ts")
    with pytest.raises(ConfigError, match=r"lack a, aa, .* depend on when a compaction") as refused:
        table.upsert(some(row("k", a_ts=1, x=1)), partial=True)
    assert "lentic.partial.groups" in str(refused.value.next_step)
    assert table.timeline() == []
    table.upsert(some(row("k") | dict.fromkeys(SCHEMA.names[2:], 1)), partial=True)


@pytest.mark.parametrize("lacking", ["a_ts", "aa"])
def test_a_group_comes_whole_or_not_at_all(lacking: str) -> None:
    table = make()
    given_row = {n: v for n, v in row("k", a_ts=1, a=1, aa=1).items() if n != lacking}
    with pytest.raises(SchemaMismatch, match=f"lack {lacking} of the same column group"):
        table.upsert(some(given_row), partial=True)
    assert table.timeline() == []


# Queries


@EVERY
def test_columns_filters_and_changes_see_the_rows_that_all_see(kind: str) -> None:
    table = make(kind)
    table.upsert(some(row("k", a_ts=5, a=5, aa=5), row("l", a_ts=5, a=6, aa=6)), partial=True)
    first = table.upsert(some(row("k", b_ts=1, b=1)), partial=True)
    last = table.upsert(
        some(row("k", a_ts=4, a=0, aa=0), row("l", a_ts=7, a=7, aa=7)), partial=True
    )
    assert sorted(table.read(columns=["a"]).column("a").to_pylist()) == [5, 7]
    assert table.read(columns=["id"], filter="aa = 7").to_pylist() == [{"id": "l"}]
    changed = table.changes(after=str(first.completed_at), columns=["id"])
    assert changed.to_pylist() == [{"id": "l"}], "the late row of k changed nothing"
    cdc = table.changes(after=str(first.completed_at), kind="cdc").to_pylist()
    assert [(c["op"], c["before"]["a"], c["after"]["a"]) for c in cdc] == [("u", 6, 7)]
    assert table.read(as_of=str(first.completed_at), filter="id = 'l'").column("a").to_pylist() == [
        6
    ]
    meta = table.read(meta=True, columns=["id", "_hoodie_commit_time"]).to_pylist()
    assert {m["id"]: m["_hoodie_commit_time"] for m in meta} == {
        "k": str(first.requested_at),
        "l": str(last.requested_at),
    }


# What is on storage


def test_known_keys_are_in_partial_blocks_and_new_ones_in_whole_blocks() -> None:
    table = make(f"{MOR} 2", lentic__partial__groups=GROUPS)
    table.upsert(some(row("k", a_ts=1, a=1, aa=1)), partial=True)
    table.upsert(some(row("k", b_ts=1, b=1), row("n", b_ts=1, b=1)), partial=True)
    found = []
    for part in table.file_slices():
        for log in part.logs:
            data = table._opened.storage.read(log.path)
            for block in decode_blocks(data, log.path):
                is_partial = block.headers.get(Header.IS_PARTIAL) == "true"
                schema = block.headers[Header.SCHEMA]
                found.append((is_partial, "lentic.carried" in schema, '"c_ts"' in schema))
    assert sorted(found) == [(False, True, True), (False, True, True), (True, False, False)]


def test_a_key_that_comes_back_upon_partial_rows_goes_into_a_base_file() -> None:
    """Apache Hudi 1.2 does not read it from a log there (ADR 0012)."""
    table = make()
    table.upsert(some(row("k", a_ts=1, a=1, aa=1)), partial=True)
    table.upsert(some(row("k", b_ts=1, b=1)), partial=True)
    table.delete(some(row("k")))
    assert [part.base for part in table.file_slices()] == [None]
    table.upsert(some(row("k", b_ts=0, b=0)), partial=True)
    assert [(part.base is None, part.logs) for part in table.file_slices()] == [(False, ())]
    ensure_are(table, row("k", b_ts=0, b=0))


def test_a_row_that_changes_nothing_is_not_written() -> None:
    table = make()
    table.upsert(some(row("k", a_ts=5, a=5, aa=5)), partial=True)
    done = table.upsert(some(row("k", a_ts=4, a=4, aa=4)), partial=True)
    assert (done.files, done.bytes) == (0, 0)


# The join, whatever happens in between

SOURCES = {"a": ("a_ts", "a", "aa"), "b": ("b_ts", "b"), "c": ("c_ts", "c")}
EVENTS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from(["k", "l", "m", "n"]),
        st.integers(0, 9),
        st.none() | st.integers(0, 99),
    ),
    min_size=1,
    max_size=14,
    unique_by=lambda event: event[:3],
)


def event_row(event: tuple[str, str, int, int | None]) -> Row:
    source, key, ts, value = event
    return row(key) | dict.fromkeys(SOURCES[source], value) | {f"{source}_ts": ts}


def reference(events: Sequence[tuple[str, str, int, int | None]]) -> dict[str, Row]:
    """Per key and source the newest event, row by row."""
    rows: dict[str, Row] = {}
    newest: dict[tuple[str, str], int] = {}
    for event in events:
        source, key, ts, _ = event
        rows.setdefault(key, row(key))
        if ts >= newest.get((key, source), -1):
            newest[key, source] = ts
            rows[key] |= event_row(event)
    return {key: {n: v for n, v in r.items() if v is not None} for key, r in rows.items()}


@says("rfc66.join")
@pytest.mark.parametrize("kind", [f"{MOR} 2", f"{MOR} None", f"{COW} 2"])
@settings(max_examples=40, deadline=None)
@given(
    events=EVENTS, order=st.randoms(use_true_random=False), compactions=st.sets(st.integers(0, 14))
)
def test_three_sources_join_to_the_same_rows_in_any_order_and_with_any_compactions(
    kind: str,
    events: list[tuple[str, str, int, int | None]],
    order: Any,
    compactions: set[int],
) -> None:
    expected = reference(events)
    order.shuffle(events)
    table = make(kind)
    number = 0
    while events:
        source = events[0][0]
        batch = [e for e in events[: order.randint(1, 5)] if e[0] == source]
        events = [e for e in events if e not in batch]
        table.upsert(some(*map(event_row, batch)), partial=True)
        if number in compactions and KINDS[kind][0] == MOR:
            table.compact()
        number += 1
    assert state(table) == expected
    if KINDS[kind][0] == MOR:
        table.compact()
        assert state(table) == expected
