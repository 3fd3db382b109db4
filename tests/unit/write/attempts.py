"""Running writes by hand, whole or one attempt of them, and looking into what they wrote."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lentic.engine import Attempt, Engine, LocalEngine
from lentic.format.avro_schema import avro_schema_json
from lentic.format.log_block import BlockKind, decode_blocks
from lentic.format.log_payload import decode_parquet_payload
from lentic.format.record_fields import with_meta_schema
from lentic.format.table_config import TableType
from lentic.ingest.flow import prepare
from lentic.query.snapshot import read_rows
from lentic.records.slice_reader import SliceReader
from lentic.txn.transaction import OpenTable
from lentic.write.commit import Begun, Commit, begin_write, commit_write
from lentic.write.completion import Accepted, Share, decode_accepted, statuses_of
from lentic.write.group_writer import Writing
from lentic.write.handle import WriteHandle
from lentic.write.index_bucket import BucketIndex
from lentic.write.operations import (
    Operation,
    Request,
    choose_action,
    merge_fields,
    parquet_style,
)
from lentic.write.placement import key_rules
from lentic.write.run import run_write
from lentic.write.status import WriteStatus
from tests.unit.builders import SCHEMA, by_key

ENGINE = LocalEngine(threads=1)
FIRST = Attempt(0, 0)
UPSERT = Request(Operation.UPSERT)


def begin(table: OpenTable, request: Request = UPSERT) -> Begun:
    """The instant of a write, inflight."""
    return begin_write(table, choose_action(request, table.config))


def finish(
    table: OpenTable,
    given: pa.Table | None,
    begun: Begun,
    request: Request = UPSERT,
    engine: Engine = ENGINE,
) -> Commit:
    """Carry a write out that has begun."""
    return run_write(table, engine, given, prepare(table, engine, given, request), begun)


def make_writing(
    table: OpenTable, begun: Begun, run: int = 7, schema: pa.Schema = SCHEMA
) -> Writing:
    """How an upsert of a table with buckets writes."""
    appends = table.config.table_type is TableType.MERGE_ON_READ
    return Writing(
        reader=SliceReader(table.storage, with_meta_schema(schema), merge_fields(table.config)),
        requested_at=begun.instant.requested_at,
        avro_schema=avro_schema_json(schema, "t", meta_fields=True),
        style=parquet_style(table.write_options),
        run=run,
        appends=appends,
        starts_with_log=appends,
        counts_exactly=table.write_options.exact_counts,
    )


def make_handle(
    table: OpenTable, begun: Begun, run: int = 7, schema: pa.Schema = SCHEMA, **changes: Any
) -> WriteHandle:
    """The handle of an upsert of a table with buckets; `changes` are to its `Writing`."""
    assert table.config.buckets is not None
    return WriteHandle(
        how=replace(make_writing(table, begun, run, schema), **changes),
        timeline=begun.timeline,
        placement=BucketIndex(key_rules(table.config), table.config.buckets),
        given=schema,
        carried=(),
        on_rerun=table.write_options.on_rerun,
    )


def run_attempt(
    table: OpenTable, begun: Begun, given: pa.Table, attempt: Attempt = FIRST, run: int = 7
) -> list[WriteStatus]:
    handle = make_handle(table, begun, run)
    texts = handle(attempt, iter(given.to_batches()))
    return list(statuses_of(map(decode_accepted, texts)))


def accept(statuses: Iterable[WriteStatus]) -> list[Accepted]:
    """Statuses as the driver gets them: each in a share of its own."""
    return [
        Accepted(Share(status.stat.partition, status.stat.file_id, number), (status,))
        for number, status in enumerate(statuses)
    ]


def commit(table: OpenTable, begun: Begun, statuses: Iterable[WriteStatus]) -> Commit:
    """Complete an upsert with the files of `statuses`."""
    return commit_write(table, begun, accept(statuses), run=7, operation="UPSERT", extra={})


def upsert(table: OpenTable, given: pa.Table) -> str:
    return str(finish(table, given, begin(table)).requested_at)


def read_all(table: OpenTable) -> dict[str, dict[str, Any]]:
    return by_key(read_rows(table, ENGINE, meta=True))


def stored_rows(table: OpenTable, path: str) -> list[dict[str, Any]]:
    """The rows of a data file, as they lie in it."""
    data = table.storage.read(path)
    found: list[dict[str, Any]] = []
    if path.endswith(".parquet"):
        found = pq.read_table(io.BytesIO(data)).to_pylist()
        return found
    for block in decode_blocks(data, path):
        if block.kind is BlockKind.PARQUET:
            found += decode_parquet_payload(block.content, path).to_pylist()
    return found
