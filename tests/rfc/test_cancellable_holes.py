"""Cancellable clustering: the holes C1-C6 of the design, played step by step.

Somebody stands still before one of its storage calls, others act meanwhile, and it goes on; or it
dies there. C9 is in `tests/interop/test_aborts.py`, the rest in `test_cancellable_later.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lentic.engine import LocalEngine
from lentic.errors import LenticError, PlanBusy, PlanCompleted, Refused
from lentic.format import layout
from lentic.services.failed_writes import roll_back_expired
from lentic.services.outcome import Aborted, AlreadyCommitted, Committed
from lentic.table import Table
from lentic.timeline.cancel_requests import load_cancel_request
from lentic.txn.transaction import OpenTable, transaction
from tests.rfc.cancel_scenes import (
    COW,
    MOR,
    abort,
    after,
    calls_of,
    cancel,
    cancel_and_abort,
    cancelled,
    dying,
    ensure_aborted,
    ensure_consistent,
    planned,
    sleeping,
    user,
    write,
)
from tests.rfc.claims import says
from tests.rfc.guard_scenes import TTL_S, Gate, Stage, after_its_files, die_at, execute, stage
from tests.simulation.crowd import BASE, batch

BOTH = pytest.mark.parametrize("table_type", [COW, MOR])
LEASE_ENDS_S = 6


def upsert(number: int) -> Callable[[OpenTable], object]:
    return lambda table: Table(table, LocalEngine(threads=1)).upsert(batch(BASE, number))


def settle(scene: Stage) -> None:
    """What was decided and not done is done by whoever comes next (R2)."""
    with transaction(scene.table("next")):
        pass


# --- C1, C2: committed or aborted, never both ---------------------------------------------------


@says("C1", "R3", "cancel.aborted.terminal")
@BOTH
def test_c1_who_slept_before_its_commit_while_the_plan_was_aborted_commits_nothing(
    table_type: str,
) -> None:
    scene = stage(planned(table_type))
    gate = Gate(scene.memory, after_its_files, lambda: cancel_and_abort(scene))
    result = execute(scene.table("x", gate), scene.plan)
    assert gate.is_passed and isinstance(result, Aborted)
    ensure_aborted(scene)


@says("C1", "R3")
def test_c1_wherever_an_execution_sleeps_while_its_plan_is_aborted() -> None:
    slept = 0
    for number in range(1, 60):
        scene = stage(planned())
        ended: list[object] = []

        def meanwhile(scene: Stage = scene, ended: list[object] = ended) -> None:
            try:
                ended.append(cancel_and_abort(scene))
            except PlanCompleted as error:
                ended.append(error)

        result, is_passed = sleeping(
            scene, number, lambda t, scene=scene: execute(t, scene.plan), meanwhile
        )
        slept += is_passed
        if ended == [None]:
            assert not isinstance(result, Committed | AlreadyCommitted), (number, result)
            ensure_aborted(scene)
        else:
            assert isinstance(result, Committed), (number, result)
            ensure_consistent(scene)
    assert slept >= 20


@says("C1", "R3", "R2")
def test_c1_with_a_lock_that_can_be_lost_an_execution_may_sleep_in_its_transaction() -> None:
    slept = 0
    for number in range(1, 80):
        scene = stage(planned(has_lease=True), has_lease=True)
        promised: list[bool] = []

        def meanwhile(scene: Stage = scene, promised: list[bool] = promised) -> None:
            scene.sleep(LEASE_ENDS_S)
            try:
                cancel_and_abort(scene)
                promised.append(True)
            except PlanCompleted:
                promised.append(False)

        _, is_passed = sleeping(
            scene, number, lambda t, scene=scene: execute(t, scene.plan), meanwhile, holding=True
        )
        slept += is_passed
        settle(scene)
        now = scene.now()
        assert now is not None
        assert not (any(promised) and now.is_completed), number
        if any(promised):
            user(scene, "cleaner").clean()
            ensure_aborted(scene)
        ensure_consistent(scene)
    assert slept >= 40


@says("C2", "cancel.aborted.terminal")
@BOTH
@pytest.mark.parametrize("has_entry", [False, True])
def test_c2_to_abort_what_has_committed_is_refused_and_touches_nothing(
    table_type: str, has_entry: bool
) -> None:
    scene = stage(planned(table_type))
    assert isinstance(execute(scene.table("x"), scene.plan), Committed)
    if has_entry:  # of somebody who does not know the rules
        scene.memory.put_if_absent(layout.cancel_request(scene.plan.requested_at), b"")
    left = scene.files()
    with pytest.raises(PlanCompleted):
        abort(scene)
    assert scene.files() == left == scene.named()
    user(scene, "cleaner").clean()
    assert scene.files() == left and not cancelled(scene)
    ensure_consistent(scene)


# --- C3, C4: aborting is one job's, and can be repeated ------------------------------------------


@says("C3", "cancel.exec.many")
def test_c3_wherever_an_aborter_sleeps_another_and_an_execution_may_come() -> None:
    slept = 0
    for number in range(1, 40):
        scene = stage(planned())
        die_at(scene, after_its_files)
        cancel(scene)
        scene.sleep(2 * TTL_S)

        def meanwhile(scene: Stage = scene) -> None:
            scene.sleep(2 * TTL_S)
            assert isinstance(execute(scene.table("y"), scene.plan), Aborted)
            assert abort(scene).instant.is_aborted

        result, is_passed = sleeping(
            scene, number, lambda t, scene=scene: abort(scene, t), meanwhile
        )
        slept += is_passed
        assert isinstance(result, Aborted), (number, result)
        ensure_aborted(scene)
    assert slept >= 10


@says("C3", "cancel.exec.many", "cancel.request.race")
@pytest.mark.parametrize("seed", range(20))
def test_c3_executions_requests_and_aborts_at_once_end_in_one_way(seed: int) -> None:
    scene = stage(planned(), seed)

    def patient(act: Callable[[], object]) -> object:
        """Nobody has cancelled it yet, or somebody is at it: try later."""
        for _ in range(50):
            try:
                return act()
            except (Refused, PlanBusy):
                scene.sim.sleep(0.5)
        return None

    acts: dict[str, Callable[[OpenTable], Any]] = {
        "x": lambda table: execute(table, scene.plan),
        "y": lambda table: patient(lambda: execute(table, scene.plan)),
        "c": lambda table: cancel(scene, table),
        "d": lambda table: cancel(scene, table),
        "a": lambda table: patient(lambda: abort(scene, table)),
        "b": lambda table: patient(lambda: abort(scene, table)),
    }
    for name, act in acts.items():
        table = scene.table(name, scene.sim.storage())
        scene.sim.actor(name, lambda act=act, table=table: act(table))
    ends = scene.sim.run()
    found = {name: getattr(end, "value", getattr(end, "error", None)) for name, end in ends.items()}
    now = scene.now()
    assert now is not None
    assert sum(isinstance(value, Committed) for value in found.values()) == now.is_completed
    if now.is_completed:
        for name in ("c", "d", "a", "b"):
            assert isinstance(found[name], PlanCompleted), found
        ensure_consistent(scene)
    else:
        assert found["c"] is None and found["d"] is None, found
        user(scene, "cleaner").clean()
        ensure_aborted(scene)


@says("C4", "R16")
@pytest.mark.parametrize("begun", [False, True])
def test_c4_an_abort_that_dies_at_any_call_is_finished_by_the_next(begun: bool) -> None:
    died = 0
    for number in range(1, 60):
        scene = stage(planned())
        if begun:
            die_at(scene, after_its_files)
            scene.sleep(2 * TTL_S)
        cancel(scene)
        if not dying(scene, number, lambda t, scene=scene: abort(scene, t)):
            ensure_aborted(scene)
            break
        died += 1
        assert scene.rows() == after()
        scene.sleep(2 * TTL_S)
        assert abort(scene).instant.is_aborted
        assert abort(scene).instant.is_aborted, "and it may be repeated"
        user(scene, "cleaner").clean()
        ensure_aborted(scene)
    assert died >= 15


# --- C5, C6: promises ---------------------------------------------------------------------------


@says("C5", "R2", "cancel.request.promise")
def test_c5_who_lost_the_lock_before_its_request_promises_nothing() -> None:
    """The plan is executed while the canceller sleeps, at any of its calls."""
    slept, committed = 0, 0
    for number in range(1, 30):
        scene = stage(planned(has_lease=True), has_lease=True)
        outcome: list[object] = []

        def meanwhile(scene: Stage = scene, outcome: list[object] = outcome) -> None:
            scene.sleep(LEASE_ENDS_S)
            outcome.append(execute(scene.table("x"), scene.plan))

        result, is_passed = sleeping(
            scene, number, lambda t, scene=scene: cancel(scene, t), meanwhile, holding=True
        )
        slept += is_passed
        settle(scene)
        now = scene.now()
        assert now is not None
        if result is None:
            assert not now.is_completed, f"{number}: it was promised not to"
        if now.is_completed:
            committed += 1
            assert isinstance(result, LenticError), number
        user(scene, "cleaner").clean()
        assert not cancelled(scene)
        ensure_consistent(scene)
    assert slept >= 5 and committed >= 3


@says("C5", "R2", "cancel.folder.forever")
def test_c5_who_lost_the_lock_takes_no_request_away_that_it_has_not_seen() -> None:
    """A cleaner finds a request without a plan and sleeps. Another plan is made and cancelled
    meanwhile; that promise holds, wherever the cleaner slept."""
    slept = 0
    for number in range(1, 60):
        scene = stage(planned(has_lease=True), has_lease=True)
        table = user(scene, "operator")
        table.rollback(scene.plan.requested_at)
        scene.memory.put_if_absent(layout.cancel_request(scene.plan.requested_at), b"")
        made: list[str] = []

        def meanwhile(scene: Stage = scene, made: list[str] = made) -> None:
            scene.sleep(LEASE_ENDS_S)
            other = user(scene, "other")
            at = other.schedule("clustering", sort_by="ts")
            assert at is not None
            other.request_cancel(at)
            made.append(at)

        _, is_passed = sleeping(
            scene,
            number,
            lambda t: Table(t, LocalEngine(threads=1)).clean(),
            meanwhile,
            holding=True,
        )
        if not is_passed:
            break
        slept += 1
        settle(scene)
        result = user(scene, "executor").execute(made[0])
        assert isinstance(result, Aborted), (number, result)
        ensure_consistent(scene)
    assert slept >= 5


@says("C6", "cancel.folder.txn")
@BOTH
def test_c6_a_write_that_dies_anywhere_leaves_a_plan_that_stands_or_ends_aborted(
    table_type: str,
) -> None:
    died, halves = 0, 0
    calls = calls_of(stage(planned(table_type)), upsert(7))
    for number in (*range(1, calls - 25, 6), *range(calls - 25, calls + 1)):
        scene = stage(planned(table_type))
        assert dying(scene, number, upsert(7))
        died += 1
        landed = f"{BASE}-7" in scene.rows()
        ensure_consistent(scene, after(7) if landed else after())
        if cancelled(scene):
            halves += not landed
            request = load_cancel_request(scene.memory, scene.plan.requested_at)
            assert request is not None and "wrote to a file group" in request.why
        else:
            assert not landed
        write(scene, 8)
        expected = after(7, 8) if landed else after(8)
        user(scene, "cleaner").clean()
        ensure_aborted(scene, expected)
    assert died >= 20 and halves >= 1


@says("C6", "R1", "P8")
@BOTH
def test_c6_a_write_that_was_rolled_back_while_it_slept_cancels_nothing(table_type: str) -> None:
    given_up = 0
    for number in range(1, calls_of(stage(planned(table_type)), upsert(7))):
        scene = stage(planned(table_type))

        def meanwhile(scene: Stage = scene) -> None:
            scene.sleep(2 * TTL_S)
            roll_back_expired(scene.table("cleaner"), waits=True)

        result, is_passed = sleeping(scene, number, upsert(7), meanwhile)
        landed = f"{BASE}-7" in scene.rows()
        assert cancelled(scene) == landed, (number, result)
        given_up += is_passed and not landed
    assert given_up >= 5
