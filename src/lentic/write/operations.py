"""The write operations: each begins an instant, writes its files, and commits."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lentic.engine import Engine, Shuffle
from lentic.format.avro_schema import avro_schema_json
from lentic.format.commit_metadata import SCHEMA_KEY
from lentic.format.names import Action
from lentic.format.record_fields import with_meta_schema
from lentic.format.table_config import MergeMode, TableConfig, TableType
from lentic.records.base_writer import ParquetStyle
from lentic.timeline.reader import load_timeline
from lentic.txn.transaction import OpenTable
from lentic.view.schema import load_avro_schema, load_table_schema
from lentic.write.commit import Begun, Commit, begin_write, commit_write
from lentic.write.fit import ensure_fits
from lentic.write.handle import WriteHandle
from lentic.write.index_bucket import bucket_index
from lentic.write.status import decode_statuses

RUN_NUMBERS = 2**31
"""A run's nonce is one of the three integers of a write token."""


def ensure_writable(table: OpenTable, engine: Engine, source: Any) -> None:
    """Refuse rows and tables that cannot be written, before the first byte."""
    bucket_index(table.config)
    ensure_fits(engine.schema(source), _schema(table))


def begin_upsert(table: OpenTable) -> Begun:
    """The instant of an upsert, inflight."""
    is_cow = table.config.table_type is TableType.COPY_ON_WRITE
    return begin_write(table, Action.COMMIT if is_cow else Action.DELTACOMMIT)


def run_upsert(table: OpenTable, engine: Engine, source: Any, begun: Begun) -> Commit:
    """Insert new keys, update existing ones; of each key the batch's newest row counts."""
    schema = _schema(table)
    index = bucket_index(table.config)
    handle = WriteHandle(
        storage=table.storage,
        timeline=begun.timeline,
        table_type=table.config.table_type,
        requested_at=begun.instant.requested_at,
        index=index,
        schema=with_meta_schema(schema),
        avro_schema=avro_schema_json(schema, table.config.name, meta_fields=True),
        ordering=merge_fields(table.config),
        style=parquet_style(table),
        run=table.world.entropy.integer(RUN_NUMBERS),
    )
    shuffle = Shuffle(index.columns, index.route, handle, table.write_options.shuffle_tasks)
    statuses = decode_statuses(engine.shuffle(source, shuffle))
    extra = {SCHEMA_KEY: load_avro_schema(table.storage, begun.timeline, table.config)}
    return commit_write(table, begun, statuses, operation="UPSERT", extra=extra)


def merge_fields(config: TableConfig) -> tuple[str, ...]:
    """The columns that decide between versions; none means the later commit wins."""
    return config.ordering_fields if config.merge_mode is MergeMode.EVENT_TIME_ORDERING else ()


def parquet_style(table: OpenTable) -> ParquetStyle:
    """How this table's Parquet is written."""
    return ParquetStyle(table.write_options.codec, table.write_options.row_group_rows)


def _schema(table: OpenTable) -> pa.Schema:
    return load_table_schema(table.storage, load_timeline(table.storage), table.config)
