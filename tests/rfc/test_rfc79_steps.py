"""RFC-79, "Changes to compaction/cluster plan execution", steps 1 to 8, and "Changes to clean's
rollback of failed writers": what each step says, one by one.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from lentic.config.sharing import FailedWrites
from lentic.errors import (
    ConfigError,
    InstantCancelled,
    OutcomeUnknown,
    PlanMustBeRolledBack,
    StorageError,
)
from lentic.format import layout
from lentic.format.names import State
from lentic.services.failed_writes import clean_up_failed_writes, roll_back_expired
from lentic.services.outcome import AlreadyCommitted, Committed
from lentic.services.rollback import execute_undo, plan_undo, roll_back, sweep_markers
from lentic.services.undo_completed import roll_back_instant
from lentic.testing.checkers import list_leftovers
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_commit_metadata
from lentic.txn.transaction import transaction
from lentic.write import markers
from tests.rfc.claims import says
from tests.rfc.guard_scenes import (
    COMPACTION,
    OLD_S,
    REMOVABLE,
    REMOVABLE_KINDS,
    STAYING,
    STAYING_KINDS,
    Gate,
    PowerCut,
    after_its_files,
    attempt,
    before_its_commit,
    cut_power,
    die_at,
    ensure_done_once,
    ensure_sound,
    execute,
    keep_beating,
    nth_call,
    planned,
    request_rollback,
    requests,
    stage,
)

KINDS = pytest.mark.parametrize("kind", [COMPACTION, STAYING, REMOVABLE])
STAYS = pytest.mark.parametrize("kind", [COMPACTION, STAYING])


# --- the steps of the design --------------------------------------------------------------------


@says("rfc79.execute.4", "rfc79.execute.7", "rfc79.design.expiry")
def test_step_4_a_removable_plan_that_was_begun_is_refused_and_any_other_taken_over() -> None:
    for kind in (*STAYING_KINDS, *REMOVABLE_KINDS):
        scene = stage(planned(kind))
        die_at(scene, after_its_files)
        result = attempt(lambda scene=scene: execute(scene.table("y"), scene.plan))
        expected = PlanMustBeRolledBack if kind in REMOVABLE_KINDS else Committed
        assert isinstance(result, expected)
        if kind in STAYING_KINDS:
            ensure_done_once(scene)


@says("rfc79.execute.4", "rfc79.execute.4.requested")
def test_step_4_a_removable_plan_whose_rollback_was_finished_but_for_its_removal_is_refused() -> (
    None
):
    scene = stage(planned(REMOVABLE))
    gate = Gate(scene.memory, lambda op, path: op == "delete" and "timeline" in path, cut_power)
    with pytest.raises(PowerCut):
        roll_back(scene.table("operator", gate), scene.plan)
    (rollback,) = requests(scene)
    assert rollback.is_completed and scene.now() == scene.plan
    with pytest.raises(PlanMustBeRolledBack):
        execute(scene.table("y"), scene.plan)
    assert roll_back_expired(scene.table("cleaner")) == (scene.plan,)  # young, but decided
    assert scene.now() is None


@says("rfc79.execute.7")
@STAYS
def test_step_7_a_pending_rollback_of_the_plan_is_carried_out_first_and_the_plan_kept(
    kind: str,
) -> None:
    scene = stage(planned(kind))
    die_at(scene, after_its_files)
    left = scene.files()
    rollback = request_rollback(scene, *left)
    assert isinstance(execute(scene.table("y"), scene.plan), Committed)
    assert not left & scene.files()
    (done,) = requests(scene)
    assert done.requested_at == rollback.requested_at and done.is_completed
    ensure_done_once(scene)


@says("rfc79.execute.7")
@STAYS
def test_step_7_a_rollback_that_came_during_an_execution_stops_it(kind: str) -> None:
    scene = stage(planned(kind))
    gate = Gate(scene.memory, after_its_files, lambda: request_rollback(scene))
    with pytest.raises(InstantCancelled, match="being rolled back"):
        execute(scene.table("x", gate), scene.plan)
    assert isinstance(execute(scene.table("y"), scene.plan), Committed)
    ensure_done_once(scene)


@says("rfc79.rollout.flag")
def test_without_the_guard_a_plan_is_taken_over_at_once_and_only_the_last_completes_it() -> None:
    scene = stage(planned(COMPACTION))
    options = {"lentic.services.guard.enabled": "false"}
    outcomes: list[object] = []

    def take_over() -> None:
        before_ms = scene.sim.now_ms
        outcomes.append(execute(scene.table("y", options=options), scene.plan))
        assert scene.sim.now_ms - before_ms < 1000, "nobody waited for a heartbeat"

    gate = Gate(scene.memory, after_its_files, take_over)
    result = execute(scene.table("x", gate, options=options), scene.plan)
    assert [type(outcome) for outcome in outcomes] == [Committed]
    assert isinstance(result, AlreadyCommitted)
    ensure_done_once(scene)


@says("rfc79.guard.2")
def test_a_late_starter_gets_the_completed_metadata_and_a_wrong_time_is_refused() -> None:
    scene = stage(planned(COMPACTION))
    first = execute(scene.table("x"), scene.plan)
    late = execute(scene.table("y"), scene.plan)
    assert isinstance(late, AlreadyCommitted) and late.instant == first.instant
    assert load_commit_metadata(scene.memory, late.instant).compacted
    wrong = Instant(
        scene.plan.requested_at.parse("20200101000000000"), scene.plan.action, State.REQUESTED
    )
    with pytest.raises(ConfigError, match="no compaction plan"):
        execute(scene.table("y"), wrong)


# --- clean --------------------------------------------------------------------------------------


@says(
    "rfc79.immutable.stays",
    "rfc79.removable.clean",
    "rfc79.removable.early",
    "rfc79.clean.skips",
    "rfc79.clean.young",
    "rfc79.clean.old",
)
@pytest.mark.parametrize("policy", list(FailedWrites))
def test_clean_takes_old_and_silent_removable_plans_alone(policy: FailedWrites) -> None:
    options = {"hoodie.clean.failed.writes.policy": policy.value}
    for kind in (*STAYING_KINDS, *REMOVABLE_KINDS):
        for is_begun in (False, True):
            scene = stage(planned(kind))
            if is_begun:
                die_at(scene, after_its_files)
            cleaner = scene.table("cleaner", options=options)
            assert clean_up_failed_writes(cleaner, waits=True) == (), "it is young"
            scene.sleep(OLD_S)
            now = scene.now()
            gone = clean_up_failed_writes(cleaner, waits=True)
            assert gone == ((now,) if kind in REMOVABLE_KINDS else ())
            if kind in REMOVABLE_KINDS:
                assert scene.now() is None
                assert scene.files() == set()
                assert scene.memory.walk(layout.GUARDS) == []
                assert scene.memory.list_files(layout.HEARTBEATS) == []
            else:
                assert scene.now() == now
                assert isinstance(execute(scene.table("x"), scene.plan), Committed)
            ensure_sound(scene)


@says("rfc79.clean.beating", "rfc79.immutable.harm")
def test_clean_leaves_an_old_plan_alone_while_somebody_executes_it() -> None:
    scene = stage(planned(REMOVABLE))
    scene.sleep(OLD_S)

    def clean() -> None:
        cleaner = scene.table("cleaner")
        keep_beating(scene, cleaner)
        assert roll_back_expired(cleaner, waits=True) == ()

    gate = Gate(scene.memory, after_its_files, clean)
    execute(scene.table("x", gate), scene.plan)
    assert gate.is_passed
    ensure_sound(scene)
    assert requests(scene) == ()


def test_a_plan_that_was_undone_once_and_then_completed_keeps_its_files_in_a_sweep() -> None:
    """The markers of a plan that completed name its files, too; its executor died before it could
    remove them, and a rollback on the timeline names the plan."""
    scene = stage(planned(COMPACTION))
    die_at(scene, after_its_files)
    request_rollback(scene, *scene.files())
    at = scene.plan.requested_at
    die_at(scene, lambda op, path: op == "delete" and ".marker." in path and bool(scene.named()))
    assert set(markers.list_announced(scene.memory, at)) & scene.named()
    sweep_markers(scene.table("sweeper"))
    ensure_done_once(scene)


@says("G11")
def test_outcome_unknown_is_never_told_as_anything_else() -> None:
    scene = stage(planned(COMPACTION, has_lease=True), has_lease=True)

    class Lost(Gate):
        def after(self, op: str, path: str) -> None:
            if before_its_commit(op, path) or (self.is_passed and op == "read"):
                self.is_passed = True
                raise StorageError("The reply was lost.", where=path)

    lost = Lost(scene.memory, lambda op, path: False, lambda: None)
    result = attempt(lambda: execute(scene.table("x", lost), scene.plan))
    assert isinstance(result, (OutcomeUnknown, Committed)), result


# --- rollback of a plan -------------------------------------------------------------------------


@says("G8", "R16", "P12")
@KINDS
def test_g8_two_cleaners_carry_one_rollback_out_at_once(kind: str) -> None:
    scene = stage(planned(kind))
    die_at(scene, after_its_files)
    with transaction(scene.table("one")) as txn:
        now = txn.timeline.find(scene.plan)
        assert now is not None
        undo = plan_undo(txn, now)
    assert undo.plan.files

    def meanwhile() -> None:
        execute_undo(scene.table("two"), undo, now)

    gate = Gate(scene.memory, lambda op, path: op == "delete", meanwhile)
    execute_undo(scene.table("one", gate), undo, now)
    assert gate.is_passed
    assert scene.now() is None, "both meant the plan itself"
    assert scene.files() == set()
    assert list_leftovers(scene.memory) == []
    assert scene.memory.walk(layout.GUARDS) == []
    ensure_sound(scene)


@says("G12", "rfc79.removable.goes")
@KINDS
def test_g12_a_crash_at_any_call_of_removing_a_plan_is_made_good_by_the_next_one(kind: str) -> None:
    for number in range(1, 60):
        scene = stage(planned(kind))
        die_at(scene, after_its_files)
        gate = Gate(scene.memory, lambda op, path: False, cut_power)
        table = scene.table("operator", gate)
        gate._when = nth_call(number)
        try:
            roll_back(table, scene.plan)
        except PowerCut:
            ensure_sound(scene)
            roll_back(scene.table("operator"), scene.plan)
        assert scene.now() is None
        sweep_markers(scene.table("sweeper"))
        assert scene.files() == set()
        ensure_sound(scene)
        with pytest.raises(InstantCancelled, match="rolled it back"):
            execute(scene.table("y"), scene.plan)


@pytest.mark.parametrize("kind", STAYING_KINDS)
def test_a_completed_plan_whose_rollback_stopped_midway_is_not_executed_again(kind: str) -> None:
    """Whoever undoes a completed write takes its completed file away first, so that it looks like
    a plan that was begun. Its rollback names the commit, not an execution, and means all of it: who
    carries that out late would delete the files of another execution."""
    for number in range(1, 80):
        scene = stage(planned(kind))
        execute(scene.table("x"), scene.plan)
        gate = Gate(scene.memory, lambda op, path: False, cut_power)
        operator = scene.table("operator", gate)
        gate._when = nth_call(number)
        with suppress(PowerCut):
            roll_back_instant(operator, scene.plan.requested_at)
        result = attempt(lambda scene=scene: execute(scene.table("y"), scene.plan))
        assert not isinstance(result, Committed), number
        ensure_sound(scene)
        now = scene.now()
        if now is not None and now.is_pending:
            assert isinstance(result, PlanMustBeRolledBack)
            roll_back_instant(scene.table("operator"), scene.plan.requested_at)
            assert scene.now() is None
            ensure_sound(scene)
