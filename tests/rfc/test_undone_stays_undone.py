"""What was undone does not come back, whoever wakes and makes its file anew.

With a lock that can be lost, whoever decided to complete an instant may sleep before the file
appears. The next holder makes it (R2), and may undo it in good order before the sleeper wakes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from lentic.engine import LocalEngine
from lentic.errors import Conflict
from lentic.format import layout
from lentic.format.names import Action
from lentic.services.verify import verify_table
from lentic.table import Table
from lentic.testing.checkers import check_table, list_leftovers
from lentic.timeline.instant import WRITES, Instant
from lentic.timeline.reader import load_active, load_timeline
from lentic.txn.transaction import OpenTable, transaction
from tests.rfc.cancel_scenes import COW, MOR, after, planned, user
from tests.rfc.claims import says
from tests.rfc.guard_scenes import CLUSTERING, Gate, Stage, attempt, execute, stage
from tests.rfc.guard_scenes import planned as planned_in_buckets
from tests.simulation.crowd import BASE, batch

LEASE_ENDS_S = 6
ARCHIVING = {
    "hoodie.keep.min.commits": 2,
    "hoodie.keep.max.commits": 3,
    "hoodie.clean.commits.retained": 1,
}

SCENES: dict[str, Callable[[], Any]] = {
    COW: lambda: planned(COW, has_lease=True),
    MOR: lambda: planned(MOR, has_lease=True),
    "buckets": lambda: planned_in_buckets(CLUSTERING, has_lease=True),
}


def cluster(scene: Stage, table: OpenTable) -> object:
    return execute(table, scene.plan)


def upsert(scene: Stage, table: OpenTable) -> object:
    return Table(table, LocalEngine(threads=1)).upsert(batch(BASE, 7))


def last_write(scene: Stage) -> Instant:
    return load_timeline(scene.memory).writes()[-1]


def roll_back(scene: Stage) -> None:
    user(scene, "operator").rollback(last_write(scene).requested_at)


def restore(scene: Stage) -> None:
    before = load_timeline(scene.memory).writes()[-2]
    user(scene, "operator").restore(before.requested_at)


def before_its_completed_file(op: str, path: str) -> bool:
    name = path.rpartition("/")[2]
    return op == "put_if_absent" and "_" in name and name.rpartition(".")[2] in WRITES


def play(
    scene: Stage,
    act: Callable[[Stage, OpenTable], object],
    undo: Callable[[Stage], None],
    later: Callable[[], object] = lambda: None,
) -> str:
    """Somebody decides to complete, and sleeps; it completes without them and is undone; they wake
    and make the file. Its name."""
    undone: list[str] = []

    def meanwhile() -> None:
        scene.sleep(LEASE_ENDS_S)
        with transaction(scene.table("next")):
            pass  # what was decided is done by whoever comes next
        undone.append(last_write(scene).file_name)
        undo(scene)
        later()

    gate = Gate(scene.memory, before_its_completed_file, meanwhile)
    attempt(lambda: act(scene, scene.table("sleeper", gate, options=None)))
    assert gate.is_passed and len(undone) == 1
    assert scene.memory.info(layout.timeline_file(undone[0])), "the sleeper made it again"
    return undone[0]


@says("R2", "R13")
@pytest.mark.parametrize(
    ("kind", "act", "undo"), list(product(SCENES, [cluster, upsert], [roll_back, restore]))
)
def test_a_sleeper_does_not_bring_back_what_was_undone(
    kind: str, act: Callable[[Stage, OpenTable], object], undo: Callable[[Stage], None]
) -> None:
    scene = stage(SCENES[kind](), has_lease=True)
    if act is upsert:
        user(scene, "operator").rollback(scene.plan.requested_at)
    made = play(scene, act, undo)
    assert made not in {i.file_name for i in load_timeline(scene.memory).instants}
    assert scene.rows() == after()
    assert check_table(scene.memory) == verify_table(scene.memory) == []
    user(scene, "next").upsert(batch(BASE, 8))
    assert scene.memory.info(layout.timeline_file(made)) is None, "it is taken away for all to see"
    assert scene.rows() == after(8)
    user(scene, "cleaner").clean(wait=True)
    assert list_leftovers(scene.memory) == []


@says("R2", "R13")
@pytest.mark.parametrize("undo", [roll_back, restore])
def test_nor_what_was_undone_so_long_ago_that_this_is_archived(
    undo: Callable[[Stage], None],
) -> None:
    scene = stage(SCENES[COW](), has_lease=True)
    user(scene, "operator").rollback(scene.plan.requested_at)

    def go_on() -> None:
        others = user(scene, "others", options=ARCHIVING)
        for number in range(10, 18):
            others.upsert(batch(BASE, number))
        others.clean()
        others.archive()

    made = play(scene, upsert, undo, go_on)
    timeline, gone = load_active(scene.memory)
    assert not timeline.completed(Action.ROLLBACK, Action.RESTORE), "the history alone knows"
    assert gone == (layout.timeline_file(made),)
    assert scene.rows() == after(*range(10, 18))
    user(scene, "next").upsert(batch(BASE, 20))
    assert scene.memory.info(layout.timeline_file(made)) is None
    assert scene.rows() == after(*range(10, 18), 20)


@says("R13")
def test_a_write_that_lost_its_other_files_is_kept_if_nobody_undid_it() -> None:
    """Whatever tool took them away: that an instant is archived or undone must be known, not
    guessed."""
    scene = stage(SCENES[COW](), has_lease=True)
    write = last_write(scene)
    for file in scene.memory.list_files(layout.TIMELINE):
        if file.name.startswith(write.requested_at) and file.name != write.file_name:
            scene.memory.delete(file.path)
    assert last_write(scene) == write
    assert scene.rows() == after()
    assert load_active(scene.memory)[1] == ()


# --- plans --------------------------------------------------------------------------------------


def roll_back_plan(scene: Stage, plan: Instant) -> None:
    user(scene, "operator").rollback(plan.requested_at)


def restore_before(scene: Stage, plan: Instant) -> None:
    restore(scene)


@says("R2", "R13")
@pytest.mark.parametrize("cancellable", [True, False])
@pytest.mark.parametrize("undo", [roll_back_plan, restore_before])
def test_a_planner_that_slept_does_not_bring_back_a_plan_that_was_undone(
    undo: Callable[[Stage, Instant], None], cancellable: bool
) -> None:
    scene = stage(SCENES[COW](), has_lease=True)
    user(scene, "operator").rollback(scene.plan.requested_at)
    plans: list[Instant] = []

    def meanwhile() -> None:
        scene.sleep(LEASE_ENDS_S)
        with transaction(scene.table("next")):
            pass
        plans.extend(load_timeline(scene.memory).pending(Action.CLUSTERING))
        undo(scene, plans[0])
        assert load_timeline(scene.memory).find(plans[0]) is None

    gate = Gate(scene.memory, before_its_plan, meanwhile)
    sleeper = user(scene, "sleeper", gate)
    attempt(lambda: sleeper.schedule("clustering", sort_by="ts", cancellable=cancellable))
    (plan,) = plans
    rows = scene.rows()
    assert load_timeline(scene.memory).find(plan), "the sleeper made it again"
    for _ in range(2):
        with pytest.raises(Conflict, match="was undone|undid it|rolled (it )?back"):
            execute(scene.table("executor"), plan)
        assert load_timeline(scene.memory).find(plan) is None
    user(scene, "next").upsert(batch(BASE, 8))
    assert scene.rows() == rows | {f"{BASE}-8": BASE, "shared": f"{BASE}-8"}
    user(scene, "cleaner").run_clean(wait=True)
    assert check_table(scene.memory) == verify_table(scene.memory) == []
    assert list_leftovers(scene.memory) == []


def before_its_plan(op: str, path: str) -> bool:
    return op == "put_if_absent" and path.endswith(".clustering.requested")
