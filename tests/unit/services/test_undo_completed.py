"""The rollback of one instant that somebody names."""

from __future__ import annotations

import pytest

from lentic.errors import Conflict, InstantCancelled, Refused, WriteConflict
from lentic.format.names import Action
from lentic.format.times import RequestedAt
from lentic.ingest.flow import write
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
    Then,
    ensure_sound,
    some_table,
    values,
    write_times,
)
from tests.unit.write.attempts import ENGINE, begin, finish, upsert


@BUCKETS
@TYPES
def test_the_last_completed_write_is_undone_and_the_next_works(
    table_type: str, buckets: int | None
) -> None:
    table = some_table(table_type, buckets)
    upsert(table, rows(("a", 1, "d"), ("b", 1, "e")))
    before, files = values(table), data_paths(table.storage)
    second = upsert(table, rows(("a", 2, "d"), ("c", 2, "f")))
    rollback = roll_back_instant(table, second)
    assert rollback.is_completed and rollback.action is Action.ROLLBACK
    assert values(table) == before
    assert data_paths(table.storage) == files
    assert second not in write_times(table)
    ensure_sound(table)
    upsert(table, rows(("a", 3, "d")))
    assert values(table) == before | {"a": 3}


def test_the_only_write_is_undone() -> None:
    table = some_table()
    roll_back_instant(table, upsert(table, rows(("a", 1, "d"))))
    assert values(table) == {}
    assert data_paths(table.storage) == []
    ensure_sound(table)


def test_an_overwrite_is_undone_and_what_it_replaced_is_seen_again() -> None:
    table = some_table(buckets=None)
    upsert(table, rows(("a", 1, "d")))
    request = Request(Operation.INSERT_OVERWRITE)
    begun = begin(table, request)
    finish(table, rows(("z", 9, "d")), begun, request)
    assert values(table) == {"z": 9}
    roll_back_instant(table, begun.instant.requested_at)
    assert values(table) == {"a": 1}
    ensure_sound(table)


def test_a_completed_compaction_is_undone_without_a_trace_of_its_plan() -> None:
    table = some_table()
    upsert(table, rows(("a", 1, "d")))
    upsert(table, rows(("a", 2, "d")))
    Table(table, ENGINE).compact()
    compaction = load_timeline(table.storage).writes()[-1]
    assert compaction.action is Action.COMMIT
    roll_back_instant(table, compaction.requested_at)
    assert load_timeline(table.storage).find(compaction) is None
    assert values(table) == {"a": 2}
    ensure_sound(table)
    Table(table, ENGINE).compact()
    assert values(table) == {"a": 2}


def test_a_pending_write_and_a_plan_are_undone_and_their_owners_told() -> None:
    table = some_table()
    upsert(table, rows(("a", 1, "d")))
    begun = begin(table)
    roll_back_instant(table, begun.instant.requested_at)
    with pytest.raises(Conflict):
        finish(table, rows(("b", 1, "d")), begun)
    plan = Table(table, ENGINE).schedule("compaction")
    assert plan is not None
    roll_back_instant(table, plan)
    assert load_timeline(table.storage).pending() == ()
    assert values(table) == {"a": 1}


def test_an_earlier_write_is_not_undone() -> None:
    table = some_table()
    first = upsert(table, rows(("a", 1, "d")))
    second = upsert(table, rows(("b", 1, "d")))
    with pytest.raises(Refused, match=f"{second} completed after") as caught:
        roll_back_instant(table, first)
    assert "restore" in caught.value.next_step
    assert values(table) == {"a": 1, "b": 1}


def test_a_write_that_a_savepoint_protects_is_not_undone() -> None:
    table = some_table()
    first = upsert(table, rows(("a", 1, "d")))
    make_savepoint(table)
    with pytest.raises(Refused, match="savepoint"):
        roll_back_instant(table, first)
    remove_savepoint(table, first)
    roll_back_instant(table, first)
    assert values(table) == {}


def test_a_write_whose_files_a_plan_names_is_not_undone() -> None:
    table = some_table()
    upsert(table, rows(("a", 1, "d")))
    second = upsert(table, rows(("a", 2, "d")))
    plan = Table(table, ENGINE).schedule("compaction")
    assert plan is not None
    with pytest.raises(Refused, match="going to read"):
        roll_back_instant(table, second)
    roll_back_instant(table, plan)
    roll_back_instant(table, second)
    assert values(table) == {"a": 1}


def test_a_write_is_not_undone_if_what_was_there_before_was_cleaned() -> None:
    table = some_table("COPY_ON_WRITE", 1)
    upsert(table, rows(("a", 1, "d")))
    (old,) = data_paths(table.storage)
    second = upsert(table, rows(("a", 2, "d")))
    table.storage.delete(old)
    with pytest.raises(Refused, match="gone"):
        roll_back_instant(table, second)
    assert values(table) == {"a": 2}


def test_what_was_undone_or_never_was_is_told_apart() -> None:
    table = some_table()
    first = upsert(table, rows(("a", 1, "d")))
    rollback = roll_back_instant(table, first)
    with pytest.raises(InstantCancelled, match="undone already"):
        roll_back_instant(table, first)
    with pytest.raises(Refused, match="no instant"):
        roll_back_instant(table, RequestedAt("20200101000000000"))
    with pytest.raises(Refused, match="changes no row"):
        roll_back_instant(table, rollback.requested_at)


@TYPES
def test_a_writer_that_built_upon_what_was_undone_meanwhile_commits_nothing(
    table_type: str,
) -> None:
    table = some_table(table_type)
    upsert(table, rows(("a", 1, "d")))
    second = upsert(table, rows(("b", 2, "d")))
    engine = Then(threads=1, happens=lambda: roll_back_instant(table, second))
    with pytest.raises(WriteConflict, match="undone meanwhile"):
        write(table, engine, rows(("c", 3, "d")), Request(Operation.UPSERT))
    assert values(table) == {"a": 1}
    ensure_sound(table)


def test_a_writer_that_wakes_after_a_restore_commits_nothing_and_leaves_nothing() -> None:
    table = some_table()
    point = upsert(table, rows(("a", 1, "d")))
    upsert(table, rows(("b", 2, "d")))
    engine = Then(threads=1, happens=lambda: restore_table(table, point))
    with pytest.raises(InstantCancelled):
        write(table, engine, rows(("c", 3, "d")), Request(Operation.UPSERT))
    assert values(table) == {"a": 1}
    ensure_sound(table)
