"""Pending plans as operators see them: whose, how old, giving way to whom, what to type next."""

from __future__ import annotations

from typing import Any

import pytest

from lentic.errors import Corrupt
from lentic.format import layout
from lentic.format.cancellable import Cancellation
from lentic.format.names import Action, State
from lentic.format.times import RequestedAt
from lentic.services.pending import (
    CancelState,
    PendingPlan,
    Standing,
    judge_cancellation,
    judge_plan,
)
from lentic.services.plans import load_plan
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_timeline
from tests.rfc.claims import says
from tests.unit.builders import requested, rows
from tests.unit.insight.cases import HOUR_MS, Case, typed
from tests.unit.verbs import MOR


def clustering(**asked: Any) -> tuple[Case, RequestedAt]:
    """A table with two small files and a pending plan for them."""
    case = Case()
    for number in range(2):
        case.table.bulk_insert(rows((f"k{number}", number, "d")))
    at = case.table.schedule("clustering", **asked)
    assert at is not None
    return case, at


def compaction() -> tuple[Case, RequestedAt]:
    """A table with logs and a pending plan for them."""
    case = Case(MOR, buckets=1)
    case.write("a")
    at = case.table.schedule("compaction")
    assert at is not None
    return case, at


def damage(case: Case, at: str, action: str, content: bytes = b"rubbish") -> None:
    """What becomes of a plan when its file does."""
    case.storage.replace(f"{layout.TIMELINE}/{at}.{action}.requested", content)


def the_plan(case: Case) -> PendingPlan:
    (plan,) = case.table.plans()
    return plan


def test_a_plan_says_how_much_it_takes_on() -> None:
    case, _ = clustering()
    plan = the_plan(case)
    size = sum(case.storage.info(path).size for path in case.bases())  # type: ignore[union-attr]
    assert (plan.partitions, plan.files, plan.bytes) == (1, 2, size)


def test_a_plan_for_many_partitions_is_not_measured() -> None:
    case = Case()
    case.table.bulk_insert(rows(*((f"k{n}", n, f"d{n:03d}") for n in range(101))))
    assert case.table.schedule("clustering", partitions=[f"d{n:03d}" for n in range(101)])
    plan = the_plan(case)
    assert plan.files == plan.partitions
    assert (plan.bytes is None) == (plan.partitions > 100)


@pytest.mark.parametrize("content", [b"rubbish", b""])
@pytest.mark.parametrize("make", ["clustering", "compaction"])
def test_a_plan_that_does_not_read_says_so_and_is_to_be_rolled_back(
    make: str, content: bytes
) -> None:
    case, at = clustering() if make == "clustering" else compaction()
    damage(case, at, make, content)
    plan = the_plan(case)
    assert (plan.requested_at, plan.cancellation) == (at, CancelState())
    assert (plan.partitions, plan.files, plan.bytes) == (None, None, None), "nobody knows"
    (blocker,) = plan.blockers
    assert blocker.startswith("its plan does not read: ") and f"{at}.{make}.requested" in blocker
    assert plan.next_step == f't.rollback("{at}")'
    with pytest.raises(Corrupt):
        case.table.execute(at)
    case.table.rollback(at)
    assert case.table.plans() == [], "and that does it"


def test_a_plan_that_ended_since_the_timeline_was_loaded_is_not_called_damaged() -> None:
    case, at = clustering()
    timeline = load_timeline(case.storage)
    case.table.rollback(at)
    plan = load_plan(case.opened, timeline, timeline.pending()[0])
    assert (plan.files, plan.bytes, plan.blockers) == (0, 0, ())
    assert plan.next_step == f't.execute("{at}")'


def test_a_cancelled_plan_that_does_not_read_is_aborted_all_the_same() -> None:
    case, at = clustering()
    case.table.request_cancel(at)
    damage(case, at, "clustering")
    plan = the_plan(case)
    assert "its plan does not read" in plan.blockers[0]
    assert plan.next_step == f't.execute_abort("{at}")'
    case.table.execute_abort(at)


@pytest.mark.parametrize("content", [b"rubbish", b""])
def test_a_rollback_that_does_not_read_is_named_and_the_other_plans_are_listed(
    content: bytes,
) -> None:
    case, at = clustering()
    bad = requested(900)
    case.storage.put_if_absent(f"{layout.TIMELINE}/{bad}.rollback.requested", content)
    plan, rollback = case.table.plans()
    assert (plan.requested_at, plan.files, rollback.requested_at) == (at, 2, bad)
    assert plan.blockers == (f"rollback {bad} may undo it: the plan of that does not read",)
    (blocker,) = rollback.blockers
    assert blocker.startswith("its plan does not read: ") and f"{bad}.rollback.requested" in blocker
    assert plan.next_step == rollback.next_step == "t.verify()", "nothing else works"
    assert f"{bad}.rollback.requested" in case.table.verify()[0]


@pytest.mark.parametrize("action", ["clean", "restore"])
def test_of_a_clean_or_restore_that_does_not_read_nothing_is_suggested_that_is_refused(
    action: str,
) -> None:
    case = Case()
    case.storage.put_if_absent(f"{layout.TIMELINE}/{AT}.{action}.requested", b"rubbish")
    plan = the_plan(case)
    assert "its plan does not read" in plan.blockers[0]
    assert plan.next_step == "t.verify()" and case.table.verify()


@pytest.mark.parametrize("cancellable", [True, False])
def test_a_plan_says_whether_it_gives_way(cancellable: bool) -> None:
    case, _ = clustering(cancellable=cancellable)
    assert the_plan(case).cancellation.cancellable is cancellable
    assert the_plan(case).cancellation.policy == ""


def test_the_policy_in_hours_says_how_far_it_is_and_when_it_is_met() -> None:
    case, _ = clustering(cancel_after_hours=2)
    case.clock.ms += HOUR_MS
    told = the_plan(case).cancellation
    assert told.policy == "a clean may cancel it once it is 2 h old (now 1.0 h)"
    assert not told.is_met
    case.clock.ms += HOUR_MS + 1_000
    met = the_plan(case).cancellation
    assert met.is_met and met.policy.startswith("the next clean cancels it")
    case.table.clean()
    assert case.table.plans() == [], "and it did"


def test_the_policy_in_instants_counts_writes() -> None:
    case, _ = clustering(cancel_after_instants=2)
    case.write("z", day="elsewhere")
    told = the_plan(case).cancellation
    assert "2 write(s) completed since (now 1)" in told.policy and not told.is_met
    case.write("z", day="elsewhere", value=2)
    assert the_plan(case).cancellation.is_met


@says("cancel.rollout.tools", "cancel.folder.forever")
def test_a_cancelled_plan_says_by_whom_and_why_and_can_only_be_aborted() -> None:
    case, at = clustering()
    case.table.request_cancel(at, why="the night is over")
    plan = the_plan(case)
    assert plan.cancellation.is_requested
    assert (plan.cancellation.by, plan.cancellation.why) == ("host:1", "the night is over")
    assert "host:1 cancelled it: the night is over; it will not be committed" in plan.blockers
    root = case.opened.storage.root
    assert plan.next_step == f't.execute_abort("{at}")'
    assert plan.next_command == f"lentic abort {root} {at}"
    case.table.execute_abort(at)
    assert case.table.plans() == []


def test_a_write_that_cancelled_it_is_named() -> None:
    case, _ = clustering()
    write = case.write("k0", value=9)
    assert f"commit {write} wrote to a file group of it" in the_plan(case).cancellation.why


@says("C10")
def test_how_often_it_was_cancelled_before_is_counted_and_three_times_are_an_alert() -> None:
    case, at = clustering()
    for _ in range(3):
        case.table.request_cancel(at)
        case.table.execute_abort(at)
        again = case.table.schedule("clustering")
        assert again is not None
        at = again
    told = the_plan(case).cancellation
    assert [count for _, count in told.cancels_before] == [3, 3]
    assert told.starved == told.cancels_before
    assert all(group.startswith("d/") for group, _ in told.starved)


# --- judged by what is known --------------------------------------------------------------------

AT = requested(1)


def standing(**known: Any) -> Standing:
    action = known.pop("action", Action.COMPACTION)
    state = known.pop("state", State.REQUESTED)
    given: dict[str, Any] = {
        "owner": "",
        "heartbeat_age_s": None,
        "ttl_s": 120.0,
        "removable": False,
        "undone_by": (),
        "cancellation": CancelState(),
    }
    return Standing(root="/t", plan=Instant(AT, action, state), **(given | known))


@pytest.mark.parametrize(
    ("known", "call"),
    [
        ({}, f't.execute("{AT}")'),
        ({"action": Action.CLEAN}, f't.execute("{AT}")'),
        ({"owner": "h:1", "heartbeat_age_s": 1.0}, f"t.why('{AT}')"),
        ({"owner": "h:1", "heartbeat_age_s": 500.0}, f't.execute("{AT}")'),
        ({"removable": True}, f't.execute("{AT}")'),
        ({"removable": True, "state": State.INFLIGHT}, f't.rollback("{AT}")'),
        ({"action": Action.ROLLBACK}, "t.clean(wait=True)"),
        ({"action": Action.RESTORE}, "t.clean(wait=True)"),
        ({"cancellation": CancelState(is_requested=True)}, f't.execute_abort("{AT}")'),
        (
            {"cancellation": CancelState(is_requested=True), "heartbeat_age_s": 1.0},
            f"t.why('{AT}')",
        ),
    ],
)
def test_there_is_always_one_next_step_that_can_be_typed(known: dict[str, Any], call: str) -> None:
    _, step = judge_plan(standing(**known))
    assert step.python == call
    assert step.shell.startswith("lentic ") and "/t" in step.shell


def test_a_living_executor_and_a_dead_one_are_told_apart() -> None:
    (alive,), _ = judge_plan(standing(owner="h:1", heartbeat_age_s=5.0))
    assert "h:1 executes it" in alive and "120 s" in alive
    (dead,), _ = judge_plan(standing(owner="h:1", heartbeat_age_s=500.0))
    assert dead == "h:1 began it and was last seen 500 s ago"


@pytest.mark.parametrize("cancels", [False, True])
def test_of_a_plan_that_somebody_executes_only_what_works_now_is_said_to_be_next(
    cancels: bool,
) -> None:
    """Whoever executes or aborts it waits for a sign of life, and is refused."""
    case, at = clustering()
    case.beat(at)
    if cancels:
        case.table.request_cancel(at)
    plan = the_plan(case)
    assert plan.is_alive and plan.next_step == f"t.why('{at}')"
    more = [] if cancels else [f't.request_cancel("{at}")']
    assert typed(case.why(at)) == [f"t.why('{at}')", *more]
    case.clock.ms += HOUR_MS
    plan = the_plan(case)
    assert not plan.is_alive
    assert plan.next_step == (f't.execute_abort("{at}")' if cancels else f't.execute("{at}")')


def test_a_plan_that_may_not_be_cancelled_has_no_policy_whatever_it_says() -> None:
    said = Cancellation(cancellable=False, after_hours=1)
    told = judge_cancellation(said, None, age_s=9_999, writes=9)
    assert (told.policy, told.is_met) == ("", False)


def test_either_limit_is_enough() -> None:
    said = Cancellation(cancellable=True, after_hours=5, after_instants=2)
    assert not judge_cancellation(said, None, age_s=3_600, writes=1).is_met
    assert judge_cancellation(said, None, age_s=3_600, writes=2).is_met
    told = judge_cancellation(said, None, age_s=5 * 3_600, writes=0)
    assert told.is_met and "5 h old" in told.policy and "2 write(s)" in told.policy
