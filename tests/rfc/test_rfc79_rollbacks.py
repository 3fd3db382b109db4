"""RFC-79: the holes G8-G13 of the design, played step by step as in `test_rfc79_guard`."""

from __future__ import annotations

import pytest

from lentic.errors import (
    Conflict,
    PlanMustBeRolledBack,
    StorageError,
)
from lentic.format import layout
from lentic.format.names import State
from lentic.services.failed_writes import roll_back_all, roll_back_expired
from lentic.services.outcome import AlreadyCommitted, Committed
from lentic.services.rollback import execute_undo, load_undo
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_commit_metadata
from lentic.txn.transaction import transaction
from tests.rfc.claims import says
from tests.rfc.guard_scenes import (
    COMPACTION,
    HOUR_MS,
    OLD_S,
    REMOVABLE,
    STAYING,
    TTL_S,
    Gate,
    PowerCut,
    Stage,
    after_its_files,
    attempt,
    calls_of,
    cut_power,
    die_at,
    ensure_done_once,
    ensure_sound,
    execute,
    nth_call,
    outside_the_lock,
    planned,
    request_rollback,
    requests,
    stage,
)

KINDS = pytest.mark.parametrize("kind", [COMPACTION, STAYING, REMOVABLE])
STAYS = pytest.mark.parametrize("kind", [COMPACTION, STAYING])


# --- G8, G9, G10: rollbacks ---------------------------------------------------------------------


@says("G8")
@STAYS
def test_g8_the_slower_of_two_that_carry_a_rollback_out_deletes_nothing_of_the_next_execution(
    kind: str,
) -> None:
    for number in range(1, 40):
        scene = stage(planned(kind))
        die_at(scene, after_its_files)
        rollback = request_rollback(scene, *scene.files())

        def meanwhile(scene: Stage = scene, rollback: Instant = rollback) -> None:
            first = scene.table("first")
            execute_undo(first, load_undo(first, rollback), None)
            assert isinstance(execute(scene.table("y"), scene.plan), Committed)

        gate = Gate(scene.memory, lambda op, path: False, meanwhile)
        second = scene.table("second", gate)
        gate._when = outside_the_lock(scene, nth_call(number))
        execute_undo(second, load_undo(second, rollback), None)
        if not gate.is_passed:
            assert isinstance(execute(scene.table("y"), scene.plan), Committed)
        ensure_done_once(scene)
        (one,) = requests(scene)
        assert one.is_completed


@says("G9")
@pytest.mark.parametrize("eager", [True, False])
def test_g9_a_scheduler_whose_clock_is_an_hour_behind_loses_no_young_plan(eager: bool) -> None:
    for skew_ms in (-HOUR_MS, -3 * HOUR_MS):
        scene = stage(planned(REMOVABLE, skew_ms))
        cleaner = scene.table("cleaner")
        clean = roll_back_all if eager else roll_back_expired
        assert clean(cleaner, waits=True) == ()
        scene.sleep(OLD_S / 2)
        assert clean(cleaner, waits=True) == ()
        scene.sleep(OLD_S)
        (gone,) = clean(cleaner, waits=True)
        assert gone == scene.plan
        assert scene.now() is None
        ensure_sound(scene)


@says("G9")
def test_g9_a_cleaner_whose_clock_is_ahead_removes_no_young_plan() -> None:
    scene = stage(planned(REMOVABLE))
    assert roll_back_expired(scene.table("cleaner", skew_ms=9 * HOUR_MS), waits=True) == ()
    assert isinstance(execute(scene.table("x"), scene.plan), Committed)


@says("G9")
def test_g9_a_scheduler_whose_clock_is_ahead_only_makes_its_plan_stay() -> None:
    scene = stage(planned(REMOVABLE, 2 * HOUR_MS))
    scene.sleep(OLD_S)
    assert roll_back_expired(scene.table("cleaner"), waits=True) == ()
    scene.sleep(2 * HOUR_MS / 1000)
    assert roll_back_expired(scene.table("cleaner"), waits=True) == (scene.plan,)


@says("G10", "rfc79.execute.1", "rfc79.execute.4.requested", "rfc79.clean.note")
def test_g10_whoever_waited_for_the_lock_sees_the_rollback_that_was_planned_meanwhile() -> None:
    scene = stage(planned(REMOVABLE))

    def meanwhile() -> None:
        request_rollback(scene)

    # The look at the heartbeat comes before the transaction, on whatever was known by then.
    gate = Gate(scene.memory, lambda op, path: path.startswith(layout.HEARTBEATS), meanwhile)
    with pytest.raises(PlanMustBeRolledBack) as raised:
        execute(scene.table("y", gate), scene.plan)
    assert f't.rollback("{scene.plan.requested_at}")' in raised.value.next_step
    assert scene.memory.walk(layout.GUARDS) == []
    now = scene.now()
    assert now is not None and now.state is State.REQUESTED


# --- G11, G12, G13: what callers are told, crashes, and how soon it goes on ----------------------


@says("G11")
@KINDS
def test_g11_every_end_is_committed_committed_by_another_refused_or_unknown(kind: str) -> None:
    told = set()
    for number in range(1, len(calls_of(kind)) + 1):
        for fails in (True, False):
            scene = stage(planned(kind, has_lease=True), has_lease=True)

            def meanwhile(scene: Stage = scene, fails: bool = fails) -> None:
                if fails:
                    raise StorageError("The reply was lost.")
                scene.sleep(2 * TTL_S)
                attempt(lambda: execute(scene.table("y"), scene.plan))

            gate = Gate(scene.memory, lambda op, path: False, meanwhile)
            table = scene.table("x", gate)
            gate._when = nth_call(number)
            result = attempt(lambda table=table, scene=scene: execute(table, scene.plan))
            with transaction(scene.table("next")):
                pass
            now = scene.now()
            is_done = now is not None and now.is_completed
            if isinstance(result, (Committed, AlreadyCommitted)):
                assert is_done and result.instant == now, (number, result)
                assert load_commit_metadata(scene.memory, result.instant).paths()
            elif isinstance(result, Conflict):
                assert not is_done, f"{number}: told {result}, and it is done"
            told.add(type(result).__name__)
            ensure_sound(scene)
    assert {"Committed", "AlreadyCommitted"} <= told or kind == REMOVABLE
    assert told <= {
        "Committed",
        "AlreadyCommitted",
        "Conflict",
        "InstantCancelled",
        "WriteConflict",
        "PlanBusy",
        "PlanMustBeRolledBack",
        "HeartbeatLost",
        "StorageError",
        "OutcomeUnknown",
    }


@says("G12")
@STAYS
def test_g12_a_crash_at_any_call_of_a_rollback_leaves_nothing_the_next_execution_shows(
    kind: str,
) -> None:
    crashes = 0
    for number in range(1, 60):
        scene = stage(planned(kind))
        die_at(scene, after_its_files)
        rollback = request_rollback(scene, *scene.files())
        gate = Gate(scene.memory, lambda op, path: False, cut_power)
        table = scene.table("cleaner", gate)
        gate._when = nth_call(number)
        try:
            roll_back_expired(table)
        except PowerCut:
            crashes += 1
        assert isinstance(execute(scene.table("y"), scene.plan), Committed)
        ensure_done_once(scene)
        (now,) = requests(scene)
        assert now.requested_at == rollback.requested_at and now.is_completed
    assert crashes >= 8


@says("G13", "rfc79.rollout.retries")
@STAYS
def test_g13_a_crash_keeps_others_out_for_a_time_to_live_and_ten_seconds_at_most(kind: str) -> None:
    scene = stage(planned(kind))
    die_at(scene, after_its_files)
    died_ms = scene.sim.now_ms
    tries = 0
    while not isinstance(attempt(lambda: execute(scene.table("y"), scene.plan)), Committed):
        tries += 1
        assert tries < 10
    assert scene.sim.now_ms - died_ms <= (TTL_S + 10) * 1000
    ensure_done_once(scene)
