"""Tables with one clustering plan, and what people do to it, for the tests of cancelling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from lentic.coordination.lock_storage import StorageLock
from lentic.engine import LocalEngine
from lentic.format import layout
from lentic.services.abort import execute_abort
from lentic.services.clustering import schedule_clustering
from lentic.services.failed_writes import roll_back_expired
from lentic.services.outcome import Aborted
from lentic.services.verify import verify_table
from lentic.table import Table
from lentic.testing.checkers import check_table, list_leftovers
from lentic.testing.crash_sweep import Scene, set_scene
from lentic.testing.simulation import Simulation
from lentic.testing.tables import create_on, open_on
from lentic.timeline.cancel_requests import list_cancelled
from lentic.txn.cancellation import request_cancel
from lentic.txn.transaction import OpenTable
from lentic.write.commit import Commit
from tests.rfc.guard_scenes import (
    OPTIONS,
    ROWS,
    TTL_S,
    UPSERTS,
    Gate,
    PowerCut,
    Stage,
    attempt,
    cut_power,
    nth_call,
    outside_the_lock,
)
from tests.simulation.crowd import BASE, OCC, SCHEMA, batch
from tests.simulation.faults import LEASE_MS

WHY = "for the test"
SHARED = {"hoodie.write.concurrency.mode": OCC}
MANY_FILES = {"hoodie.parquet.small.file.limit": 0}
"""New keys get new file groups, so that there is something to put together."""
COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"


@cache
def planned(
    table_type: str = COW,
    *,
    skew_ms: int = 0,
    has_lease: bool = False,
    cancellable: bool = True,
    hours: float | None = None,
    instants: int | None = None,
) -> Scene:
    """A table without buckets that has one plan for all of its file groups."""

    def setup(storage: Any, world: Any, lock: Any) -> None:
        if has_lease:
            lock = StorageLock(storage, world, 120_000, LEASE_MS)
        options = {
            "hoodie.table.name": "t",
            "hoodie.table.type": table_type,
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.ordering.fields": "ts",
        }
        create_on(storage, SCHEMA, options)
        table = open_on(storage, world, lock, OPTIONS | MANY_FILES)
        for number in range(UPSERTS):
            table.upsert(batch(BASE, number))
        assert schedule_clustering(
            table._opened,
            sort_by=("ts",),
            cancellable=cancellable,
            cancel_after_hours=hours,
            cancel_after_instants=instants,
        )

    sim = Simulation(0, jump_ms_max=1)
    return set_scene(
        lambda storage, _, lock: setup(storage, sim.world("setup", skew_ms=skew_ms), lock)
    )


# --- what people do -----------------------------------------------------------------------------


def user(
    scene: Stage,
    name: str = "user",
    storage: Any = None,
    options: Mapping[str, object] | None = None,
    engine: LocalEngine | None = None,
    skew_ms: int = 0,
) -> Table:
    """The table as somebody has it open who shares it with others."""
    given = SHARED | MANY_FILES | dict(options or {})
    opened = scene.table(name, storage, options=given, skew_ms=skew_ms)
    return Table(opened, engine or LocalEngine(threads=1))


def cancel(scene: Stage, by: OpenTable | None = None) -> None:
    request_cancel(by or scene.table("canceller"), scene.plan.requested_at, why=WHY)


def abort(scene: Stage, by: OpenTable | None = None) -> Aborted:
    table = by or scene.table("aborter")
    return execute_abort(table, LocalEngine(threads=1), scene.plan.requested_at)


def cancel_and_abort(scene: Stage) -> None:
    cancel(scene)
    scene.sleep(2 * TTL_S)  # whoever was at it is given up
    abort(scene)


def write(scene: Stage, number: int = 7, name: str = "writer", storage: Any = None) -> Commit:
    """Change a row that lies in a file group of the plan, and add one."""
    return user(scene, name, storage).upsert(batch(BASE, number))


def after(*numbers: int) -> dict[str, str]:
    """The rows after writes of these numbers."""
    rows = dict(ROWS)
    for number in numbers:
        rows |= {f"{BASE}-{number}": BASE, "shared": f"{BASE}-{number}"}
    return rows


def cancelled(scene: Stage) -> bool:
    return scene.plan.requested_at in list_cancelled(scene.memory)


# --- what must be so ----------------------------------------------------------------------------


def ensure_aborted(scene: Stage, rows: Mapping[str, str] = ROWS) -> None:
    """The plan is aborted, once and for all, and nothing of it is left once somebody has cleaned up
    after the dead."""
    ensure_consistent(scene, rows)
    now = scene.now()
    assert now is not None and now.is_aborted, now
    roll_back_expired(scene.table("sweeper"), waits=True)
    assert scene.files() == set()
    assert list_leftovers(scene.memory) == []
    assert not cancelled(scene)
    assert scene.memory.walk(layout.GUARDS) == []
    assert scene.memory.info(layout.heartbeat(scene.plan.requested_at)) is None


def ensure_consistent(scene: Stage, rows: Mapping[str, str] = ROWS) -> None:
    assert scene.rows() == dict(rows)
    assert check_table(scene.memory) == []
    assert verify_table(scene.memory) == []


def sleeping(
    scene: Stage,
    number: int,
    act: Callable[[OpenTable], object],
    meanwhile: Callable[[], object],
    *,
    holding: bool = False,
) -> tuple[object, bool]:
    """What became of somebody who did `act`, slept at storage call `number` while others acted, and
    went on; and whether it came so far. One who is `holding` the lock sleeps all the same."""
    gate = Gate(scene.memory, lambda op, path: False, meanwhile)
    table = scene.table("sleeper", gate, options=SHARED | MANY_FILES)
    when = nth_call(number)
    gate._when = when if holding else outside_the_lock(scene, when)
    return attempt(lambda: act(table)), gate.is_passed


def dying(scene: Stage, number: int, act: Callable[[OpenTable], object]) -> bool:
    """Whether somebody who did `act` came to storage call `number`, and died there."""
    gate = Gate(scene.memory, lambda op, path: False, cut_power)
    table = scene.table("dead", gate, options=SHARED | MANY_FILES)
    gate._when = nth_call(number)
    try:
        act(table)
    except PowerCut:
        return True
    return False


def calls_of(scene: Stage, act: Callable[[OpenTable], object]) -> int:
    """How many storage calls `act` makes when nothing happens to it."""
    gate = Gate(scene.memory, lambda op, path: False, cut_power)
    table = scene.table("alone", gate, options=SHARED | MANY_FILES)
    gate.calls.clear()
    act(table)
    return len(gate.calls)
