"""A table that many share: writers, a compactor, a cleaner and a follower, with faults by seed.

`play` runs one seed and `judge_run` says what it violates. Both are apart from the tests so that
the same run can be judged with a rule of the engine switched off (test_many_writers.py).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from lentic.coordination.lock import LockProvider
from lentic.coordination.lock_storage import StorageLock
from lentic.errors import LockTimeout, PlanBusy
from lentic.format.names import Action
from lentic.format.times import CompletedAt
from lentic.services.failed_writes import roll_back_expired
from lentic.table import Table
from lentic.testing.checkers import check_table
from lentic.testing.simulation import Outcome, Raised, Returned, Simulation
from lentic.testing.tables import create_on, open_on
from lentic.timeline.reader import load_timeline
from tests.simulation.faults import (
    HEARTBEAT,
    KINDS,
    LEASE_MS,
    PAUSES,
    Planned,
    arrange,
    describe,
    is_unknown,
    judge_kinds,
    judge_snapshots,
    list_published,
    list_violations,
    rows_of,
)

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("by", pa.string())])
SHARED = "shared"
BASE = "base"
WRITERS = ("w1", "w2", "w3")
COMPACTORS = ("c1", "c2")
NBCC = "NON_BLOCKING_CONCURRENCY_CONTROL"
OCC = "OPTIMISTIC_CONCURRENCY_CONTROL"


@dataclass(frozen=True, slots=True)
class Plot:
    """What a seed decides before anybody acts."""

    mode: str
    table_type: str
    has_lease: bool
    skews_ms: dict[str, int]
    faults: tuple[Planned, ...]

    @property
    def is_calm(self) -> bool:
        """Nobody has a reason to give anybody up, or to fail."""
        return not self.faults


def plot_of(seed: int) -> Plot:
    chance = random.Random(f"crowd {seed}")
    mode = NBCC if chance.random() < 0.7 else OCC
    table_type = "MERGE_ON_READ" if mode == NBCC or chance.random() < 0.5 else "COPY_ON_WRITE"
    names = (*WRITERS, *COMPACTORS, "cleaner")
    faults = []
    for name in names:
        if chance.random() < 0.5:
            call = chance.randint(10, 140 if name == "cleaner" else 70)
            faults.append((name, call, chance.choice((*KINDS, *PAUSES, *PAUSES))))
    if seed % 3 == 0:  # one sleeper and nothing else, at any of its calls
        faults = [(chance.choice((*WRITERS, COMPACTORS[0])), chance.randint(8, 60), "pause 30000")]
    return Plot(
        mode=mode,
        table_type=table_type,
        has_lease=chance.random() < 0.6,
        skews_ms={name: chance.choice((0, 0, -3_600_000, -600, 500, 600_000)) for name in names},
        faults=tuple(faults) if chance.random() < 0.9 else (),
    )


@dataclass
class Played:
    """One run: how each ended, and what was seen on the way."""

    sim: Simulation
    lock: LockProvider
    plot: Plot
    outcome: dict[str, Outcome]
    followed: list[str] = field(default_factory=list)
    snapshots: list[frozenset[str]] = field(default_factory=list)

    def __str__(self) -> str:
        return describe(self.plot, self.outcome, self.sim)


def batch(writer: str, number: int) -> pa.Table:
    """Two rows: one of the writer's own, and one for the key that all fight over."""
    ts = 10 * number + (WRITERS.index(writer) if writer in WRITERS else 0) + 1
    rows = [(f"{writer}-{number}", ts, writer), (SHARED, ts, f"{writer}-{number}")]
    return pa.table([pa.array(column) for column in zip(*rows, strict=True)], schema=SCHEMA)


def play(seed: int) -> Played:
    """Run the seed to its end."""
    plot = plot_of(seed)
    # Time jumps by little compared with a heartbeat: who is not paused is not starved either.
    sim = Simulation(seed, steps_max=60_000, jump_ms_max=100)
    storage = sim.storage()
    plain = sim.lock()

    def table(name: str) -> Table:
        world = sim.world(name, skew_ms=plot.skews_ms.get(name, 0))
        lock = StorageLock(storage, world, 120_000, LEASE_MS) if plot.has_lease else plain
        return open_on(
            storage, world, lock, HEARTBEAT | {"hoodie.write.concurrency.mode": plot.mode}
        )

    create_on(
        storage,
        SCHEMA,
        {
            "hoodie.table.name": "t",
            "hoodie.table.type": plot.table_type,
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.ordering.fields": "ts",
            "hoodie.bucket.index.num.buckets": 1,
        },
    )
    table("setup").upsert(batch(BASE, 0))
    played = Played(sim, plain, plot, {})
    for writer in WRITERS:
        sim.actor(writer, partial(_write, table, writer))
    if plot.table_type == "MERGE_ON_READ":
        for name in COMPACTORS:
            sim.actor(name, partial(_compact, table, name))
    sim.actor("cleaner", partial(_clean, table))
    sim.actor("follower", partial(_follow, table, played))
    arrange(sim, plot.faults)
    played.outcome = sim.run()
    world = sim.world("after")
    lock = StorageLock(sim.memory, world, 120_000, LEASE_MS) if plot.has_lease else plain
    played.lock = lock
    return played


def _write(table: Callable[[str], Table], writer: str) -> None:
    table(writer).upsert(batch(writer, 1))


def _compact(table: Callable[[str], Table], name: str) -> None:
    """Two of them, so that one may take the other's plan over; being told that it is busy is no
    failure."""
    mine = table(name)
    for _ in range(2):
        with suppress(PlanBusy):
            mine.compact()


def _clean(table: Callable[[str], Table]) -> None:
    opened = table("cleaner")._opened
    for _ in range(3):
        roll_back_expired(opened, waits=True)
        opened.world.clock.sleep(3)


def _follow(table: Callable[[str], Table], played: Played) -> None:
    """Reads what is there, and the completion times since the last look, again and again."""
    for _ in range(3):
        _look(table("follower"), played)


def _look(table: Table, played: Played) -> None:
    played.followed += _completions(table, after=max(played.followed, default=""))
    played.snapshots.append(frozenset(rows_of(table)))


def _completions(table: Table, after: str) -> list[str]:
    writes = load_timeline(table._opened.storage).writes()
    found = [_text(instant.completed_at) for instant in writes]
    return sorted(time for time in found if time > after)


def _text(time: CompletedAt | None) -> str:
    assert time is not None
    return str(time)


# --- what must hold -----------------------------------------------------------------------------


def judge_run(played: Played) -> list[str]:
    """Everything that is wrong with a run; nothing, as it should be."""
    findings = _judge_ends(played)
    sim = played.sim
    table = open_on(
        sim.memory,
        sim.world("after", skew_ms=7_200_000),
        played.lock,
        HEARTBEAT | {"hoodie.write.concurrency.mode": played.plot.mode},
    )
    # R2: what was decided is carried out by whoever comes next, before anybody looks.
    roll_back_expired(table._opened, waits=True)
    findings += check_table(sim.memory)
    findings += _judge_rows(played, table)
    _look(table, played)
    findings += _judge_following(played, table)
    findings += _judge_publication(played)
    if played.plot.table_type == "MERGE_ON_READ":
        before = rows_of(table)
        table.compact()
        if rows_of(table) != before:
            findings.append(f"compaction changed the rows: {before} -> {rows_of(table)}")
        findings += check_table(sim.memory)
    table.upsert(batch(BASE, 5))
    pending = load_timeline(sim.memory).pending(*_WRITES)
    findings += [f"{instant} is still pending" for instant in pending]
    return findings


_WRITES = (Action.COMMIT, Action.DELTACOMMIT)


def _judge_ends(played: Played) -> list[str]:
    findings = judge_kinds(played.outcome)
    struck = {name for name, _, _ in played.plot.faults}
    for name, end in played.outcome.items():
        may_lose = name in struck or played.plot.mode == OCC or name not in WRITERS
        if not may_lose and not isinstance(end, Returned):
            # Who stands still may hold the lock for longer than anybody waits for it.
            timed_out = isinstance(end, Raised) and isinstance(end.error, LockTimeout)
            if not (
                timed_out and any(kind.startswith("pause") for _, _, kind in played.plot.faults)
            ):
                findings.append(f"{name} did not commit although nothing happened to it: {end}")
    return findings


def _judge_rows(played: Played, table: Table) -> list[str]:
    findings = []
    rows = rows_of(table)
    won = [(1, BASE + "-0")]
    for writer in WRITERS:
        end = played.outcome[writer]
        is_there = f"{writer}-1" in rows
        unknown = is_unknown(end)
        if isinstance(end, Returned) and not is_there:
            findings.append(f"{writer} committed and its row is lost")
        if not isinstance(end, Returned) and not unknown and is_there:
            findings.append(f"{writer} was refused and its row is there")
        if is_there:
            won.append((batch(writer, 1)["ts"][0].as_py(), f"{writer}-1"))
    if rows.get(SHARED) != max(won):
        findings.append(f"of {won} the winner is {rows.get(SHARED)}")
    return findings


def _judge_following(played: Played, table: Table) -> list[str]:
    findings = judge_snapshots(played.snapshots)
    every = Counter(_completions(table, after=""))
    if Counter(played.followed) != every:
        findings.append(f"following by completion time missed {every - Counter(played.followed)}")
    return findings


def _judge_publication(played: Played) -> list[str]:
    """P3: when a completion time appears, no greater one was there before."""
    findings, last = [], ""
    for name, time in list_published(played.sim.trace):
        if time <= last:
            findings.append(f"{name} appeared after {last}")
        last = max(last, time)
    return findings


def violations(seed: int) -> list[str]:
    """What is wrong with the run of `seed`."""
    return list_violations(seed, play, judge_run)
