"""RFC-79, "Background", "Implementation" and "Rollout": the life of plans and heartbeats, and what
happens under the lock.
"""

from __future__ import annotations

import pytest

from lentic.errors import PlanBusy, StorageError
from lentic.format import layout
from lentic.format.names import State
from lentic.services.failed_writes import roll_back_expired
from lentic.services.outcome import Committed
from lentic.testing.tables import open_on
from lentic.timeline.reader import load_timeline
from tests.rfc.claims import says
from tests.rfc.guard_scenes import (
    COMPACTION,
    OPTIONS,
    REMOVABLE,
    REMOVABLE_KINDS,
    ROWS,
    STAYING_KINDS,
    TTL_S,
    Gate,
    Stage,
    after_its_files,
    before_its_commit,
    die_at,
    ensure_done_once,
    ensure_sound,
    execute,
    keep_beating,
    planned,
    request_rollback,
    requests,
    stage,
)
from tests.rfc.lock_watch import LockWatch, first_of, is_data
from tests.simulation.crowd import BASE, NBCC, batch

ALL = pytest.mark.parametrize("kind", [*STAYING_KINDS, *REMOVABLE_KINDS])
STAY = pytest.mark.parametrize("kind", STAYING_KINDS)


def watched(scene: Stage) -> LockWatch:
    watch = LockWatch(scene)
    table = scene.table("x", watch)
    watch.seen.clear()
    assert isinstance(execute(table, scene.plan), Committed)
    return watch


# --- heartbeats of writers ----------------------------------------------------------------------


@says("rfc79.heartbeat.ingestion", "rfc79.heartbeat.touch")
def test_a_writer_gives_its_first_sign_of_life_before_it_writes_a_file() -> None:
    scene = stage(planned(COMPACTION))
    watch = LockWatch(scene)
    options = OPTIONS | {"hoodie.write.concurrency.mode": NBCC}
    table = open_on(watch, scene.sim.world("w"), scene.plain, options)
    watch.seen.clear()
    done = table.upsert(batch(BASE, 9))
    changes = watch.changes()
    begun = first_of(changes, f"{done.requested_at}.deltacommit.inflight")
    assert changes[begun + 1][0] == layout.heartbeat(done.requested_at)
    assert scene.memory.info(layout.heartbeat(done.requested_at)) is None


@says("rfc79.heartbeat.end")
def test_a_writer_that_fails_takes_its_heartbeat_away() -> None:
    scene = stage(planned(COMPACTION))
    seen: list[int] = []

    def fail() -> None:
        seen.append(len(scene.memory.list_files(layout.HEARTBEATS)))
        raise StorageError("no")

    gate = Gate(scene.memory, lambda op, path: op == "open_output", fail)
    options = OPTIONS | {"hoodie.write.concurrency.mode": NBCC}
    with pytest.raises(StorageError):
        open_on(gate, scene.sim.world("w"), scene.plain, options).upsert(batch(BASE, 9))
    assert seen == [1]
    assert scene.memory.list_files(layout.HEARTBEATS) == []
    assert scene.rows() == ROWS


# --- plans that stay ----------------------------------------------------------------------------


@STAY
@says("rfc79.immutable.repeats", "rfc79.immutable.jobs", "rfc79.immutable.rollback")
def test_a_plan_stays_through_executions_that_die_until_one_completes_it(kind: str) -> None:
    """Each of them is another job, and finds what the one before left."""
    scene = stage(planned(kind))
    for number in range(4):
        before = scene.files()
        die_at(scene, before_its_commit if number % 2 else after_its_files, f"dead {number}")
        assert not before & scene.files(), "whoever comes next removes what was left"
        now = scene.now()
        assert now is not None and now.state is State.INFLIGHT
        ensure_sound(scene)
    assert isinstance(execute(scene.table("last"), scene.plan), Committed)
    ensure_done_once(scene)


@ALL
@says("rfc79.immutable.harm", "rfc79.design.others", "rfc79.guard.3", "rfc79.execute.3")
def test_whoever_comes_while_a_plan_is_executed_withdraws_and_changes_nothing(kind: str) -> None:
    scene = stage(planned(kind))

    def another() -> None:
        table = scene.table("y")
        keep_beating(scene, table)
        left = {f.path: f.size for f in scene.memory.walk("") if ".heartbeat" not in f.path}
        with pytest.raises(PlanBusy):
            execute(table, scene.plan)
        now = {f.path: f.size for f in scene.memory.walk("") if ".heartbeat" not in f.path}
        assert now == left

    gate = Gate(scene.memory, after_its_files, another)
    result = execute(scene.table("x", gate), scene.plan)
    assert gate.is_passed and isinstance(result, Committed)
    ensure_sound(scene)


@says("rfc79.removable.same")
def test_a_removable_plan_is_executed_like_any_other() -> None:
    for kind in REMOVABLE_KINDS:
        scene = stage(planned(kind))
        assert isinstance(execute(scene.table("x"), scene.plan), Committed)
        ensure_done_once(scene)


# --- under the lock -----------------------------------------------------------------------------


@ALL
@says("rfc79.guard.1", "rfc79.execute.2", "rfc79.execute.5")
def test_the_first_thing_that_an_execution_changes_is_decided_under_the_lock(kind: str) -> None:
    scene = stage(planned(kind))
    at, changes = scene.plan.requested_at, watched(scene).changes()
    beginning = [
        first_of(changes, layout.guard(at, 1)),
        first_of(changes, layout.heartbeat(at)),
        first_of(changes, f"{at}.", ".inflight"),
    ]
    assert beginning == [0, 1, 2]
    assert all(held for _, held in changes[:3])


@ALL
@says("rfc79.execute.6", "rfc79.guard.short")
def test_no_data_is_read_or_written_under_the_lock_and_little_else(kind: str) -> None:
    scene = stage(planned(kind))
    watch = watched(scene)
    data = [held for op, path, held in watch.seen if is_data(path) and op != "walk"]
    assert data and not any(data)
    calls = [op for op, _, held in watch.seen if held]
    assert len(calls) <= 20, f"{len(calls)} calls in both transactions of an execution"


@says("rfc79.execute.6")
def test_others_commit_while_a_plan_is_executed() -> None:
    scene = stage(planned(COMPACTION))

    def write() -> None:
        table = open_on(scene.memory, scene.sim.world("w"), scene.plain, OPTIONS)
        table.upsert(batch(BASE, 9))

    gate = Gate(scene.memory, after_its_files, write)
    assert isinstance(execute(scene.table("x", gate), scene.plan), Committed)
    assert f"{BASE}-9" in scene.rows()


@ALL
@says("rfc79.guard.after", "rfc79.execute.8")
@pytest.mark.parametrize("fails", [False, True])
def test_when_an_execution_has_ended_its_heartbeat_is_gone(kind: str, fails: bool) -> None:
    scene = stage(planned(kind))
    seen: list[bool] = []

    def during() -> None:
        seen.append(scene.memory.info(layout.heartbeat(scene.plan.requested_at)) is not None)
        if fails:
            raise StorageError("no")

    table = scene.table("x", Gate(scene.memory, after_its_files, during))
    if fails:
        with pytest.raises(StorageError):
            execute(table, scene.plan)
    else:
        execute(table, scene.plan)
    assert seen == [True]
    assert scene.memory.list_files(layout.HEARTBEATS) == []


# --- clean --------------------------------------------------------------------------------------


@says("rfc79.clean.lock", "rfc79.clean.1", "rfc79.clean.2")
def test_a_clean_plans_rollbacks_under_the_lock_and_carries_them_out_without_it() -> None:
    scene = stage(planned(REMOVABLE))
    die_at(scene, after_its_files)
    left = scene.files()
    watch = LockWatch(scene)
    options = {"lentic.services.rollback_delay_minutes": 0}
    cleaner = scene.table("cleaner", watch, options=options)
    watch.seen.clear()
    (gone,) = roll_back_expired(cleaner, waits=True)
    assert gone.requested_at == scene.plan.requested_at
    assert watch.held_when(".rollback.requested") == {True}
    deleted = [(path, held) for op, path, held in watch.seen if op == "delete" and path in left]
    assert deleted and not any(held for _, held in deleted)
    assert scene.files() == set()


@says("rfc79.clean.2")
def test_a_clean_carries_out_the_rollbacks_that_others_left() -> None:
    scene = stage(planned(COMPACTION))
    die_at(scene, after_its_files)
    left = scene.files()
    request_rollback(scene, *left)
    assert roll_back_expired(scene.table("cleaner")) == ()
    (rollback,) = requests(scene)
    assert rollback.is_completed and not left & scene.files()
    now = scene.now()
    assert now is not None and now.is_pending, "the plan stays"


@says("rfc79.rollout.delay", "rfc79.removable.early", "rfc79.clean.young")
@pytest.mark.parametrize(("minutes", "is_taken"), [(0, True), (5_000_000, False)])
def test_how_long_a_removable_plan_is_spared_is_an_option(minutes: int, is_taken: bool) -> None:
    scene = stage(planned(REMOVABLE))
    scene.sleep(100 * TTL_S)
    options = {"lentic.services.rollback_delay_minutes": minutes}
    gone = roll_back_expired(scene.table("cleaner", options=options), waits=True)
    assert gone == ((scene.plan,) if is_taken else ())
    assert (scene.now() is None) == is_taken
    assert load_timeline(scene.memory).pending() == (() if is_taken else (scene.plan,))
