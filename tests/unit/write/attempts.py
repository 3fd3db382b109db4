"""Running one attempt of a write by hand, and looking into what it wrote."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lentic.engine import Attempt, LocalEngine
from lentic.format.avro_schema import avro_schema_json
from lentic.format.log_block import decode_blocks
from lentic.format.log_payload import decode_parquet_payload
from lentic.format.record_fields import with_meta_schema
from lentic.query.snapshot import read_rows
from lentic.txn.transaction import OpenTable
from lentic.write.commit import Begun
from lentic.write.handle import WriteHandle
from lentic.write.index_bucket import bucket_index
from lentic.write.operations import begin_upsert, merge_fields, parquet_style, run_upsert
from lentic.write.status import WriteStatus, decode_status
from tests.unit.builders import SCHEMA, by_key

ENGINE = LocalEngine(threads=1)
FIRST = Attempt(0, 0)


def make_handle(
    table: OpenTable, begun: Begun, run: int = 7, schema: pa.Schema = SCHEMA
) -> WriteHandle:
    return WriteHandle(
        storage=table.storage,
        timeline=begun.timeline,
        table_type=table.config.table_type,
        requested_at=begun.instant.requested_at,
        index=bucket_index(table.config),
        schema=with_meta_schema(schema),
        avro_schema=avro_schema_json(schema, "t", meta_fields=True),
        ordering=merge_fields(table.config),
        style=parquet_style(table),
        run=run,
    )


def run_attempt(
    table: OpenTable, begun: Begun, given: pa.Table, attempt: Attempt = FIRST, run: int = 7
) -> list[WriteStatus]:
    handle = make_handle(table, begun, run)
    return [decode_status(text) for text in handle(attempt, iter(given.to_batches()))]


def upsert(table: OpenTable, given: pa.Table) -> str:
    begun = begin_upsert(table)
    return str(run_upsert(table, ENGINE, given, begun).requested_at)


def read_all(table: OpenTable) -> dict[str, dict[str, Any]]:
    return by_key(read_rows(table, ENGINE, meta=True))


def stored_rows(table: OpenTable, path: str) -> list[dict[str, Any]]:
    """The rows of a data file, as they lie in it."""
    data = table.storage.read(path)
    if path.endswith(".parquet"):
        found: list[dict[str, Any]] = pq.read_table(io.BytesIO(data)).to_pylist()
        return found
    (block,) = decode_blocks(data, path)
    found = decode_parquet_payload(block.content, path).to_pylist()
    return found
