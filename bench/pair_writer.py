"""A writer that shares its table: `python -m bench.pair_writer JSON`, with the fields of `Job`.

For each name of a folder of orders on stdin it upserts these rows, again and again until they are
committed, and replies with one line of JSON: what it took, and what of it was for nothing.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import lentic
from bench.measure import cpu_seconds, tree_of, written_bytes
from bench.orders import open_rows
from bench.workloads import SPARK_SETTINGS

TRIES_MAX = 10


@dataclass(frozen=True, slots=True)
class Job:
    """Which table, with which options, on what: "local" or "spark"."""

    table: str
    on: str = "local"
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Done:
    """One batch, committed: attempts that failed are `aborts`, what they used is `wasted`.

    `written` and `wasted_bytes` are all bytes that the process and its children wrote, to files of
    any kind. Times are of the clock that all processes share.
    """

    begun_s: float
    ended_s: float
    cpu_s: float
    written: int
    aborts: int
    wasted_cpu_s: float
    wasted_bytes: int
    error: str


def main() -> None:
    job = Job(**json.loads(sys.argv[1]))
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    spark = None
    if job.on == "spark":
        spark = lentic.spark.session("lentic-bench", "local[2]", SPARK_SETTINGS)
        spark.range(1000).selectExpr("sum(id)").collect()
    table = lentic.open(job.table, options=dict(job.options), spark=spark)
    table.schema  # noqa: B018 - the first read warms up what every later one needs
    replies.write("ready\n")
    for line in sys.stdin:
        replies.write(json.dumps(asdict(upsert(table, line.strip(), spark))) + "\n")
    if spark is not None:
        spark.stop()


def upsert(table: lentic.Table, source: str, spark: Any) -> Done:
    """Upsert the rows of a folder until they are committed."""
    begun = attempt = _used()
    error = ""
    for tries in range(TRIES_MAX):
        rows = open_rows(Path(source)) if spark is None else spark.read.parquet(source)
        try:
            table.upsert(rows)
        except lentic.Conflict as conflict:
            error = str(conflict).partition("\n")[0]
            attempt = _used()
            continue
        ended = _used()
        return Done(
            begun_s=begun[0],
            ended_s=ended[0],
            cpu_s=ended[1] - begun[1],
            written=ended[2] - begun[2],
            aborts=tries,
            wasted_cpu_s=attempt[1] - begun[1],
            wasted_bytes=attempt[2] - begun[2],
            error=error,
        )
    raise SystemExit(f"not committed after {TRIES_MAX} tries: {error}")


def _used() -> tuple[float, float, int]:
    tree = tree_of(os.getpid())
    return time.monotonic(), cpu_seconds(tree), written_bytes(tree)


if __name__ == "__main__":
    main()
