"""Tables in memory and a runner over them, on a clock that stands still."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lentic.coordination.lock import LockProvider
from lentic.coordination.lock_process import ProcessLock
from lentic.engine import Engine, LocalEngine
from lentic.errors import TableNotFound
from lentic.format import layout
from lentic.format.times import RequestedAt
from lentic.runner.brake import Brake, heeding_world
from lentic.runner.events import Event
from lentic.runner.find import Place
from lentic.runner.loop import Orders, Outside, Runner
from lentic.runner.metrics import Metrics
from lentic.storage.base import Storage
from lentic.storage.memory import MemoryStorage
from lentic.table import Table
from lentic.testing.tables import create_on, open_on
from lentic.txn.transaction import OpenTable
from lentic.world import World
from tests.unit.builders import START_MS, StillClock, WrappedStorage, still_world

SCHEMA = pa.schema([("id", pa.string()), ("at", pa.int64())])
TTL_S = 4.0
OPTIONS: dict[str, object] = {
    "hoodie.client.heartbeat.interval_in_ms": 2_000,
    "hoodie.client.heartbeat.tolerable.misses": 2,
    "hoodie.compact.inline.max.delta.commits": 2,
    "hoodie.time.generator.max_expected_clock_skew_ms": 86_400_000,
}


@dataclass
class Told:
    """A stop that is asked for by hand."""

    is_asked: bool = False
    is_urgent: bool = False

    def wait(self, seconds: float) -> None:
        self.is_asked = True


@dataclass
class Ticks(StillClock):
    """A clock, and background work that is done whenever somebody waits by it."""

    ms: int = START_MS
    works: list[Callable[[], object]] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        for work in tuple(self.works):
            work()

    @contextmanager
    def every(self, seconds: float, work: Callable[[], object]) -> Iterator[None]:
        self.works.append(work)
        yield
        self.works.remove(work)


def ticking_world() -> World:
    ticks = Ticks()
    return replace(still_world(), clock=ticks, background=ticks)


def process_lock(storage: Storage, world: World) -> LockProvider:
    return ProcessLock(storage.root, 1_000)


@dataclass
class Lake:
    """Tables by name, and what a runner over them said."""

    options: dict[str, object] = field(default_factory=dict)
    world: World = field(default_factory=still_world)
    storages: dict[str, WrappedStorage] = field(default_factory=dict)
    stop: Told = field(default_factory=Told)
    metrics: Metrics = field(default_factory=Metrics)
    events: list[Event] = field(default_factory=list)
    on_open: Callable[[str], object] = lambda name: None
    engine: Engine = field(default_factory=lambda: LocalEngine(threads=1))
    brake: Brake = field(default_factory=Brake)
    make_lock: Callable[[Storage, World], LockProvider] = process_lock

    @property
    def clock(self) -> StillClock:
        assert isinstance(self.world.clock, StillClock)
        return self.world.clock

    def add(
        self,
        name: str,
        *,
        commits: int = 0,
        table_type: str = "MERGE_ON_READ",
        buckets: int | None = 1,
    ) -> Table:
        self.storages[name] = WrappedStorage(MemoryStorage(root=f"memory://{name}"))
        given = {
            "hoodie.table.name": name,
            "hoodie.table.type": table_type,
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.ordering.fields": "at",
        }
        if buckets is not None:
            given["hoodie.bucket.index.num.buckets"] = str(buckets)
        create_on(self.storages[name], SCHEMA, given)
        table = self.open(name)
        for number in range(commits):
            self.write(table, number)
        return table

    def open(self, name: str, **options: object) -> Table:
        storage, world = self.storages[name], heeding_world(self.world, self.brake)
        return open_on(
            storage,
            world,
            self.make_lock(storage.inner, world),
            OPTIONS | self.options | options,
            self.engine,
        )

    def write(self, table: Table, number: int) -> None:
        table.upsert(pa.table([[f"k{number}"], [number]], schema=SCHEMA))
        self.clock.ms += 10

    def parts(self, place: Place) -> tuple[OpenTable, Engine]:
        self.on_open(place.name)
        if place.name not in self.storages:
            raise TableNotFound(f"There is no table at {place.name}.")
        table = self.open(place.name)
        return table._opened, self.engine

    def find(self) -> tuple[Place, ...]:
        return tuple(Place(name, name) for name in self.storages)

    def runner(self, orders: Orders | None = None) -> Runner:
        outside = Outside(
            self.world,
            self.stop,
            self.find,
            self.parts,
            self.events.append,
            self.metrics,
            self.brake,
        )
        return Runner(orders or Orders(), outside)

    def told(self) -> list[tuple[str, str, str]]:
        """Table, action and outcome of each line since the last call."""
        found = [(event.table, event.action, event.result.value) for event in self.events]
        self.events.clear()
        return found

    def calls(self, name: str) -> list[str]:
        """What was asked of a table's storage since the last call."""
        storage = self.storages[name]
        found = [f"{op} {path}" for op, path in storage.calls]
        storage.calls.clear()
        return found

    def beat(self, name: str, at: RequestedAt, content: bytes) -> None:
        """What a living executor does now and then."""
        self.storages[name].inner.replace(layout.heartbeat(at), content)
