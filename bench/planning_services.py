"""What a plan costs after a commit to three partitions, by how many partitions there are.

    make bench-planning                                 1,000 to 640,000 partitions
    make bench-planning ARGS="--sizes 1000,10000"

For each service and size: storage calls, processor and wall time of making one plan, and of
scheduling it with all that belongs to it, lock and publication included (each plan is taken away
again), as the median of many; beside it those of one that looks at everything, where all partitions
are listed in one call, a walk (`--full-max 0` leaves that out: it takes minutes). The sizes take
turns, plan by plan, so that a machine that is slower for a while is slower for all of them. A
service is `ok` if the calls are the same at every size and the slowest size is within 20% of the
fastest, by the clock and by processor time, made and scheduled; else `OVER`.

Each service has a second set of rows, `old`, where the three partitions are among those of long
ago: who made their files has to be looked up in the history, and whether a replacement has ended
them since. There nothing of the history is in memory when a plan begins, as in a process that was
just started.

The tables are real folders on this machine's disk: a directory and a base file per partition, empty
files where nobody looks inside, made by commits of some hundred partitions each that lie in the
archived timeline, merged into one file, each with a replacement after it. The partitions that are
written to, their logs and base files, and all plans and commits since are made by lentic itself.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

import lentic
from bench.planning import CountingStorage
from lentic.format import layout
from lentic.format.commit_metadata import CommitMetadata, WriteStat, encode_commit_metadata
from lentic.format.lsm import ArchivedRow, ArchivedTimes, encode_rows, name_rows
from lentic.format.lsm_names import ListedFile, encode_manifest
from lentic.format.names import Action, BaseFileName, format_base_file
from lentic.format.plan_window import PlanWindow
from lentic.format.times import CompletedAt, RequestedAt
from lentic.services.catalog import SERVICES
from lentic.services.explain import draft
from lentic.timeline import history_cache, reader
from lentic.timeline.bounded_cache import BoundedCache
from lentic.timeline.reader import load_timeline
from lentic.txn.transaction import OpenTable

SIZES = "1000,10000,100000,640000"
FULL_MAX = 640_000
HOT = 3
PER_COMMIT = 300
ENDED = 10
REPEATS = 200
REPEATS_OLD = 50
LIMIT = 1.2
SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
OPTIONS = {
    "hoodie.clustering.plan.strategy.sort.columns": "v",
    "hoodie.clean.commits.retained": 1,
    "hoodie.log.compaction.blocks.threshold": 2,
}


@dataclass(frozen=True, slots=True)
class Cost:
    """One plan, or the median of several."""

    calls: int
    cpu_ms: float
    wall_ms: float
    considered: int


def main() -> int:
    parser = argparse.ArgumentParser("bench.planning_services", description=__doc__)
    parser.add_argument("--sizes", default=SIZES, help=f"partitions, by default {SIZES}")
    parser.add_argument("--full-max", type=int, default=FULL_MAX, help="largest full look")
    parser.add_argument("--folder", type=Path, help="make the tables here, and remove them")
    given = parser.parse_args()
    sizes = [int(size) for size in given.sizes.split(",")]
    folder = Path(tempfile.mkdtemp(prefix="lentic-planning-", dir=given.folder))
    try:
        tables = {size: _make_table(folder / f"new-{size}", size, _HOT_ONES) for size in sizes}
        olds = {size: _make_table(folder / f"old-{size}", size, _old_ones(size)) for size in sizes}
        os.sync()  # else the disk is busy with what was made while plans are measured
        gc.collect()
        gc.freeze()  # what making the tables left in memory is none of a planner's business
        made = {service: _measure(tables, service, _make_once, REPEATS) for service in SERVICES}
        published = {s: _measure(tables, s, _schedule_once, REPEATS) for s in SERVICES}
        for service in SERVICES:
            old = f"{service}, old"
            made[old] = _measure(olds, service, _forgetting(_make_once), REPEATS_OLD)
            published[old] = _measure(olds, service, _forgetting(_schedule_once), REPEATS_OLD)
        whole = {size: _looking_at_all(tables[size]) for size in sizes if size <= given.full_max}
        full = {service: _measure(whole, service, _make_once, 1) for service in SERVICES}
    finally:
        shutil.rmtree(folder)
    return _report(sizes, made, published, full)


def _looking_at_all(table: OpenTable) -> OpenTable:
    clean = replace(table.services.clean, incremental=False)
    return replace(table, services=replace(table.services, incremental=False, clean=clean))


# --- a table ------------------------------------------------------------------------------------


_HOT_ONES = tuple(f"hot-{number}" for number in range(HOT))


def _old_ones(size: int) -> tuple[str, ...]:
    """Partitions of long ago, each made by another commit."""
    return tuple(_old(number * (size - HOT) // HOT) for number in range(HOT))


def _old(number: int) -> str:
    return f"old-{number:06d}"


def _make_table(path: Path, size: int, touched: tuple[str, ...]) -> OpenTable:
    """A table that every service has looked after once, then a commit or two to some partitions."""
    begun = time.perf_counter()
    lentic.create(str(path), SCHEMA, key="id", partition_by="part", buckets=1)
    table = lentic.open(str(path), options=OPTIONS)
    for value in range(3):
        table.upsert(_rows(value, _HOT_ONES))
    for service in ("log_compaction", "compaction", "clustering", "clean"):
        plan = table.schedule(service)
        assert plan is not None, service
        table.execute(plan)
    _plant(path, size - HOT, touched)
    for value in range(3, 6):  # so often that there is something to fold, and to clean
        table.upsert(_rows(value, touched))
    table.compact()
    table.upsert(_rows(6, touched))
    table.upsert(_rows(7, touched))
    took = time.perf_counter() - begun
    print(f"{size:,} partitions made in {took:.0f} s", file=sys.stderr, flush=True)
    return table._opened


def _rows(value: int, parts: tuple[str, ...]) -> pa.Table:
    keys = [f"k-{part}" for part in parts]
    return pa.table([keys, list(parts), [value] * len(parts)], schema=SCHEMA)


def _plant(path: Path, count: int, touched: tuple[str, ...]) -> None:
    """Partitions of long ago: folders and files, and archived commits that name them."""
    content = next((path / _HOT_ONES[0]).glob("*.parquet")).read_bytes()
    rows = list(_archived(path, count, dict.fromkeys(touched, content)))
    name, data = name_rows(rows, 2), encode_rows(rows)
    history = path / layout.HISTORY
    history.mkdir(parents=True, exist_ok=True)
    (history / str(name)).write_bytes(data)
    (history / "manifest_1").write_bytes(encode_manifest([ListedFile(name, len(data))]))
    (history / "_version_").write_text("1")


def _archived(path: Path, count: int, contents: dict[str, bytes]) -> Iterator[ArchivedRow]:
    for number, start in enumerate(range(0, count, PER_COMMIT)):
        at = RequestedAt(f"20200101{4 * number:09d}")
        stats = []
        for partition in range(start, min(start + PER_COMMIT, count)):
            folder = _old(partition)
            file_id = f"00000000-{partition:08d}-0"
            name = format_base_file(BaseFileName(file_id, "0-0-0", at))
            os.mkdir(path / folder)
            (path / folder / name).write_bytes(contents.get(folder, b""))
            stats.append(_stat(file_id, folder, name))
        metadata = CommitMetadata("UPSERT", False, tuple(stats))
        yield _row(4 * number, Action.DELTACOMMIT, encode_commit_metadata(metadata))
        # Groups that nobody has seen since.
        ended = {f"gone-{number:06d}": tuple(f"{n:08d}-{number:08d}-0" for n in range(ENDED))}
        replaced = CommitMetadata("INSERT_OVERWRITE", False, (), {}, ended)
        content = encode_commit_metadata(replaced, replaces=True)
        yield _row(4 * number + 2, Action.REPLACECOMMIT, content)


def _row(number: int, action: Action, content: bytes) -> ArchivedRow:
    at, done = RequestedAt(f"20200101{number:09d}"), CompletedAt(f"20200101{number + 1:09d}")
    return ArchivedRow(ArchivedTimes(at, action, done), content)


def _stat(file_id: str, partition: str, name: str) -> WriteStat:
    path = f"{partition}/{name}"
    return WriteStat(file_id, path, partition, None, 1, 0, 1, 0, 0)


# --- measuring ----------------------------------------------------------------------------------


def _measure(
    tables: dict[int, OpenTable],
    service: str,
    once: Callable[[OpenTable, str], Cost],
    repeats: int,
) -> dict[int, Cost]:
    costs: dict[int, list[Cost]] = {size: [] for size in tables}
    for _ in range(repeats):
        for size, table in tables.items():
            costs[size].append(once(table, service))
    return {size: _median(several) for size, several in costs.items()}


def _median(costs: list[Cost]) -> Cost:
    return Cost(
        calls=max(cost.calls for cost in costs),
        cpu_ms=statistics.median(cost.cpu_ms for cost in costs),
        wall_ms=statistics.median(cost.wall_ms for cost in costs),
        considered=costs[-1].considered,
    )


def _make_once(table: OpenTable, service: str) -> Cost:
    """Make a plan that is not published."""
    looks: list[PlanWindow] = []
    schedule: Callable[..., Any] = SERVICES[service].schedule
    cost, drafted = _counted(
        table, lambda t: draft(t, lambda dry: schedule(dry, on_look=looks.append))
    )
    assert drafted is not None, f"{service} should find something to do"
    return replace(cost, considered=looks[-1].considered)


def _forgetting(once: Callable[[OpenTable, str], Cost]) -> Callable[[OpenTable, str], Cost]:
    """The same with nothing of what was archived in memory."""

    def forget(table: OpenTable, service: str) -> Cost:
        for module, name in ((history_cache, "_cache"), (reader, "_decoded")):
            setattr(module, name, BoundedCache(64 << 20))
        return once(table, service)

    return forget


def _schedule_once(table: OpenTable, service: str) -> Cost:
    """Publish a plan, and take it away as if it never was."""
    looks: list[PlanWindow] = []
    schedule: Callable[..., Any] = SERVICES[service].schedule
    cost, at = _counted(table, lambda t: schedule(t, on_look=looks.append))
    assert at is not None, f"{service} should find something to do"
    (plan,) = load_timeline(table.storage).pending()
    assert plan.requested_at == at
    table.storage.delete(layout.timeline_file(plan.file_name))
    return replace(cost, considered=looks[-1].considered)


def _counted(table: OpenTable, act: Callable[[OpenTable], Any]) -> tuple[Cost, Any]:
    storage = CountingStorage(table.storage)
    counted: Any = replace(table, storage=storage)
    wall, cpu = time.perf_counter(), time.process_time()
    result = act(counted)
    cpu_ms = 1000 * (time.process_time() - cpu)
    wall_ms = 1000 * (time.perf_counter() - wall)
    return Cost(sum(storage.calls.values()), cpu_ms, wall_ms, 0), result


def _report(
    sizes: list[int],
    made: dict[str, dict[int, Cost]],
    published: dict[str, dict[int, Cost]],
    full: dict[str, dict[int, Cost]],
) -> int:
    print(
        f"{'':<21}{'':>11}{'':>10}{'plan made':>25}{'scheduled':>25}{'full look':>32}\n"
        f"{'service':<21}{'partitions':>11}{'looked at':>10}"
        + 2 * f"{'calls':>7}{'cpu ms':>9}{'wall ms':>9}"
        + f"{'calls':>12}{'cpu ms':>10}{'wall ms':>10}"
    )
    over = 0
    for service in made:
        for size in sizes:
            kinds = (made[service][size], published[service][size])
            line = f"{service:<21}{size:>11,}{kinds[0].considered:>10}"
            line += "".join(f"{c.calls:>7}{c.cpu_ms:>9.1f}{c.wall_ms:>9.1f}" for c in kinds)
            if (whole := full.get(service, {}).get(size)) is not None:
                line += f"{whole.calls:>12,}{whole.cpu_ms:>10.0f}{whole.wall_ms:>10.0f}"
            print(line)
        verdicts = [_judge(made[service]), _judge(published[service])]
        over += not all(is_flat for is_flat, _ in verdicts)
        for (is_flat, said), what in zip(verdicts, ("made", "scheduled"), strict=True):
            print(f"{service:<21}{what}: {said}: {'ok' if is_flat else 'OVER'}")
        print()
    return 1 if over else 0


def _judge(costs: dict[int, Cost]) -> tuple[bool, str]:
    """Whether the size of the table does not matter, and by how much it does."""
    calls = {cost.calls for cost in costs.values()}
    wall = _spread([cost.wall_ms for cost in costs.values()])
    cpu = _spread([cost.cpu_ms for cost in costs.values()])
    said = "same calls" if len(calls) == 1 else f"calls {min(calls)} to {max(calls)}"
    is_flat = len(calls) == 1 and max(wall, cpu) <= LIMIT
    return is_flat, f"{said}, time {wall:.2f}x, processor {cpu:.2f}x"


def _spread(times: list[float]) -> float:
    return max(times) / min(times)


if __name__ == "__main__":
    sys.exit(main())
