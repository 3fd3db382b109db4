"""All table services and two writers on one table, with faults by seed; then the faults stop.

`play` runs one seed, `judge_run` says what it violates: first safety, then, with services that run
a few times without faults, liveness: every plan is terminal and nothing stale is left.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa

from lentic.coordination.lock import LockProvider
from lentic.coordination.lock_storage import StorageLock
from lentic.errors import Conflict, LenticError, MissingFile
from lentic.format import layout
from lentic.services.failed_writes import roll_back_expired
from lentic.services.verify import verify_table
from lentic.table import Table
from lentic.testing.simulation import Outcome, Returned, Simulation
from lentic.testing.tables import create_on, open_on
from lentic.timeline.reader import load_timeline
from tests.simulation.crowd import NBCC, OCC, SCHEMA
from tests.simulation.faults import (
    HEARTBEAT,
    LEASE_MS,
    Planned,
    arrange,
    choose_aimed,
    choose_faults,
    describe,
    is_unknown,
    judge_kinds,
    judge_snapshots,
    list_violations,
    rows_of,
)

WRITERS = ("w1", "w2")
SERVICES = ("compact", "log_compact", "cluster", "clean", "archive")
SHARED = "shared"
OPTIONS = HEARTBEAT | {
    "hoodie.log.compaction.blocks.threshold": 2,
    "hoodie.clean.commits.retained": 2,
    "hoodie.keep.min.commits": 2,
    "hoodie.keep.max.commits": 3,
    "hoodie.write.num.retries.on.conflict.failures": 8,
    "lentic.services.rollback_delay_minutes": 0,
}
LAST_RUNS = 3
REST_S = 2 * (2 * 2) + 1
"""Two times to live of a heartbeat, by the options above, and what the calls themselves take."""


@dataclass(frozen=True, slots=True)
class Plot:
    """What a seed decides before anybody acts."""

    mode: str
    table_type: str
    buckets: int | None
    has_lease: bool
    removable: bool
    services: tuple[str, ...]
    faults: tuple[Planned, ...]

    @property
    def options(self) -> dict[str, Any]:
        return OPTIONS | {
            "hoodie.write.concurrency.mode": self.mode,
            "lentic.plan.removable": self.removable,
        }


def plot_of(seed: int) -> Plot:
    chance = random.Random(f"services {seed}")
    mode = NBCC if chance.random() < 0.5 else OCC
    table_type = "MERGE_ON_READ" if mode == NBCC or chance.random() < 0.6 else "COPY_ON_WRITE"
    buckets = 1 if mode == NBCC or chance.random() < 0.3 else None
    mine = [s for s in SERVICES if table_type == "MERGE_ON_READ" or not s.endswith("compact")]
    services = tuple(chance.sample(mine, chance.randint(2, len(mine))))
    faults = choose_faults(chance, (*WRITERS, *services), 0.45, 120)
    return Plot(
        mode=mode,
        table_type=table_type,
        buckets=buckets,
        has_lease=chance.random() < 0.5,
        removable=chance.random() < 0.5,
        services=services,
        faults=tuple(faults) if chance.random() < 0.9 else (),
    )


def aimed_plot_of(seed: int) -> Plot:
    """The plot of a seed with sleepers at the worst places."""
    calm = replace(plot_of(seed), has_lease=True, faults=())
    chance = random.Random(f"aimed {seed}")
    return replace(calm, faults=choose_aimed(chance, play(seed, calm).sim.trace))


@dataclass
class Played:
    """One run: how each ended, and what was seen on the way."""

    sim: Simulation
    lock: LockProvider
    plot: Plot
    outcome: dict[str, Outcome]
    written: dict[str, set[int]] = field(default_factory=dict)
    snapshots: list[frozenset[str]] = field(default_factory=list)

    def __str__(self) -> str:
        return describe(self.plot, self.outcome, self.sim)


def batch(writer: str, number: int) -> pa.Table:
    """Two rows: one of the writer's own, and one for the key that all fight over."""
    ts = 10 * number + (WRITERS.index(writer) if writer in WRITERS else 0) + 1
    rows = [(f"{writer}-{number}", ts, writer), (SHARED, ts, f"{writer}-{number}")]
    return pa.table([pa.array(column) for column in zip(*rows, strict=True)], schema=SCHEMA)


def play(seed: int, plot: Plot) -> Played:
    """Run the seed to its end."""
    sim = Simulation(seed, steps_max=120_000, jump_ms_max=100)
    storage, plain = sim.storage(), sim.lock()

    def table(name: str) -> Table:
        world = sim.world(name)
        lock = StorageLock(storage, world, 120_000, LEASE_MS) if plot.has_lease else plain
        return open_on(storage, world, lock, plot.options)

    create_on(
        storage,
        SCHEMA,
        {
            "hoodie.table.name": "t",
            "hoodie.table.type": plot.table_type,
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.ordering.fields": "ts",
        }
        | ({"hoodie.bucket.index.num.buckets": plot.buckets} if plot.buckets else {}),
    )
    setup = table("setup")
    for number in range(3):
        setup.upsert(batch("base", number))
    played = Played(sim, plain, plot, {})
    for writer in WRITERS:
        sim.actor(writer, partial(_write, table, writer, played))
    for service in plot.services:
        sim.actor(service, partial(_serve, table, service))
    sim.actor("follower", partial(_follow, table, played))
    arrange(sim, plot.faults)
    played.outcome = sim.run()
    if plot.has_lease:
        played.lock = StorageLock(sim.memory, sim.world("after"), 120_000, LEASE_MS)
    return played


def _write(table: Callable[[str], Table], writer: str, played: Played) -> None:
    done, mine = played.written.setdefault(writer, set()), table(writer)
    for number in (5, 6):
        mine.upsert(batch(writer, number))
        done.add(number)


def _serve(table: Callable[[str], Table], service: str) -> None:
    """Twice, so that it meets what it left. To lose against others is no failure."""
    mine = table(service)
    for _ in range(2):
        with suppress(Conflict):
            getattr(mine, service)()


def _follow(table: Callable[[str], Table], played: Played) -> None:
    for _ in range(3):
        with suppress(MissingFile):  # a clean that keeps two commits may overtake a reader
            played.snapshots.append(frozenset(rows_of(table("follower"))))


# --- what must hold -----------------------------------------------------------------------------


def judge_run(played: Played) -> list[str]:
    """Everything that is wrong with a run; nothing, as it should be."""
    sim = played.sim
    world = sim.world("after", skew_ms=7_200_000)
    table = open_on(sim.memory, world, played.lock, played.plot.options)
    findings = _judge_ends(played)
    begun = world.clock.monotonic()
    roll_back_expired(table._opened, waits=True)
    findings += verify_table(sim.memory)
    before = rows_of(table)
    findings += _judge_rows(played, before)
    _run_to_rest(table)
    if (took := world.clock.monotonic() - begun) > REST_S:
        findings.append(f"it took {took:.1f} s until everything had come to rest")
    if rows_of(table) != before:
        findings.append(f"services changed the rows: {before} -> {rows_of(table)}")
    findings += verify_table(sim.memory)
    findings += _judge_rest(table)
    table.upsert(batch("base", 9))
    return findings


def _run_to_rest(table: Table) -> None:
    """Liveness: without faults a few runs of the services bring every plan to its end."""
    for _ in range(LAST_RUNS):
        roll_back_expired(table._opened, waits=True)
        for plan in load_timeline(table._opened.storage).pending():
            with suppress(Conflict, LenticError):
                table.execute(str(plan.requested_at))
        table.clean()
        table.archive()


def _judge_rest(table: Table) -> list[str]:
    storage = table._opened.storage
    pending = load_timeline(storage).pending()
    findings = [f"{instant} is still pending" for instant in pending]
    for folder in (layout.HEARTBEATS, layout.GUARDS, layout.TEMP):
        findings += [f"{file.path} is left" for file in storage.walk(folder)]
    return findings


def _judge_ends(played: Played) -> list[str]:
    findings = judge_kinds(played.outcome)
    struck = {name for name, _, _ in played.plot.faults}
    for name, end in played.outcome.items():
        alone = name in WRITERS and not struck and played.plot.mode == NBCC
        if alone and not isinstance(end, Returned):
            findings.append(f"{name} did not commit although nothing happened to it: {end}")
    return findings


def _judge_rows(played: Played, rows: dict[str, Any]) -> list[str]:
    findings = []
    won = [(21, "base-2")]
    for writer in WRITERS:
        unknown = is_unknown(played.outcome[writer])
        for number in (5, 6):
            is_there = f"{writer}-{number}" in rows
            done = number in played.written.get(writer, set())
            if done and not is_there:
                findings.append(f"{writer} committed {number} and its row is lost")
            if not done and not unknown and is_there:
                findings.append(f"{writer} was refused {number} and its row is there")
            if is_there:
                won.append((batch(writer, number)["ts"][0].as_py(), f"{writer}-{number}"))
    if rows.get(SHARED) != max(won):
        findings.append(f"of {won} the winner is {rows.get(SHARED)}")
    if missing := {f"base-{n}" for n in range(3)} - rows.keys():
        findings.append(f"rows of the beginning are lost: {missing}")
    findings += judge_snapshots(played.snapshots)
    if played.snapshots and not played.snapshots[-1] <= rows.keys():
        findings.append("rows were seen and are gone at the end")
    return findings


def violations(seed: int, plot: Plot | None = None) -> list[str]:
    """What is wrong with the run of `seed`, or of another plot."""
    return list_violations(seed, lambda seed: play(seed, plot or plot_of(seed)), judge_run)
