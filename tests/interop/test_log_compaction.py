"""Folded logs as another engine reads them: hudi-rs, which needs no JVM, sees the same rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lentic
from lentic.engine import LocalEngine
from lentic.services.log_compaction import execute_log_compaction, schedule_log_compaction
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


def fold(table: Table) -> None:
    at = schedule_log_compaction(table._opened)
    assert at is not None
    execute_log_compaction(table._opened, LocalEngine(threads=1), at)


def ensure_read_alike(table: Table) -> None:
    ensure_same_rows(table.read(), hudi_rs_rows(table.path), ("id",), "lentic", "hudi-rs")


@pytest.mark.parametrize("buckets", [2, None], ids=["buckets", "no buckets"])
@pytest.mark.parametrize("ordering", ["ts", None], ids=["event time", "commit time"])
def test_a_table_with_folded_logs_reads_the_same(
    tmp_path: Path, ordering: str | None, buckets: int | None
) -> None:
    table = lentic.create(
        str(tmp_path / "t"),
        DDL,
        key="id",
        partition_by="part",
        ordering=ordering,
        buckets=buckets,
        options={"hoodie.log.compaction.blocks.threshold": 3},
    )
    table.upsert(rows(*((key, 5) for key in range(20))))
    for round in range(3):
        table.upsert(rows(*((key, 6 + round) for key in range(0, 20, 3))))
        table.upsert(rows(*((key, 2) for key in range(1, 20, 3))))
        table.delete(rows(*((key, 0) for key in range(2 + round, 20, 7))))
        before = table.read()
        fold(table)
        ensure_same_rows(before, table.read(), ("id",), "before", "folded")
        ensure_read_alike(table)
        table.upsert(rows(*((key, 4) for key in range(20 + round))))
        ensure_read_alike(table)
    table.compact()
    ensure_read_alike(table)
