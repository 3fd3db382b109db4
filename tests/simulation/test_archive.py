"""Archiving is killed at every storage call, and runs beside writers and readers.

Nobody may be able to tell from the rows, an instant is never in neither timeline, and the next
archival finishes what a dead one began.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

from lentic.coordination.lock_storage import StorageLock
from lentic.errors import Conflict
from lentic.format import layout
from lentic.services.archive import archive_timeline
from lentic.testing.checkers import check_table, list_leftovers
from lentic.testing.crash_sweep import crash_points, run_with_crash, set_scene
from lentic.testing.simulation import Returned, Simulation
from lentic.testing.tables import open_on
from lentic.timeline.history import load_history
from lentic.timeline.reader import load_timeline
from tests.rfc.claims import says
from tests.simulation.cases import FIRST_SEED, SEEDS, distinct, sample
from tests.simulation.faults import LEASE_MS
from tests.simulation.flows import Rows, after, arrow, create, fold, read, upsert

KEEP = {
    "hoodie.keep.min.commits": 1,
    "hoodie.keep.max.commits": 2,
    "hoodie.timeline.compaction.batch.size": 2,
}
BATCHES: list[Rows] = [{"a0": n, f"n{n}1": n} for n in range(1, 6)]
NEXT: Rows = {"a0": 9, "z1": 9}


def archive(storage: Any, world: Any, lock: Any) -> None:
    archive_timeline(open_on(storage, world, lock, KEEP)._opened)


def write_and_archive(*batches: Rows) -> Any:
    def flow(storage: Any, world: Any, lock: Any) -> None:
        for batch in batches:
            upsert(batch)(storage, world, lock)
            archive(storage, world, lock)

    return flow


def instants(storage: Any) -> list[str]:
    """Every write that completed, active or archived, once each."""
    active = load_timeline(storage).writes()
    archived = load_history(storage).instants
    return sorted({f"{i} {i.completed_at}" for i in (*active, *archived)})


@says("R13")
def test_a_killed_archival_shows_in_nothing_and_the_next_one_finishes_it() -> None:
    setup = after(create("MERGE_ON_READ"), write_and_archive(*BATCHES), upsert(NEXT, NEXT))
    start = set_scene(setup)
    expected = fold(*BATCHES, NEXT)
    whole = run_with_crash(archive, None, start)
    every = instants(whole.storage)
    assert len(every) == 7
    points = sample(crash_points(archive, start), 80, "archive")
    for run in distinct(run_with_crash(archive, point, start) for point in points):
        assert instants(run.storage) == every, run
        assert read(run.storage, run.world, run.lock) == expected, run
        assert check_table(run.storage) == [], run
        archive(run.storage, run.world, run.lock)
        upsert({"y0": 1})(run.storage, run.world, run.lock)
        assert read(run.storage, run.world, run.lock) == fold(*BATCHES, NEXT, {"y0": 1}), run
        assert check_table(run.storage) == [], run
        assert list_leftovers(run.storage) == [], run
        for _ in range(2):
            upsert({"y0": 1})(run.storage, run.world, run.lock)
            archive(run.storage, run.world, run.lock)
        assert len(load_timeline(run.storage).instants) <= 2, run
        assert set(every) < set(instants(run.storage)), run
        ensure_no_double(run)


def ensure_no_double(run: Any) -> None:
    """What is archived is not active any more, and the folder holds what its manifests list."""
    archived = {i.requested_at for i in load_history(run.storage).instants}
    names = [file.name for file in run.storage.list_files(layout.TIMELINE)]
    assert not [name for name in names if name.partition("_")[0].partition(".")[0] in archived], run


def test_archiving_beside_writers_and_readers_shows_in_nothing() -> None:
    archived = set()
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        sim = Simulation(seed)
        storage, lock = sim.storage(), sim.lock()
        create("MERGE_ON_READ")(storage, sim.world("setup"), lock)
        upsert(*BATCHES[:3])(storage, sim.world("setup"), lock)
        known = fold(*BATCHES[:3])
        sim.actor("writer", partial(write_and_archive(*BATCHES[3:]), storage, sim.world("w"), lock))
        for name in ("one", "two"):
            sim.actor(name, partial(archive, storage, sim.world(name), lock))
        seen: list[Rows] = []

        def look(storage: Any = storage, sim: Any = sim, lock: Any = lock, to: Any = seen) -> None:
            to.extend(read(storage, sim.world("r"), lock) for _ in range(4))

        sim.actor("reader", look)
        ends = sim.run()
        trace = f"seed {seed}\n" + "\n".join(sim.trace)
        assert all(isinstance(end, Returned) for end in ends.values()), f"{ends}\n{trace}"
        states = [known, fold(known, BATCHES[3]), fold(*BATCHES)]
        assert all(rows in states for rows in seen), f"{seen}\n{trace}"
        assert read(sim.memory, sim.world("after"), lock) == fold(*BATCHES), trace
        assert len(instants(sim.memory)) == 5, trace
        assert check_table(sim.memory) == [], trace
        archived.add(len(load_history(sim.memory).instants))
    assert max(archived) >= 3


def test_an_archival_that_sleeps_past_its_lease_loses_no_instant() -> None:
    """R13: it wakes when another has archived the same, or more, and goes on where it was."""
    calls = _sleep_at(None)[0].calls("x")
    for call in sample(range(1, calls + 1), 25, "sleeping archival"):
        sim, table = _sleep_at(call)
        trace = f"slept at {call}\n" + "\n".join(sim.trace)
        for number in (7, 8):
            table("after", sim.memory).upsert(arrow({"a0": number}))
            archive_timeline(table("after", sim.memory)._opened)
        assert len(instants(sim.memory)) == 8, trace
        rows = {r["id"]: r["ts"] for r in table("after", sim.memory).read().to_pylist()}
        assert rows == fold(*BATCHES, {"a0": 6}, {"a0": 8}), trace
        assert check_table(sim.memory) == [], trace


def _sleep_at(call: int | None) -> Any:
    """x archives and sleeps at a call, while y writes and archives; the simulation, the tables."""
    sim = Simulation(0)
    storage = sim.storage()

    def table(name: str, at: Any = storage) -> Any:
        world = sim.world(name)
        return open_on(at, world, StorageLock(at, world, 600_000, LEASE_MS), KEEP)

    create("MERGE_ON_READ")(storage, sim.world("setup"), None)
    for batch in BATCHES:
        table("setup").upsert(arrow(batch))

    def sleepy() -> None:
        with suppress(Conflict):
            archive_timeline(table("x")._opened)

    def other() -> None:
        table("y").upsert(arrow({"a0": 6}))
        archive_timeline(table("y")._opened)

    sim.actor("x", sleepy)
    sim.actor("y", other)
    if call is not None:
        sim.pause_at("x", call=call, pause_ms=10 * LEASE_MS)
    ends = sim.run()
    assert all(isinstance(end, Returned) for end in ends.values()), (ends, sim.trace)
    return sim, table
