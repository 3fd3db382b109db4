"""Several runners on one table under ingestion, with crashes, pauses and failures by seed.

`play` runs one seed; then a runner without faults comes, as a supervisor would start it, and
`judge_run` says what is wrong: rows lost, a plan completed twice, or anything that is still pending
after two times to live and a few cycles.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from lentic.coordination.lock import LockProvider
from lentic.coordination.lock_storage import StorageLock
from lentic.engine import Engine, LocalEngine
from lentic.errors import LenticError
from lentic.runner.decide import Service
from lentic.runner.events import Event, Result
from lentic.runner.find import Place
from lentic.runner.loop import Orders, Outside, Runner
from lentic.runner.metrics import Metrics
from lentic.services.verify import verify_table
from lentic.table import Table
from lentic.testing.simulation import Outcome, Raised, Simulation
from lentic.testing.tables import create_on, open_on
from lentic.timeline.reader import load_timeline
from lentic.txn.transaction import OpenTable
from lentic.world import World
from tests.simulation.crowd import NBCC, OCC, SCHEMA
from tests.simulation.faults import (
    HEARTBEAT,
    KINDS,
    LEASE_MS,
    PAUSES,
    Planned,
    arrange,
    list_violations,
)

RUNNERS = ("r1", "r2", "r3")
WRITER = "writer"
COMMITS = 5
TTL_S = 4.0
OPTIONS = HEARTBEAT | {
    "hoodie.compact.inline.max.delta.commits": 2,
    "hoodie.clustering.inline.max.commits": 3,
    "hoodie.log.compaction.blocks.threshold": 2,
    "hoodie.clean.commits.retained": 2,
    "hoodie.keep.min.commits": 3,
    "hoodie.keep.max.commits": 4,
    "hoodie.write.num.retries.on.conflict.failures": 8,
    "lentic.services.rollback_delay_minutes": 0,
}
LAST_CYCLES = 6


@dataclass(frozen=True, slots=True)
class Plot:
    """What a seed decides before anybody acts."""

    mode: str
    buckets: int | None
    has_lease: bool
    removable: bool
    faults: tuple[Planned, ...]

    @property
    def options(self) -> dict[str, Any]:
        return OPTIONS | {
            "hoodie.write.concurrency.mode": self.mode,
            "lentic.plan.removable": self.removable,
        }


def plot_of(seed: int) -> Plot:
    chance = random.Random(f"runners {seed}")
    mode = NBCC if chance.random() < 0.6 else OCC
    faults = []
    for name in (*RUNNERS, WRITER):
        if chance.random() < 0.6:
            call = chance.randint(10, 400 if name in RUNNERS else 200)
            faults.append((name, call, chance.choice((*KINDS, *KINDS[:3], *PAUSES))))
    return Plot(
        mode=mode,
        buckets=1 if mode == NBCC or chance.random() < 0.4 else None,
        has_lease=chance.random() < 0.5,
        removable=chance.random() < 0.3,
        faults=tuple(faults) if chance.random() < 0.9 else (),
    )


@dataclass
class SimStop:
    """Runs a number of cycles; between them simulated time passes."""

    world: World
    cycles: int
    is_urgent: bool = False

    @property
    def is_asked(self) -> bool:
        return self.cycles <= 0

    def wait(self, seconds: float) -> None:
        self.cycles -= 1
        if self.cycles > 0:
            self.world.clock.sleep(seconds)


@dataclass
class Played:
    """One run: how each ended, and what was told on the way."""

    sim: Simulation
    plot: Plot
    table: Callable[[str], Table]
    outcome: dict[str, Outcome] = field(default_factory=dict)
    written: set[int] = field(default_factory=set)
    events: list[Event] = field(default_factory=list)

    def __str__(self) -> str:
        told = [f"{e.worker} {e.action} {e.instant} {e.result} {e.note}" for e in self.events]
        ends = map(str, self.outcome.items())
        return "\n".join([str(self.plot), *ends, *told, *self.sim.trace])


def batch(number: int) -> pa.Table:
    rows = [(f"k-{number}", number, WRITER), ("shared", number, str(number))]
    return pa.table([pa.array(column) for column in zip(*rows, strict=True)], schema=SCHEMA)


def play(seed: int) -> Played:
    """Run the seed to its end."""
    plot = plot_of(seed)
    sim = Simulation(seed, steps_max=200_000, jump_ms_max=100)
    storage, plain = sim.storage(), sim.lock()

    def table(name: str) -> Table:
        world = sim.world(name)
        lock: LockProvider = plain
        if plot.has_lease:
            lock = StorageLock(storage, world, 120_000, LEASE_MS)
        return open_on(storage, world, lock, plot.options)

    given: dict[str, Any] = {
        "hoodie.table.name": "t",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.ordering.fields": "ts",
    }
    if plot.buckets:
        given["hoodie.bucket.index.num.buckets"] = plot.buckets
    create_on(storage, SCHEMA, given)
    played = Played(sim, plot, table)
    for number in range(2):
        table("setup").upsert(batch(number))
        played.written.add(number)
    sim.actor(WRITER, partial(_write, played))
    for name in RUNNERS:
        sim.actor(name, partial(run_runner, played, name, 5))
    arrange(sim, plot.faults)
    played.outcome = sim.run()
    return played


def _write(played: Played) -> None:
    mine = played.table(WRITER)
    for number in range(10, 10 + COMMITS):
        mine.upsert(batch(number))
        played.written.add(number)
        mine._opened.world.clock.sleep(1)


def run_runner(played: Played, name: str, cycles: int) -> int:
    """One runner, for some cycles; how many of them had a failure."""
    opened: OpenTable = played.table(name)._opened

    def open_table(place: Place) -> tuple[OpenTable, Engine]:
        return opened, LocalEngine(threads=1)

    outside = Outside(
        world=opened.world,
        stop=SimStop(opened.world, cycles),
        find=lambda: (Place("t", "t"),),
        open_table=open_table,
        emit=played.events.append,
        metrics=Metrics(),
    )
    runner = Runner(Orders(services=frozenset(Service), interval_s=1.5), outside)
    runner.run(lambda: None)
    return runner._failures


# --- what must hold -----------------------------------------------------------------------------


def judge_run(played: Played) -> list[str]:
    """Everything that is wrong with a run; nothing, as it should be."""
    findings = _judge_ends(played)
    before = _rows(played)
    findings += _judge_rows(played, before)
    sim, events = played.sim, len(played.events)
    sim.actor("last", partial(run_runner, played, "last", LAST_CYCLES))
    played.outcome = sim.run()
    findings += _judge_ends(played)
    pending = load_timeline(sim.memory).pending()
    findings += [f"{instant} is still pending" for instant in pending]
    findings += verify_table(sim.memory)
    if _rows(played) != before:
        findings.append(f"the last runner changed rows: {before} -> {_rows(played)}")
    failed = [e for e in played.events[events:] if e.result is Result.FAILED]
    findings += [f"without faults {e.action} failed: {e.note}" for e in failed]
    done: dict[str, int] = {}
    for event in played.events:
        if event.result is Result.DONE and event.action not in ("archive", "rollback"):
            done[event.instant] = done.get(event.instant, 0) + 1
    findings += [f"{at} was completed {times} times" for at, times in done.items() if times > 1]
    return findings


def _rows(played: Played) -> dict[str, Any]:
    rows = open_on(
        played.sim.memory, played.sim.world("reader"), played.sim.lock(), played.plot.options
    )
    found = rows.read().to_pylist()
    assert len({row["id"] for row in found}) == len(found), f"a key was seen twice: {found}"
    return {row["id"]: row["ts"] for row in found}


def _judge_rows(played: Played, rows: dict[str, Any]) -> list[str]:
    findings = [
        f"{number} was committed and its row is lost"
        for number in played.written
        if f"k-{number}" not in rows
    ]
    if rows.get("shared", -1) < max(played.written):
        findings.append(f"the newest row is {rows.get('shared')} of {played.written}")
    return findings


def _judge_ends(played: Played) -> list[str]:
    """Runners end in good order or by a crash; the writer may lose, but never to a bug."""
    findings = []
    for name, end in played.outcome.items():
        if isinstance(end, Raised) and (name != WRITER or not isinstance(end.error, LenticError)):
            findings.append(f"{name} ended with {type(end.error).__name__}: {end.error}")
    return findings


def violations(seed: int) -> list[str]:
    """What is wrong with the run of `seed`."""
    return list_violations(seed, play, judge_run)
