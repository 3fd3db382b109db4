"""A check-up of files: those that are damaged or gone, and those that no commit names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lentic.errors import StorageError
from lentic.format import layout
from lentic.insight.answers import Severity
from lentic.insight.doctor import check_health
from tests.unit.builders import WrappedStorage, requested
from tests.unit.insight.cases import HOUR_MS, Case
from tests.unit.insight.checkups import examine, finding, mends
from tests.unit.verbs import COW, MOR

KEEP: dict[str, Any] = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}


def test_what_does_not_hold_of_the_table_comes_first() -> None:
    case = Case()
    case.write("a")
    case.write("b", day="e")
    case.storage.delete(case.bases()[0])
    for everything in (False, True):
        health = examine(case, everything=everything)
        assert health.findings[0].severity is Severity.ERROR and not health.is_healthy
        assert "holds current rows and is not there" in finding(health, "invariant").says
        found = finding(health, "invariant")
        assert found.says.endswith("is not there: bring it back from a copy of the table.")
        assert found.remedy is None, "verify would say the same again"


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("kind", [COW, MOR])
def test_a_file_that_is_not_as_long_as_its_commit_says_is_mended_by_the_savepoint_before_it(
    kind: str, everything: bool
) -> None:
    case = Case(kind, buckets=1)
    saved = case.write("a", day="a folder is here")
    case.table.savepoint()
    case.write("b", day="a folder is here", value=1)
    path = case.table.file_slices()[0].paths[-1]
    case.storage.replace(path, b"short")
    found = finding(examine(case, everything=everything), "invariant")
    assert f"{path} has 5 bytes" in found.says
    assert found.says.endswith(
        f": bring it back from a copy of the table, or restore savepoint {saved}, which undoes "
        "1 commit(s) made since."
    )
    assert mends(found) == f't.restore("{saved}")'
    case.table.restore(saved)
    assert not examine(case, everything=everything).of("invariant"), "as was said"
    assert case.table.read().num_rows == 1


def test_a_savepoint_whose_own_file_is_damaged_is_no_way_back() -> None:
    case = Case()
    case.write("a")
    case.table.savepoint()
    case.write("a", value=1)
    for path in case.bases():
        case.storage.replace(path, b"short")
    found = examine(case).of("invariant")
    assert [f.remedy for f in found] == [None, None]
    case.storage.delete(case.bases()[0])
    found = examine(case).of("invariant")
    assert sum("is protected by savepoint" in f.says for f in found) == 1
    assert all(f.says.endswith(": bring it back from a copy of the table.") for f in found)
    assert [f.remedy for f in found] == [None, None]


def test_an_invariant_that_is_about_no_file_is_told_without_a_command_that_does_nothing() -> None:
    case = Case()
    at = case.write("a")
    case.storage.put_if_absent(f"{layout.CANCEL}/{at}", b"")
    found = finding(examine(case), "invariant")
    assert found.says == f"{at} is completed, and its cancellation is still asked for."
    assert found.remedy is None


def test_orphans_are_found_when_they_are_old_and_noted_before() -> None:
    case = Case()
    case.put_stray(case.write("a"))
    assert finding(examine(case), "young-orphans").severity is Severity.NOTE
    case.clock.ms += 2 * HOUR_MS
    found = finding(examine(case), "orphans")
    assert found.severity is Severity.WARNING and mends(found) == "t.clean(wait=True)"
    case.table.clean()
    assert not examine(case).of("orphans")


def test_files_that_no_clean_sweeps_are_noted_without_a_command_that_does_nothing() -> None:
    case = Case()
    case.write("a")
    path = case.put_stray("20250101000000000")
    case.clock.ms += 2 * HOUR_MS
    health = examine(case)
    assert health.is_healthy and not health.of("orphans")
    found = finding(health, "orphan-unknown")
    assert found.severity is Severity.NOTE and "1 data file(s)" in found.says
    assert found.remedy is None
    case.table.clean(wait=True)
    assert case.storage.info(path) is not None, "as was said"


def test_orphans_that_an_option_keeps_are_noted_without_a_command_that_does_nothing() -> None:
    case = Case(options={"lentic.clean.sweep_orphans": False})
    path = case.put_stray(case.write("a"))
    case.clock.ms += 2 * HOUR_MS
    health = examine(case)
    assert health.is_healthy and finding(health, "orphan-kept").remedy is None
    case.table.clean(wait=True)
    assert case.storage.info(path) is not None, "as was said"


def test_what_only_the_history_knows_counts_as_known() -> None:
    case = Case(options=KEEP)
    for number in range(6):
        case.write("a", day=f"d{number}")
    case.table.archive()
    stray = case.put_stray("20250101000000000", "d5")
    known = case.put_stray(str(case.table.history()[0].requested_at), "d5")
    case.clock.ms += 2 * HOUR_MS
    health = examine(case)
    assert "1 data file(s)" in finding(health, "orphan-unknown").says
    assert "1 data file(s)" in finding(health, "orphans").says, "the history knows its maker"
    case.table.clean(wait=True)
    assert case.storage.info(stray) is not None and case.storage.info(known) is None


def test_a_table_that_does_not_read_is_told_so_and_not_a_crash() -> None:
    case = Case(MOR, buckets=1)
    case.write("a")
    at = case.table.schedule("compaction")
    case.storage.replace(f"{layout.TIMELINE}/{at}.compaction.requested", b"rubbish")
    health = examine(case)
    assert finding(health, "unreadable").severity is Severity.ERROR
    assert str(at) in finding(health, "unreadable").says
    assert health.not_looked_at == ("everything else, until that is mended",)
    assert mends(finding(health, "unreadable")) == f't.rollback("{at}")'
    case.table.rollback(str(at))
    assert examine(case).is_healthy, "which mended it"


def test_of_a_rollback_that_does_not_read_the_remedy_names_the_file_to_bring_back() -> None:
    case = Case(MOR, buckets=1)
    case.write("a")
    case.table.schedule("compaction")
    name = f"{requested(900)}.rollback.requested"
    case.storage.put_if_absent(f"{layout.TIMELINE}/{name}", b"rubbish")
    found = finding(examine(case), "unreadable")
    assert name in found.says and mends(found) == "t.verify()"


def test_a_table_of_which_no_commit_reads_is_told_what_to_do_and_verify_tells_more() -> None:
    case = Case()
    case.write("a")
    for instant in case.table.timeline():
        case.storage.replace(layout.timeline_file(instant.file_name), b"junk")
    found = finding(examine(case), "unreadable")
    assert "Not an Avro container" in found.says and "from a copy of the table" in found.says
    assert mends(found) == "t.verify()" and "does not read" in case.table.verify()[0]


def test_a_storage_that_fails_is_told_with_its_own_next_step() -> None:
    case = Case()
    case.write("a")
    storage = WrappedStorage(case.storage)

    def fail(op: str, path: str) -> None:
        raise StorageError("The store is down.", next_step="repeat the call")

    storage.before = fail  # type: ignore[method-assign]
    (found,) = check_health(replace(case.opened, storage=storage)).findings
    assert "Next: repeat the call." in found.says and found.remedy is None
