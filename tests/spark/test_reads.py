"""Queries on Spark give the rows that they give without it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lentic
from tests.interop.compare import ensure_same_rows
from tests.rows import SCHEMA, make_rows

pytestmark = pytest.mark.spark

FILTERS = [
    "part = 'p1'",
    "part in ('p1', 'p2') and small > 0",
    "id = 'k000042'",
    "score > 500000.5 or name is null",
    "at >= timestamp '2024-06-01 00:00:00' and day < date '2024-09-01'",
    "price < 0.001 and not flag",
    "ratio between -10 and 10",
    "name like 'name 1%'",
]


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_filters_and_moments_give_the_same_rows_on_spark(
    table_type: str, tmp_path: Path, spark: SparkSession
) -> None:
    path = str(tmp_path / "t")
    alone = lentic.create(
        path,
        SCHEMA,
        key="id",
        partition_by="part",
        ordering="ts",
        table_type=table_type,
        buckets=2,
    )
    first = alone.upsert(make_rows(0, 400, ts=1, seed=1))
    alone.compact()
    alone.upsert(make_rows(200, 300, ts=2, seed=2))
    on_spark = lentic.open(path, spark=spark)
    questions = [{"filter": text} for text in FILTERS]
    questions += [{"as_of": first.requested_at}, {"mode": "read_optimized"}]
    questions += [{"columns": ["id", "tags"], "filter": "seq < 50 and items is not null"}]
    for question in questions:
        here, there = alone.read(**question), on_spark.read(**question).toArrow()
        assert 0 < here.num_rows <= 400, question
        ensure_same_rows(here, there, ["id"], f"alone {question}", "on Spark")
    for question in ({"after": first.completed_at}, {"upto": first.completed_at}):
        here, there = alone.changes(**question), on_spark.changes(**question).toArrow()
        ensure_same_rows(here, there, ["id"], f"alone {question}", "on Spark")


def test_spark_pushes_the_filter_into_its_own_parquet_reader(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = lentic.create(
        str(tmp_path / "t"), SCHEMA, key="id", table_type="COPY_ON_WRITE", buckets=1, spark=spark
    )
    table.upsert(make_rows(0, 100, ts=1, seed=1))
    plan = table.read(columns=["id"], filter="seq > 90")._jdf.queryExecution().toString()
    assert "GreaterThan(seq,90)" in plan
    assert "ReadSchema: struct<id:string,seq:bigint>" in plan
    assert "MapInArrow" not in plan
