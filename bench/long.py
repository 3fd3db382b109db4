"""Many small commits with inline services: does the last cost what the first did?

    make bench-long                       1,000 commits of 100 rows
    make bench-long ARGS="--commits 200"

Compaction, clean and archive run after commits as the options say. Printed every 50 commits: the
median time of a call (services included), of the commit alone and of its work on a processor;
instants on the active timeline, files in the table.

A machine may be a third slower minutes later, which says nothing of the table. So beside every
block the first 50 commits are made again, one for one, into a new table, and the last block is
judged against those of the same minute; against the first block it is printed as well.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

import lentic
from lentic.services import inline

BLOCK = 50
ROWS = 100
LIMIT = 1.2
SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("value", pa.float64())])
OPTIONS = {
    "hoodie.compact.inline": True,
    "hoodie.compact.inline.max.delta.commits": 5,
    "hoodie.clean.automatic": True,
    "hoodie.archive.automatic": True,
}


def main() -> int:
    parser = argparse.ArgumentParser("bench.long", description=__doc__)
    parser.add_argument("--commits", type=int, default=1_000)
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--folder", type=Path, help="make the table here, and keep it")
    given = parser.parse_args()
    if given.folder is not None:
        return _run(given.folder.resolve(), given.commits, given.keys)
    with tempfile.TemporaryDirectory(prefix="lentic-long-") as folder:
        return _run(Path(folder), given.commits, given.keys)


@dataclass
class _Series:
    """A table, and what each commit to it took, in seconds."""

    path: str
    table: lentic.Table
    calls: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    worked: list[float] = field(default_factory=list)

    @classmethod
    def begin(cls, path: str) -> _Series:
        lentic.create(path, SCHEMA, key="id", ordering="ts", buckets=4)
        return cls(path, lentic.open(path, options=OPTIONS))

    def commit(self, keys: int) -> None:
        batch, taken = _batch(len(self.calls) + 1, keys), _Stopwatch()
        begun, begun_cpu = time.perf_counter(), time.process_time()
        with taken:
            self.table.upsert(batch)
        self.calls.append(time.perf_counter() - begun)
        self.alone.append(self.calls[-1] - taken.services_s)
        self.worked.append(time.process_time() - begun_cpu - taken.services_cpu_s)


def _run(folder: Path, commits: int, keys: int) -> int:
    old = _Series.begin(str(folder / "table"))
    print(
        f"{'commits':>8} {'call ms':>9} {'commit ms':>10} {'cpu ms':>7} {'instants':>9} "
        f"{'files':>6} {'in a new table, commit ms':>26} {'ratio':>6}"
    )
    young = old
    for start in range(0, commits, BLOCK):
        shutil.rmtree(folder / "young", ignore_errors=True)
        young = _Series.begin(str(folder / "young"))
        for _ in range(min(BLOCK, commits - start)):
            old.commit(keys)
            young.commit(keys)
        print(
            f"{len(old.calls):8} {_ms(old.calls):9.1f} {_ms(old.alone):10.1f} "
            f"{_ms(old.worked):7.1f} {len(old.table.timeline()):9} {_files(old.path):6} "
            f"{_ms(young.alone):26.1f} {_growth(old.alone, young.alone):6.2f}",
            flush=True,
        )
    ratio = _growth(old.alone, young.alone)
    verdict = "ok" if ratio <= LIMIT else "OVER"
    print(
        f"commit, last {BLOCK} / first {BLOCK} of a new table: {ratio:.2f} (<= {LIMIT}) {verdict}"
    )
    cpu, whole = _growth(old.worked, young.worked), _growth(old.calls, young.calls)
    print(f"its processor time: {cpu:.2f}; call with services: {whole:.2f}")
    first = [_growth(each, each[:BLOCK]) for each in (old.alone, old.worked, old.calls)]
    print(
        "against the first of the same table, minutes earlier: {:.2f}, {:.2f}, {:.2f}".format(
            *first
        )
    )
    print(f"{old.table.read().num_rows} rows; {old.table.verify() or 'sound'}")
    return 0 if ratio <= LIMIT else 1


class _Stopwatch:
    """How long the services of the calls in its block took, told apart from the commit."""

    def __init__(self) -> None:
        self.services_s = self.services_cpu_s = 0.0

    def __enter__(self) -> None:
        self._run = inline.run_due_services

        def timed(*given: object) -> None:
            begun, begun_cpu = time.perf_counter(), time.process_time()
            try:
                self._run(*given)  # type: ignore[arg-type]
            finally:
                self.services_s += time.perf_counter() - begun
                self.services_cpu_s += time.process_time() - begun_cpu

        inline.run_due_services = timed

    def __exit__(self, *failure: object) -> None:
        inline.run_due_services = self._run


def _batch(number: int, keys: int) -> pa.Table:
    ids = [f"k{(number * 7919 + row * 104_729) % keys}" for row in range(ROWS)]
    values = [float(row) for row in range(ROWS)]
    return pa.table([pa.array(ids), pa.array([number] * ROWS), pa.array(values)], schema=SCHEMA)


def _growth(last: list[float], first: list[float]) -> float:
    return _ms(last) / _ms(first)


def _ms(seconds: list[float]) -> float:
    """The median of the last block, in milliseconds."""
    return statistics.median(seconds[-BLOCK:]) * 1000


def _files(path: str) -> int:
    return sum(1 for found in Path(path).rglob("*") if found.is_file())


if __name__ == "__main__":
    sys.exit(main())
