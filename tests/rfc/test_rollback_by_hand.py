"""RFC-79: somebody rolls a plan back by hand while cleans and executors are at it, too.

A clean finishes any rollback that it finds. Of a plan that stays it takes it for the rollback of an
execution (G12), so that the plan is still there for whoever meant the plan itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from lentic.coordination.guards import latest_guard
from lentic.coordination.lock import Held, LockProvider
from lentic.engine import LocalEngine
from lentic.errors import Conflict, InstantCancelled
from lentic.services.verify import verify_table
from lentic.table import Table
from lentic.testing.checkers import check_table, list_leftovers
from tests.rfc.cancel_scenes import MANY_FILES, SHARED, after, cancel, planned, user, write
from tests.rfc.claims import says
from tests.rfc.guard_scenes import ROWS, Stage, after_its_files, die_at, execute, requests, stage

SECOND = 2
"""The first time that somebody holds the lock the rollback is planned, then it is completed."""


class Contended:
    """A lock for which others are faster, each time it is asked for."""

    def __init__(self, inner: LockProvider, first: Callable[[int], object]) -> None:
        self._inner, self._first = inner, first
        self._times = 0

    @contextmanager
    def hold(self) -> Iterator[Held]:
        self._times += 1
        self._first(self._times)
        with self._inner.hold() as held:
            yield held


def roll_back(scene: Stage, others: Callable[[int], object]) -> object:
    table = scene.table("operator", options=SHARED | MANY_FILES)
    contended = replace(table, lock=Contended(table.lock, others))
    return Table(contended, LocalEngine(threads=1)).rollback(scene.plan.requested_at)


def ensure_sound(scene: Stage) -> None:
    assert scene.rows() == ROWS
    assert check_table(scene.memory) == verify_table(scene.memory) == []


@says("G12")
@pytest.mark.parametrize("cancellable", [True, False])
def test_a_plan_that_is_rolled_back_by_hand_is_gone_though_a_clean_was_faster(
    cancellable: bool,
) -> None:
    scene = stage(planned(cancellable=cancellable))

    def others(times: int) -> None:
        if times == SECOND:
            user(scene, "cleaner").run_clean()

    roll_back(scene, others)
    assert scene.now() is None
    assert all(rollback.is_completed for rollback in requests(scene))
    ensure_sound(scene)
    write(scene)
    assert scene.rows() == after(7), "nothing refuses the write any more"


@says("G1", "R1", "R4")
def test_the_guard_of_an_execution_lasts_until_its_plan_is_gone() -> None:
    """Without it the next who takes the plan over would have the same number, and whoever it was
    taken from would pass for the one who has it."""
    scene = stage(planned())
    seen: list[int] = []

    def others(times: int) -> None:
        if times == SECOND:
            user(scene, "cleaner").run_clean()
            die_at(scene, after_its_files, "sleeper")
        seen.append(latest_guard(scene.memory, scene.plan.requested_at))

    roll_back(scene, others)
    rounds = 2
    assert seen == [0, 1, 1] + [1] * (len(seen) - 3) and len(seen) > rounds
    assert scene.now() is None
    assert latest_guard(scene.memory, scene.plan.requested_at) == 0
    ensure_sound(scene)
    user(scene, "cleaner").run_clean(wait=True)
    assert scene.files() == set()
    assert list_leftovers(scene.memory) == []


@says("G11")
def test_a_plan_that_was_executed_before_its_rollback_says_so_and_keeps_its_rows() -> None:
    scene = stage(planned())

    def others(times: int) -> None:
        if times == SECOND:
            user(scene, "cleaner").run_clean()
            execute(scene.table("executor"), scene.plan)

    with pytest.raises(Conflict, match="ended before it could be rolled back"):
        roll_back(scene, others)
    now = scene.now()
    assert now is not None and now.is_completed
    ensure_sound(scene)


@says("R3")
def test_a_plan_that_is_cancelled_before_its_rollback_ends_as_aborted() -> None:
    scene = stage(planned())

    def others(times: int) -> None:
        if times == SECOND:
            cancel(scene)

    with pytest.raises(InstantCancelled, match="ends as aborted"):
        roll_back(scene, others)
    user(scene, "cleaner").run_clean(wait=True)
    now = scene.now()
    assert now is not None and now.is_aborted
    ensure_sound(scene)


def test_whoever_is_never_fast_enough_is_told_so() -> None:
    scene = stage(planned())

    def others(times: int) -> None:
        if times > 1 and any(rollback.is_pending for rollback in requests(scene)):
            user(scene, "cleaner").run_clean()

    with pytest.raises(Conflict, match="still there"):
        roll_back(scene, others)
    ensure_sound(scene)
    user(scene, "operator").rollback(scene.plan.requested_at)
    assert scene.now() is None
