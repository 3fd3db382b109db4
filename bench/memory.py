"""What one worker needs to merge into file groups of growing size.

A copy-on-write upsert of few rows into one bucket, without Spark, in a fresh process per size. The
file group is streamed through, so that the peak should not grow with it by more than one row group
and the updates. This module is both sides: the processes it starts run it as a script.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lentic
from bench.measure import cpu_seconds, files_under, peak_bytes, resident_bytes
from bench.orders import SCHEMA, SEED, make_keys, make_orders
from bench.workloads import KEY, ORDERING, PARTITION, partition_name

_MB = 1e6
_SIZES = (8, 4, 2, 1)
_UPDATES = 200
_UPDATED = 0.8
_CHUNK_ROWS = 250_000
_ROW_GROUP_ROWS = 131_072


def measure_memory(folder: Path, rows: int, codec: str) -> Iterator[str]:
    """A table of the peaks for an eighth, a quarter, half and all of `rows`, line by line."""
    updates = rows // _UPDATES
    yield f"{updates} rows upserted into one file group, in one process (MB)"
    sizes = f"{'rows':>9} {'file':>7} {'before':>7} {'peak':>7} {'more':>7}"
    yield f"{sizes} {'wall s':>7} {'cpu s':>6}"
    peaks: list[int] = []
    for share in _SIZES:
        place = folder / f"memory-{rows // share}"
        shutil.rmtree(place, ignore_errors=True)
        _start("make", str(place), str(rows // share), str(updates), codec)
        found = json.loads(_start("merge", str(place), codec))
        shutil.rmtree(place)
        more = found["peak"] - found["before"]
        peaks.append(more)
        shown = (found["file"], found["before"], found["peak"], more)
        cells = " ".join(f"{size / _MB:7.1f}" for size in shown)
        yield f"{rows // share:9d} {cells} {found['seconds']:7.2f} {found['cpu']:6.2f}"
    yield _verdict(rows, peaks, _row_bytes() * (_ROW_GROUP_ROWS + updates))


def _verdict(rows: int, peaks: list[int], allowed: int) -> str:
    growth = f"growth from the smallest to the largest: {(peaks[-1] - peaks[0]) / _MB:.1f} MB"
    if rows // _SIZES[0] < 2 * _ROW_GROUP_ROWS:
        return f"{growth}; says nothing, for the smallest has less than two row groups"
    verdict = "ok" if peaks[-1] - peaks[0] <= allowed else "OVER"
    return f"{growth}; one row group and the updates: {allowed / _MB:.1f} MB: {verdict}"


def make(place: str, rows: int, updates: int, codec: str) -> None:
    """A table with one file group of `rows`, and the rows to upsert beside it."""
    os.makedirs(place)
    table = lentic.create(
        f"{place}/table",
        SCHEMA,
        key=KEY,
        partition_by=PARTITION,
        ordering=ORDERING,
        table_type="COPY_ON_WRITE",
        buckets=1,
        options=_options(codec),
    )
    stored: list[pa.Array] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number, start in enumerate(range(0, rows, _CHUNK_ROWS)):
            rng = np.random.default_rng([SEED, number])
            keys = make_keys(rng, min(_CHUNK_ROWS, rows - start))
            stored.append(keys)
            yield from make_orders(rng, keys, _places(len(keys)), 1).to_batches()

    table.bulk_insert(pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    rng = np.random.default_rng([SEED, rows, updates])
    chosen = rng.choice(rows, int(updates * _UPDATED), replace=False)
    old = pa.chunked_array(stored).take(pa.array(np.sort(chosen))).combine_chunks()
    keys = pa.concat_arrays([old, make_keys(rng, updates - len(old))])
    pq.write_table(make_orders(rng, keys, _places(len(keys)), 2), f"{place}/updates.parquet")


def merge(place: str, codec: str) -> dict[str, Any]:
    """Upsert them, and say what that took."""
    updates = pq.read_table(f"{place}/updates.parquet")
    table = lentic.open(f"{place}/table", options=_options(codec))
    me = os.getpid()
    before, cpu = resident_bytes(me), cpu_seconds([me])
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    begun = time.perf_counter()
    commit = table.upsert(updates)
    took = {"seconds": time.perf_counter() - begun, "cpu": cpu_seconds([me]) - cpu}
    took["peak"] = peak_bytes(me)
    assert commit.updated == int(updates.num_rows * _UPDATED), commit
    largest = max(size for size, _ in files_under(Path(place, "table")).values())
    return took | {"before": before, "file": largest}


def _places(count: int) -> pa.Array:
    return pa.repeat(pa.scalar(partition_name(0)), count)


def _row_bytes() -> int:
    rng = np.random.default_rng(SEED)
    sample = make_orders(rng, make_keys(rng, 1000), _places(1000), 1)
    return int(sample.nbytes) // 1000


def _options(codec: str) -> dict[str, object]:
    return {"hoodie.parquet.compression.codec": codec}


def _start(*arguments: str) -> str:
    command = [sys.executable, "-m", "bench.memory", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def main() -> None:
    match sys.argv[1:]:
        case ["make", place, rows, updates, codec]:
            make(place, int(rows), int(updates), codec)
        case ["merge", place, codec]:
            print(json.dumps(merge(place, codec)))
        case other:
            sys.exit(f"not for {other}: run bench.writes --memory")


if __name__ == "__main__":
    main()
