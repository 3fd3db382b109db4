"""Clustering is killed at every storage call, and meets writers at every storage call.

No row is lost, doubled or changed by it, whatever happens. Ingestion never waits for it: a
clustering whose groups were written to after its plan yields, and its plan ends as aborted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from lentic.config.clustering import Curve
from lentic.engine import LocalEngine
from lentic.errors import ConfigError, Conflict, PlanBusy
from lentic.format.names import Action
from lentic.services.clustering import execute_clustering, schedule_clustering
from lentic.services.outcome import Aborted, Committed, Outcome
from lentic.testing.checkers import check_table, list_leftovers
from lentic.testing.crash_sweep import CrashRun, Flow, crash_points, run_with_crash, set_scene
from lentic.testing.simulation import Raised, Returned, Simulation
from lentic.testing.tables import create_on, open_on
from lentic.timeline.reader import load_timeline
from tests.simulation import flows
from tests.simulation.cases import distinct, sample
from tests.simulation.flows import SCHEMA, Rows, after, compact, fold, options, read, upsert

FIRST: Rows = {"a0": 5, "b0": 1, "c1": 1, "d1": 1}
SECOND: Rows = {"a0": 7, "b0": 0, "e1": 2, "f2": 2}
THIRD: Rows = {"a0": 8, "g0": 3}
FIRST_SEED = int(os.environ.get("LENTIC_SIM_SEED", "0"))
SEEDS = int(os.environ.get("LENTIC_SIM_SEEDS", "20"))

KINDS = ["MERGE_ON_READ 2", "MERGE_ON_READ 0", "COPY_ON_WRITE 2", "COPY_ON_WRITE 0"]
EVERY = pytest.mark.parametrize("kind", KINDS)


def create(kind: str) -> Flow:
    table_type, buckets = kind.split()
    given = options(table_type) | {"hoodie.bucket.index.num.buckets": int(buckets)}
    if buckets == "0":
        del given["hoodie.bucket.index.num.buckets"]
    return lambda storage, world, lock: create_on(storage, SCHEMA, given)


def cluster(storage: Any, world: Any, lock: Any) -> Outcome | None:
    """Plan and execute."""
    table = open_on(storage, world, lock)._opened
    at = schedule_clustering(table, sort_by=("ts", "id"), curve=Curve.HILBERT)
    return None if at is None else execute_clustering(table, LocalEngine(threads=1), at)


def finish(storage: Any, world: Any, lock: Any) -> int:
    """Execute what is planned; how many plans yielded."""
    table = open_on(storage, world, lock)._opened
    plans = load_timeline(storage).pending(Action.CLUSTERING)
    ends = [execute_clustering(table, LocalEngine(threads=1), p.requested_at) for p in plans]
    return sum(isinstance(end, Aborted) for end in ends)


def read_of(run: CrashRun) -> Rows:
    return read(run.storage, run.world, run.lock)


def killed(kind: str) -> Iterator[CrashRun]:
    start = set_scene(after(create(kind), upsert(FIRST, SECOND)))
    points = sample(crash_points(cluster, start), 50, f"clustering {kind}")
    return distinct(run_with_crash(cluster, point, start) for point in points)


def is_pending(storage: Any) -> bool:
    return bool(load_timeline(storage).pending(Action.CLUSTERING))


@EVERY
def test_a_killed_clustering_changes_no_row_and_can_be_run_again(kind: str) -> None:
    expected = fold(FIRST, SECOND)
    ends = set()
    for run in killed(kind):
        assert read_of(run) == expected, run
        assert check_table(run.storage) == [], run
        ends.add(is_pending(run.storage))
        cluster(run.storage, run.world, run.lock)
        assert read_of(run) == expected, run
        assert not is_pending(run.storage), run
        upsert(THIRD)(run.storage, run.world, run.lock)
        assert read_of(run) == fold(FIRST, SECOND, THIRD), run
        assert check_table(run.storage) == [] and list_leftovers(run.storage) == [], run
    assert ends == {True, False}, "both outcomes must occur, or the sweep proves nothing"


@EVERY
def test_a_killed_clustering_does_not_stop_upserts_and_yields_to_them(kind: str) -> None:
    expected = fold(FIRST, SECOND, THIRD)
    for run in killed(kind):
        upsert(THIRD)(run.storage, run.world, run.lock)
        assert read_of(run) == expected, run
        was_pending = is_pending(run.storage)
        yielded = finish(run.storage, run.world, run.lock)
        assert yielded == (was_pending and kind != "MERGE_ON_READ 2"), run
        assert not is_pending(run.storage), run
        assert read_of(run) == expected, run
        assert check_table(run.storage) == [] and list_leftovers(run.storage) == [], run


@pytest.mark.parametrize("kind", ["MERGE_ON_READ 0", "COPY_ON_WRITE 2"])
def test_a_clustering_that_is_killed_while_it_yields_can_be_run_again(kind: str) -> None:
    def plan(storage: Any, world: Any, lock: Any) -> None:
        schedule_clustering(open_on(storage, world, lock)._opened, sort_by=("ts",))

    start = set_scene(after(create(kind), upsert(FIRST, SECOND), plan, upsert(THIRD)))
    points = sample(crash_points(finish, start), 40, f"yielding {kind}")
    for run in distinct(run_with_crash(finish, point, start) for point in points):
        finish(run.storage, run.world, run.lock)
        upsert({"h0": 1})(run.storage, run.world, run.lock)
        open_on(run.storage, run.world, run.lock).clean()
        assert not is_pending(run.storage), run
        assert read_of(run) == fold(FIRST, SECOND, THIRD, {"h0": 1}), run
        assert check_table(run.storage) == [] and list_leftovers(run.storage) == [], run


BASE: Rows = {"a0": 1, "b0": 1, "c1": 1}
ONE: Rows = {"a0": 2, "one0": 2, "one1": 2}
TWO: Rows = {"a0": 3, "two0": 3, "two1": 3}
SHARED = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.clean.failed.writes.policy": "LAZY",
}


def shared_upsert(batch: Rows) -> Flow:
    def flow(storage: Any, world: Any, lock: Any) -> None:
        open_on(storage, world, lock, SHARED).upsert(flows.arrow(batch))

    return flow


def play(kind: str, seed: int) -> tuple[Simulation, Any, dict[str, Any], list[Rows]]:
    sim = Simulation(seed)
    storage, lock = sim.storage(), sim.lock()
    after(create(kind), upsert(BASE))(storage, sim.world("setup"), lock)
    actors = {"one": shared_upsert(ONE), "two": shared_upsert(TWO), "cluster": cluster}
    if seed % 2 and kind.startswith("MERGE"):
        actors |= {"compact": compact}
    elif seed % 4 == 2:
        actors |= {"again": cluster}
    for name, flow in actors.items():
        sim.actor(name, partial(flow, storage, sim.world(name), lock))
    seen: list[Rows] = []
    reader = sim.world("reader")
    sim.actor("reader", lambda: seen.extend(read(storage, reader, lock) for _ in range(3)))
    return sim, lock, sim.run(), seen


@EVERY
def test_beside_writers_and_other_services_no_row_is_lost_or_doubled(kind: str) -> None:
    ends = set()
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        sim, lock, outcome, seen = play(kind, seed)
        trace = "\n".join(sim.trace)
        for name, end in outcome.items():
            # ConfigError: the plan that was found pending has yielded to a write since.
            mild = (Conflict, PlanBusy) + ((ConfigError,) if name in ("cluster", "again") else ())
            refused = isinstance(end, Raised) and isinstance(end.error, mild)
            assert isinstance(end, Returned) or (refused and name != "reader"), (
                f"seed {seed} {name}: {end}\n{trace}"
            )
        batches = {"one": ONE, "two": TWO}
        done = [batches[name] for name in batches if isinstance(outcome[name], Returned)]
        end = outcome["cluster"]
        ends.add(isinstance(end, Returned) and isinstance(end.value, Committed))
        expected, world, memory = fold(BASE, *done), sim.world("after"), sim.memory
        assert read(memory, world, lock) == expected, f"seed {seed}\n{trace}"
        possible = (BASE, fold(BASE, ONE), fold(BASE, TWO), fold(BASE, ONE, TWO))
        assert all(rows in possible for rows in seen), f"seed {seed} {seen}\n{trace}"
        assert check_table(memory) == [], f"seed {seed}\n{trace}"
        finish(memory, world, lock)
        cluster(memory, world, lock)
        assert read(memory, world, lock) == expected, f"seed {seed}\n{trace}"
        assert not is_pending(memory), f"seed {seed}\n{trace}"
    assert len(ends) == 2 or SEEDS < 20 or kind == "MERGE_ON_READ 2", ends
