"""Archiving: what goes, what stays, and that nobody can tell from the rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lentic.config.groups import OnRerun
from lentic.config.retention import ArchiveOptions
from lentic.engine import LocalEngine
from lentic.errors import InstantCancelled, WriteConflict
from lentic.format import layout
from lentic.format.lsm_names import parse_manifest_name
from lentic.format.names import Action, State
from lentic.format.times import RequestedAt
from lentic.ingest.flow import write as ingest
from lentic.services import guard
from lentic.services.archive import archive_timeline, is_archive_due, plan_archive
from lentic.services.outcome import Committed
from lentic.services.rollback import sweep_markers
from lentic.storage.base import Storage
from lentic.storage.memory import MemoryStorage
from lentic.table import Table
from lentic.timeline.history import load_history
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_commit_metadata, load_timeline
from lentic.timeline.timeline import Timeline
from lentic.txn.transaction import OpenTable
from lentic.view.listing import load_table_view
from lentic.write.commit import begin_write
from lentic.write.completion import Share
from lentic.write.handle import Once
from lentic.write.operations import Operation, Request
from lentic.write.status import WriteStatus
from tests.rfc.claims import says
from tests.unit import builders
from tests.unit.builders import (
    WrappedStorage,
    clock_of,
    completed,
    new_table,
    requested,
    stat,
)
from tests.unit.services.clusterings import schedule, storage_of
from tests.unit.verbs import loaded

SCHEMA = pa.schema([field.with_nullable(True) for field in builders.SCHEMA])
KEEP = ArchiveOptions(automatic=False, commits_min=2, commits_max=3, batch=3)


def done(at: int, until: int, action: Action = Action.DELTACOMMIT) -> Instant:
    return Instant(requested(at), action, State.COMPLETED, completed(until))


def pending(at: int, action: Action = Action.DELTACOMMIT) -> Instant:
    return Instant(requested(at), action, State.INFLIGHT)


def timeline(*instants: Instant) -> Timeline:
    return Timeline(tuple(sorted(instants, key=lambda i: (i.requested_at, i.action))))


WRITES = tuple(done(at, at + 1) for at in (10, 20, 30, 40, 50))


def test_the_oldest_go_until_the_least_number_stays() -> None:
    assert plan_archive(timeline(*WRITES), KEEP) == WRITES[:3]


def test_nothing_is_due_up_to_the_greatest_number() -> None:
    assert not is_archive_due(timeline(*WRITES[:3]), KEEP)
    assert plan_archive(timeline(*WRITES[:3]), KEEP) == ()
    assert is_archive_due(timeline(*WRITES[:4]), KEEP)


def test_other_actions_go_with_the_writes_around_them() -> None:
    clean, rollback = done(12, 13, Action.CLEAN), done(22, 23, Action.ROLLBACK)
    late = done(32, 33, Action.CLEAN)
    found = plan_archive(timeline(*WRITES, clean, rollback, late), KEEP)
    assert found == (WRITES[0], clean, WRITES[1], rollback, WRITES[2])


@says("rfc79.removable.blocks")
@pytest.mark.parametrize("action", list(Action))
def test_nothing_goes_from_the_first_pending_instant_on(action: Action) -> None:
    found = plan_archive(timeline(*WRITES, pending(25, action)), KEEP)
    assert found == (() if action is Action.RESTORE else WRITES[:2])


@says("N12")
def test_what_completed_after_a_pending_instant_began_stays() -> None:
    """It looks there for what it has not seen, when it completes."""
    writes = (done(10, 11), done(20, 32), done(30, 31), done(40, 41), done(50, 51))
    assert plan_archive(timeline(*writes, pending(31)), KEEP) == writes[:1]


def test_nothing_goes_from_the_first_savepoint_on() -> None:
    assert plan_archive(timeline(*WRITES, done(30, 60, Action.SAVEPOINT)), KEEP) == WRITES[:2]


def test_what_is_needed_stays_and_all_after_it() -> None:
    assert plan_archive(timeline(*WRITES), KEEP, requested(20)) == WRITES[:1]


def test_what_goes_completed_before_what_stays() -> None:
    writes = (done(10, 45), done(20, 21), done(30, 31), done(40, 41), done(50, 51))
    assert plan_archive(timeline(*writes), KEEP) == ()
    more = (*writes, done(60, 61))
    assert plan_archive(timeline(*more), KEEP) == more[:4]


# --- on tables ----------------------------------------------------------------------------------


def table_with(count: int = 8, *, buckets: int | None = 2) -> OpenTable:
    """A table with `count` writes, of which two or three may stay active."""
    table = new_table(
        schema=SCHEMA,
        buckets=buckets,
        options={
            "hoodie.keep.min.commits": 2,
            "hoodie.keep.max.commits": 3,
            "hoodie.timeline.compaction.batch.size": 3,
        },
    )
    for number in range(count):
        write(table, number)
    return table


def rows(*given: tuple[str, int, str]) -> pa.Table:
    return builders.rows(*given).cast(SCHEMA)


def api(table: OpenTable) -> Table:
    return Table(table, LocalEngine(threads=1))


def write(table: OpenTable, number: int) -> None:
    clock_of(table).ms += 10
    api(table).upsert(rows((f"k{number % 5}", number, "d"), (f"n{number}", number, "e")))


def ordered(table: pa.Table) -> list[dict[str, object]]:
    return sorted(table.to_pylist(), key=str)


def everything(table: OpenTable, instants: list[Instant]) -> list[object]:
    """All that a user can ask about the past."""
    seen: list[object] = [ordered(api(table).read(meta=True))]
    for instant in instants:
        seen.append(ordered(api(table).read(as_of=str(instant.requested_at))))
        after = str(instant.completed_at)
        seen.append(ordered(api(table).changes(after=after)))
        seen.append(ordered(api(table).changes(after=after, kind="cdc")))
        upto = str(instants[-1].completed_at)
        seen.append(ordered(api(table).changes(after=after, upto=upto, meta=True)))
    return seen


def manifests(storage: Storage) -> list[int]:
    names = (file.name for file in storage.list_files(layout.HISTORY))
    return sorted(number for name in names if (number := parse_manifest_name(name)))


@says("rfc66.plan.lookup", "N7", "P18")
def test_archiving_changes_nothing_that_can_be_read() -> None:
    table = table_with()
    instants = list(load_timeline(table.storage).writes())
    before = everything(table, instants)
    gone = archive_timeline(table)
    assert list(gone) == instants[:6]
    assert list(load_timeline(table.storage).instants) == instants[6:]
    assert list(load_history(table.storage).instants) == instants[:6]
    assert everything(table, instants) == before
    assert archive_timeline(table) == ()


def test_levels_are_merged_and_old_files_go() -> None:
    table = table_with(0)
    for number in range(40):
        write(table, number)
        archive_timeline(table)
    history = load_history(table.storage)
    active = load_timeline(table.storage).writes()
    assert len(history.instants) + len(active) == 40
    files = [f.name for f in table.storage.list_files(layout.HISTORY) if "parquet" in f.name]
    assert {name[-9] for name in files} >= {"0", "1", "2"} and len(files) <= 12, files
    newest = manifests(table.storage)
    assert len(newest) == 3
    assert table.storage.read(layout.HISTORY_VERSION) == str(newest[-1]).encode()
    assert len(table.storage.list_files(layout.COMPLETIONS)) <= 5
    assert len(ordered(api(table).read())) == 45


def test_a_replacement_stays_while_files_of_what_it_ended_lie_there() -> None:
    table = table_with(2, buckets=None)
    api(table).insert_overwrite(rows(("x", 1, "d")))
    (ending,) = load_timeline(table.storage).completed(Action.REPLACECOMMIT)
    for number in range(5):
        write(table, number)
    assert ending not in archive_timeline(table)
    assert ending in load_timeline(table.storage).instants
    before = ordered(api(table).read())
    for partition, ids in load_commit_metadata(table.storage, ending).replaced.items():
        for file in table.storage.list_files(partition):
            if any(file_id in file.name for file_id in ids):
                table.storage.delete(file.path)
    assert ending in archive_timeline(table)
    assert ordered(api(table).read()) == before


@says("R13")
def test_the_files_of_an_archived_instant_that_come_back_are_ignored_and_removed() -> None:
    """R13: who lost the lock long ago wakes and creates what the next holder made for it."""
    table = table_with()
    kept = {f.path: table.storage.read(f.path) for f in table.storage.list_files(layout.TIMELINE)}
    archive_timeline(table)
    instants = load_timeline(table.storage).instants
    before = ordered(api(table).read(meta=True))
    gone = [path for path in kept if table.storage.info(path) is None]
    assert len(gone) == 18
    for path in gone:
        table.storage.put_if_absent(path, kept[path])
        assert load_timeline(table.storage).instants == instants, path
        assert ordered(api(table).read(meta=True)) == before, path
        sweep_markers(table)
        begun = begin_write(table, Action.DELTACOMMIT)
        assert table.storage.info(path) is None, path
        for state in (State.INFLIGHT, State.REQUESTED):
            left = Instant(begun.instant.requested_at, Action.DELTACOMMIT, state)
            table.storage.delete(layout.timeline_file(left.file_name))


def test_a_timeline_loaded_before_an_archival_still_reads() -> None:
    table = table_with()
    old = load_timeline(table.storage)
    archive_timeline(table)

    assert load_table_view(table.storage, old) == load_table_view(
        table.storage, load_timeline(table.storage)
    )


def test_rows_computed_before_an_archival_do_not_overwrite_what_was_archived_since() -> None:
    """A merge that saw the table long ago, on which 10 others have written since."""

    table = table_with(1)
    seen = load_timeline(table.storage)
    api(table).upsert(rows(("mine", 1, "only")))
    for number in range(10):
        write(table, number)
    archive_timeline(table)
    assert all(i not in load_timeline(table.storage).instants for i in seen.instants)
    stale = rows(("mine", 0, "only"))
    with pytest.raises(WriteConflict):
        ingest(table, LocalEngine(threads=1), stale, Request(Operation.UPSERT), seen)
    assert {"id": "mine", "v": 1, "day": "only"} in api(table).read().to_pylist()


def test_an_attempt_that_wakes_after_its_instant_was_archived_leaves_nothing() -> None:

    table = table_with()
    first = load_timeline(table.storage).instants[0]
    archive_timeline(table)
    sweep_markers(table)
    assert table.storage.info(layout.finalized(first.requested_at)) is None
    path = f"d/00000000-a_0-0-0_{first.requested_at}.parquet"

    def wakes() -> tuple[WriteStatus, ...]:
        table.storage.put_if_absent(path, b"x")
        return (WriteStatus(stat(path), 1, 0, 0),)

    for on_rerun in OnRerun:
        with pytest.raises(InstantCancelled):
            Once(table.storage, first.requested_at, on_rerun).do(Share("d", "0", 0), wakes)
        assert table.storage.info(path) is None


def test_history_is_read_in_parts_and_once() -> None:

    storage = WrappedStorage(MemoryStorage())
    table = new_table(
        storage=storage, options={"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    )
    for number in range(8):
        write(table, number)
        archive_timeline(table)
    api(table).read()
    storage.calls.clear()
    api(table).read()
    history = [path for op, path in storage.calls if op == "open_input" and layout.HISTORY in path]
    assert history == []


def test_an_executor_that_sleeps_past_its_archival_still_says_what_it_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = {"hoodie__keep__min__commits": 2, "hoodie__keep__max__commits": 3}
    table = loaded("COPY_ON_WRITE 2", hoodie__clean__commits__retained=1, **kept)
    at = schedule(table, sort_by=("v",))

    def sleep(storage: Storage, of: RequestedAt) -> None:
        for v in range(3):
            table.upsert(builders.rows(("a", v, "mon")))
        table.archive()

    monkeypatch.setattr(guard, "remove_guards", sleep)
    ended = table.execute(at)
    assert load_timeline(storage_of(table)).find(ended.instant) is None
    assert isinstance(ended, Committed) and ended.instant in table.history()
