"""A check-up: each ailment is brought about, found, and named with what mends it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lentic.coordination.fenced import LockState, encode_state
from lentic.engine import LocalEngine
from lentic.format import layout
from lentic.insight.answers import Severity
from lentic.insight.doctor import check_health
from lentic.table import Table
from lentic.world import Process
from tests.unit.builders import START_MS, WrappedStorage, rows
from tests.unit.insight.cases import HOUR_MS, Case
from tests.unit.insight.checkups import examine, finding, mends
from tests.unit.verbs import COW, MOR

KEEP: dict[str, Any] = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
LAZY: dict[str, Any] = {"hoodie.clean.failed.writes.policy": "LAZY"}


def test_a_new_table_is_healthy_and_so_is_one_that_was_written_to() -> None:
    case = Case()
    assert examine(case).findings == ()
    case.write("a")
    health = examine(case)
    assert health.is_healthy and str(health).endswith("it lies in no file of a storage")
    assert dict(health.looked_at) == {"instants": 1, "partitions": 1, "files": 2}
    assert examine(case, everything=True).is_healthy


def test_a_plan_that_was_forgotten_is_found() -> None:
    case = Case(MOR, buckets=1)
    case.write("a")
    at = case.table.schedule("compaction")
    assert not examine(case).of("old-plan")
    case.clock.ms += 7 * HOUR_MS
    found = finding(examine(case), "old-plan")
    assert "7.0 h" in found.says and mends(found) == f't.execute("{at}")'


def test_an_executor_that_died_is_found_and_one_that_lives_is_not() -> None:
    case = Case(MOR, buckets=1)
    case.write("a")
    at = case.table.schedule("compaction")
    case.beat(str(at))
    assert not examine(case).of("dead-executor")
    case.clock.ms += HOUR_MS
    found = finding(examine(case), "dead-executor")
    assert "far:7" in found.says and mends(found) == f't.execute("{at}")'


def test_an_old_plan_that_is_being_executed_is_not_to_be_executed_again() -> None:
    case = Case(MOR, buckets=1)
    case.write("a")
    at = case.table.schedule("compaction")
    case.clock.ms += 7 * HOUR_MS
    case.beat(str(at))
    found = finding(examine(case), "old-plan")
    assert "far:7 executes it" in found.says and mends(found) == f"t.why('{at}')"


def test_a_writer_that_died_is_found_with_or_without_a_heartbeat() -> None:
    case = Case(options=LAZY)
    case.write("a")
    at = case.begin_write()
    assert not examine(case).of("dead-writer")
    case.clock.ms += HOUR_MS
    found = finding(examine(case), "dead-writer")
    assert str(at) in found.says and mends(found) == "t.clean(wait=True)"
    case.beat(at)
    assert not examine(case).of("dead-writer")
    case.clock.ms += HOUR_MS
    assert "far:7" in finding(examine(case), "dead-writer").says


def test_heartbeats_of_instants_that_ended_are_noted() -> None:
    case = Case()
    case.beat(case.write("a"))
    assert finding(examine(case), "stale-heartbeats").severity is Severity.NOTE


def test_many_logs_and_a_compaction_that_is_overdue_are_found() -> None:
    case = Case(MOR, buckets=1)
    for number in range(9):
        case.write("a", value=number)
    assert not examine(case).of("compaction-overdue")
    for number in range(11):
        case.write("a", value=number)
    health = examine(case)
    assert "20" in finding(health, "many-logs").says
    assert "due after 5" in finding(health, "compaction-overdue").says
    assert mends(finding(health, "many-logs")) == "t.compact()"
    case.table.compact()
    health = examine(case)
    assert not health.of("many-logs") and not health.of("compaction-overdue")


def test_old_versions_that_pile_up_are_found() -> None:
    case = Case(options={"hoodie.clean.commits.retained": 1})
    case.versions(14)
    found = finding(examine(case), "clean-overdue")
    assert "12 file(s)" in found.says and "never" in found.says
    assert found.severity is Severity.WARNING and mends(found) == "t.clean(wait=True)"
    case.table.clean()
    assert not examine(case).of("clean-overdue")


def test_an_archive_that_does_not_run_is_found_and_one_that_is_blocked_by_what() -> None:
    case = Case(MOR, buckets=1, options=KEEP)
    case.write("a")
    for number in range(5):
        case.write("a", value=number)
    assert mends(finding(examine(case), "archive-overdue")) == "t.archive()"
    blocked = Case(MOR, buckets=1, options=KEEP)
    first = blocked.write("a")
    plan = blocked.table.schedule("compaction")
    for number in range(5):
        blocked.write("a", value=number)
    blocked.table.archive()
    assert [i.requested_at for i in blocked.table.history()] == [first]
    found = finding(examine(blocked), "archive-blocked")
    assert f"compaction {plan} is pending" in found.says and mends(found) == f"t.why('{plan}')"


def test_small_files_are_noted_with_their_reasons_and_many_are_a_warning() -> None:
    case = Case()
    for number in range(3):
        case.table.bulk_insert(rows((f"k{number}", number, "d")))
    few = examine(case)
    assert finding(few, "small-files").severity is Severity.NOTE and few.is_healthy
    for number in range(9):
        case.table.bulk_insert(rows((f"n{number}", number, "d")))
    many = examine(case)
    assert finding(many, "small-files").severity is Severity.WARNING
    assert mends(finding(many, "small-files")) == "t.cluster()"
    assert "hoodie.clustering.inline" in finding(many, "small-no-clustering").says
    case.table.cluster()
    assert not examine(case).of("small-no-clustering")


def test_small_files_in_buckets_are_nothing_to_be_done_about() -> None:
    case = Case(COW, buckets=16)
    case.write(*(f"k{number}" for number in range(100)))
    health = examine(case)
    assert health.is_healthy and finding(health, "small-bucketed").remedy is None


def test_a_lock_that_a_dead_owner_left_is_found() -> None:
    case = Case()
    held = LockState().taken(
        Process("far", 7), owner="o", now_ms=START_MS, valid_until_ms=START_MS + 60_000
    )
    case.storage.put_if_absent(layout.STORAGE_LOCK, encode_state(held))
    assert finding(examine(case), "lock-held").severity is Severity.NOTE
    case.clock.ms += HOUR_MS
    found = finding(examine(case), "lock-left")
    assert "far:7" in found.says and found.severity is Severity.WARNING
    case.storage.replace(layout.STORAGE_LOCK, encode_state(replace(held, is_free=True)))
    assert not examine(case).of("lock-left")


def test_a_clock_that_is_ahead_of_the_storage_is_found() -> None:
    case = Case()
    case.write("a")
    assert not examine(case).of("clock-skew")
    case.clock.ms += HOUR_MS
    case.lag_ms = HOUR_MS
    at = case.write("a", value=2)
    found = finding(examine(case), "clock-skew")
    assert str(at) in found.says and "60.0 min" in found.says


def test_savepoints_that_keep_old_files_are_noted() -> None:
    case = Case()
    at = case.write("a")
    case.table.savepoint()
    assert not examine(case).of("savepoint"), "what it keeps is current"
    case.write("a", value=2)
    found = finding(examine(case), "savepoint")
    assert "1 file(s)" in found.says and mends(found) == f't.remove_savepoint("{at}")'


def test_a_metadata_table_and_an_older_version_are_noted() -> None:
    case = Case()
    config = replace(case.opened.config, metadata_partitions=("files",), version=8)
    health = check_health(replace(case.opened, config=config))
    assert "lentic.metadata.on_write=drop" in finding(health, "metadata-table").says
    assert "version 8" in finding(health, "table-version").says
    assert health.is_healthy


def test_only_so_many_partitions_are_looked_at_and_the_rest_is_said() -> None:
    case = Case()
    for number in range(9):
        case.write("a", day=f"d{number}")
    case.write("b", day="d3")
    storage = WrappedStorage(case.storage)
    health = check_health(replace(case.opened, storage=storage), partitions_max=3)
    listed = {path for op, path in storage.calls if op == "list_files" and path.startswith("d")}
    assert listed == {"d3", "d8", "d7"}, "those that were written to last"
    assert ("walk", "") not in storage.calls
    assert dict(health.looked_at)["partitions"] == 3
    assert health.not_looked_at[0] == "6 partition(s) that were written to less lately"
    assert dict(examine(case, everything=True).looked_at)["partitions"] == 9


def test_what_only_archived_commits_wrote_is_said_not_to_be_looked_at() -> None:
    case = Case(options=KEEP)
    for number in range(6):
        case.write("a", day=f"d{number}")
    case.table.archive()
    assert "no commit of the active timeline" in examine(case).not_looked_at[0]
    assert not [w for w in examine(case, everything=True).not_looked_at if "partition" in w]


def test_the_cost_does_not_grow_with_partitions_that_nobody_writes_to() -> None:
    def calls(quiet: int) -> int:
        case = Case(options=KEEP)
        case.table.bulk_insert(rows(*((f"k{n}", n, f"q{n:04d}") for n in range(quiet))))
        for number in range(8):
            case.write("a", value=number)
        case.table.archive()
        storage = WrappedStorage(case.storage)
        Table(replace(case.opened, storage=storage), LocalEngine(threads=1)).doctor()
        return len(storage.calls)

    assert calls(40) == calls(4)


# --- cancellation -------------------------------------------------------------------------------


def _clustering(case: Case) -> str:
    if not case.bases():
        for number in range(2):
            case.table.bulk_insert(rows((f"k{number}", number, "d")))
    return str(case.table.schedule("clustering"))


def test_a_plan_that_is_cancelled_and_not_aborted_is_found() -> None:
    case = Case()
    at = _clustering(case)
    assert not examine(case).of("cancelled-not-aborted")
    case.table.request_cancel(at)
    found = finding(examine(case), "cancelled-not-aborted")
    assert at in found.says and mends(found) == f't.execute_abort("{at}")'
    case.table.clean()
    assert not examine(case).of("cancelled-not-aborted")


def test_a_cancelled_plan_whose_executor_lives_ends_by_itself() -> None:
    case = Case()
    at = _clustering(case)
    case.beat(at)
    case.table.request_cancel(at)
    health = examine(case)
    assert health.is_healthy and not health.of("cancelled-not-aborted")
    found = finding(health, "cancelled-ending")
    assert "far:7" in found.says and mends(found) == f"t.why('{at}')"
    case.clock.ms += HOUR_MS
    assert examine(case).of("cancelled-not-aborted")


def test_clusterings_that_are_cancelled_again_and_again_are_found_with_or_without_a_plan() -> None:
    case = Case()
    for number in range(3):
        assert not examine(case).of("starved"), f"{number} are not enough"
        at = _clustering(case)
        case.table.request_cancel(at)
        case.table.execute_abort(at)
    found = finding(examine(case), "starved")
    assert "2 file group(s)" in found.says and "3 times" in found.says
    assert "write" not in found.says, "an operator cancelled them"
    assert mends(found) == "t.cluster(cancellable=False)"
    _clustering(case)
    assert examine(case).of("starved")
    case.table.cluster(cancellable=False)
    assert not examine(case).of("starved"), "one that completes ends the row"
