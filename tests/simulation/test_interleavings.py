"""Several actors on one table, interleaved at every storage call by a seed.

Whoever returns has committed: its rows are there for good. Whoever is refused has left nothing. The
newest ordering value of each key wins, whatever the interleaving.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial

import pytest

from lentic.coordination.lock import LockProvider
from lentic.errors import Conflict
from lentic.testing.checkers import check_table
from lentic.testing.simulation import Outcome, Raised, Returned, Simulation
from tests.simulation.flows import Rows, compact, create, fold, read, upsert

BASE: Rows = {"a0": 1, "b0": 1, "c1": 1}
ONE: Rows = {"a0": 2, "one0": 2, "one1": 2}
TWO: Rows = {"a0": 3, "two0": 3, "two1": 3}
FIRST_SEED = int(os.environ.get("LENTIC_SIM_SEED", "0"))
SEEDS = int(os.environ.get("LENTIC_SIM_SEEDS", "40"))


@dataclass(frozen=True)
class Run:
    """One interleaving: how each actor ended, what the reader saw, and what was left."""

    sim: Simulation
    lock: LockProvider
    outcome: dict[str, Outcome]
    seen: list[Rows]

    def __str__(self) -> str:
        return "\n".join(self.sim.trace)


def interleave(table_type: str, seed: int) -> Run:
    sim = Simulation(seed)
    storage, lock = sim.storage(), sim.lock()
    create(table_type)(storage, sim.world("setup"), lock)
    upsert(BASE)(storage, sim.world("setup"), lock)
    for name, flow in (("one", upsert(ONE)), ("two", upsert(TWO)), ("compact", compact)):
        sim.actor(name, partial(flow, storage, sim.world(name), lock))
    seen: list[Rows] = []
    reader = sim.world("reader")
    sim.actor("reader", lambda: seen.extend(read(storage, reader, lock) for _ in range(3)))
    return Run(sim, lock, sim.run(), seen)


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_what_returned_is_there_and_what_was_refused_is_not(table_type: str) -> None:
    ends = set()
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        run = interleave(table_type, seed)
        for name in ("one", "two", "compact"):
            end = run.outcome[name]
            refused = isinstance(end, Raised) and isinstance(end.error, Conflict)
            assert refused or isinstance(end, Returned), f"seed {seed} {name}: {end}\n{run}"
        assert isinstance(run.outcome["reader"], Returned), f"seed {seed}\n{run}"
        batches = {"one": ONE, "two": TWO}
        committed = [batches[n] for n in batches if isinstance(run.outcome[n], Returned)]
        ends.add((len(committed), any(isinstance(o, Raised) for o in run.outcome.values())))

        expected = fold(BASE, *committed)
        world, memory = run.sim.world("after"), run.sim.memory
        assert read(memory, world, run.lock) == expected, f"seed {seed}\n{run}"
        possible = (BASE, fold(BASE, ONE), fold(BASE, TWO), fold(BASE, ONE, TWO))
        assert all(rows in possible for rows in run.seen), f"seed {seed} {run.seen}\n{run}"
        assert check_table(memory) == [], f"seed {seed}\n{run}"
        compact(memory, world, run.lock)
        assert read(memory, world, run.lock) == expected, f"seed {seed}\n{run}"
    assert len(ends) > 1 or SEEDS < 20, (
        "the seeds must lead to different ends, or they prove little"
    )
