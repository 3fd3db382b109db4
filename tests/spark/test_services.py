"""Every service on Spark: the same rows after each, on Spark and without."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lentic
from tests.interop.compare import ensure_same_rows
from tests.rows import SCHEMA, latest, make_rows

pytestmark = pytest.mark.spark

OPTIONS = {
    "hoodie.log.compaction.blocks.threshold": 2,
    "hoodie.clean.commits.retained": 1,
    "hoodie.keep.min.commits": 2,
    "hoodie.keep.max.commits": 3,
}


@pytest.mark.parametrize("buckets", [2, None])
@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_services_change_no_row(
    table_type: str, buckets: int | None, tmp_path: Path, spark: SparkSession
) -> None:
    path = str(tmp_path / "t")
    lentic.create(
        path,
        SCHEMA,
        key="id",
        partition_by="part",
        ordering="ts",
        table_type=table_type,
        buckets=buckets,
    )
    table = lentic.open(path, options=OPTIONS, spark=spark)
    batches: list[pa.Table] = []
    for number in range(4):
        batches.append(make_rows(number * 50, number * 50 + 100, ts=number, seed=number))
        table.upsert(spark.createDataFrame(batches[-1]))
    expected = latest(*batches)
    done = [
        ("log_compact", table.log_compact()),
        ("compact", table.compact()),
        ("cluster", table.cluster(sort_by=("ts", "id"), curve="hilbert")),
        ("clean", table.clean()),
        ("archive", table.archive()),
    ]
    ran = {name for name, outcome in done if outcome}
    is_mor = table_type == "MERGE_ON_READ"
    assert ran >= {"cluster", "clean"} | ({"compact"} if is_mor and buckets else set()), ran
    ensure_same_rows(expected, table.read().toArrow(), ["id"], "expected", "on Spark")
    ensure_same_rows(expected, lentic.open(path).read(), ["id"], "expected", "alone")
    assert table.verify() == []
