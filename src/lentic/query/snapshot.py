"""The snapshot query: every row as of the newest completed write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lentic.engine import Engine, Scan, ScanTask
from lentic.errors import SchemaMismatch
from lentic.format.record_fields import META_FIELDS, with_meta_schema
from lentic.records.slice_reader import SliceReader
from lentic.timeline.reader import load_timeline
from lentic.txn.transaction import OpenTable
from lentic.view.files import FileSlice
from lentic.view.listing import load_table_view
from lentic.view.schema import load_table_schema
from lentic.write.operations import merge_fields


@dataclass(frozen=True, slots=True)
class ReadColumns:
    """Reads some columns of a slice; a picklable value for engines."""

    reader: SliceReader
    columns: tuple[str, ...]

    def __call__(self, part: FileSlice) -> Iterator[pa.RecordBatch]:
        return self.reader.read(part, self.columns)


def plan_scan(reader: SliceReader, slices: Iterable[FileSlice], columns: tuple[str, ...]) -> Scan:
    """One task per slice; a slice without logs may be read as plain Parquet."""
    tasks = tuple(ScanTask(part, _parquet_uri(reader.storage.root, part)) for part in slices)
    schema = pa.schema([reader.schema.field(name) for name in columns])
    return Scan(schema, tasks, ReadColumns(reader, columns))


def _parquet_uri(root: str, part: FileSlice) -> str | None:
    """Where a plain Parquet reader finds the slice, if it needs no merging and lies on a disk."""
    if part.base is None or part.logs or "://" in root:
        return None
    return f"file://{root}/{part.base.path}"


def choose_columns(
    schema: pa.Schema, asked: Sequence[str] | None, *, meta: bool
) -> tuple[str, ...]:
    """The columns of the result: all or those asked for, `_hoodie_*` only if `meta`."""
    if asked is None:
        return tuple(name for name in schema.names if meta or name not in META_FIELDS)
    if not asked:
        raise SchemaMismatch(
            "No column was asked for.",
            safe="nothing was read",
            next_step="name at least one column, or leave columns out to read all",
        )
    if unknown := [name for name in asked if name not in schema.names]:
        raise SchemaMismatch(
            f"The table has no column {', '.join(unknown)}.",
            safe="nothing was read",
            next_step=f"choose among {', '.join(n for n in schema.names if n not in META_FIELDS)}",
        )
    return tuple(asked)


def read_snapshot(
    table: OpenTable, engine: Engine, columns: Sequence[str] | None, *, meta: bool
) -> Any:
    """The table's rows, as the engine's users want them."""
    timeline = load_timeline(table.storage)
    user_schema = load_table_schema(table.storage, timeline, table.config)
    reader = SliceReader(table.storage, with_meta_schema(user_schema), merge_fields(table.config))
    slices = [group.latest for group in load_table_view(table.storage, timeline)]
    return engine.collect(
        plan_scan(reader, slices, choose_columns(reader.schema, columns, meta=meta))
    )
