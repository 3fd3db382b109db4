"""A clean is killed at every storage call, meets another one, and meets writers: no row cares.

Whatever happens, the table reads the same, the next clean finishes what was begun, and in the end
exactly the retained files are left.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from lentic.api import load_table_config
from lentic.config.groups import REGISTRY, WriteOptions
from lentic.config.options import resolve
from lentic.config.services import ServiceOptions
from lentic.config.sharing import LockOptions, SharingOptions
from lentic.coordination.heartbeat import Watch
from lentic.errors import Conflict
from lentic.format import layout
from lentic.format.names import Action
from lentic.services.clean import run_clean, schedule_clean
from lentic.services.verify import verify_table
from lentic.storage.base import Storage
from lentic.testing.crash_sweep import Scene, crash_points, run_with_crash, set_scene
from lentic.testing.simulation import Raised, Returned
from lentic.timeline.reader import load_timeline
from lentic.txn.transaction import OpenTable
from tests.simulation.cases import FIRST_SEED, SEEDS, sample
from tests.simulation.flows import Rows, after, compact, create, fold, read, upsert

BATCHES: tuple[Rows, ...] = tuple({"a0": n, f"k{n}1": n} for n in range(1, 5))
LATE: Rows = {"a0": 9, "z0": 9}
OPTIONS = {"hoodie.clean.commits.retained": 1}
LAZY = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.clean.failed.writes.policy": "LAZY",
}


def open_table(
    storage: Any, world: Any, lock: Any, more: dict[str, Any] | None = None
) -> OpenTable:
    options = resolve({**OPTIONS, **(more or {})}, REGISTRY)
    sharing = SharingOptions.parse(options)
    return OpenTable(
        storage=storage,
        config=load_table_config(storage),
        lock=lock,
        world=world,
        write_options=WriteOptions.parse(options),
        lock_options=LockOptions.parse(options),
        sharing=sharing,
        services=ServiceOptions.parse(options),
        watch=Watch(world.clock, sharing.heartbeat_interval_ms * sharing.heartbeat_misses),
    )


def clean(storage: Any, world: Any, lock: Any) -> None:
    run_clean(open_table(storage, world, lock))


def clean_lazily(storage: Any, world: Any, lock: Any) -> None:
    run_clean(open_table(storage, world, lock, **LAZY))


def prepared(table_type: str) -> Scene:
    writes = [upsert(batch) for batch in BATCHES]
    if table_type == "MERGE_ON_READ":
        writes.insert(2, compact)
        writes.insert(4, compact)
    return set_scene(after(create(table_type), *writes))


def data_files(storage: Storage) -> list[str]:
    found = (file.path for file in storage.walk(""))
    return [path for path in found if not path.startswith(layout.HOODIE + "/")]


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_a_killed_clean_changes_no_row_and_the_next_one_finishes_it(table_type: str) -> None:
    scene, expected = prepared(table_type), fold(*BATCHES)
    whole = run_with_crash(clean, None, scene)
    left = data_files(whole.storage)
    assert len(left) < len(data_files(run_with_crash(lambda *_: None, None, scene).storage))
    pending = set()
    for point in sample(crash_points(clean, scene), 60, f"clean {table_type}"):
        run = run_with_crash(clean, point, scene)
        assert read(run.storage, run.world, run.lock) == expected, run
        assert verify_table(run.storage) == [], run
        pending.add(bool(load_timeline(run.storage).pending(Action.CLEAN)))
        clean(run.storage, run.world, run.lock)
        assert data_files(run.storage) == left, run
        timeline = load_timeline(run.storage)
        assert len(timeline.completed(Action.CLEAN)) == 1 and not timeline.pending(), run
        assert read(run.storage, run.world, run.lock) == expected, run
        upsert(LATE)(run.storage, run.world, run.lock)
        assert read(run.storage, run.world, run.lock) == fold(expected, LATE), run
    assert pending == {True, False}, "or the sweep proves nothing"


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_two_cleans_at_once_do_what_one_does(table_type: str) -> None:
    scene = prepared(table_type)
    left = data_files(run_with_crash(clean, None, scene).storage)
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        sim, lock = scene.stage(seed)
        storage = sim.storage()
        for name in ("one", "two"):
            sim.actor(name, partial(clean, storage, sim.world(name), lock))
        ends = sim.run()
        trace = f"seed {seed}\n" + "\n".join(sim.trace)
        assert all(isinstance(end, Returned) for end in ends.values()), f"{ends}\n{trace}"
        assert data_files(sim.memory) == left, trace
        timeline = load_timeline(sim.memory)
        assert len(timeline.completed(Action.CLEAN)) == 1 and not timeline.pending(), trace
        assert verify_table(sim.memory) == [], trace


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_writers_and_compactions_find_what_they_need_while_cleaners_run(table_type: str) -> None:
    scene = prepared(table_type)
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        sim, lock = scene.stage(seed)
        storage = sim.storage()
        flows = {"one": clean_lazily, "two": clean_lazily, "late": upsert(LATE)}
        if table_type == "MERGE_ON_READ":
            flows["compact"] = compact
        for name, flow in flows.items():
            sim.actor(name, partial(flow, storage, sim.world(name), lock))
        ends = sim.run()
        trace = f"seed {seed}\n" + "\n".join(sim.trace)
        for name, end in ends.items():
            refused = isinstance(end, Raised) and isinstance(end.error, Conflict)
            assert isinstance(end, Returned) or (refused and name == "late"), f"{ends}\n{trace}"
        world = sim.world("after")
        is_there = isinstance(ends["late"], Returned)
        expected = fold(*BATCHES, LATE) if is_there else fold(*BATCHES)
        assert read(sim.memory, world, lock) == expected, trace
        assert verify_table(sim.memory) == [], trace
        clean(sim.memory, world, lock)
        assert read(sim.memory, world, lock) == expected, trace
        assert not load_timeline(sim.memory).pending(), trace


def test_a_plan_that_waits_deletes_nothing_that_became_needed_since() -> None:
    scene = prepared("MERGE_ON_READ")
    run = run_with_crash(lambda *handles: schedule_clean(open_table(*handles)), None, scene)
    for flow in (upsert(LATE), compact, upsert({"a0": 10})):
        flow(run.storage, run.world, run.lock)
    expected = fold(*BATCHES, LATE, {"a0": 10})
    for _ in range(2):
        clean(run.storage, run.world, run.lock)
        assert read(run.storage, run.world, run.lock) == expected
        assert verify_table(run.storage) == []
