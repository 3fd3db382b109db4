"""Why a file is there, who sees it, and what keeps it: each reason is brought about and read."""

from __future__ import annotations

import pytest

from lentic.errors import ConfigError, InvalidPath
from lentic.format import layout
from lentic.format.names import Action
from lentic.format.restore import RestorePlan, encode_restore_plan
from lentic.txn.transaction import transaction
from lentic.write import markers
from tests.unit.builders import rows
from tests.unit.insight.cases import HOUR_MS, Case, says, typed
from tests.unit.verbs import COW, MOR

TWO = {"hoodie.clean.commits.retained": 2}
ONE = {"hoodie.clean.commits.retained": 1}


def test_a_file_of_the_latest_slice_is_visible_and_never_cleaned() -> None:
    case = Case()
    at = case.write("a")
    (path,) = case.bases()
    answer = case.why(path)
    assert (answer.kind, answer.fact("visible"), answer.fact("what")) == (
        "file",
        "yes",
        "base file",
    )
    assert answer.fact("made by") == f"commit {at}, completed"
    assert answer.fact("slice") == f"{at}, the latest"
    assert "latest slice" in says(answer, "current")
    assert answer.has("latest-slice")
    assert str(answer).startswith(f"file {path}")


def test_a_cancelled_plan_is_aborted_rather_than_executed() -> None:
    """It holds its files until then, and can do nothing with them."""
    case = Case(options=ONE)
    case.write("a")
    case.write("b")
    plan = str(case.table.schedule("clustering"))
    (path,) = case.bases()[-1:]
    assert typed(case.why(path)) == [f't.execute("{plan}")']
    case.write("a", value=1)  # cancels it
    answer = case.why(path)
    assert "is cancelled" in says(answer, "held-by-plan")
    assert typed(answer) == [f't.execute_abort("{plan}")']
    case.table.execute_abort(plan)
    assert not case.why(path).has("held-by-plan")


@pytest.mark.parametrize("cancels", [False, True])
def test_a_file_of_a_plan_that_somebody_executes_is_left_to_them(cancels: bool) -> None:
    case = Case(options=ONE)
    case.write("a")
    case.write("b")
    plan = str(case.table.schedule("clustering"))
    case.beat(plan)
    if cancels:
        case.table.request_cancel(plan)
    (path,) = case.bases()[-1:]
    assert typed(case.why(path)) == [f"t.why('{plan}')"]


def test_a_file_may_be_named_by_its_name_or_by_an_absolute_path() -> None:
    case = Case()
    (path,) = case.versions(1)
    name = path.rpartition("/")[2]
    for text in (name, f"{case.opened.storage.root}/{path}"):
        assert case.why(text).question == path


def test_a_file_that_is_read_is_found_whatever_folders_stand_before_its_name() -> None:
    """Where a shell completes a path, it begins somewhere else than at the table."""
    case = Case()
    (path,) = case.versions(1)
    for text in (f"./{path}", f"lake/t/{path}", f"elsewhere/{path.rpartition('/')[2]}"):
        answer = case.why(text)
        assert answer.question == path and answer.fact("visible") == "yes"


def test_a_path_that_nobody_knows_is_looked_at_as_it_is_written() -> None:
    case = Case()
    case.write("a")
    path = "d/x_0-0-0_20260101000000001.parquet"
    answer = case.why(path)
    assert answer.question == path and answer.has("never-there")


def test_a_log_is_told_with_its_slice() -> None:
    case = Case(MOR, buckets=1)
    case.write("a")
    case.table.compact()
    at = case.write("a", value=2)
    (part,) = case.table.file_slices()
    answer = case.why(part.logs[0].path)
    assert answer.fact("what") == "log file"
    assert answer.fact("made by") == f"deltacommit {at}, completed"
    assert answer.fact("slice") == f"{part.barrier}, the latest"


def test_an_older_file_is_retained_by_commits_and_says_how_many_more_it_takes() -> None:
    case = Case(options=TWO)
    old, newer, _ = case.versions(3)
    answer = case.why(old)
    assert answer.fact("visible") == "no" and answer.fact("slice").endswith("3 of 3")
    assert newer.rpartition("_")[2].removesuffix(".parquet") in says(answer, "older")
    said = says(answer, "retained-by-commits")
    assert "hoodie.clean.commits.retained=2" in said and "after 1 more" in said
    assert case.table.clean() is None
    case.write("a", value=9)
    assert case.why(old).has("clean-due")
    case.table.clean()
    assert not case.storage.info(old)


def test_a_file_that_nothing_keeps_goes_with_the_next_clean() -> None:
    case = Case(options=ONE)
    old = case.versions(4)[0]
    answer = case.why(old)
    assert "the next clean deletes it; hoodie.clean.automatic is off" in says(answer, "clean-due")
    assert typed(answer) == ["t.clean(wait=True)"]
    root = case.opened.storage.root
    assert [step.shell for step in answer.next_steps] == [f"lentic clean {root}"]


def test_a_file_is_retained_by_hours_until_a_moment_that_is_told() -> None:
    options = {"hoodie.clean.policy": "KEEP_LATEST_BY_HOURS", "hoodie.clean.hours.retained": 3}
    case = Case(options=options)
    old = case.versions(3)[0]
    assert "2026-01-01 03:00:00 UTC" in says(case.why(old), "retained-by-hours")
    case.clock.ms += 3 * HOUR_MS
    assert case.why(old).has("retained-by-hours")
    case.clock.ms += 1_000
    assert case.why(old).has("clean-due")


def test_a_file_is_retained_by_hours_from_the_next_commit_if_there_is_none_yet() -> None:
    options = {"hoodie.clean.policy": "KEEP_LATEST_BY_HOURS", "hoodie.clean.hours.retained": 3}
    case = Case(options=options)
    old = case.versions(2)[0]
    assert "3 h after the next commit" in says(case.why(old), "retained-by-hours")


def test_a_file_is_retained_by_versions() -> None:
    options = {
        "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
        "hoodie.clean.fileversions.retained": 2,
    }
    case = Case(options=options)
    oldest, older, _ = case.versions(3)
    said = says(case.why(older), "retained-by-versions")
    assert "hoodie.clean.fileversions.retained=2" in said and "number 2" in said
    assert case.why(oldest).has("clean-due")


def test_a_savepoint_keeps_a_file_and_is_named() -> None:
    case = Case(options=ONE)
    at = case.write("a")
    case.table.savepoint()
    (old, *_) = case.versions(4)
    answer = case.why(old)
    assert f"savepoint {at}" in says(answer, "held-by-savepoint")
    assert typed(answer) == [f't.remove_savepoint("{at}")']
    assert not answer.has("clean-due")
    case.table.remove_savepoint(at)
    assert case.why(old).has("clean-due")


def test_a_pending_plan_that_outlived_its_slice_still_keeps_its_files() -> None:
    case = Case(options=ONE)
    case.write("a")
    case.write("b", day="d")
    plan = case.table.schedule("clustering")
    assert plan is not None
    old = case.bases()[-1]
    for number in range(4):
        case.write("a", "b", value=number)
    # The writes cancelled the plan; of another engine's nobody would know.
    case.storage.delete(layout.cancel_request(plan))
    answer = case.why(old)
    assert f"clustering {plan}" in says(answer, "held-by-plan")
    assert typed(answer) == [f't.execute("{plan}")']


def test_a_pending_write_keeps_what_it_may_be_reading() -> None:
    case = Case(options=ONE | {"hoodie.clean.failed.writes.policy": "LAZY"})
    case.versions(2)
    writing = case.begin_write()
    case.beat(writing)
    old = case.versions(4)[1]
    answer = case.why(old)
    assert f"commit {writing}" in says(answer, "pending-write")
    assert typed(answer) == [f"t.why('{writing}')"]


def test_a_file_of_a_replaced_group_says_by_whom_and_when_it_goes() -> None:
    case = Case(options=TWO)
    case.write("a")
    (old,) = case.bases()
    at = case.table.insert_overwrite(rows(("b", 1, "d"))).requested_at
    answer = case.why(old)
    assert answer.fact("replaced by") == f"replacecommit {at}" and answer.fact("visible") == "no"
    assert f"replacecommit {at} ended its file group" in says(answer, "replaced")
    assert "after 2 more" in says(answer, "retained-by-commits")
    case.write("b", value=2)
    case.write("b", value=3)
    assert case.why(old).has("clean-due")


def test_a_clean_that_was_planned_and_not_finished_is_named() -> None:
    case = Case(options=ONE)
    old = case.versions(4)[0]
    at = case.table.schedule("clean")
    answer = case.why(old)
    assert f"clean {at}" in says(answer, "clean-planned")
    case.table.clean()
    gone = case.why(old)
    assert f"clean {at} deleted it" in says(gone, "cleaned")
    assert gone.fact("bytes") == "it is not there"


def test_a_file_that_is_lost_is_told_as_damage() -> None:
    case = Case()
    (path,) = case.versions(1)
    case.storage.delete(path)
    answer = case.why(path)
    assert "holds current rows and is not there" in says(answer, "missing")
    assert says(answer, "mend") == "bring it back from a copy of the table"
    assert typed(answer) == ["t.verify()"]


def test_a_log_that_was_cut_off_is_told_with_both_lengths_and_what_mends_it() -> None:
    case = Case(MOR, buckets=1)
    saved = case.write("a")
    case.table.savepoint()
    case.write("a", value=1)
    path = case.table.file_slices()[0].logs[-1].path
    whole = case.storage.read(path)
    assert not case.why(path).has("size-differs")
    case.storage.replace(path, whole[:7])
    answer = case.why(path)
    said = says(answer, "size-differs")
    assert said == f"it is damaged: it has 7 bytes, and its commit says {len(whole)}"
    assert f"restore savepoint {saved}" in says(answer, "mend")
    assert typed(answer) == ["t.verify()", f't.restore("{saved}")']
    first = case.table.file_slices()[0].paths[0]
    case.storage.replace(first, b"short")
    assert "restore" not in says(case.why(first), "mend"), "the savepoint needs this one, too"


def test_a_file_of_a_pending_write_is_seen_by_nobody_yet() -> None:
    case = Case()
    case.write("a")
    at = case.begin_write()
    path = case.put_stray(at)
    answer = case.why(path)
    assert "nobody sees it yet" in says(answer, "pending-maker")
    assert typed(answer) == [f"t.why('{at}')"]


def test_a_stray_of_a_commit_tells_when_it_may_be_swept() -> None:
    case = Case()
    path = case.put_stray(case.write("a"))
    answer = case.why(path)
    assert "does not name it" in says(answer, "stray")
    assert "2026-01-01 01:00:00 UTC" in says(answer, "orphan-young")
    case.clock.ms += HOUR_MS + 1
    due = case.why(path)
    assert due.has("orphan-due") and typed(due) == ["t.clean(wait=True)"]
    case.table.clean()
    assert case.storage.info(path) is None


def test_orphans_that_are_never_swept_say_which_option_keeps_them() -> None:
    case = Case(options={"lentic.clean.sweep_orphans": False})
    path = case.put_stray(case.write("a"))
    case.clock.ms += 2 * HOUR_MS
    assert "lentic.clean.sweep_orphans" in says(case.why(path), "orphan-kept")


def test_a_file_with_markers_is_left_to_its_rollback() -> None:
    case = Case()
    at = case.write("a")
    path = case.put_stray(at)
    markers.announce(case.storage, at, path, "CREATE")
    assert case.why(path).has("orphan-marked")


def test_a_file_of_a_write_that_was_rolled_back_names_the_rollback() -> None:
    case = Case()
    case.write("a")
    at = case.write("a", value=2)
    path = case.bases()[-1]
    rollback = case.table.rollback(at)
    assert f"rollback {rollback.requested_at}" in says(case.why(path), "undone")
    left = case.put_stray(at)
    assert f"rollback {rollback.requested_at}" in says(case.why(left), "undone")


def test_a_file_whose_maker_nobody_knows_says_so() -> None:
    case = Case()
    case.write("a")
    path = case.put_stray("20250101000000000")
    assert "neither the timeline nor the history" in says(case.why(path), "unknown-maker")


def test_a_file_that_is_older_than_all_that_is_known_is_not_swept_and_says_so() -> None:
    case = Case()
    case.write("a")
    path = case.put_stray("20250101000000000")
    case.clock.ms += 2 * HOUR_MS
    answer = case.why(path)
    assert "nobody can say what it is" in says(answer, "orphan-unknown")
    assert not answer.has("orphan-due") and typed(answer) == []
    case.table.clean(wait=True)
    assert case.storage.info(path) is not None, "as was said"


def test_nothing_is_cleaned_while_a_restore_is_pending() -> None:
    case = Case(options=ONE)
    old = case.versions(4)[0]
    with transaction(case.opened) as txn:
        plan = RestorePlan(txn.timeline.writes()[-1].requested_at, (), {})
        txn.request(Action.RESTORE, encode_restore_plan(plan))
    assert case.why(old).has("restore-pending")


@pytest.mark.parametrize("what", ["d/../x_0-0-0_1.parquet", "/etc/x_0-0-0_1.parquet"])
def test_a_path_that_leaves_the_table_is_refused(what: str) -> None:
    case = Case()
    with pytest.raises(InvalidPath):
        case.table.why(what)


def test_a_file_that_nobody_knows_is_an_error_that_says_what_to_look_at() -> None:
    case = Case()
    case.write("a")
    with pytest.raises(ConfigError, match="There is no file") as raised:
        case.table.why("x_0-0-0_20260101000000001.parquet")
    assert "write token" in raised.value.next_step


def test_what_is_no_data_file_cannot_be_asked_about_as_one() -> None:
    case = Case()
    with pytest.raises(InvalidPath, match="no data file"):
        case.table.why("hoodie.properties", kind="file")


def test_copy_on_write_and_merge_on_read_answer_alike() -> None:
    for kind in (COW, MOR):
        case = Case(kind, buckets=1)
        case.write("a")
        (part,) = case.table.file_slices()
        assert case.why(part.paths[0]).fact("visible") == "yes"
