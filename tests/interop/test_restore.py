"""hudi-rs sees what lentic sees after savepoints, rollbacks of completed writes and restores."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lentic
from lentic.format.times import RequestedAt
from lentic.services.restore import restore_table
from lentic.services.savepoint import make_savepoint
from lentic.services.undo_completed import roll_back_instant
from lentic.services.verify import verify_table
from tests.interop.compare import ensure_same_rows
from tests.interop.readers import hudi_rs_rows

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
pytestmark = pytest.mark.interop


def _rows(**values: int) -> pa.Table:
    parts = [f"p{key[-1]}" for key in values]
    columns = [pa.array(list(values)), pa.array(list(values.values()), pa.int64()), pa.array(parts)]
    return pa.table(columns, schema=SCHEMA)


def _ensure_agreed(path: str, **expected: int) -> None:
    ours = lentic.open(path).read()
    assert {row["id"]: row["ts"] for row in ours.to_pylist()} == expected
    ensure_same_rows(ours, hudi_rs_rows(path), ["id"], "lentic", "hudi-rs")


@pytest.mark.parametrize("buckets", [2, None])
@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_hudi_rs_agrees_after_every_way_back(
    table_type: str, buckets: int | None, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    options = {"hoodie.table.type": table_type}
    table = lentic.create(
        path,
        SCHEMA,
        key="id",
        partition_by="part",
        ordering="ts",
        buckets=buckets,
        options=options,
    )
    point = RequestedAt(table.upsert(_rows(a0=1, b0=1, c1=1)).requested_at)
    make_savepoint(table._opened, point, comment="the first")
    _ensure_agreed(path, a0=1, b0=1, c1=1)
    second = RequestedAt(table.upsert(_rows(a0=2, d2=2)).requested_at)
    roll_back_instant(table._opened, second)
    _ensure_agreed(path, a0=1, b0=1, c1=1)
    table.upsert(_rows(a0=3, e2=3))
    if table_type == "MERGE_ON_READ":
        table.compact()
    table.upsert(_rows(c1=4))
    _ensure_agreed(path, a0=3, b0=1, c1=4, e2=3)
    restore_table(table._opened, point)
    _ensure_agreed(path, a0=1, b0=1, c1=1)
    table.upsert(_rows(b0=5, f0=5))
    if table_type == "MERGE_ON_READ":
        table.compact()
    _ensure_agreed(path, a0=1, b0=5, c1=1, f0=5)
    assert verify_table(table._opened.storage) == []
