"""A writer, a compaction and a log compaction on one table, interleaved by a seed.

The table has no ordering field, so that a row which comes back from an older log wins and is seen.
Whatever the interleaving, readers see a state between two writes, and all writes at the end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from itertools import accumulate
from typing import Any

import pytest

from lentic.engine import LocalEngine
from lentic.errors import Conflict
from lentic.services import log_compaction
from lentic.services.log_compaction import execute_log_compaction, schedule_log_compaction
from lentic.testing.checkers import check_table, list_leftovers
from lentic.testing.simulation import Raised, Returned, Simulation
from lentic.testing.tables import create_on, open_on
from lentic.timeline.reader import load_timeline
from tests.simulation.flows import SCHEMA, Rows, arrow, options, read

KEYS = ("a0", "b0", "c1")
BATCHES: tuple[Rows, ...] = tuple(dict.fromkeys(KEYS[n % 2 :], n) for n in range(1, 5))
OVERWRITE: Rows = {"n0": 50, "n1": 50}
FIRST_SEED = int(os.environ.get("LENTIC_SIM_SEED", "0"))
SEEDS = int(os.environ.get("LENTIC_SIM_SEEDS", "20"))
MUTANT_RUNS = 200
OPTIONS = {"hoodie.log.compaction.blocks.threshold": 2}


def opened(storage: Any, world: Any, lock: Any) -> Any:
    return open_on(storage, world, lock, OPTIONS)


def write(storage: Any, world: Any, lock: Any) -> None:
    for batch in BATCHES[2:]:
        opened(storage, world, lock).upsert(arrow(batch))


def overwrite(storage: Any, world: Any, lock: Any) -> None:
    opened(storage, world, lock).insert_overwrite_table(arrow(OVERWRITE))


def fold_logs(storage: Any, world: Any, lock: Any) -> None:
    """Plan, be busy for a while, and execute."""
    table = opened(storage, world, lock)._opened
    at = schedule_log_compaction(table)
    for _ in range(world.entropy.integer(20)):
        load_timeline(storage)
    if at is not None:
        execute_log_compaction(table, LocalEngine(threads=1), at)


def compact(storage: Any, world: Any, lock: Any) -> None:
    opened(storage, world, lock).compact()


def states(writer: Any) -> list[Rows]:
    """What the table holds after each write."""
    first = list(accumulate(BATCHES, lambda rows, batch: rows | batch))
    return first[1:] if writer is write else [first[1], OVERWRITE]


def violations(seed: int, writer: Any) -> Iterator[str]:
    sim = Simulation(seed)
    storage, lock = sim.storage(), sim.lock()
    plain = options("MERGE_ON_READ") | {"hoodie.table.ordering.fields": ""}
    create_on(storage, SCHEMA, plain)
    for batch in BATCHES[:2]:
        opened(storage, sim.world("setup"), lock).upsert(arrow(batch))
    if seed % 2:  # or the log compaction plans when its turn comes, which may be after the writes
        schedule_log_compaction(opened(storage, sim.world("planner"), lock)._opened)
    flows = {"writer": writer, "compact": compact, "fold": fold_logs}
    for name, flow in flows.items():
        sim.actor(name, partial(flow, storage, sim.world(name), lock))
    seen: list[Rows] = []
    world = sim.world("reader")
    sim.actor("reader", lambda: seen.extend(read(storage, world, lock) for _ in range(3)))
    ends = sim.run()
    for name, end in ends.items():
        if not (isinstance(end, Returned) or (isinstance(end, Raised) and _may_give_way(end))):
            yield f"{name}: {end}"
    possible = states(writer)
    yield from (f"a reader saw {rows}" for rows in seen if rows not in possible)
    memory, after = sim.memory, sim.world("after")
    last = possible[-1] if isinstance(ends["writer"], Returned) else possible[0]
    for step in (lambda *_: None, fold_logs, compact, fold_logs, compact):
        step(memory, after, lock)
        if (rows := read(memory, after, lock)) != last:
            yield f"{rows} are not {last}"
    yield from check_table(memory)
    yield from list_leftovers(memory)
    if any(part.logs for part in opened(memory, after, lock).file_slices()):
        yield "logs were left out of every compaction"


def _may_give_way(end: Raised) -> bool:
    return isinstance(end.error, Conflict)


@pytest.mark.parametrize("writer", [write, overwrite])
def test_readers_see_each_write_and_nothing_older_again(writer: Any) -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        assert list(violations(seed, writer)) == [], f"seed {seed}"


def _fold_stale_slices(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks whether the slice is still the latest when a log compaction begins."""
    patch.setattr(log_compaction, "_is_latest", lambda *_: True)


def test_a_slice_that_is_not_the_latest_any_more_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The runs above are not blind: without that check old rows come back."""
    _fold_stale_slices(monkeypatch)
    assert any(list(violations(seed, overwrite)) for seed in range(MUTANT_RUNS))
