"""Cancellable clustering, "Optional feature": what a clean cancels and aborts, and what not."""

from __future__ import annotations

import pytest

from lentic.format.names import State
from lentic.services.outcome import Aborted, Committed
from tests.rfc.cancel_scenes import (
    cancel,
    cancelled,
    ensure_aborted,
    planned,
    user,
)
from tests.rfc.claims import says
from tests.rfc.guard_scenes import ROWS, Gate, Stage, after_its_files, die_at, execute, stage
from tests.simulation.crowd import batch


def policy(hours: float | None = None, instants: int | None = None) -> Stage:
    return stage(planned(hours=hours, instants=instants))


@says(
    "cancel.clean.left",
    "cancel.clean.2",
    "cancel.rollout.clean",
    "cancel.cleanup",
    "cancel.aborted.must",
)
@pytest.mark.parametrize("begun", [False, True])
def test_a_clean_aborts_what_was_cancelled_and_left(begun: bool) -> None:
    scene = stage(planned())
    if begun:
        die_at(scene, after_its_files)
    cancel(scene)
    user(scene, "cleaner").clean(wait=True)
    ensure_aborted(scene)


@says("cancel.clean.never", "cancel.clean.1", "cancel.policy.instants", "cancel.clean.early")
@says("cancel.policy.plan")
def test_a_clean_cancels_what_nobody_executed_for_so_many_instants() -> None:
    scene = policy(instants=2)
    table = user(scene, "other", options={"hoodie.parquet.small.file.limit": 0})
    for number in (1, 2):
        user(scene, "cleaner").clean()
        now = scene.now()
        assert now is not None and now.is_pending and not cancelled(scene), number
        table.insert(batch("new", number).slice(0, 1))
    user(scene, "cleaner").clean()
    ensure_aborted(scene, ROWS | {"new-1": "new", "new-2": "new"})


@says("cancel.clean.never", "cancel.policy.hours", "cancel.clean.early", "cancel.abstract.proceed")
@pytest.mark.parametrize("begun", [False, True])
def test_a_clean_cancels_what_nobody_executed_for_so_many_hours(begun: bool) -> None:
    scene = policy(hours=2)
    if begun:
        die_at(scene, after_its_files)
    scene.sleep(3600)
    user(scene, "cleaner").clean(wait=True)
    now = scene.now()
    assert now is not None and now.is_pending and not cancelled(scene)
    scene.sleep(3601)
    user(scene, "cleaner").clean(wait=True)
    ensure_aborted(scene)


@says("cancel.policy.alive", "cancel.clean.2")
def test_a_clean_leaves_what_somebody_executes_however_old() -> None:
    scene = policy(hours=1)
    scene.sleep(10 * 3600)

    def clean() -> None:
        user(scene, "cleaner").clean()
        assert not cancelled(scene)
        cancel(scene)
        user(scene, "cleaner").clean()
        assert cancelled(scene)
        now = scene.now()
        assert now is not None and now.state is State.INFLIGHT and scene.files()

    gate = Gate(scene.memory, after_its_files, clean)
    assert isinstance(execute(scene.table("x", gate), scene.plan), Aborted)
    assert gate.is_passed
    ensure_aborted(scene)


@says("cancel.policy.only")
def test_an_execution_may_begin_however_old_the_plan_is() -> None:
    scene = policy(hours=1, instants=0)
    scene.sleep(1_000 * 3600)
    write_elsewhere = batch("new", 1).slice(0, 1)
    user(scene, "other").insert(write_elsewhere)
    assert isinstance(execute(scene.table("x"), scene.plan), Committed)


@says("cancel.clean.option")
def test_the_part_of_a_clean_can_be_switched_off() -> None:
    scene = policy(hours=1)
    scene.sleep(10 * 3600)
    off = {"lentic.clean.cancels": False}
    user(scene, "cleaner", options=off).clean(wait=True)
    assert not cancelled(scene)
    cancel(scene)
    user(scene, "cleaner", options=off).clean(wait=True)
    assert cancelled(scene)
