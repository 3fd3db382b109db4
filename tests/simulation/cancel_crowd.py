"""Writers, clusterings and those who cancel them on one table, with faults by seed; then the faults
stop.

Two writers, two who plan and execute clusterings, two who cancel and abort them by hand, a cleaner,
an archiver and a reader. `play` runs one seed; `cancel_judge.py` says what it violates.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, TypeVar

import pyarrow as pa

from lentic.coordination.lock import LockProvider
from lentic.coordination.lock_storage import StorageLock
from lentic.errors import Conflict, LenticError, LockTimeout, MissingFile, Refused
from lentic.format.names import Action
from lentic.storage.base import Storage
from lentic.table import Table
from lentic.testing.crash_sweep import Scene, set_scene
from lentic.testing.simulation import Outcome, Simulation
from lentic.testing.tables import create_on, open_on
from lentic.timeline.reader import load_timeline
from lentic.world import World
from tests.simulation.crowd import NBCC, OCC
from tests.simulation.faults import (
    HEARTBEAT,
    LEASE_MS,
    Planned,
    arrange,
    choose_aimed,
    choose_faults,
    describe,
    rows_of,
)

SCHEMA = pa.schema(
    [("id", pa.string()), ("ts", pa.int64()), ("by", pa.string()), ("part", pa.string())]
)
PARTITIONS = ("p0", "p1", "p2")
BUSY = PARTITIONS[:2]
"""The partitions that are written to; nothing happens in the others."""
WRITERS = ("w1", "w2")
EXECUTORS = ("x1", "x2")
CANCELLERS = ("k1", "k2")
OTHERS = ("cleaner", "archiver")
ROUNDS = 2
NUMBERS = (5, 6)
"""What writers call their batches, one per round."""
TRIES_MAX = 3
PROMISE = "promise"
"""What the trace calls the moment from which somebody may rely on a plan never completing."""
LAST_CALL = {"w": 140, "x": 140, "k": 50, "c": 90, "a": 40}

OPTIONS = HEARTBEAT | {
    "hoodie.parquet.small.file.limit": 0,
    "hoodie.clean.commits.retained": 3,
    "hoodie.keep.min.commits": 4,
    "hoodie.keep.max.commits": 5,
    "lentic.services.rollback_delay_minutes": 0,
    "lentic.clustering.cancel_poll_ms": 300,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A clustering that somebody plans: of these partitions, or of what changed."""

    partitions: tuple[str, ...] | None = None
    cancellable: bool = True
    after_instants: int | None = None
    removable: bool = False

    def schedule(self, table: Table) -> str | None:
        return table.schedule(
            "clustering",
            sort_by=("ts", "id"),
            partitions=self.partitions,
            cancellable=self.cancellable,
            cancel_after_instants=self.after_instants,
            removable=self.removable,
        )


@dataclass(frozen=True, slots=True)
class Shape:
    """The table as the actors find it."""

    mode: str
    table_type: str
    buckets: int | None
    groups_max: int
    """How much a plan takes on; the rest it leaves to the next."""
    first: Asked | None
    """A plan that is there from the beginning."""

    @property
    def options(self) -> dict[str, Any]:
        return OPTIONS | {
            "hoodie.write.concurrency.mode": self.mode,
            "hoodie.clustering.plan.strategy.max.num.groups": self.groups_max,
        }


@dataclass(frozen=True, slots=True)
class Plot:
    """What a seed decides before anybody acts."""

    shape: Shape
    has_lease: bool
    retries: int
    waits: bool
    """Whether the cleaner waits until it knows who is dead."""
    joins: bool
    """Whether executors take on what is planned already rather than plan anew."""
    looks: int
    """How often those who cancel look for something to cancel."""
    asked: tuple[Asked, ...]
    """Per executor and round."""
    writes: tuple[tuple[str, ...], ...]
    """The partitions per writer and round."""
    faults: tuple[Planned, ...]

    @property
    def options(self) -> dict[str, Any]:
        retries = {"hoodie.write.num.retries.on.conflict.failures": self.retries}
        return self.shape.options | retries

    @property
    def plans(self) -> tuple[Asked, ...]:
        return (*self.asked, *filter(None, [self.shape.first]))

    def is_struck(self, name: str, by: str = "") -> bool:
        return any(who == name and kind.startswith(by) for who, _, kind in self.faults)

    def slept(self, names: Sequence[str]) -> list[int]:
        """How long each of these that sleeps does so, in milliseconds, the longest first."""
        kinds = (kind.split() for who, _, kind in self.faults if who in names)
        return sorted((int(how) for what, how in kinds if what == "pause"), reverse=True)

    @property
    def has_pauses(self) -> bool:
        return any(kind.startswith("pause") for _, _, kind in self.faults)


def plot_of(seed: int) -> Plot:
    chance = random.Random(f"cancels {seed}")
    mode = NBCC if chance.random() < 0.35 else OCC
    table_type = "MERGE_ON_READ" if mode == NBCC or chance.random() < 0.5 else "COPY_ON_WRITE"
    buckets = 1 if mode == NBCC or chance.random() < 0.25 else None
    first = _choose_asked(chance) if chance.random() < 0.8 else None
    plot = Plot(
        shape=Shape(mode, table_type, buckets, chance.choice((1, 30)), first),
        has_lease=chance.random() < 0.5,
        retries=chance.choice((0, 4)),
        waits=chance.random() < 0.6,
        joins=chance.random() < 0.5,
        looks=chance.choice((0, 2, 5, 5, 5)),
        asked=tuple(_choose_asked(chance) for _ in range(len(EXECUTORS) * ROUNDS)),
        writes=tuple(_choose_partitions(chance) for _ in range(len(WRITERS) * ROUNDS)),
        faults=(),
    )
    kind = chance.random()
    if kind < 0.07:
        return plot
    if kind < 0.30:
        return replace(plot, faults=_choose_sleeper(chance))
    if kind < 0.42:
        faults = _choose_heirs(chance)
        looks = 0 if plot.looks < 5 else 2
        return replace(plot, joins=True, looks=looks, faults=faults)
    faults = [
        fault
        for name in (*WRITERS, *EXECUTORS, *CANCELLERS, *OTHERS)
        for fault in choose_faults(chance, [name], 0.35, LAST_CALL[name[0]])
    ]
    return replace(plot, faults=tuple(faults))


def aimed_plot_of(seed: int) -> Plot:
    """The plot of a seed with sleepers at the worst places."""
    calm = replace(plot_of(seed), has_lease=True, faults=())
    chance = random.Random(f"aimed cancels {seed}")
    return replace(calm, faults=choose_aimed(chance, play(seed, calm).sim.trace))


def _choose_sleeper(chance: random.Random) -> tuple[Planned, ...]:
    """One and nothing else."""
    name = chance.choice((*EXECUTORS, *CANCELLERS, "cleaner", "w1"))
    pause_ms = chance.choice((30_000, chance.randint(4_100, 9_000)))
    return ((name, chance.randint(5, LAST_CALL[name[0]]), f"pause {pause_ms}"),)


def _choose_heirs(chance: random.Random) -> tuple[Planned, ...]:
    """One begins to execute a plan and sleeps until it is given up; another takes the plan over,
    and is slow, so that the first wakes while it is at it."""
    one, other = chance.sample(EXECUTORS, 2)
    return (
        (one, chance.randint(16, 42), f"pause {chance.randint(5_000, 7_500)}"),
        (other, 1, "pause 1500"),
        (other, chance.randint(40, 85), f"pause {chance.randint(900, 1_900)}"),
    )


def _choose_partitions(chance: random.Random) -> tuple[str, ...]:
    return chance.choice((BUSY, BUSY[:1], BUSY[1:]))


def _choose_asked(chance: random.Random) -> Asked:
    cancellable = chance.random() < 0.8
    return Asked(
        partitions=_choose_partitions(chance) if chance.random() < 0.4 else None,
        cancellable=cancellable,
        after_instants=chance.choice((None, None, 1, 2)) if cancellable else None,
        removable=chance.random() < 0.25,
    )


# --- the run ------------------------------------------------------------------------------------


@dataclass
class Played:
    """One run: how each ended, and what was seen on the way."""

    sim: Simulation
    lock: LockProvider
    plot: Plot
    outcome: dict[str, Outcome] = field(default_factory=dict)
    written: dict[str, set[int]] = field(default_factory=dict)
    refusals: list[tuple[str, LenticError]] = field(default_factory=list)
    """Which writer was refused, and why; it tried again."""
    snapshots: list[frozenset[str]] = field(default_factory=list)

    def table(self, name: str) -> Table:
        sim = self.sim
        storage, world = sim.storage(), sim.world(name)
        lock = StorageLock(storage, world, 120_000, LEASE_MS) if self.plot.has_lease else self.lock
        return open_on(storage, world, lock, self.plot.options)

    def __str__(self) -> str:
        return describe(self.plot, self.outcome, self.sim)


def key(writer: str, number: int, partition: str) -> str:
    return f"{writer}-{number}-{partition}"


def shared(partition: str) -> str:
    """The key of a partition that all fight over."""
    return f"shared-{partition}"


def stamp(writer: str, number: int) -> int:
    """Which of two rows wins; no two writes have the same."""
    return 10 * number + (WRITERS.index(writer) if writer in WRITERS else 0) + 1


def batch(writer: str, number: int, partitions: Sequence[str] = PARTITIONS) -> pa.Table:
    """Two rows per partition: one of the writer's own, and one for the key of all."""
    rows = [
        {"id": name, "ts": stamp(writer, number), "by": f"{writer}-{number}", "part": partition}
        for partition in partitions
        for name in (key(writer, number, partition), shared(partition))
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@cache
def _scene(shape: Shape) -> Scene:
    def setup(storage: Storage, world: World, lock: LockProvider) -> None:
        create_on(
            storage,
            SCHEMA,
            {
                "hoodie.table.name": "t",
                "hoodie.table.type": shape.table_type,
                "hoodie.table.recordkey.fields": "id",
                "hoodie.table.partition.fields": "part",
                "hoodie.table.ordering.fields": "ts",
            }
            | ({"hoodie.bucket.index.num.buckets": shape.buckets} if shape.buckets else {}),
        )
        table = open_on(storage, world, lock, shape.options)
        for number in range(2):
            table.upsert(batch("base", number))
        if shape.first is not None:
            assert shape.first.schedule(table) is not None

    return set_scene(setup)


def play(seed: int, plot: Plot) -> Played:
    """Run the seed to its end."""
    sim, lock = _scene(plot.shape).stage(seed, jump_ms_max=100, steps_max=120_000)
    played = Played(sim, lock, plot)
    acts: dict[str, Callable[[Played, str], object]] = {
        "w": _write,
        "x": _execute,
        "k": _cancel,
        "c": _clean,
        "a": _archive,
        "r": _read,
    }
    for name in (*WRITERS, *EXECUTORS, *CANCELLERS, *OTHERS, "reader"):
        sim.actor(name, partial(acts[name[0]], played, name))
    arrange(sim, plot.faults)
    played.outcome = sim.run()
    if plot.has_lease:
        played.lock = StorageLock(sim.memory, sim.world("after"), 120_000, LEASE_MS)
    return played


def _write(played: Played, writer: str) -> None:
    """Each batch until it is in, or was refused too often."""
    table, done = played.table(writer), played.written.setdefault(writer, set())
    for number, partitions in zip(NUMBERS, share(played.plot.writes, WRITERS, writer), strict=True):
        _rest(table, 1_000)
        for _ in range(TRIES_MAX):
            try:
                table.upsert(batch(writer, number, partitions))
                done.add(number)
                break
            except (Conflict, MissingFile, LockTimeout) as error:
                played.refusals.append((writer, error))


def _execute(played: Played, name: str) -> None:
    """Plan, and execute; to lose against others is no failure."""
    table = played.table(name)
    for asked in share(played.plot.asked, EXECUTORS, name):
        with suppress(Conflict):
            pending = load_timeline(table._opened.storage).pending(Action.CLUSTERING)
            joins = pending and played.plot.joins
            at = str(pending[0].requested_at) if joins else asked.schedule(table)
            if at is not None:
                _rest(table, 1_500)
                table.execute(at)


def _cancel(played: Played, name: str) -> None:
    """Cancel some of the plans that are there, and abort some that are cancelled."""
    table = played.table(name)
    entropy = table._opened.world.entropy
    for look in range(played.plot.looks):
        _rest(table, 700 * (1 + look))
        for plan in load_timeline(table._opened.storage).pending(Action.CLUSTERING):
            at = str(plan.requested_at)
            if entropy.integer(2):
                with suppress(Conflict, Refused):
                    table.request_cancel(at)
                    played.sim.log(PROMISE, at, "")
            if entropy.integer(2):
                with suppress(Conflict, Refused):
                    table.execute_abort(at)


def _clean(played: Played, name: str) -> None:
    table = played.table(name)
    for _ in range(ROUNDS):
        _rest(table, 2_000)
        with suppress(Conflict):
            table.clean(wait=played.plot.waits)


def _archive(played: Played, name: str) -> None:
    table = played.table(name)
    for _ in range(ROUNDS + 1):
        _rest(table, 2_000)
        with suppress(Conflict):
            table.archive()


def _read(played: Played, name: str) -> None:
    table = played.table(name)
    for _ in range(3):
        with suppress(MissingFile):  # a clean that keeps few commits may overtake a reader
            played.snapshots.append(frozenset(rows_of(table)))
        _rest(table, 3_000)


def _rest(table: Table, most_ms: int) -> None:
    world = table._opened.world
    world.clock.sleep((1 + world.entropy.integer(most_ms)) / 1000)


T = TypeVar("T")


def share(given: Sequence[T], names: Sequence[str], name: str) -> Sequence[T]:
    at = names.index(name) * ROUNDS
    return given[at : at + ROUNDS]
