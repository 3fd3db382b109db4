"""Cleaning: what goes, what stays, and that it may be interrupted anywhere."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from lentic.engine import LocalEngine
from lentic.errors import ConfigError, RangeUnavailable, StorageError
from lentic.format import layout
from lentic.format.names import Action, State
from lentic.format.savepoint import SavepointMetadata, encode_savepoint
from lentic.format.times import RequestedAt
from lentic.services.archive import archive_timeline
from lentic.services.clean import execute_clean, run_clean, schedule_clean
from lentic.services.compaction import schedule_compaction
from lentic.services.outcome import AlreadyCommitted, Committed
from lentic.services.undo_completed import roll_back_instant
from lentic.services.verify import verify_table
from lentic.table import Table
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_clean_plan, load_timeline
from lentic.txn.transaction import OpenTable, transaction
from lentic.view.listing import load_table_files
from tests.rfc.claims import says
from tests.unit.builders import WrappedStorage, clock_of, data_paths, new_table, rows
from tests.unit.verbs import COW, MOR

HOUR_MS = 3_600_000
ONE = {"hoodie.clean.commits.retained": 1}


def make(table_type: str = COW, **more: Any) -> tuple[OpenTable, Table]:
    opened = new_table(table_type=table_type, options={**ONE, **more.pop("options", {})}, **more)
    return opened, Table(opened, LocalEngine(threads=1))


def seen(table: Table, **question: Any) -> Counter[tuple[str, Any]]:
    return Counter((r["id"], r["v"]) for r in table.read(**question).to_pylist())


def cleaned(opened: OpenTable) -> tuple[str, ...]:
    """What a clean deletes now."""
    before = set(data_paths(opened.storage))
    if at := schedule_clean(opened):
        plan = load_clean_plan(opened.storage, Instant(at, Action.CLEAN, State.REQUESTED))
        assert isinstance(execute_clean(opened, at), Committed)
        gone = before - set(data_paths(opened.storage))
        assert gone == set(plan.files), "exactly what the plan names"
        return plan.files
    assert set(data_paths(opened.storage)) == before
    return ()


def save(opened: OpenTable, at: RequestedAt) -> None:
    """A savepoint of the state right after the commit at `at`."""
    with transaction(opened) as txn:
        files = load_table_files(opened.storage, txn.timeline)
        groups = files.groups(files.writes[at].completed_at)
        paths = tuple(path for group in groups for path in group.latest.paths)
        inflight = Instant(at, Action.SAVEPOINT, State.INFLIGHT)
        opened.storage.put_if_absent(layout.timeline_file(inflight.file_name), b"")
        content = encode_savepoint(SavepointMetadata(paths))
        name = f"{at}_{txn.next_time()}.savepoint"
        opened.storage.put_if_absent(layout.timeline_file(name), content)


def test_nothing_goes_while_all_commits_are_retained() -> None:
    opened, table = make()
    table.upsert(rows(("a", 1, "d")))
    assert schedule_clean(opened) is None
    assert not load_timeline(opened.storage).pending()


def test_versions_are_cleaned_also_where_no_write_is_on_the_active_timeline() -> None:
    versions = {
        "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
        "hoodie.clean.fileversions.retained": 1,
        "hoodie.keep.min.commits": 1,
        "hoodie.keep.max.commits": 2,
    }
    opened, table = make(options=versions)
    for v in range(4):
        table.upsert(rows(("a", v, "d")))
    archive_timeline(opened)
    for write in reversed(load_timeline(opened.storage).writes()):
        roll_back_instant(opened, write.requested_at)
    assert not load_timeline(opened.storage).writes()
    assert len(cleaned(opened)) == 2
    assert seen(table) == Counter({("a", 2): 1})


def test_states_from_the_retained_commit_on_stay_readable_and_earlier_ones_say_so() -> None:
    opened, table = make(options={"hoodie.clean.commits.retained": 2})
    done = [table.upsert(rows(("a", v, "d"))) for v in range(5)]
    assert len(cleaned(opened)) == 2, "those before the state that the retained commit changed"
    for v in (3, 4):
        assert seen(table, as_of=done[v].requested_at) == Counter({("a", v): 1})
    for v in (0, 1):
        with pytest.raises(RangeUnavailable, match=done[3].completed_at):
            table.read(as_of=done[v].requested_at)
        with pytest.raises(RangeUnavailable):
            table.changes(after=done[v].completed_at, upto=done[v + 1].completed_at)
    told = table.changes(after=done[2].completed_at, kind="cdc").to_pylist()
    assert [(row["before"]["v"], row["after"]["v"]) for row in told] == [(2, 3), (3, 4)]
    assert verify_table(opened.storage) == []


def test_a_clean_that_finds_nothing_more_leaves_no_trace() -> None:
    opened, table = make()
    for v in range(3):
        table.upsert(rows(("a", v, "d")))
    assert cleaned(opened)
    before = load_timeline(opened.storage)
    assert cleaned(opened) == ()
    assert load_timeline(opened.storage) == before


def test_logs_of_a_slice_go_with_its_base_and_those_before_the_first_base_too() -> None:
    opened, table = make(MOR)
    for v in range(3):
        table.upsert(rows(("a", v, "d")))
    first = set(data_paths(opened.storage))
    assert all(".log." in path for path in first), "log-only"
    table.compact()
    assert cleaned(opened) == (), "the state right before the retained commit needs them"
    table.upsert(rows(("a", 7, "d")))
    assert set(cleaned(opened)) == first
    assert seen(table) == Counter({("a", 7): 1})
    assert verify_table(opened.storage) == []


@says("N12")
def test_a_log_that_completed_after_the_plan_of_the_next_base_stays_with_it() -> None:
    opened, table = make(MOR)
    table.upsert(rows(("a", 1, "d")))
    at = schedule_compaction(opened)
    assert at is not None
    table.upsert(rows(("a", 2, "d")))  # belongs to the slice that the compaction opens
    table.compact()
    table.upsert(rows(("b", 3, "e")))
    (gone,) = cleaned(opened)
    assert ".log." in gone
    assert seen(table) == Counter({("a", 2): 1, ("b", 3): 1})


@says("rfc79.removable.blocks", "R13", "P17")
def test_what_a_pending_compaction_is_going_to_read_stays() -> None:
    opened, table = make(MOR)
    table.upsert(rows(("a", 1, "d")))
    table.upsert(rows(("a", 2, "d")))
    schedule_compaction(opened)
    for _ in range(3):
        table.upsert(rows(("b", 1, "e")))
    assert cleaned(opened) == ()
    table.compact()
    assert seen(table) == Counter({("a", 2): 1, ("b", 1): 1})


@says("R13", "P17")
@pytest.mark.parametrize("table_type", [COW, MOR])
def test_what_a_savepoint_names_stays_until_it_goes(table_type: str) -> None:
    opened, table = make(table_type)
    first = table.upsert(rows(("a", 0, "d")))
    kept = set(data_paths(opened.storage))
    save(opened, first.requested_at)
    for v in range(1, 4):
        table.upsert(rows(("a", v, "d")))
        if table_type == MOR:
            table.compact()
    gone = cleaned(opened)
    assert gone and kept <= set(data_paths(opened.storage))
    clean = load_timeline(opened.storage).completed(Action.CLEAN)[-1]
    told = load_clean_plan(opened.storage, clean).extra
    assert told["savepointed_timestamps"] == first.requested_at


def test_a_commit_that_is_named_means_itself_and_not_its_savepoint() -> None:
    opened, table = make()
    done = [table.upsert(rows(("a", v, "d"))) for v in range(2)]
    for commit in done:
        save(opened, commit.requested_at)
    assert seen(table, as_of=done[0].requested_at) == Counter({("a", 0): 1})
    for v in (2, 3):
        done.append(table.upsert(rows(("a", v, "d"))))
    save(opened, done[-1].requested_at)
    run_clean(opened)
    assert seen(table, as_of=done[-1].completed_at) == Counter({("a", 3): 1})


def test_a_savepoint_made_after_the_plan_is_respected_by_its_execution() -> None:
    opened, table = make()
    done = [table.upsert(rows(("a", v, "d"))) for v in range(3)]
    at = schedule_clean(opened)
    assert at is not None
    save(opened, done[0].requested_at)
    execute_clean(opened, at)
    assert len(data_paths(opened.storage)) == 3


def test_a_savepoint_that_is_being_made_counts_already() -> None:
    opened, table = make()
    first = table.upsert(rows(("a", 0, "d")))
    inflight = Instant(first.requested_at, Action.SAVEPOINT, State.INFLIGHT)
    opened.storage.put_if_absent(layout.timeline_file(inflight.file_name), b"")
    table.upsert(rows(("a", 1, "d")))
    table.upsert(rows(("a", 2, "d")))
    assert cleaned(opened) == ()


def test_a_pending_write_keeps_the_state_it_began_on() -> None:
    opened, table = make()
    table.upsert(rows(("a", 0, "d")))
    table.upsert(rows(("a", 1, "d")))
    with transaction(opened) as txn:
        txn.start(txn.request(Action.COMMIT))
    at = schedule_clean(opened)
    assert at is None, "it began on a=1, and the state before that commit stays too"


@pytest.mark.parametrize("table_type", [COW, MOR])
def test_a_replaced_partition_goes_with_its_folder(table_type: str) -> None:
    opened, table = make(table_type, buckets=None)
    table.upsert(rows(("a", 1, "d"), ("b", 1, "e")))
    table.delete_partitions(["d"])
    assert cleaned(opened) == ()
    table.upsert(rows(("b", 2, "e")))
    gone = cleaned(opened)
    assert {path.partition("/")[0] for path in gone if path.startswith("d/")} == {"d"}
    assert opened.storage.walk("d") == []
    table.upsert(rows(("a", 5, "d")))
    assert opened.storage.info("d/.hoodie_partition_metadata") is not None
    assert seen(table) == Counter({("a", 5): 1, ("b", 2): 1})
    assert verify_table(opened.storage) == []


def test_an_emptied_partition_keeps_its_folder_while_anybody_writes() -> None:
    opened, table = make(buckets=None)
    table.upsert(rows(("a", 1, "d"), ("b", 1, "e")))
    table.delete_partitions(["d"])
    table.upsert(rows(("b", 2, "e")))
    at = schedule_clean(opened)
    assert at is not None
    with transaction(opened) as txn:
        txn.start(txn.request(Action.COMMIT))
    execute_clean(opened, at)
    assert [f.name for f in opened.storage.walk("d")] == [".hoodie_partition_metadata"]


def test_hours_keep_the_state_of_so_many_hours_ago() -> None:
    policy = {"hoodie.clean.policy": "KEEP_LATEST_BY_HOURS", "hoodie.clean.hours.retained": 2}
    opened, table = make(options=policy)
    done = []
    for v in range(6):
        done.append(table.upsert(rows(("a", v, "d"))))
        clock_of(opened).ms += HOUR_MS
    assert len(cleaned(opened)) == 2, "the write of four hours ago and the state before it stay"
    for v in (3, 4, 5):
        assert seen(table, as_of=done[v].requested_at) == Counter({("a", v): 1})


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_versions_keep_so_many_slices_of_each_group(kept: int) -> None:
    policy = "KEEP_LATEST_FILE_VERSIONS"
    options = {"hoodie.clean.policy": policy, "hoodie.clean.fileversions.retained": kept}
    opened, table = make(options=options)
    done = [table.upsert(rows(("a", v, "d"))) for v in range(4)]
    table.upsert(rows(("b", 0, "e")))
    assert len(cleaned(opened)) == 4 - kept
    assert seen(table) == Counter({("a", 3): 1, ("b", 0): 1})
    assert seen(table, as_of=done[4 - kept].requested_at) == Counter({("a", 4 - kept): 1})
    with pytest.raises(RangeUnavailable):
        table.read(as_of=done[3 - kept].requested_at)


def test_a_pending_clean_is_executed_before_anything_new_is_planned() -> None:
    opened, table = make()
    for v in range(4):
        table.upsert(rows(("a", v, "d")))
    at = schedule_clean(opened)
    table.upsert(rows(("a", 9, "d")))
    assert schedule_clean(opened) == at
    run = run_clean(opened, LocalEngine(threads=1))
    assert [type(outcome) for outcome in run.cleans] == [Committed, Committed]
    assert len(data_paths(opened.storage)) == 2
    assert at and isinstance(execute_clean(opened, at), AlreadyCommitted)


def test_a_delete_that_fails_leaves_the_clean_pending_and_the_next_finishes_it() -> None:
    class Full(WrappedStorage):
        fails = False

        def before(self, op: str, path: str) -> None:
            if self.fails and op == "delete" and path.endswith(".parquet"):
                raise StorageError("No.")

    storage = Full()
    opened, table = make(storage=storage)
    for v in range(4):
        table.upsert(rows(("a", v, "d")))
    storage.fails = True
    with pytest.raises(StorageError):
        run_clean(opened)
    assert load_timeline(storage).pending(Action.CLEAN)
    storage.fails = False
    assert len(run_clean(opened).cleans) == 1
    assert len(data_paths(storage)) == 2


def test_there_is_no_clean_at_a_time_that_has_none() -> None:
    opened, _ = make()
    with pytest.raises(ConfigError, match="no clean plan"):
        execute_clean(opened, RequestedAt("20260101000000000"))
