"""One table, four readers: lentic on Spark and without, Apache Hudi, and hudi-rs.

The tables are the size of a small job: three upserts of 50,000 rows with updates and inserts, every
type, four partitions, a compaction in between on merge-on-read. Then Apache Hudi writes into the
same table, and lentic reads what came of it.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lentic
from lentic.storage.local import LocalStorage
from lentic.testing.checkers import check_table, list_leftovers
from tests.interop.compare import ensure_same_rows
from tests.interop.readers import ApacheHudi, EngineFailed, hudi_rs_rows
from tests.rfc.claims import says
from tests.rows import PARTITIONS, SCHEMA, latest, make_rows

ROWS = 50_000
BUCKETS = 4
KEY = ["id"]

pytestmark = pytest.mark.interop


def hudi_options(table: lentic.Table) -> dict[str, str]:
    """How an Apache Hudi job writes into a table of ours."""
    return {
        "hoodie.table.name": table.config.name,
        "hoodie.datasource.write.table.type": table.config.table_type.value,
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.recordkey.field": ",".join(table.config.key_fields),
        "hoodie.datasource.write.partitionpath.field": ",".join(table.config.partition_fields),
        "hoodie.table.ordering.fields": ",".join(table.config.ordering_fields),
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": str(table.config.buckets),
        "hoodie.metadata.enable": "false",
        "hoodie.upsert.shuffle.parallelism": "2",
    }


def ensure_all_agree(table: lentic.Table, expected: pa.Table, hudi: ApacheHudi) -> None:
    """Every reader sees exactly `expected`, types included."""
    alone = lentic.open(table.path).read()
    ensure_same_rows(expected, alone, KEY, "expected", "lentic")
    ensure_same_rows(expected, table.read().toArrow(), KEY, "expected", "lentic on Spark")
    ensure_same_rows(expected, hudi.rows(table.path), KEY, "expected", "Apache Hudi")
    ensure_same_rows(expected, hudi_rs_rows(table.path), KEY, "expected", "hudi-rs")


@pytest.mark.parametrize(
    "table_type", ["MERGE_ON_READ", pytest.param("COPY_ON_WRITE", marks=pytest.mark.slow)]
)
def test_four_readers_agree_and_hudi_can_write_on(
    table_type: str, tmp_path: Path, spark: SparkSession, apache_hudi: ApacheHudi
) -> None:
    table = lentic.create(
        str(tmp_path / "t"),
        SCHEMA,
        key="id",
        partition_by="part",
        ordering="ts",
        table_type=table_type,
        buckets=BUCKETS,
        spark=spark,
    )
    half = ROWS // 2
    batches = [make_rows(n * half, n * half + ROWS, ts=n + 1, seed=n) for n in range(3)]
    commits = []
    for number, batch in enumerate(batches):
        commits.append(table.upsert(spark.createDataFrame(batch)))
        if number == 1 and table_type == "MERGE_ON_READ":
            assert isinstance(table.compact(), lentic.Committed)
    assert all(c.inserted + c.updated == ROWS for c in commits)
    if table_type == "COPY_ON_WRITE":
        assert [(c.inserted, c.updated) for c in commits] == [(ROWS, 0), (half, half), (half, half)]
    assert {part.group.partition for part in table.file_slices()} == set(PARTITIONS)
    ensure_all_agree(table, latest(*batches), apache_hudi)

    late = make_rows(0, 1_000, ts=0, seed=10)  # older than what is there: must change nothing
    newer = make_rows(500, 3_000, ts=9, seed=11)
    added = make_rows(9 * ROWS, 9 * ROWS + 1_000, ts=9, seed=12)
    apache_hudi.upsert(
        table.path, pa.concat_tables([late.slice(0, 500), newer, added]), hudi_options(table)
    )
    after_hudi = latest(*batches, newer, added)
    ensure_all_agree(table, after_hudi, apache_hudi)

    last = make_rows(2_000, 4_000, ts=10, seed=13)
    table.upsert(spark.createDataFrame(last))
    table.compact()
    ensure_all_agree(table, latest(after_hudi, last), apache_hudi)
    assert check_table(LocalStorage(table.path)) == []
    assert list_leftovers(LocalStorage(table.path)) == []


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
@pytest.mark.parametrize(
    ("key", "partition_by", "ordering"),
    [
        (["id"], [], ["ts"]),
        (["id", "seq"], ["part"], []),
        (["seq"], ["part", "day"], ["ts"]),
        (["seq"], ["part"], ["ts", "at"]),
    ],
    ids=["unpartitioned", "two keys, no ordering", "two partition fields", "two ordering fields"],
)
def test_readers_agree_on_every_shape_of_table(
    table_type: str,
    key: list[str],
    partition_by: list[str],
    ordering: list[str],
    tmp_path: Path,
    apache_hudi: ApacheHudi,
) -> None:
    table = lentic.create(
        str(tmp_path / "t"),
        SCHEMA,
        key=key,
        partition_by=partition_by,
        ordering=ordering,
        table_type=table_type,
        buckets=2,
        options={"hoodie.datasource.write.hive_style_partitioning": len(partition_by) > 1},
    )
    batches = [make_rows(0, 300, ts=1, seed=1), make_rows(150, 450, ts=2, seed=1)]
    if partition_by == ["part", "day"]:
        # A key belongs to its partition, so that a changed day would be a second record.
        batches = [_with_fixed_day(batch) for batch in batches]
    for batch in batches:
        table.upsert(batch)
    expected = latest(*batches)
    ensure_same_rows(expected, table.read(), KEY, "expected", "lentic")
    ensure_same_rows(expected, apache_hudi.rows(table.path), KEY, "expected", "Apache Hudi")
    if len(ordering) > 1:
        with pytest.raises(EngineFailed, match="Multiple ordering fields"):
            hudi_rs_rows(table.path)
    else:
        ensure_same_rows(expected, hudi_rs_rows(table.path), KEY, "expected", "hudi-rs")


def _with_fixed_day(rows: pa.Table) -> pa.Table:
    days = pa.array([19_723 + n % 3 for n in rows.column("seq").to_pylist()], pa.int32())
    at = rows.schema.get_field_index("day")
    return rows.set_column(at, rows.schema.field(at), days.cast(pa.date32()))


@says("robust.order.mdt", "P16")
def test_a_metadata_table_is_never_left_stale(tmp_path: Path, apache_hudi: ApacheHudi) -> None:
    """A stale metadata table hides rows from other engines, so lentic refuses or drops it first."""
    table = lentic.create(
        str(tmp_path / "t"), SCHEMA, key="id", partition_by="part", ordering="ts", buckets=2
    )
    first, second = make_rows(0, 200, ts=1, seed=1), make_rows(100, 300, ts=2, seed=2)
    third = make_rows(250, 400, ts=3, seed=3)
    table.upsert(first)
    apache_hudi.upsert(table.path, second, hudi_options(table) | {"hoodie.metadata.enable": "true"})
    with pytest.raises(lentic.UnsupportedFormat, match="metadata table") as caught:
        table.upsert(third)
    assert "lentic.metadata.on_write" in caught.value.next_step
    expected = latest(first, second)
    ensure_same_rows(expected, apache_hudi.rows(table.path), KEY, "expected", "Apache Hudi")

    dropping = lentic.open(table.path, options={"lentic.metadata.on_write": "drop"})
    dropping.upsert(third)
    expected = latest(first, second, third)
    ensure_same_rows(expected, dropping.read(), KEY, "expected", "lentic")
    ensure_same_rows(expected, apache_hudi.rows(table.path), KEY, "expected", "Apache Hudi")
    ensure_same_rows(expected, hudi_rs_rows(table.path), KEY, "expected", "hudi-rs")
