"""How long reads take, as ratios: against Spark's own Parquet reader, and against pyarrow.dataset.

    make bench                       4,000,000 rows
    make bench ARGS="--rows 400000"

Each pair is timed in turn in one process, after one warm-up; the ratio is that of the medians.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession

import lentic
from bench.data import PARTITIONS, SCHEMA, make_rows
from bench.planning import measure_planning

REPEATS = 3
BATCH = 1_000_000
BUCKETS = 2


def make_table(path: str, rows: int, table_type: str, spark: SparkSession) -> lentic.Table:
    """A table of `rows` rows without logs."""
    table = lentic.create(
        path,
        SCHEMA,
        key="id",
        partition_by="day",
        ordering="ts",
        table_type=table_type,
        buckets=BUCKETS,
        spark=spark,
    )
    # Whole days at a time, so that no base file is written twice.
    per_round = max(1, PARTITIONS * BATCH // rows)
    for first in range(0, PARTITIONS, per_round):
        numbers = np.arange(rows)
        days = numbers % PARTITIONS
        chosen = numbers[(days >= first) & (days < first + per_round)]
        lentic.open(path).upsert(make_rows(chosen, ts=1, seed=first))
    table.compact()
    return table


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def ratio(
    title: str, ours: Callable[[], object], theirs: Callable[[], object], limit: float
) -> None:
    """Time both in turn and print how many times longer ours takes."""
    ours()
    theirs()
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(REPEATS)]
    mine, other = (statistics.median(side) for side in zip(*pairs, strict=True))
    verdict = "ok" if mine / other <= limit else "OVER"
    print(f"{title:<44} {mine:7.2f} s {other:7.2f} s {mine / other:6.2f} x (<= {limit}) {verdict}")


def consume(frame: DataFrame) -> None:
    """Read every column of every row and throw it away."""
    frame.write.format("noop").mode("overwrite").save()


def parquet_files(table: lentic.Table) -> list[str]:
    return [f"{table.path}/{part.base.path}" for part in table.file_slices() if part.base]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--partitions", type=int, default=10_000)
    given = parser.parse_args()
    spark = lentic.spark.session("lentic-bench", "local[2]", {"spark.driver.memory": "6g"})
    with tempfile.TemporaryDirectory(prefix="lentic-bench-") as folder:
        print(f"{given.rows} rows, {PARTITIONS} partitions; ours, theirs, ratio")
        cow = make_table(f"{folder}/cow", given.rows, "COPY_ON_WRITE", spark)
        files = parquet_files(cow)
        ratio(
            "COW scan on Spark / spark.read.parquet",
            lambda: consume(cow.read()),
            lambda: consume(spark.read.schema(cow.read().schema).parquet(*files)),
            1.1,
        )
        names = SCHEMA.names
        ratio(
            "COW scan alone / pyarrow.dataset",
            lambda: lentic.open(cow.path).read(),
            lambda: ds.dataset(files).to_table(columns=names),
            1.5,
        )
        mor = make_table(f"{folder}/mor", given.rows, "MERGE_ON_READ", spark)
        updated = np.sort(np.random.default_rng(7).permutation(given.rows)[: given.rows // 10])
        lentic.open(mor.path).upsert(make_rows(updated, ts=2, seed=99))
        base = parquet_files(mor)
        ratio(
            "MOR scan, 10% in logs / spark.read.parquet",
            lambda: consume(mor.read()),
            lambda: consume(spark.read.schema(mor.read().schema).parquet(*base)),
            2.5,
        )
        measure_planning(Path(folder) / "wide", given.partitions)
    spark.stop()


if __name__ == "__main__":
    main()
