"""The write verbs: what users give, as one write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lentic.engine import Engine
from lentic.errors import ConfigError, SchemaMismatch
from lentic.format.layout import is_data_path
from lentic.ingest.flow import retrying, write
from lentic.query.snapshot import read_rows
from lentic.timeline.reader import load_timeline
from lentic.txn.transaction import OpenTable
from lentic.write.commit import Commit
from lentic.write.operations import Operation, Request
from lentic.write.placement import key_rules


def write_rows(table: OpenTable, engine: Engine, rows: Any, operation: Operation) -> Commit:
    """A write that takes whole rows."""
    return _write_again(table, engine, rows, Request(operation))


def upsert(table: OpenTable, engine: Engine, rows: Any, *, partial: bool) -> Commit:
    """An upsert of whole rows, or of some of their columns."""
    return _write_again(table, engine, rows, Request(Operation.UPSERT, partial=partial))


def bulk_insert(table: OpenTable, engine: Engine, rows: Any, sort_by: Sequence[str]) -> Commit:
    """Insert without looking keys up, rows in each file sorted."""
    request = Request(Operation.BULK_INSERT, sort_by=tuple(sort_by))
    return _write_again(table, engine, rows, request)


def _write_again(table: OpenTable, engine: Engine, rows: Any, request: Request) -> Commit:
    if isinstance(rows, pa.RecordBatchReader) and table.sharing.conflict_retries:
        rows = rows.read_all()  # which can be read again
    return retrying(table, engine, lambda: write(table, engine, rows, request))


def delete(table: OpenTable, engine: Engine, what: Any) -> Commit:
    """Delete the rows that a predicate describes, or that rows of key columns name."""
    return retrying(table, engine, lambda: _delete(table, engine, what))


def _delete(table: OpenTable, engine: Engine, what: Any) -> Commit:
    columns = key_rules(table.config).columns
    seen = None
    if isinstance(what, str):
        seen = load_timeline(table.storage)
        what = read_rows(table, engine, columns=list(columns), filter=what)
    given = engine.schema(what)
    if absent := [name for name in columns if name not in given.names]:
        raise SchemaMismatch(
            f"To delete rows their key and partition columns are needed; {absent[0]} is missing.",
            safe="nothing was written",
            next_step=f"pass {', '.join(columns)}, or a predicate: "
            f"delete(\"{table.config.key_fields[0]} = '...'\")",
        )
    return write(table, engine, what, Request(Operation.DELETE), seen)


def delete_partitions(table: OpenTable, engine: Engine, partitions: Sequence[str]) -> Commit:
    """Delete all rows of some partitions, named by their folders."""
    if isinstance(partitions, str) or not partitions:
        raise ConfigError(
            "delete_partitions takes a list of partitions, such as ['day=2026-01-01'].",
            safe="nothing was written",
            next_step="name them as their folders are called; lentic show PATH lists them",
        )
    for partition in partitions:
        if not is_data_path(partition):
            raise ConfigError(
                f"{partition!r} is no partition.",
                where=table.storage.root,
                safe="nothing was written",
                next_step="name partitions as their folders are called",
            )
    request = Request(Operation.DELETE_PARTITION, partitions=tuple(sorted(set(partitions))))
    return retrying(table, engine, lambda: write(table, engine, None, request))
