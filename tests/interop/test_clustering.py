"""Clustered tables as another engine reads them: hudi-rs sees the same rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lentic
from lentic.engine import LocalEngine
from lentic.services.clustering import execute_clustering, schedule_clustering
from lentic.table import Table
from tests.interop.compare import ensure_same_rows
from tests.interop.readers import hudi_rs_rows

pytestmark = pytest.mark.interop

DDL = "id string, ts long, name string, part string"
SCHEMA = pa.schema(
    [("id", pa.string()), ("ts", pa.int64()), ("name", pa.string()), ("part", pa.string())]
)


def rows(*given: tuple[int, int]) -> pa.Table:
    found = [
        {"id": f"k{key}", "ts": ts, "name": f"{key} at {ts}", "part": f"p{key % 2}"}
        for key, ts in given
    ]
    return pa.Table.from_pylist(found, SCHEMA)


def cluster(table: Table, curve: str) -> None:
    at = schedule_clustering(table._opened, sort_by=("ts", "name"), curve=curve)
    assert at is not None
    execute_clustering(table._opened, LocalEngine(threads=2), at)


def ensure_read_alike(table: Table) -> None:
    ensure_same_rows(table.read(), hudi_rs_rows(table.path), ("id",), "lentic", "hudi-rs")


@pytest.mark.parametrize("buckets", [2, None], ids=["buckets", "no buckets"])
@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_a_clustered_table_reads_the_same(
    tmp_path: Path, table_type: str, buckets: int | None
) -> None:
    table = lentic.create(
        str(tmp_path / "t"),
        DDL,
        key="id",
        partition_by="part",
        ordering="ts",
        table_type=table_type,
        buckets=buckets,
        options={"hoodie.parquet.small.file.limit": 0},
    )
    for round, curve in enumerate(("LINEAR", "ZORDER", "HILBERT")):
        table.upsert(rows(*((key, 5 + round) for key in range(20 + 5 * round))))
        table.insert(rows(*((100 * round + key, 5) for key in range(60, 80))))
        table.upsert(rows(*((key, 6 + round) for key in range(0, 20, 3))))
        table.delete(rows(*((key, 0) for key in range(2 + round, 20, 7))))
        before = table.read()
        cluster(table, curve)
        ensure_same_rows(before, table.read(), ("id",), "before", "clustered")
        ensure_read_alike(table)
        table.upsert(rows(*((key, 7 + round) for key in range(10))))
        ensure_read_alike(table)
    table.compact()
    ensure_read_alike(table)
