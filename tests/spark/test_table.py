"""The whole slice on Spark: create, upsert, compact, read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

import lentic
from lentic.storage.local import LocalStorage
from lentic.testing.checkers import check_table, list_leftovers
from tests.interop.compare import ensure_same_rows
from tests.rows import SCHEMA, latest, make_rows

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_spark_and_arrow_see_the_same_rows_at_every_step(
    table_type: str, tmp_path: Path, spark: SparkSession
) -> None:
    table = lentic.create(
        str(tmp_path / "t"),
        SCHEMA,
        key="id",
        partition_by="part",
        ordering="ts",
        table_type=table_type,
        buckets=3,
        spark=spark,
    )
    assert table.read().count() == 0
    batches: list[pa.Table] = []
    for number in range(3):
        batches.append(make_rows(number * 100, number * 100 + 200, ts=number, seed=number))
        table.upsert(spark.createDataFrame(batches[-1]))
        expected = latest(*batches)
        ensure_same_rows(expected, table.read().toArrow(), ["id"], "expected", "on Spark")
        ensure_same_rows(expected, lentic.open(table.path).read(), ["id"], "expected", "alone")
        if number == 1:
            table.compact()
            ensure_same_rows(expected, table.read().toArrow(), ["id"], "expected", "compacted")
    assert check_table(LocalStorage(table.path)) == []
    assert list_leftovers(LocalStorage(table.path)) == []


def test_both_engines_write_into_one_table(tmp_path: Path, spark: SparkSession) -> None:
    path = str(tmp_path / "t")
    alone = lentic.create(path, SCHEMA, key="id", partition_by="part", ordering="ts", buckets=3)
    on_spark = lentic.open(path, spark=spark)
    first, second = make_rows(0, 200, ts=1, seed=1), make_rows(100, 300, ts=2, seed=2)
    alone.upsert(first)
    on_spark.upsert(spark.createDataFrame(second))
    expected = latest(first, second)
    ensure_same_rows(expected, alone.read(), ["id"], "expected", "alone")
    keys = {part.group for part in alone.file_slices()}
    assert len(keys) == 4 * 3, "one file group per partition and bucket, whoever writes"


def test_columns_and_meta_columns_can_be_chosen(tmp_path: Path, spark: SparkSession) -> None:
    table = lentic.create(str(tmp_path / "t"), SCHEMA, key="id", buckets=2, spark=spark)
    table.upsert(make_rows(0, 10, ts=1, seed=1))
    assert table.read(columns=["seq", "id"]).columns == ["seq", "id"]
    assert "_hoodie_record_key" in table.read(meta=True).columns
    assert not [name for name in table.read().columns if name.startswith("_hoodie")]


def test_a_table_can_be_made_from_a_spark_schema(tmp_path: Path, spark: SparkSession) -> None:
    struct = StructType([StructField("id", StringType(), False), StructField("n", LongType())])
    table = lentic.create(str(tmp_path / "t"), struct, key="id", buckets=2, spark=spark)
    table.upsert(spark.createDataFrame([("a", 1), ("b", None)], struct))
    assert sorted(table.read().collect()) == [("a", 1), ("b", None)]


def test_folder_names_that_spark_would_expand_are_taken_as_they_are(
    tmp_path: Path, spark: SparkSession
) -> None:
    schema = "id string, part string"
    table = lentic.create(
        str(tmp_path / "a b"),
        schema,
        key="id",
        partition_by="part",
        table_type="COPY_ON_WRITE",
        buckets=1,
        spark=spark,
    )
    odd = ["x*", "{a,b}", "[c]", "a b", "day=1", "100%", "ü"]
    rows = pa.table({"id": odd, "part": odd})
    table.upsert(rows)
    table.upsert(rows)
    assert sorted(row.part for row in table.read().collect()) == sorted(odd)


def test_a_failing_source_leaves_nothing_visible(tmp_path: Path, spark: SparkSession) -> None:
    table = lentic.create(
        str(tmp_path / "t"), "id string, n long", key="id", buckets=2, spark=spark
    )
    table.upsert(spark.createDataFrame([("a", 1)], "id string, n long"))
    broken = spark.range(100).selectExpr(
        "cast(id as string) id", "if(id = 99, raise_error('boom'), id) n"
    )
    with pytest.raises(Exception, match="boom"):
        table.upsert(broken)
    assert [tuple(row) for row in table.read().collect()] == [("a", 1)]
    assert list_leftovers(LocalStorage(table.path)) == []
    table.upsert(spark.createDataFrame([("b", 2)], "id string, n long"))
    assert table.read().count() == 2
