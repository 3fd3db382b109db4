"""Merging on Spark: conditions and expressions over both sides, as one commit."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lentic
from lentic.errors import InvalidRecord

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
@pytest.mark.parametrize("buckets", [None, 2])
def test_rows_are_merged_by_conditions(
    spark: SparkSession, tmp_path: Path, table_type: str, buckets: int | None
) -> None:
    table = lentic.create(
        str(tmp_path / "t"),
        "id string, v bigint, day string",
        key="id",
        partition_by="day",
        table_type=table_type,
        buckets=buckets,
        spark=spark,
    )

    def rows(*given: tuple[str, int, str]) -> object:
        return spark.createDataFrame(list(given), "id string, v bigint, day string")

    first = table.merge(rows(("a", 1, "d"), ("b", 2, "d"), ("c", 3, "e")))
    assert first.when_not_matched_insert().execute().inserted == 3
    done = (
        table.merge(rows(("a", 10, "d"), ("b", 0, "d"), ("x", 7, "e")))
        .when_matched_delete(condition="source.v = 0")
        .when_matched_update({"v": "target.v + source.v"})
        .when_not_matched_insert()
        .execute()
    )
    assert (done.inserted, done.updated, done.deleted) == (1, 1, 1)
    assert {row.id: row.v for row in table.read().collect()} == {"a": 11, "c": 3, "x": 7}
    with pytest.raises(InvalidRecord):
        table.merge(rows(("a", 1, "d"), ("a", 2, "d"))).when_matched_update().execute()
