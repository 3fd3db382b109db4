"""Why an instant is as it is: each reason is brought about and read."""

from __future__ import annotations

from typing import Any

import pytest

from lentic.errors import ConfigError
from lentic.format import layout
from lentic.format.names import Action
from lentic.services.rollback import plan_undo
from lentic.txn.transaction import transaction
from tests.unit.builders import rows
from tests.unit.insight.cases import HOUR_MS, Case, says, typed
from tests.unit.verbs import MOR

KEEP: dict[str, Any] = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
LAZY: dict[str, Any] = {"hoodie.clean.failed.writes.policy": "LAZY"}


def test_a_completed_write_says_what_it_did_and_why_it_is_not_archived() -> None:
    case = Case()
    at = case.write("a", "b")
    answer = case.why(str(at))
    assert answer.kind == "instant"
    assert (answer.fact("action"), answer.fact("state")) == ("commit", "completed")
    assert answer.fact("operation") == "UPSERT" and answer.fact("files") == "1"
    assert answer.fact("rows") == "2 inserted, 0 updated, 0 deleted"
    assert answer.fact("completed at") in says(answer, "completed")
    assert "hoodie.keep.max.commits=30" in says(answer, "archive-not-due")


def test_a_commit_that_archiving_would_move_says_so_and_so_does_one_that_stays() -> None:
    case = Case(options=KEEP)
    times = [case.write("a", value=n) for n in range(5)]
    due = case.why(times[0])
    assert due.has("archive-due") and typed(due) == ["t.archive()"]
    assert "hoodie.keep.min.commits=2" in says(case.why(times[-1]), "archive-kept")


def test_an_archived_commit_is_found_in_the_history() -> None:
    case = Case(options=KEEP)
    times = [case.write("a", value=n) for n in range(5)]
    case.table.archive()
    answer = case.why(times[0])
    assert (answer.fact("state"), answer.fact("timeline")) == ("completed", "archived")
    assert answer.fact("operation") == "UPSERT"
    assert "hoodie.keep.min.commits" in says(answer, "archived")


def test_a_savepoint_blocks_archiving_and_is_named() -> None:
    case = Case(options=KEEP)
    times = [case.write("a", value=n) for n in range(2)]
    case.table.savepoint()
    times += [case.write("a", value=n) for n in range(4)]
    assert f"savepoint {times[1]}" in says(case.why(times[2]), "archive-blocked")
    assert case.why(times[1]).has("has-savepoint")
    assert typed(case.why(times[2])) == ["t.archive()"], "what lies before it may still go"


def test_a_plan_that_nobody_executes_says_so_and_what_it_holds_up() -> None:
    case = Case(MOR, buckets=1, options=KEEP)
    case.write("a")
    at = case.table.schedule("compaction")
    times = [case.write("a", value=n) for n in range(5)]
    answer = case.why(str(at))
    assert (answer.fact("state"), answer.fact("owner")) == ("requested", "nobody")
    assert answer.fact("plan") == "1 file(s) in 1 partition(s)"
    assert answer.has("waits-for-executor")
    assert "5 newer commit(s) wait" in says(answer, "blocks-archive")
    assert "1 file(s) alone" in says(answer, "blocks-clean")
    assert typed(answer) == [f't.execute("{at}")']
    blocked = case.why(times[0])
    assert f"compaction {at} is pending" in says(blocked, "archive-blocked")


def test_a_plan_under_way_says_who_is_at_it_and_a_dead_one_that_it_can_be_taken_over() -> None:
    case = Case(MOR, buckets=1)
    case.write("a")
    at = str(case.table.schedule("compaction"))
    case.beat(at)
    case.clock.ms += 5_000
    answer = case.why(at)
    assert (answer.fact("owner"), answer.fact("last heartbeat")) == ("far:7", "5 s ago")
    assert answer.has("executing") and "far:7 executes it" in says(answer, "blocker")
    assert typed(answer) == [f"t.why('{at}')"], "whoever executes it now would be refused"
    case.clock.ms += HOUR_MS
    dead = case.why(at)
    assert dead.has("executor-dead") and typed(dead) == [f't.execute("{at}")']
    assert case.table.execute(at)


@pytest.mark.parametrize("action", ["compaction", "clustering"])
def test_a_plan_that_does_not_read_is_not_said_to_wait_for_somebody_to_execute_it(
    action: str,
) -> None:
    case = Case(MOR)
    case.write("a")
    case.write("a", value=2)
    at = case.table.schedule("compaction")
    if action == "clustering":
        case.table.rollback(str(at))
        case.table.compact()
        case.table.bulk_insert(rows(("z", 1, "d")))
        at = case.table.schedule("clustering")
    path = f"{layout.TIMELINE}/{at}.{action}.requested"
    case.storage.replace(path, b"")
    answer = case.why(str(at))
    assert path in says(answer, "plan-unreadable") and not answer.has("waits-for-executor")
    assert answer.fact("plan") == "it does not read"
    assert "cleans fail at it until it is gone" in says(answer, "blocks-clean")
    assert typed(answer) == [f't.rollback("{at}")']


def test_a_removable_plan_that_was_begun_must_be_rolled_back() -> None:
    case = Case()
    case.write("a")
    case.write("b")
    at = case.table.schedule("clustering", removable=True)
    with transaction(case.opened) as txn:
        (plan,) = txn.timeline.pending(Action.CLUSTERING)
        txn.start(plan)
    answer = case.why(str(at))
    assert "cannot be executed again" in says(answer, "blocker")
    assert f't.rollback("{at}")' in typed(answer)
    case.table.rollback(str(at))


def test_a_write_under_way_says_who_writes_and_a_dead_one_who_undoes_it() -> None:
    case = Case(options=LAZY)
    case.write("a")
    at = case.begin_write()
    case.beat(at)
    answer = case.why(at)
    assert "far:7 is writing" in says(answer, "under-way")
    assert "current when it was requested" in says(answer, "blocks-clean")
    case.clock.ms += HOUR_MS
    dead = case.why(at)
    assert "far:7 gave no sign of life" in says(dead, "writer-dead")
    assert typed(dead) == ["t.clean(wait=True)"]


@pytest.mark.parametrize(("options", "said"), [({}, "single writer"), (LAZY, "watched it")])
def test_a_write_without_a_sign_of_life_says_by_which_policy_it_goes(
    options: dict[str, Any], said: str
) -> None:
    case = Case(options=options)
    case.write("a")
    at = case.begin_write()
    case.put_stray(at)
    assert said in says(case.why(at), "nobody-writes")


def test_one_that_was_rolled_back_names_the_rollback_also_when_that_is_archived() -> None:
    case = Case(options=KEEP)
    case.write("a")
    at = case.write("b")
    rollback = case.table.rollback(at).requested_at
    answer = case.why(at)
    assert answer.fact("state") == "gone"
    assert f"rollback {rollback}" in says(answer, "rolled-back")
    for number in range(8):
        case.write("a", value=number)
    case.table.archive()
    assert rollback in [i.requested_at for i in case.table.history()]
    assert f"rollback {rollback}" in says(case.why(at), "rolled-back")


def test_one_that_is_being_undone_says_by_whom() -> None:
    case = Case()
    case.write("a")
    at = case.begin_write()
    with transaction(case.opened) as txn:
        undo = plan_undo(txn, txn.timeline.pending()[0])
    answer = case.why(at)
    assert f"rollback {undo.rollback.requested_at}" in says(answer, "being-undone")
    assert typed(answer) == ["t.clean(wait=True)"]
    rollback = case.why(str(undo.rollback.requested_at))
    assert rollback.has("unfinished") and typed(rollback) == ["t.clean(wait=True)"]


def test_one_that_a_restore_took_back_names_the_restore() -> None:
    case = Case()
    first = case.write("a")
    at = case.write("a", value=2)
    restore = case.table.restore(first).requested_at
    assert f"restore {restore}" in says(case.why(at), "restored-away")


def test_a_replacement_says_what_it_did() -> None:
    case = Case()
    case.write("a")
    at = case.table.insert_overwrite(rows(("b", 1, "d"))).requested_at
    answer = case.why(at)
    assert answer.fact("operation") == "INSERT_OVERWRITE"


def test_an_instant_that_nobody_knows_is_an_error_that_says_what_else_it_may_be() -> None:
    case = Case()
    case.write("a")
    with pytest.raises(ConfigError, match="There is no instant") as raised:
        case.table.why("20250101000000000")
    assert "--kind key" in raised.value.next_step


def test_what_is_no_time_cannot_be_asked_about_as_an_instant() -> None:
    case = Case()
    with pytest.raises(ConfigError, match="digits only"):
        case.table.why("yesterday", kind="instant")
    with pytest.raises(ConfigError, match="no kind 'row'"):
        case.table.why("a", kind="row")


def test_a_replacement_that_hides_files_keeps_archiving_from_going_on_until_a_clean() -> None:
    case = Case(options=KEEP | {"hoodie.clean.commits.retained": 1})
    case.write("a")
    at = case.table.insert_overwrite(rows(("b", 1, "d"))).requested_at
    later = [case.write("b", value=number) for number in range(5)]
    answer = case.why(later[0])
    assert f"replacecommit {at} still hides files" in says(answer, "archive-blocked")
    case.table.archive()
    assert typed(case.why(later[0])) == ["t.clean(wait=True)"]
    case.table.clean()
    assert not case.why(later[0]).has("archive-blocked")


# --- cancellation -------------------------------------------------------------------------------


def _clustering(**asked: Any) -> tuple[Case, str]:
    case = Case(options=KEEP | {"hoodie.clean.commits.retained": 1})
    for number in range(2):
        case.table.bulk_insert(rows((f"k{number}", number, "d")))
    return case, str(case.table.schedule("clustering", **asked))


def test_a_cancellable_plan_says_when_a_clean_cancels_it_and_how_to_do_it_now() -> None:
    case, at = _clustering(cancel_after_hours=2)
    answer = case.why(at)
    assert answer.fact("cancellable") == "yes"
    assert "once it is 2 h old" in says(answer, "cancel-policy")
    assert typed(answer) == [f't.execute("{at}")', f't.request_cancel("{at}")']


def test_a_plan_that_does_not_give_way_cannot_be_cancelled() -> None:
    case, at = _clustering(cancellable=False)
    answer = case.why(at)
    assert answer.fact("cancellable") == "no" and typed(answer) == [f't.execute("{at}")']


def test_a_cancelled_plan_says_that_it_will_not_be_committed_and_what_waits_for_it() -> None:
    case, at = _clustering()
    case.table.request_cancel(at, why="too late")
    answer = case.why(at)
    assert "host:1 cancelled it: too late; it will not be committed" in says(answer, "blocker")
    assert "cannot be taken back" in says(answer, "cancelled")
    assert answer.has("blocks-archive") and not answer.has("waits-for-executor")
    assert typed(answer) == [f't.execute_abort("{at}")']


def test_an_aborted_plan_was_never_committed_also_when_it_has_left_the_timeline() -> None:
    case, at = _clustering()
    case.table.request_cancel(at, why="the night is over")
    case.table.execute_abort(at)
    answer = case.why(at)
    assert says(answer, "aborted").startswith("host:1 cancelled it: the night is over.")
    assert answer.fact("cancelled by") == "host:1"
    assert (answer.fact("state"), answer.fact("timeline")) == ("aborted", "")
    assert "never committed" in says(answer, "aborted") and typed(answer) == ["t.cluster()"]
    case.table.cluster()
    for number in range(6):
        case.write("z", value=number)
    case.table.clean()
    case.table.archive()
    gone = case.why(at)
    assert (gone.fact("state"), gone.fact("timeline")) == ("aborted", "archived")
    assert gone.has("aborted") and not gone.has("archived")
    assert typed(gone) == ["t.history()"], "the active timeline does not show it"
    assert gone.next_steps[0].shell.endswith(" --all")


def test_a_plan_whose_file_groups_are_starved_says_so() -> None:
    case, at = _clustering()
    for _ in range(3):
        case.table.request_cancel(at)
        case.table.execute_abort(at)
        at = str(case.table.schedule("clustering"))
    said = says(case.why(at), "starved")
    assert "cancelled 3 times in a row" in said and "write" not in said, "that was by hand"


def test_of_many_starved_file_groups_a_few_are_named() -> None:
    case = Case(options={"hoodie.parquet.small.file.limit": 0})
    for key in "abcde":
        case.write(key)
    at = str(case.table.schedule("clustering"))
    for _ in range(3):
        case.table.request_cancel(at)
        case.table.execute_abort(at)
        at = str(case.table.schedule("clustering"))
    starved = [reason.says for reason in case.why(at).reasons if reason.code == "starved"]
    assert len(starved) == 4
    assert starved[-1] == "so were plans of 2 more file group(s)"
