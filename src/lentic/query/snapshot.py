"""Snapshot, read-optimized and time-travel queries: the state of the table at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lentic.engine import Engine, Scan, ScanTask
from lentic.errors import ConfigError
from lentic.query.parquet_stats import row_groups_that_may_match
from lentic.query.points import parse_point
from lentic.query.predicate import columns_of, matches
from lentic.query.predicate_text import to_sql
from lentic.query.predicate_values import Predicate
from lentic.query.pruning import prune_buckets, prune_partitions
from lentic.query.source import Source, bind_filter, ensure_readable, load_source
from lentic.records.slice_reader import SliceReader
from lentic.timeline.history import load_history
from lentic.txn.transaction import OpenTable
from lentic.view.files import FileGroup, FileSlice
from lentic.view.listing import ensure_none_gone, load_partition_files, load_table_files
from lentic.view.schema import load_avro_schema
from lentic.view.table_view import Writes


class Mode(StrEnum):
    """What of a file slice is read."""

    SNAPSHOT = "snapshot"
    READ_OPTIMIZED = "read_optimized"


@dataclass(frozen=True, slots=True)
class ReadColumns:
    """Reads some columns of the rows of a slice that pass a filter; a picklable value."""

    reader: SliceReader
    columns: tuple[str, ...]
    predicate: Predicate | None = None

    def __call__(self, part: FileSlice) -> Iterator[pa.RecordBatch]:
        if self.predicate is None:
            yield from self.reader.read(part, self.columns)
            return
        needed = tuple(dict.fromkeys((*self.columns, *sorted(columns_of(self.predicate)))))
        for batch in self.reader.read(part, needed, self._row_groups):
            kept = batch.filter(matches(self.predicate, batch))
            if kept.num_rows:
                yield kept.select(self.columns)

    def _row_groups(self, metadata: pq.FileMetaData) -> list[int]:
        assert self.predicate is not None
        return row_groups_that_may_match(metadata, self.reader.schema, self.predicate)


def read_rows(table: OpenTable, engine: Engine, **question: Any) -> Any:
    """The table's rows at a moment, as the engine's users want them; see `plan_rows`."""
    return engine.collect(plan_rows(table, **question))


def stream_rows(table: OpenTable, **question: Any) -> pa.RecordBatchReader:
    """The same as a stream of batches in this process, one slice after the other."""
    scan = plan_rows(table, **question)
    batches = (batch for task in scan.tasks for batch in scan.read(task.payload))
    return pa.RecordBatchReader.from_batches(scan.schema, batches)


def plan_rows(
    table: OpenTable,
    *,
    as_of: object = None,
    mode: str = Mode.SNAPSHOT,
    columns: Sequence[str] | None = None,
    filter: object = None,
    meta: bool = False,
) -> Scan:
    """Which slices to read, and how, for the rows of the table at a moment."""
    wanted = _parse_mode(mode)
    source = load_source(table)
    reader = source.reader
    chosen = source.choose_columns(columns, meta=meta)
    predicate = bind_filter(filter, reader.schema)
    groups, writes = _load_groups(source, as_of, predicate)
    slices = [part for group in groups if (part := slice_to_read(group, wanted))]
    plain = _plain_writes(source, writes)
    return plan_scan(ReadColumns(reader, chosen, predicate), slices, plain)


def _parse_mode(mode: str) -> Mode:
    if mode not in tuple(Mode):
        raise ConfigError(
            f"There is no mode {mode!r}.",
            safe="nothing was read",
            next_step=f"choose among {', '.join(Mode)}",
        )
    return Mode(mode)


def _load_groups(
    source: Source, as_of: object, predicate: Predicate | None
) -> tuple[tuple[FileGroup, ...], Writes]:
    storage, config = source.table.storage, source.table.config
    if as_of is None:
        partitions = prune_partitions(predicate, config, source.schema)
        if partitions is None:
            found = load_table_files(storage, source.timeline)
        else:
            found = load_partition_files(storage, source.timeline, partitions)
        groups = ensure_none_gone(found.groups())
    else:
        history = load_history(storage)
        instants = (*history.instants, *source.timeline.instants)
        upto = parse_point(as_of, instants, config.zone)
        found = load_table_files(storage, source.timeline, history)
        groups = found.groups(upto)
        ensure_readable(source, history, groups, upto)
    return prune_buckets(groups, predicate, config, source.schema), found.writes


def slice_to_read(group: FileGroup, mode: Mode) -> FileSlice | None:
    """What of a group a query reads: its latest slice, or just the newest base file."""
    if mode is Mode.SNAPSHOT:
        return group.latest
    based = next((part for part in group.slices if part.base), None)
    return FileSlice(group.id, based.barrier, based.base, ()) if based else None


def plan_scan(read: ReadColumns, slices: Iterable[FileSlice], plain: frozenset[str]) -> Scan:
    """One task per slice. A slice without logs may be read as plain Parquet if the write that made
    it, one of `plain`, used today's schema."""
    reader = read.reader
    tasks = tuple(ScanTask(part, _parquet_uri(reader.storage.root, part, plain)) for part in slices)
    schema = pa.schema([reader.schema.field(name) for name in read.columns])
    condition = to_sql(read.predicate) if read.predicate else None
    extra = columns_of(read.predicate) - set(read.columns) if read.predicate else frozenset()
    tested = pa.schema([*schema, *(reader.schema.field(name) for name in sorted(extra))])
    return Scan(schema, tasks, read, condition, tested)


def _plain_writes(source: Source, writes: Writes) -> frozenset[str]:
    """The writes whose files any Parquet reader reads right with the schema of the result."""
    if not source.is_read_as_stored:
        return frozenset()
    table = source.table
    schema = load_avro_schema(table.storage, source.timeline, table.config)
    return frozenset(str(at) for at, write in writes.items() if write.schema == schema)


def _parquet_uri(root: str, part: FileSlice, plain: frozenset[str]) -> str | None:
    """Where a plain Parquet reader finds the slice, if it needs no merging and lies on a disk."""
    if part.base is None or part.logs or "://" in root or not part.is_as_written:
        return None
    if str(part.base.name.requested_at) not in plain:
        return None
    return f"file://{root}/{part.base.path}"
