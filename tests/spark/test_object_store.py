"""Spark workers write a table in an object store, and read it back."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

import lentic
from tests.storage.conftest import s3_options

__all__ = ["s3_options"]

pytestmark = pytest.mark.spark

NBCC = {"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}


@pytest.mark.parametrize(
    ("table_type", "options"), [("MERGE_ON_READ", NBCC), ("COPY_ON_WRITE", {})], ids=["mor", "cow"]
)
def test_a_table_in_an_object_store_on_spark(
    spark: SparkSession, s3_options: Any, table_type: str, options: dict[str, str]
) -> None:
    given = options | {f"lentic.storage.{key}": value for key, value in s3_options}
    path = f"s3://lake/spark-{table_type.lower()}"
    table = lentic.create(
        path,
        "id bigint, day string, v bigint, at bigint",
        key="id",
        partition_by="day",
        ordering="at",
        buckets=2,
        table_type=table_type,
        options=given,
        spark=spark,
    )
    rows = "id", "concat('d', cast(id % 3 as string)) day", "id * 10 v", "1 at"
    assert table.upsert(spark.range(1000).selectExpr(*rows)).inserted == 1000
    done = table.upsert(spark.range(500, 1500).selectExpr(*rows[:2], "id * 100 v", "2 at"))
    assert (done.inserted, done.updated) == (500, 500)
    if table_type == "MERGE_ON_READ":
        assert isinstance(table.compact(), lentic.Committed)
    found = {row.id: row.v for row in table.read().collect()}
    assert found == {n: n * 10 if n < 500 else n * 100 for n in range(1500)}
    alone = lentic.open(path, options=given)
    assert alone.read().num_rows == 1500
    assert alone.verify() == []
