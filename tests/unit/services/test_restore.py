"""Restores: the table as it was right after one write."""

from __future__ import annotations

import pytest

from lentic.errors import Conflict, InstantCancelled, Refused
from lentic.format.names import Action
from lentic.format.times import RequestedAt
from lentic.services.restore import restore_table
from lentic.services.savepoint import make_savepoint, remove_savepoint
from lentic.services.undo_completed import roll_back_instant
from lentic.table import Table
from lentic.timeline.reader import load_timeline
from lentic.write.operations import Operation, Request
from tests.unit.builders import data_paths, rows
from tests.unit.services.past import (
    BUCKETS,
    TYPES,
    ensure_sound,
    some_table,
    values,
    write_times,
)
from tests.unit.write.attempts import ENGINE, begin, finish, upsert


@BUCKETS
@TYPES
def test_a_restored_table_is_as_it_was_and_goes_on(table_type: str, buckets: int | None) -> None:
    table = some_table(table_type, buckets)
    upsert(table, rows(("a", 1, "d"), ("b", 1, "e")))
    point = upsert(table, rows(("a", 2, "d")))
    make_savepoint(table)
    rows_then, files_then = values(table), data_paths(table.storage)
    upsert(table, rows(("a", 3, "d"), ("n", 3, "f")))
    if table_type == "MERGE_ON_READ":
        Table(table, ENGINE).compact()
    upsert(table, rows(("b", 4, "e")))
    restored = restore_table(table, point)
    assert restored.is_completed and restored.action is Action.RESTORE
    assert values(table) == rows_then
    assert data_paths(table.storage) == files_then
    assert write_times(table)[-1] == point
    ensure_sound(table)
    again = Table(table, ENGINE)
    upsert(table, rows(("a", 5, "d")))
    if table_type == "MERGE_ON_READ":
        again.compact()
    assert values(table) == rows_then | {"a": 5}
    assert [r["v"] for r in again.read(as_of=point).to_pylist() if r["id"] == "a"] == [2]
    ensure_sound(table)


def test_an_overwrite_is_undone_by_a_restore_without_a_savepoint() -> None:
    table = some_table(buckets=None)
    point = upsert(table, rows(("a", 1, "d")))
    request = Request(Operation.INSERT_OVERWRITE)
    finish(table, rows(("z", 9, "d")), begin(table, request), request)
    restore_table(table, point)
    assert values(table) == {"a": 1}
    ensure_sound(table)


def test_a_restore_to_the_latest_write_undoes_what_is_pending_alone() -> None:
    table = some_table()
    point = upsert(table, rows(("a", 1, "d")))
    begun = begin(table)
    Table(table, ENGINE).schedule("compaction")
    restore_table(table, point)
    ensure_sound(table)
    with pytest.raises(Conflict):
        finish(table, rows(("b", 1, "d")), begun)
    assert values(table) == {"a": 1}
    Table(table, ENGINE).upsert(rows(("c", 1, "d")))
    assert values(table) == {"a": 1, "c": 1}
    ensure_sound(table)


def test_a_restore_undoes_what_completed_later_though_it_was_requested_before() -> None:
    table = some_table()
    begun = begin(table)
    point = upsert(table, rows(("a", 1, "d")))
    finish(table, rows(("b", 1, "d")), begun)
    assert begun.instant.requested_at < point
    restore_table(table, point)
    assert values(table) == {"a": 1}
    ensure_sound(table)


def test_a_restore_to_files_that_are_gone_is_refused() -> None:
    table = some_table("COPY_ON_WRITE", 1)
    point = upsert(table, rows(("a", 1, "d")))
    (old,) = data_paths(table.storage)
    upsert(table, rows(("a", 2, "d")))
    table.storage.delete(old)
    with pytest.raises(Refused, match="gone") as caught:
        restore_table(table, point)
    assert caught.value.where == old
    assert values(table) == {"a": 2}
    assert load_timeline(table.storage).pending() == ()


def test_a_restore_past_a_later_savepoint_or_to_nothing_is_refused() -> None:
    table = some_table()
    first = upsert(table, rows(("a", 1, "d")))
    second = upsert(table, rows(("a", 2, "d")))
    make_savepoint(table)
    with pytest.raises(Refused, match="later savepoint"):
        restore_table(table, first)
    with pytest.raises(Refused, match="no completed write"):
        restore_table(table, RequestedAt("20200101000000000"))
    remove_savepoint(table, second)
    restore_table(table, first)
    assert values(table) == {"a": 1}
    with pytest.raises(InstantCancelled, match="undone already"):
        roll_back_instant(table, second)


def test_changes_after_a_restore_are_those_of_the_writes_after_it() -> None:
    table = some_table()
    point = upsert(table, rows(("a", 1, "d")))
    upsert(table, rows(("b", 2, "d")))
    restored = restore_table(table, point)
    upsert(table, rows(("c", 3, "d")))
    changed = Table(table, ENGINE).changes(after=str(restored.completed_at)).to_pylist()
    assert [row["id"] for row in changed] == ["c"]
