"""Many small commits with inline services: does the last cost what the first did?

    make bench-long                       1,000 commits of 100 rows
    make bench-long ARGS="--commits 200"

Compaction, clean and archive run after commits as the options say. Printed every 50 commits: the
median time of a call (services included), of the commit alone and of its work on a processor, which
others on the machine hardly touch; instants on the active timeline, files in the table. At the end:
last against first, as ratios.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
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
        return _run(str(given.folder.resolve() / "table"), given.commits, given.keys)
    with tempfile.TemporaryDirectory(prefix="lentic-long-") as folder:
        return _run(f"{folder}/table", given.commits, given.keys)


def _run(path: str, commits: int, keys: int) -> int:
    lentic.create(path, SCHEMA, key="id", ordering="ts", buckets=4)
    table = lentic.open(path, options=OPTIONS)
    calls, alone, worked = list[float](), list[float](), list[float]()
    heads = f"{'commits':>8} {'call ms':>9} {'commit ms':>10} {'cpu ms':>7}"
    print(f"{heads} {'instants':>9} {'files':>6}")
    for number in range(1, commits + 1):
        taken = _Stopwatch()
        begun, begun_cpu = time.perf_counter(), time.process_time()
        with taken:
            table.upsert(_batch(number, keys))
        calls.append(time.perf_counter() - begun)
        alone.append(calls[-1] - taken.services_s)
        worked.append(time.process_time() - begun_cpu - taken.services_cpu_s)
        if number % BLOCK == 0:
            print(
                f"{number:8} {_ms(calls[-BLOCK:]):9.1f} {_ms(alone[-BLOCK:]):10.1f} "
                f"{_ms(worked[-BLOCK:]):7.1f} {len(table.timeline()):9} {_files(path):6}",
                flush=True,
            )
    ratio, whole, cpu = map(_growth, (alone, calls, worked))
    verdict = "ok" if ratio <= LIMIT else "OVER"
    print(f"commit, last {BLOCK} / first {BLOCK}: {ratio:.2f} (<= {LIMIT}) {verdict}")
    found = table.verify() or "sound"
    print(f"its processor time: {cpu:.2f}; call with services: {whole:.2f}")
    print(f"{table.read().num_rows} rows; {found}")
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


def _growth(seconds: list[float]) -> float:
    return statistics.median(seconds[-BLOCK:]) / statistics.median(seconds[:BLOCK])


def _ms(seconds: list[float]) -> float:
    return statistics.median(seconds) * 1000


def _files(path: str) -> int:
    return sum(1 for found in Path(path).rglob("*") if found.is_file())


if __name__ == "__main__":
    sys.exit(main())
