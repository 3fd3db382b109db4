"""G1, G2: a plan's executor falls asleep at each of its storage calls in turn, another takes the
plan over and falls asleep as well, and each wakes to whatever the other has done meanwhile.

One of them, or whoever comes after, completes the plan, once; its files are there, and the rows are
those of before. Without a lease a sleeper inside a transaction keeps the lock; with one it may not.
"""

from __future__ import annotations

import random
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from lentic.coordination.lock_storage import StorageLock
from lentic.errors import LenticError
from lentic.testing.checkers import check_table
from lentic.testing.simulation import Simulation
from lentic.testing.tables import create_on, open_on
from tests.rfc.claims import says
from tests.simulation.crowd import BASE, SCHEMA, batch
from tests.simulation.faults import HEARTBEAT, LEASE_MS

SLEEP_MS = 30_000
SECOND_SLEEPS = (None, 12, 24, 36)


def _play(has_lease: bool, first: int | None, second: int | None, seed: int) -> Any:
    """Both execute the one plan; each sleeps at one of its calls. The simulation and the table."""
    sim = Simulation(seed)
    storage, plain = sim.storage(), sim.lock(timeout_ms=None)

    def table(name: str, at: Any = storage) -> Any:
        world = sim.world(name)
        lock = StorageLock(at, world, 600_000, LEASE_MS) if has_lease else plain
        return open_on(at, world, lock, HEARTBEAT)

    options = {
        "hoodie.table.name": "t",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.bucket.index.num.buckets": 1,
    }
    create_on(storage, SCHEMA, options)
    for number in range(2):
        table("setup").upsert(batch(BASE, number))
    plan = table("setup").schedule("compaction")
    for name, call in (("x", first), ("y", second)):
        sim.actor(name, partial(_execute, table(name), plan))
        if call is not None:
            sim.pause_at(name, call=call, pause_ms=SLEEP_MS)
    sim.run()
    return sim, table("after", sim.memory), plan


def _execute(table: Any, plan: str) -> None:
    with suppress(LenticError):  # busy, taken over, or its heartbeat lost: all of it is no failure
        table.execute(plan)


@says("rfc79.design.one", "G1")
@pytest.mark.parametrize("has_lease", [False, True], ids=["flock", "lease"])
def test_a_plan_is_completed_once_wherever_its_executors_sleep(has_lease: bool) -> None:
    sim, _, _ = _play(has_lease, None, None, seed=0)
    calls = max(sim.calls("x"), sim.calls("y"))  # whoever was first has done it all
    chance, runs = random.Random(f"take over {has_lease}"), 0
    for first in range(1, calls + 1):
        for second in SECOND_SLEEPS:
            seed = chance.randrange(10**6)
            sim, table, plan = _play(has_lease, first, second, seed)
            told = f"x slept at {first}, y at {second}, seed {seed}\n" + "\n".join(sim.trace)
            table.execute(plan)
            rows = {row["id"]: row["by"] for row in table.read().to_pylist()}
            assert rows == {"base-0": BASE, "base-1": BASE, "shared": "base-1"}, told
            assert check_table(sim.memory) == [], told
            runs += 1
    print(f"\n{runs} take-overs")
    assert runs >= 100
