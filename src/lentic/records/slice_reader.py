"""One file slice -> its rows, as a stream of Arrow batches.

Memory is bounded by the slice's logs and one batch of its base file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from lentic.errors import Corrupt
from lentic.format.keys import record_keys
from lentic.format.record_fields import META_FIELDS, PARTITION_PATH, RECORD_KEY
from lentic.records.align import align
from lentic.records.grouped import GroupedMerge, Grouping
from lentic.records.log_scan import Placed, has_partial_block, load_live_blocks, scan_logs
from lentic.records.merge import IS_DELETED, Deletes, Merge, Merging, reduce_changes
from lentic.records.partial import is_partial, partial_merge
from lentic.storage.base import Storage
from lentic.view.files import BaseFile, FileSlice

# Matching a batch hashes the changed keys anew, so batches must not be small.
BATCH_ROWS = 65_536

Batches = Iterator[pa.RecordBatch]

_LAST_WRITE = frozenset(META_FIELDS) - {RECORD_KEY, PARTITION_PATH}


@dataclass(frozen=True, slots=True)
class VirtualKeys:
    """How to make record keys that files do not keep (`hoodie.populate.meta.fields=false`)."""

    fields: tuple[str, ...]
    composite: bool


class RowGroups(Protocol):
    """Which row groups of a Parquet file are worth reading."""

    def __call__(self, metadata: pq.FileMetaData) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class SliceReader:
    """How to read slices of one table: its schema with `_hoodie_*` columns, its merge order, and
    its column groups."""

    storage: Storage
    schema: pa.Schema
    ordering: tuple[str, ...]
    virtual_keys: VirtualKeys | None = None
    grouping: Grouping = field(default_factory=Grouping)

    def read(
        self, part: FileSlice, columns: tuple[str, ...], row_groups: RowGroups | None = None
    ) -> Batches:
        """The current rows of `part`, `columns` of them.

        `row_groups` may leave out base rows. It is heeded only in slices without logs: elsewhere a
        base row may be what an older change loses to, or what a partial update completes.
        """
        _ensure_as_written(part)
        needed = set(columns)
        if part.logs:
            needed |= {RECORD_KEY, IS_DELETED, *self.ordering, *self.grouping.orderings}
            if self.grouping.groups and needed & _LAST_WRITE:
                needed |= set(self.schema.names)  # the write that won any column
            needed |= set(self.virtual_keys.fields) if self.virtual_keys else set()
        schema = pa.schema([f for f in self.schema if f.name in needed])
        rows = self.base(part, schema, None if part.logs else row_groups)
        if part.logs:
            rows = self.merging(part, schema).batches(rows)
        for batch in rows:
            if batch.num_rows:
                yield batch if tuple(batch.schema.names) == columns else batch.select(columns)

    def base(
        self, part: FileSlice, schema: pa.Schema, row_groups: RowGroups | None = None
    ) -> Batches:
        """The rows of the base file, if there is one, in `schema`."""
        if part.base is None:
            return
        for batch in read_base(self.storage, part.base, schema, row_groups):
            yield self._keyed(batch)

    def merging(self, part: FileSlice, schema: pa.Schema) -> Merging:
        """What merges the slice's base rows with its logs, rows in `schema`."""
        _ensure_as_written(part)
        found = scan_logs(self.storage, part.logs, schema, self.ordering)
        if self.virtual_keys:
            found = [self._keyed(c) if isinstance(c, pa.Table) else c for c in found]
        if self.grouping.groups:
            return GroupedMerge(tuple(found), schema, self.ordering, self.grouping)
        if is_partial(found, schema):
            return partial_merge(found, schema, self.ordering)
        return Merge(reduce_changes(found, schema, self.ordering), self.ordering)

    def blocks(self, part: FileSlice) -> list[Placed]:
        """The log blocks of `part` that count, in merge order."""
        _ensure_as_written(part)
        return load_live_blocks(self.storage, part.logs)

    def deletes_upon_partial(self, part: FileSlice) -> pa.Array:
        """The keys that the logs of `part` delete, if some of their rows are partial.

        Apache Hudi 1.2 does not read a slice in which such a key comes back.
        """
        schema = pa.schema([f for f in self.schema if f.name in {RECORD_KEY, *self.ordering}])
        if not any(has_partial_block(self.storage, log) for log in part.logs):
            return pa.array([], pa.string())
        changes = scan_logs(self.storage, part.logs, schema, self.ordering)
        keys = [change.keys for change in changes if isinstance(change, Deletes)]
        return pa.concat_arrays([pa.array([], pa.string()), *keys])

    def _keyed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if self.virtual_keys is None or RECORD_KEY not in rows.schema.names:
            return rows
        if not set(self.virtual_keys.fields) <= set(rows.schema.names):
            return rows
        keys = record_keys(rows, self.virtual_keys.fields, composite=self.virtual_keys.composite)
        index = rows.schema.get_field_index(RECORD_KEY)
        return rows.set_column(index, rows.schema.field(index), keys)


def read_base(
    storage: Storage, base: BaseFile, schema: pa.Schema, row_groups: RowGroups | None = None
) -> Batches:
    """The rows of a base file, in `schema`; page checksums are verified."""
    try:
        with storage.open_input(base.path) as source:
            file = pq.ParquetFile(source, page_checksum_verification=True)
            stored = set(file.schema_arrow.names)
            present = [name for name in schema.names if name in stored]
            groups = list(range(file.num_row_groups))
            _ensure_consistent(file.metadata, base.path)
            if row_groups is not None:
                groups = row_groups(file.metadata)
            expected = sum(file.metadata.row_group(group).num_rows for group in groups)
            if not present:
                yield from _without_columns(expected, schema, base.path)
                return
            rows = 0
            for batch in file.iter_batches(
                BATCH_ROWS, row_groups=groups, columns=present, use_threads=False
            ):
                rows += batch.num_rows
                yield align(batch, schema, base.path)
            if rows != expected:
                raise Corrupt(
                    f"Base file holds {rows} rows where its footer says {expected}.",
                    where=base.path,
                )
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Corrupt(f"Base file does not read: {error}", where=base.path) from error


def count_base_rows(storage: Storage, base: BaseFile) -> int:
    """How many rows the footer of a base file says it has."""
    try:
        with storage.open_input(base.path) as source:
            metadata = pq.ParquetFile(source).metadata
            _ensure_consistent(metadata, base.path)
            return int(metadata.num_rows)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Corrupt(f"Base file does not read: {error}", where=base.path) from error


def _ensure_as_written(part: FileSlice) -> None:
    for file in (part.base, *part.logs):
        if file and file.written not in (None, file.size):
            raise Corrupt(
                f"The file has {file.size} bytes, its commit says {file.written}.",
                where=file.path,
                safe="nothing was read",
                next_step="bring the file back, or restore the table to an earlier state",
            )


def _ensure_consistent(footer: pq.FileMetaData, where: str) -> None:
    """The footer has no checksum, but it says how many rows there are in more than one place."""
    counts = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
    if sum(counts) != footer.num_rows:
        raise Corrupt(
            f"The footer says {footer.num_rows} rows and its row groups {sum(counts)}.", where=where
        )


def _without_columns(rows: int, schema: pa.Schema, where: str) -> Batches:
    """Rows of a file that has none of the columns asked for: they were added later."""
    empty = pa.table({"_": pa.nulls(rows)})
    for batch in empty.to_batches(BATCH_ROWS):
        yield align(batch, schema, where)
