"""All table services and two writers on one table, with faults by seed; then the faults stop.

`play` runs one seed, `judge_run` says what it violates: first safety, then, with services that run
a few times without faults, liveness: every plan is terminal and nothing stale is left.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from lentic.coordination.lock import LockProvider
from lentic.coordination.lock_storage import StorageLock
from lentic.errors import Conflict, LenticError, MissingFile, OutcomeUnknown
from lentic.format import layout
from lentic.services.failed_writes import roll_back_expired
from lentic.services.verify import verify_table
from lentic.table import Table
from lentic.testing.simulation import Crashed, Deadlock, Outcome, Raised, Returned, Simulation
from lentic.testing.tables import create_on, open_on
from lentic.timeline.reader import load_timeline
from tests.simulation.crowd import LEASE_MS, NBCC, OCC, PAUSES_MS, SCHEMA

WRITERS = ("w1", "w2")
SERVICES = ("compact", "log_compact", "cluster", "clean", "archive")
SHARED = "shared"
OPTIONS = {
    "hoodie.client.heartbeat.interval_in_ms": 2_000,
    "hoodie.client.heartbeat.tolerable.misses": 2,
    "hoodie.time.generator.max_expected_clock_skew_ms": 86_400_000,
    "hoodie.log.compaction.blocks.threshold": 2,
    "hoodie.clean.commits.retained": 2,
    "hoodie.keep.min.commits": 2,
    "hoodie.keep.max.commits": 3,
    "hoodie.write.num.retries.on.conflict.failures": 8,
    "lentic.services.rollback_delay_minutes": 0,
}
LAST_RUNS = 3


@dataclass(frozen=True, slots=True)
class Plot:
    """What a seed decides before anybody acts."""

    mode: str
    table_type: str
    buckets: int | None
    has_lease: bool
    removable: bool
    services: tuple[str, ...]
    faults: tuple[tuple[str, int, str], ...]

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
    faults = []
    kinds = ("crash before", "crash after", "crash torn", "fail before", "fail after")
    pauses = tuple(f"pause {ms}" for ms in PAUSES_MS)
    for name in (*WRITERS, *services):
        if chance.random() < 0.45:
            call = chance.randint(5, 120)
            faults.append((name, call, chance.choice((*kinds, *pauses))))
    return Plot(
        mode=mode,
        table_type=table_type,
        buckets=buckets,
        has_lease=chance.random() < 0.5,
        removable=chance.random() < 0.5,
        services=services,
        faults=tuple(faults) if chance.random() < 0.9 else (),
    )


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
        return "\n".join([str(self.plot), *map(str, self.outcome.items()), *self.sim.trace])


def batch(writer: str, number: int) -> pa.Table:
    """Two rows: one of the writer's own, and one for the key that all fight over."""
    ts = 10 * number + (WRITERS.index(writer) if writer in WRITERS else 0) + 1
    rows = [(f"{writer}-{number}", ts, writer), (SHARED, ts, f"{writer}-{number}")]
    return pa.table([pa.array(column) for column in zip(*rows, strict=True)], schema=SCHEMA)


def play(seed: int) -> Played:
    """Run the seed to its end."""
    plot = plot_of(seed)
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
    for name, call, kind in plot.faults:
        what, _, how = kind.partition(" ")
        if what == "crash":
            sim.crash_at(name, call=call, when=how)  # type: ignore[arg-type]
        elif what == "fail":
            sim.fail_at(name, call=call, when=how)  # type: ignore[arg-type]
        else:
            sim.pause_at(name, call=call, pause_ms=int(how))
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
            played.snapshots.append(frozenset(_rows(table("follower"))))


def _rows(table: Table) -> dict[str, Any]:
    rows = table.read().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows), f"a key was seen twice: {rows}"
    return {row["id"]: (row["ts"], row["by"]) for row in rows}


# --- what must hold -----------------------------------------------------------------------------


def judge_run(played: Played) -> list[str]:
    """Everything that is wrong with a run; nothing, as it should be."""
    sim = played.sim
    world = sim.world("after", skew_ms=7_200_000)
    table = open_on(sim.memory, world, played.lock, played.plot.options)
    findings = _judge_ends(played)
    roll_back_expired(table._opened, waits=True)
    findings += verify_table(sim.memory)
    before = _rows(table)
    findings += _judge_rows(played, before)
    findings += _run_to_rest(table)
    if _rows(table) != before:
        findings.append(f"services changed the rows: {before} -> {_rows(table)}")
    findings += verify_table(sim.memory)
    findings += _judge_rest(table)
    table.upsert(batch("base", 9))
    return findings


def _run_to_rest(table: Table) -> list[str]:
    """Liveness: without faults a few runs of the services bring every plan to its end."""
    for _ in range(LAST_RUNS):
        roll_back_expired(table._opened, waits=True)
        for plan in load_timeline(table._opened.storage).pending():
            with suppress(Conflict, LenticError):
                table.execute(str(plan.requested_at))
        table.clean()
        table.archive()
    return []


def _judge_rest(table: Table) -> list[str]:
    storage = table._opened.storage
    pending = load_timeline(storage).pending()
    findings = [f"{instant} is still pending" for instant in pending]
    for folder in (layout.HEARTBEATS, layout.GUARDS, layout.TEMP):
        findings += [f"{file.path} is left" for file in storage.walk(folder)]
    return findings


def _judge_ends(played: Played) -> list[str]:
    findings = []
    struck = {name for name, _, _ in played.plot.faults}
    for name, end in played.outcome.items():
        if isinstance(end, Raised) and not isinstance(end.error, LenticError):
            findings.append(f"{name} ended with {type(end.error).__name__}: {end.error}")
        alone = name in WRITERS and not struck and played.plot.mode == NBCC
        if alone and not isinstance(end, Returned):
            findings.append(f"{name} did not commit although nothing happened to it: {end}")
    return findings


def _judge_rows(played: Played, rows: dict[str, Any]) -> list[str]:
    findings = []
    won = [(21, "base-2")]
    for writer in WRITERS:
        end = played.outcome[writer]
        unknown = isinstance(end, Crashed) or (
            isinstance(end, Raised) and isinstance(end.error, OutcomeUnknown)
        )
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
    for one, other in zip(played.snapshots, played.snapshots[1:], strict=False):
        if not one <= other:
            findings.append(f"rows were seen and then not: {set(one - other)}")
    if played.snapshots and not played.snapshots[-1] <= rows.keys():
        findings.append("rows were seen and are gone at the end")
    return findings


def violations(seed: int) -> list[str]:
    """What is wrong with the run of `seed`, a deadlock included."""
    played: Played | None = None
    try:
        played = play(seed)
        found = judge_run(played)
    except Deadlock as error:
        return [str(error)]
    except (LenticError, AssertionError) as error:
        return [f"afterwards: {type(error).__name__}: {error}", str(played)]
    return [*found, str(played)] if found else []
