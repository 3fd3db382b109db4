"""A small table and its flows, for simulations that crash, fail and interleave them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lentic.engine import LocalEngine
from lentic.services.log_compaction import execute_log_compaction, schedule_log_compaction
from lentic.testing.crash_sweep import Flow
from lentic.testing.tables import create_on, open_on

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
Rows = dict[str, int]
"""Key -> ordering value; the last character of a key says its partition."""


def arrow(rows: Rows) -> pa.Table:
    parts = [f"p{key[-1]}" for key in rows]
    columns = [pa.array(list(rows)), pa.array(list(rows.values()), pa.int64()), pa.array(parts)]
    return pa.table(columns, schema=SCHEMA)


def options(table_type: str) -> dict[str, object]:
    return {
        "hoodie.table.name": "t",
        "hoodie.table.type": table_type,
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "part",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.bucket.index.num.buckets": 2,
    }


def fold(*batches: Rows) -> Rows:
    """What the table holds after these upserts."""
    table: Rows = {}
    for batch in batches:
        for key, ts in batch.items():
            if ts >= table.get(key, ts):
                table[key] = ts
    return table


def create(table_type: str) -> Flow:
    return lambda storage, world, lock: create_on(storage, SCHEMA, options(table_type))


def upsert(*batches: Rows) -> Flow:
    def flow(storage: Any, world: Any, lock: Any) -> None:
        for batch in batches:
            open_on(storage, world, lock).upsert(arrow(batch))

    return flow


def compact(storage: Any, world: Any, lock: Any) -> None:
    open_on(storage, world, lock).compact()


def log_compact(storage: Any, world: Any, lock: Any) -> None:
    options = {"hoodie.log.compaction.blocks.threshold": 2}
    opened = open_on(storage, world, lock, options)._opened
    at = schedule_log_compaction(opened)
    if at is not None:
        execute_log_compaction(opened, LocalEngine(threads=1), at)


def after(*flows: Flow) -> Flow:
    def flow(storage: Any, world: Any, lock: Any) -> None:
        for one in flows:
            one(storage, world, lock)

    return flow


def read(storage: Any, world: Any, lock: Any) -> Rows:
    """The rows a reader sees; a key that is seen twice is a failure."""
    found = open_on(storage, world, lock).read().to_pylist()
    seen = {row["id"]: row["ts"] for row in found}
    assert len(seen) == len(found), f"a key was seen twice: {found}"
    return seen
