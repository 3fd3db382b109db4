"""One attempt at one share of a write: rows in, files out, a status per file.

Runs in a thread or on a worker. Order within a file group: marker, partition metadata, data file,
status; a crash after any of them leaves only what the marker names. File names carry the run's
nonce and the attempt (R4), so no two attempts ever share a name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lentic.engine import Attempt
from lentic.errors import Corrupt, InvalidRecord
from lentic.format import layout
from lentic.format.bucket import bucket_file_id, parse_bucket
from lentic.format.commit_metadata import WriteStat
from lentic.format.names import BaseFileName, LogFileName, format_base_file, format_log_file
from lentic.format.record_fields import META_FIELDS, META_SCHEMA
from lentic.format.table_config import TableType
from lentic.format.times import RequestedAt
from lentic.records.base_writer import ParquetStyle, write_base
from lentic.records.log_writer import write_log
from lentic.records.merge import Changes, Merge, reduce_changes
from lentic.records.slice_reader import read_base
from lentic.storage.base import Storage
from lentic.timeline.timeline import Timeline
from lentic.view.files import FileGroup, FileSlice
from lentic.view.listing import load_partition_view
from lentic.write import markers
from lentic.write.fit import conform
from lentic.write.index_bucket import BucketIndex, GroupRows, split_by_group
from lentic.write.status import WriteStatus, encode_status


@dataclass(frozen=True, slots=True)
class WriteHandle:
    """All that an attempt needs to know; a picklable value.

    `timeline` is the one the write began on: what completes later is not merged with.
    """

    storage: Storage
    timeline: Timeline
    table_type: TableType
    requested_at: RequestedAt
    index: BucketIndex
    schema: pa.Schema
    avro_schema: str
    ordering: tuple[str, ...]
    style: ParquetStyle
    run: int

    def __call__(self, attempt: Attempt, batches: Iterator[pa.RecordBatch]) -> Iterator[str]:
        user = pa.schema([f for f in self.schema if f.name not in META_FIELDS])
        rows = pa.Table.from_batches([conform(batch, user) for batch in batches], user)
        if not rows.num_rows:
            return
        groups_of: dict[str, dict[int, FileGroup]] = {}
        written = 0
        for part in split_by_group(rows, self.index.tag(rows), self.index.buckets):
            if part.partition not in groups_of:
                groups_of[part.partition] = self._groups_by_bucket(part.partition)
            group = groups_of[part.partition].get(part.bucket)
            writer = GroupWriter(self, attempt, part.partition)
            yield encode_status(writer.upsert(part, group, first_row=written))
            written += part.rows.num_rows

    def _groups_by_bucket(self, partition: str) -> dict[int, FileGroup]:
        found: dict[int, FileGroup] = {}
        for group in load_partition_view(self.storage, self.timeline, partition):
            bucket = parse_bucket(group.id.file_id)
            if bucket is None or bucket >= self.index.buckets or bucket in found:
                raise Corrupt(
                    f"File group {group.id} does not fit {self.index.buckets} buckets.",
                    where=self.storage.root,
                    safe="nothing was committed",
                    next_step="open the table with the bucket count it was written with: "
                    'options={"hoodie.bucket.index.num.buckets": N}',
                )
            found[bucket] = group
        return found


@dataclass(frozen=True, slots=True)
class GroupWriter:
    """Writes one file into one partition, for one attempt."""

    handle: WriteHandle
    attempt: Attempt
    partition: str

    def upsert(self, part: GroupRows, group: FileGroup | None, first_row: int) -> WriteStatus:
        """Write the rows of one file group: as a log on it, or as its next base file."""
        handle = self.handle
        file_id = group.id.file_id if group else bucket_file_id(part.bucket)
        rows = self._with_meta(part, file_id, first_row)
        changes = reduce_changes([rows], handle.schema, handle.ordering)
        _ensure_no_revival(changes, handle.ordering)
        current = group.latest if group else None
        if handle.table_type is TableType.COPY_ON_WRITE:
            return self._next_base(file_id, changes, current)
        return self._append_log(file_id, changes, current)

    def _with_meta(self, part: GroupRows, file_id: str, first_row: int) -> pa.Table:
        handle = self.handle
        count = part.rows.num_rows
        numbers = pc.cast(pa.array(range(first_row, first_row + count)), pa.string())
        prefix = f"{handle.requested_at}_{self.attempt.task}"
        meta = [
            pa.repeat(pa.scalar(str(handle.requested_at)), count),
            pc.binary_join_element_wise(prefix, numbers, "_"),
            part.keys,
            pa.repeat(pa.scalar(self.partition), count),
            pa.repeat(pa.scalar(file_id), count),
        ]
        columns = pa.table(meta, schema=META_SCHEMA).columns + part.rows.columns
        return pa.table(columns, schema=handle.schema)

    def _token(self) -> str:
        return f"{self.attempt.task}-{self.handle.run}-{self.attempt.number}"

    def _append_log(self, file_id: str, changes: Changes, current: FileSlice | None) -> WriteStatus:
        handle = self.handle
        name = format_log_file(LogFileName(file_id, handle.requested_at, 1, self._token()))
        path = layout.data_file(self.partition, name)
        markers.announce(handle.storage, handle.requested_at, path, "CREATE")
        self._ensure_partition()
        rows = changes.rows.take(pa.array(np.sort(changes.row_of)))
        written = write_log(
            handle.storage,
            path,
            rows,
            avro_schema=handle.avro_schema,
            requested_at=handle.requested_at,
            style=handle.style,
        )
        # Appending does not read the group: into an existing one every row counts as an update.
        updated = written.rows if current else 0
        stat = WriteStat(
            file_id=file_id,
            path=path,
            partition=self.partition,
            prev_commit=handle.requested_at,
            writes=written.rows,
            updates=updated,
            inserts=written.rows - updated,
            deletes=0,
            size=written.size,
            base_file=current.base.path.rpartition("/")[2] if current and current.base else "",
            log_files=(name,),
            log_version=1,
        )
        return WriteStatus(stat, written.rows - updated, updated, 0)

    def _next_base(self, file_id: str, changes: Changes, current: FileSlice | None) -> WriteStatus:
        handle = self.handle
        name = format_base_file(BaseFileName(file_id, self._token(), handle.requested_at))
        path = layout.data_file(self.partition, name)
        old = current.base if current else None
        markers.announce(handle.storage, handle.requested_at, path, "MERGE" if old else "CREATE")
        self._ensure_partition()
        merge = Merge(changes, handle.ordering)
        base = read_base(handle.storage, old, handle.schema) if old else iter(())
        written = write_base(handle.storage, path, merge.batches(base), handle.schema, handle.style)
        tally = merge.tally
        stat = WriteStat(
            file_id=file_id,
            path=path,
            partition=self.partition,
            prev_commit=old.name.requested_at if old else None,
            writes=written.rows,
            updates=tally.updated,
            inserts=tally.inserted,
            deletes=tally.deleted,
            size=written.size,
            base_file=old.path.rpartition("/")[2] if old else None,
        )
        return WriteStatus(stat, tally.inserted, tally.updated, tally.deleted)

    def _ensure_partition(self) -> None:
        ensure_partition(self.handle.storage, self.partition, self.handle.requested_at)


def _ensure_no_revival(changes: Changes, ordering: tuple[str, ...]) -> None:
    """With ordering fields, engines do not agree on a key that one batch deletes without an
    ordering value and writes again: logs are reduced first and meet the stored row last."""
    if ordering and changes.revived.any():
        key = changes.keys[int(np.argmax(changes.revived))]
        raise InvalidRecord(
            f"Key {key} is deleted without an ordering value and written again in one batch.",
            safe="nothing was committed",
            next_step="give the delete an ordering value, or write the deletes first",
        )


def ensure_partition(storage: Storage, partition: str, requested_at: RequestedAt) -> None:
    """Make the folder a partition for readers that discover partitions by this file."""
    path = layout.partition_metadata(partition)
    if storage.info(path) is None:
        storage.put_if_absent(path, layout.encode_partition_metadata(requested_at, partition))
