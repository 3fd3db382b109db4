"""Cancellable clustering: nothing of a plan is left for ever, and everybody is told the truth.

Somebody dies after the terminal step, sleeps while the plan goes another way, or gets no answer.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lentic.engine import LocalEngine
from lentic.errors import Conflict, OutcomeUnknown, Refused, StorageError, WriteConflict
from lentic.format import layout
from lentic.format.names import Action
from lentic.format.plans import RollbackPlan, encode_rollback_plan
from lentic.services.outcome import Aborted
from lentic.table import Table
from lentic.testing.checkers import list_leftovers
from lentic.timeline.reader import load_commit_metadata, load_timeline
from lentic.txn.transaction import OpenTable, transaction
from tests.rfc.cancel_scenes import (
    COW,
    MANY_FILES,
    MOR,
    abort,
    after,
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
from tests.rfc.guard_scenes import (
    TTL_S,
    Gate,
    Stage,
    after_its_files,
    attempt,
    cut_power,
    die_at,
    execute,
    stage,
)
from tests.simulation.crowd import BASE, batch

LEASE_ENDS_S = 6


# --- what is left -------------------------------------------------------------------------------


@says("C4", "R7", "R16")
@pytest.mark.parametrize("undo", ["abort", "rollback"])
def test_an_attempt_that_wakes_after_whoever_undid_its_plan_died_leaves_no_file(undo: str) -> None:
    """It has announced its file and sleeps. Whoever ends the plan dies right after that."""
    kept = 0
    for number in range(1, 60):
        scene = stage(planned())
        ends = list[bool]()

        def meanwhile(scene: Stage = scene, number: int = number, ends: list[bool] = ends) -> None:
            if undo == "abort":
                cancel(scene)
            scene.sleep(2 * TTL_S)
            ends.append(dying(scene, number, lambda table: undoing(scene, table)))
            scene.sleep(2 * TTL_S)
            user(scene, "cleaner").clean(wait=True)

        def undoing(scene: Stage, table: OpenTable) -> object:
            if undo == "abort":
                return abort(scene, table)
            return Table(table, LocalEngine(threads=1)).rollback(scene.plan.requested_at)

        gate = Gate(scene.memory, lambda op, path: op == "open_output", meanwhile)
        attempt(lambda scene=scene, gate=gate: execute(scene.table("x", gate), scene.plan))
        assert gate.is_passed
        now = scene.now()
        if now is None or now.is_aborted:
            kept += ends[0]
            user(scene, "next").upsert(batch(BASE, 8))
            user(scene, "cleaner").clean()
            assert scene.files() == set(), number
            assert list_leftovers(scene.memory) == [], number
        if not ends[0]:
            break
    assert kept >= 8


@says("C4", "cancel.abort.3")
@pytest.mark.parametrize("again", ["abort", "clean"])
def test_whatever_an_aborter_that_died_left_goes_with_the_next_abort_or_clean(again: str) -> None:
    died = 0
    for number in range(1, 60):
        scene = stage(planned())
        cancel(scene)
        if not dying(scene, number, lambda table, scene=scene: abort(scene, table)):
            break
        died += 1
        scene.sleep(2 * TTL_S)
        now = scene.now()
        if again == "abort" or now is None or not now.is_aborted:
            abort(scene)
        else:
            user(scene, "cleaner").clean()
        assert scene.memory.walk(layout.GUARDS) == [], number
        assert scene.memory.info(layout.heartbeat(scene.plan.requested_at)) is None, number
        ensure_aborted(scene)
    assert died >= 15


# --- the other way ------------------------------------------------------------------------------


def outside_after_publishing(scene: Stage, number: int) -> Callable[[str, str], bool]:
    """That call outside the lock, once a rollback is published."""
    seen = {"published": False}
    calls = iter(range(1, 10**9))

    def when(op: str, path: str) -> bool:
        seen["published"] |= op == "put_if_absent" and path.endswith(".rollback.requested")
        return seen["published"] and scene.lock_is_free() and next(calls) == number

    return when


@says("R1", "cancel.folder.forever", "cancel.aborted.must")
def test_a_plan_that_is_cancelled_while_it_is_rolled_back_ends_as_aborted() -> None:
    """Whoever cancelled it was promised so; it was not known when the rollback was planned."""
    slept = 0
    for number in range(1, 60):
        scene = stage(planned())
        die_at(scene, after_its_files)
        scene.sleep(2 * TTL_S)
        when = outside_after_publishing(scene, number)
        gate = Gate(scene.memory, when, lambda scene=scene: attempt(lambda: cancel(scene)))
        attempt(lambda s=scene, gate=gate: user(s, "op", gate).rollback(s.plan.requested_at))
        if not gate.is_passed:
            break
        if cancelled(scene):
            slept += 1
            assert isinstance(execute(scene.table("x"), scene.plan), Aborted), number
            ensure_aborted(scene)
        else:
            assert scene.now() is None, number
        ensure_consistent(scene)
    assert slept >= 1


@says("cancel.request.3")
def test_a_plan_that_is_gone_is_said_to_be_gone_and_by_what() -> None:
    scene = stage(planned())
    user(scene, "operator").rollback(scene.plan.requested_at)
    with pytest.raises(Refused, match=r"is gone: rollback \d+ undid it"):
        cancel(scene)


@says("cancel.folder.forever")
def test_a_restore_takes_the_request_along_with_its_plan() -> None:
    scene = stage(planned())
    table = user(scene, "operator")
    before = [i for i in table.timeline() if i.is_completed][-1]

    def meanwhile() -> None:
        cancel(scene)
        table.restore(before.requested_at)
        assert not cancelled(scene)

    gate = Gate(scene.memory, after_its_files, meanwhile)
    result = attempt(lambda: execute(scene.table("x", gate), scene.plan))
    assert gate.is_passed and isinstance(result, WriteConflict | Conflict), result
    assert scene.now() is None
    user(scene, "cleaner").clean()
    ensure_consistent(scene)
    assert list_leftovers(scene.memory) == []


# --- what is told -------------------------------------------------------------------------------


class _HangsAndFails(Gate):
    """The storage hangs as the plan is about to complete, for too long for a heart, and fails."""

    is_down = False

    def __init__(self, scene: Stage) -> None:
        super().__init__(scene.memory, lambda op, path: False, cut_power)
        self.scene = scene

    def before(self, op: str, path: str) -> None:
        if not self.is_down and op == "put_if_absent" and path.endswith(".replacecommit"):
            self.is_down = True
            self.scene.sleep(TTL_S)
        if self.is_down:
            raise StorageError("down")
        super().before(op, path)


@says("R15", "G11")
def test_that_nobody_knows_what_became_of_a_commit_is_said_though_the_heart_stopped_too() -> None:
    """That nothing of it is visible would be wrong: the next holder of the lock completes it."""
    scene = stage(planned(has_lease=True), has_lease=True)
    result = attempt(lambda: execute(scene.table("x", _HangsAndFails(scene)), scene.plan))
    assert isinstance(result, OutcomeUnknown), result
    scene.sleep(LEASE_ENDS_S)
    user(scene, "next").upsert(batch(BASE, 7))
    now = scene.now()
    assert now is not None and now.is_completed
    ensure_consistent(scene, after(7))


@says("R2", "cancel.request.4", "cancel.abort.3")
@pytest.mark.parametrize("who", ["canceller", "aborter", "cleaner"])
def test_who_lost_the_lock_while_the_plan_was_aborted_is_told_so_or_content(who: str) -> None:
    slept = 0
    for number in range(1, 60):
        scene = stage(planned(has_lease=True), has_lease=True)
        if who != "canceller":
            cancel(scene)

        def act(table: OpenTable, scene: Stage = scene) -> object:
            if who == "cleaner":
                return Table(table, LocalEngine(threads=1)).clean()
            return (cancel if who == "canceller" else abort)(scene, table)

        def meanwhile(scene: Stage = scene) -> None:
            scene.sleep(LEASE_ENDS_S)
            cancel_and_abort(scene)

        result, is_passed = sleeping(scene, number, act, meanwhile, holding=True)
        if not is_passed:
            break
        slept += 1
        assert result is None or isinstance(result, Aborted | Conflict), (number, result)
        assert who != "cleaner" or result is None, (number, result)
        user(scene, "next").clean(wait=True)
        ensure_aborted(scene)
    assert slept >= 5


@says("cancel.abort.3")
def test_an_aborter_that_slept_until_the_plan_was_archived_knows_that_it_is_aborted() -> None:
    scene = stage(planned())
    cancel(scene)

    def meanwhile() -> None:
        scene.sleep(2 * TTL_S)
        abort(scene)
        few = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
        others = user(scene, "others", options=few | MANY_FILES)
        for number in range(10, 16):
            others.upsert(batch(BASE, number))
        others.schedule("clustering", sort_by="ts")
        others.archive()
        assert scene.now() is None

    is_deleting = lambda op, path: op == "put_if_absent" and "finalize" in path  # noqa: E731
    gate = Gate(scene.memory, is_deleting, meanwhile)
    result = attempt(lambda: abort(scene, scene.table("sleeper", gate)))
    assert gate.is_passed and isinstance(result, Aborted), result
    write(scene, 20)


# --- what cannot succeed any more ---------------------------------------------------------------


@pytest.mark.parametrize("table_type", [COW, MOR])
@pytest.mark.parametrize("cancellable", [True, False])
def test_a_plan_of_which_another_engine_undid_a_write_ends(
    table_type: str, cancellable: bool
) -> None:
    """Ours refuses to undo what a plan is going to read; the plan would stay for ever."""
    scene = stage(planned(table_type, cancellable=cancellable))
    last = load_timeline(scene.memory).writes()[-1]
    files = tuple(sorted(load_commit_metadata(scene.memory, last).paths()))
    with transaction(scene.table("hudi")) as txn:
        plan = RollbackPlan(last.requested_at, last.action, files)
        txn.request(Action.ROLLBACK, encode_rollback_plan(plan, scene.memory.root))
    user(scene, "cleaner").run_clean(wait=True)
    rows = scene.rows()
    ended = attempt(lambda: execute(scene.table("executor"), scene.plan))
    if cancellable:
        assert isinstance(ended, Aborted)
        ensure_aborted(scene, rows)
    else:
        assert isinstance(ended, WriteConflict) and "is gone after it was made" in ended.what
        assert scene.now() is None
        ensure_consistent(scene, rows)
    next_one = user(scene, "next").schedule("clustering", sort_by="ts")
    assert next_one not in (None, scene.plan.requested_at), "what is left is planned anew"
