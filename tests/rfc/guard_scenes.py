"""Tables with one plan on them, for the tests of RFC-79, and storages that let others act."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from lentic.coordination.lock_storage import StorageLock
from lentic.engine import LocalEngine
from lentic.errors import LenticError
from lentic.format import layout
from lentic.format.names import Action
from lentic.format.plans import RollbackPlan, encode_rollback_plan
from lentic.services.clustering import execute_clustering, schedule_clustering
from lentic.services.compaction import execute_compaction, schedule_compaction
from lentic.services.log_compaction import execute_log_compaction, schedule_log_compaction
from lentic.services.outcome import Outcome
from lentic.services.rollback import sweep_markers
from lentic.storage.base import Versioned
from lentic.storage.memory import MemoryStorage
from lentic.testing.checkers import check_table, list_leftovers
from lentic.testing.crash_sweep import Scene, set_scene
from lentic.testing.sim_world import SimLock
from lentic.testing.simulation import Simulation
from lentic.testing.tables import create_on, open_on
from lentic.timeline.instant import PLANS, Instant
from lentic.timeline.reader import load_commit_metadata, load_timeline
from lentic.txn.transaction import OpenTable, transaction
from tests.simulation.crowd import BASE, SCHEMA, batch
from tests.simulation.faults import HEARTBEAT, LEASE_MS
from tests.unit.builders import WrappedStorage

TTL_S = 4.0
DELAY_MIN = 60
HOUR_MS = 3_600_000
OPTIONS = HEARTBEAT | {
    "hoodie.log.compaction.blocks.threshold": 2,
    "lentic.services.rollback_delay_minutes": DELAY_MIN,
}
OLD_S = DELAY_MIN * 60 + 1
"""After so many seconds a removable plan may go."""
UPSERTS = 4
ROWS = {f"{BASE}-{n}": BASE for n in range(UPSERTS)} | {"shared": f"{BASE}-{UPSERTS - 1}"}

COMPACTION, STAYING, CLUSTERING = "compaction", "log compaction", "clustering"
REMOVABLE, REMOVABLE_CLUSTERING = "removable log compaction", "removable clustering"
STAYING_KINDS = (COMPACTION, STAYING, CLUSTERING)
REMOVABLE_KINDS = (REMOVABLE, REMOVABLE_CLUSTERING)
"""Kinds of plans: three that stay until they are completed, and two that do not."""


def schedule(table: OpenTable, kind: str) -> None:
    if kind == COMPACTION:
        assert schedule_compaction(table)
    elif kind in (CLUSTERING, REMOVABLE_CLUSTERING):
        assert schedule_clustering(table, sort_by=("ts",), removable=kind == REMOVABLE_CLUSTERING)
    else:
        assert schedule_log_compaction(table, removable=kind == REMOVABLE)


def execute(table: OpenTable, plan: Instant) -> Outcome:
    """Execute the plan as whoever has `table` open."""
    return _EXECUTE[plan.action](table, LocalEngine(threads=1), plan.requested_at)


_EXECUTE = {
    Action.COMPACTION: execute_compaction,
    Action.LOGCOMPACTION: execute_log_compaction,
    Action.CLUSTERING: execute_clustering,
}


@cache
def planned(kind: str, skew_ms: int = 0, *, has_lease: bool = False) -> Scene:
    """A table with one plan of that kind, made by somebody whose clock is off by `skew_ms`."""

    def setup(storage: Any, world: Any, lock: Any) -> None:
        if has_lease:
            lock = StorageLock(storage, world, 120_000, LEASE_MS)
        options = {
            "hoodie.table.name": "t",
            "hoodie.table.type": "MERGE_ON_READ",
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.ordering.fields": "ts",
            "hoodie.bucket.index.num.buckets": 1,
        }
        create_on(storage, SCHEMA, options)
        table = open_on(storage, world, lock, OPTIONS)
        for number in range(UPSERTS):
            table.upsert(batch(BASE, number))
        schedule(table._opened, kind)

    sim = Simulation(0, jump_ms_max=1)
    return set_scene(
        lambda storage, _, lock: setup(storage, sim.world("setup", skew_ms=skew_ms), lock)
    )


@dataclass
class Stage:
    """A scene that is played: everybody opens the table here, by name."""

    sim: Simulation
    plain: SimLock
    plan: Instant
    has_lease: bool = False

    @property
    def memory(self) -> MemoryStorage:
        return self.sim.memory

    def table(
        self,
        name: str,
        storage: Any = None,
        *,
        skew_ms: int = 0,
        options: Mapping[str, object] | None = None,
    ) -> OpenTable:
        world = self.sim.world(name, skew_ms=skew_ms)
        storage = storage or self.memory
        lock = StorageLock(storage, world, 120_000, LEASE_MS) if self.has_lease else self.plain
        return open_on(storage, world, lock, OPTIONS | (options or {}))._opened

    def sleep(self, seconds: float) -> None:
        """Let time pass for all."""
        self.sim.now_ms += int(seconds * 1000)

    def lock_is_free(self) -> bool:
        return self.plain.holder is None

    def now(self) -> Instant | None:
        """The plan as it stands."""
        return load_timeline(self.memory).find(self.plan)

    def leave(self) -> Scene:
        """The scene as it is now, for others to be played on."""
        files = tuple((file.path, self.memory.read(file.path)) for file in self.memory.walk(""))
        return Scene(files, self.sim.now_ms, self.plain.epoch, self.plain.last_time)

    def rows(self) -> dict[str, str]:
        table = open_on(self.memory, self.sim.world("reader"), self.plain, OPTIONS)
        found = table.read().to_pylist()
        assert len({row["id"] for row in found}) == len(found), f"a key was seen twice: {found}"
        return {row["id"]: row["by"] for row in found}

    def files(self) -> set[str]:
        """Data files that the plan's executions left, visible or not."""
        return {
            file.path
            for file in self.memory.walk("")
            if not file.path.startswith(layout.HOODIE) and self.plan.requested_at in file.name
        }

    def named(self) -> set[str]:
        """Data files that the completed plan names; none if it is not completed."""
        now = self.now()
        if now is None or not now.is_completed:
            return set()
        return set(load_commit_metadata(self.memory, now).paths())


def stage(
    scene: Scene, seed: int = 0, *, has_lease: bool = False, jump_ms_max: int = 1000
) -> Stage:
    """Play a scene that has one pending plan."""
    sim, lock = scene.stage(seed, jump_ms_max=jump_ms_max)
    (plan,) = load_timeline(sim.memory).pending(*PLANS)
    return Stage(sim, lock, plan, has_lease)


class PowerCut(BaseException):
    """The process is gone. No handler of the tested code may survive it."""


def cut_power() -> None:
    raise PowerCut


class Gate(WrappedStorage):
    """Somebody's storage that lets others act, once, before the first call `when` tells. If that
    cuts the power, nothing goes through any more, whatever the code tries to tidy up."""

    def __init__(
        self,
        inner: MemoryStorage,
        when: Callable[[str, str], bool],
        meanwhile: Callable[[], object],
    ) -> None:
        super().__init__(inner)
        self._when, self._meanwhile = when, meanwhile
        self.is_passed = False
        self._is_dead = False

    def before(self, op: str, path: str) -> None:
        if self._is_dead:
            raise PowerCut
        if not self.is_passed and self._when(op, path):
            self.is_passed = True
            try:
                self._meanwhile()
            except PowerCut:
                self._is_dead = True
                raise

    def read_version(self, path: str) -> Versioned | None:
        return self._call("read_version", path, lambda: _conditional(self.inner).read_version(path))

    def put_if_match(self, path: str, data: bytes, version: str | None) -> str | None:
        change = lambda: _conditional(self.inner).put_if_match(path, data, version)  # noqa: E731
        return self._call("put_if_match", path, change)


def _conditional(storage: Any) -> MemoryStorage:
    assert isinstance(storage, MemoryStorage)
    return storage


def nth_call(number: int) -> Callable[[str, str], bool]:
    """The call of that number, counted from 1."""
    calls = iter(range(1, 10**9))
    return lambda op, path: next(calls) == number


# --- what tests say ------------------------------------------------------------------------------


def ensure_sound(stage: Stage) -> None:
    """The rows are those of before, and no commit names a file that is not there."""
    assert stage.rows() == ROWS
    assert check_table(stage.memory) == []


def ensure_done_once(stage: Stage) -> None:
    ensure_sound(stage)
    now = stage.now()
    assert now is not None and now.is_completed
    sweep_markers(stage.table("sweeper"))
    assert stage.files() == stage.named()
    assert list_leftovers(stage.memory) == []


def calls_of(kind: str) -> list[tuple[str, str]]:
    """The storage calls of an execution that nothing happens to."""
    alone = stage(planned(kind))
    gate = Gate(alone.memory, lambda op, path: False, lambda: None)
    table = alone.table("x", gate)
    gate.calls.clear()
    execute(table, alone.plan)
    return gate.calls


def attempt(act: Callable[[], object]) -> object:
    """What `act` returns, or the error it raises; only errors of ours are results (G11)."""
    try:
        return act()
    except LenticError as error:
        return error


def die_at(scene: Stage, when: Callable[[str, str], bool], name: str = "dead") -> None:
    """An execution of the plan that ends at a call without another word."""
    with pytest.raises(PowerCut):
        execute(scene.table(name, Gate(scene.memory, when, cut_power)), scene.plan)


def keep_beating(scene: Stage, observer: OpenTable) -> None:
    """Let the plan's heartbeat change whenever `observer` waits, as that of a living one does."""
    path, beats, sleep = (
        layout.heartbeat(scene.plan.requested_at),
        iter(range(1000)),
        observer.world.clock.sleep,
    )

    def sleeping(seconds: float) -> None:
        sleep(seconds)
        scene.memory.replace(path, b"%d" % next(beats))

    observer.world.clock.sleep = sleeping  # type: ignore[method-assign]


def outside_the_lock(scene: Stage, when: Callable[[str, str], bool]) -> Callable[[str, str], bool]:
    """A sleeper that holds a lock without a lease keeps all others out."""
    return lambda op, path: when(op, path) and scene.lock_is_free()


def before_its_commit(op: str, path: str) -> bool:
    """The moment the file would appear by which readers see the plan's result."""
    return op == "put_if_absent" and path.startswith(layout.TIMELINE) and "_" in path


def after_its_files(op: str, path: str) -> bool:
    return op == "put_if_absent" and path.endswith("statuses.json")


def requests(scene: Stage, action: Action = Action.ROLLBACK) -> tuple[Instant, ...]:
    return tuple(i for i in load_timeline(scene.memory).instants if i.action is action)


def request_rollback(scene: Stage, *files: str) -> Instant:
    """A rollback of the plan that somebody, say Apache Hudi, has planned and not carried out."""
    with transaction(scene.table("hudi")) as txn:
        plan = RollbackPlan(scene.plan.requested_at, scene.plan.action, files)
        return txn.request(Action.ROLLBACK, encode_rollback_plan(plan, scene.memory.root))
