"""Partial updates on Spark, against the join that Spark SQL computes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lentic
from lentic.storage.local import LocalStorage
from lentic.testing.checkers import check_table, list_leftovers
from tests.interop.compare import ensure_same_rows
from tests.partial_join import DDL, GROUPS, KEY, batches, reference

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_a_three_source_join_with_late_data_equals_that_of_spark_sql(
    table_type: str, tmp_path: Path, spark: SparkSession
) -> None:
    table = lentic.create(
        str(tmp_path / "t"),
        DDL,
        key="id",
        partition_by="region",
        table_type=table_type,
        buckets=2 if table_type == "MERGE_ON_READ" else None,
        options={"lentic.partial.groups": GROUPS},
        spark=spark,
    )
    sent = list(batches(seed=11, rounds=2))
    for _, rows in sent:
        table.upsert(spark.createDataFrame(rows), partial=True)
    expected = reference(spark, sent)
    ensure_same_rows(expected, table.read().toArrow(), KEY, "Spark SQL", "on Spark")
    ensure_same_rows(expected, lentic.open(table.path).read(), KEY, "Spark SQL", "alone")
    if table_type == "MERGE_ON_READ":
        table.compact()
        ensure_same_rows(expected, table.read().toArrow(), KEY, "Spark SQL", "compacted")
    assert check_table(LocalStorage(table.path)) == []
    assert list_leftovers(LocalStorage(table.path)) == []
