"""Every version of one record that files of its file group still hold.

Where the table has buckets, the hash of the key says which file groups to look into. Else a base
file is opened only if its footer does not rule the key out, and logs are all read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lentic.format.bucket import bucket_ids, parse_bucket
from lentic.format.keys import record_keys
from lentic.format.record_fields import COMMIT_TIME, RECORD_KEY
from lentic.format.table_config import TableConfig
from lentic.format.times import RequestedAt
from lentic.insight.answers import Version
from lentic.query.parquet_stats import row_groups_that_may_match
from lentic.query.predicate_text import parse_predicate
from lentic.query.source import Source
from lentic.records.log_scan import Placed, decode_changes
from lentic.records.merge import IS_DELETED, Deletes
from lentic.records.slice_reader import SliceReader
from lentic.view.files import FileGroup, FileSlice
from lentic.view.table_view import GONE, Writes


@dataclass(frozen=True, slots=True)
class Place:
    """A file group that holds, or held, the key. Versions are in merge order, oldest slice first;
    `row_commit` is the write that the current row comes from, None if there is no such row."""

    group: FileGroup
    versions: tuple[Version, ...]
    row_commit: str | None


def bucket_of(key: str, config: TableConfig) -> int | None:
    """The bucket that the key lies in; None if the table has none."""
    if config.buckets is None or not config.key_fields:
        return None
    keys = pa.array([key], pa.string())
    return int(bucket_ids(keys, config.buckets, hash_fields=config.key_fields)[0])


def candidates(groups: tuple[FileGroup, ...], bucket: int | None) -> tuple[FileGroup, ...]:
    """The file groups that can hold the key."""
    if bucket is None:
        return groups
    return tuple(group for group in groups if parse_bucket(group.id.file_id) in (None, bucket))


def load_place(source: Source, group: FileGroup, key: str, writes: Writes) -> Place | None:
    """What the file group holds of the key; None if nothing."""
    found: list[Version] = []
    for part in reversed(group.slices):
        if not _is_there(part):
            continue
        found += _in_base(source, part, key)
        found += _in_logs(source, part, key)
    if not found:
        return None
    timed = [replace(version, completed_at=_completed(version, writes)) for version in found]
    row_commit = _current_commit(source.reader, group.latest, key)
    return Place(group, tuple(timed), row_commit)


def _is_there(part: FileSlice) -> bool:
    return all(file.size != GONE for file in (part.base, *part.logs) if file)


def _completed(version: Version, writes: Writes) -> str | None:
    write = writes.get(RequestedAt(version.commit))
    return str(write.completed_at) if write else None


def _schema(reader: SliceReader) -> pa.Schema:
    wanted = {RECORD_KEY, COMMIT_TIME, IS_DELETED, *reader.ordering, *reader.grouping.orderings}
    wanted |= set(reader.virtual_keys.fields) if reader.virtual_keys else set()
    return pa.schema([field for field in reader.schema if field.name in wanted])


def _in_base(source: Source, part: FileSlice, key: str) -> Iterator[Version]:
    if part.base is None:
        return
    reader, schema = source.reader, _schema(source.reader)
    prune = None if reader.virtual_keys else _HoldsKey(key, reader.schema)
    for batch in reader.base(part, schema, prune):
        for row in batch.filter(pc.equal(batch.column(RECORD_KEY), key)).to_pylist():
            commit = row[COMMIT_TIME] or str(part.base.name.requested_at)
            yield _version(reader, part, part.base.path, "base", commit, row)


@dataclass(frozen=True, slots=True)
class _HoldsKey:
    """The row groups of a base file that may hold a key, by their statistics."""

    key: str
    schema: pa.Schema

    def __call__(self, metadata: pq.FileMetaData) -> list[int]:
        text = self.key.replace("'", "''")
        wanted = parse_predicate(f"{RECORD_KEY} = '{text}'", self.schema)
        return row_groups_that_may_match(metadata, self.schema, wanted)


def _in_logs(source: Source, part: FileSlice, key: str) -> Iterator[Version]:
    reader, schema = source.reader, _schema(source.reader)
    for placed in reader.blocks(part) if part.logs else ():
        for change in decode_changes([placed], schema, reader.ordering):
            if isinstance(change, Deletes):
                yield from _deletes(reader, part, placed, change, key)
                continue
            rows = _keyed(reader, change)
            for row in rows.filter(pc.equal(rows.column(RECORD_KEY), key)).to_pylist():
                kind = "delete" if row.get(IS_DELETED) else "log"
                commit = row.get(COMMIT_TIME) or placed.instant
                version = _version(reader, part, _file(placed), kind, commit, row)
                yield replace(version, is_partial=placed.is_partial)


def _deletes(
    reader: SliceReader, part: FileSlice, placed: Placed, change: Deletes, key: str
) -> Iterator[Version]:
    for at in pc.indices_nonzero(pc.equal(change.keys, key)).to_pylist():
        values = (array[at].as_py() for array in change.ordering or ())
        row = dict(zip(reader.ordering, values, strict=False))
        yield _version(reader, part, _file(placed), "delete", placed.instant, row)


def _keyed(reader: SliceReader, rows: pa.Table) -> pa.Table:
    if reader.virtual_keys is None:
        return rows
    fields, composite = reader.virtual_keys.fields, reader.virtual_keys.composite
    keys = record_keys(rows, fields, composite=composite)
    return rows.set_column(rows.schema.get_field_index(RECORD_KEY), RECORD_KEY, keys)


def _file(placed: Placed) -> str:
    return placed.where.rpartition("@")[0]


def _version(
    reader: SliceReader, part: FileSlice, path: str, kind: str, commit: str, row: dict[str, object]
) -> Version:
    ordering = tuple(_text(row.get(name)) for name in reader.ordering)
    return Version(
        partition=part.group.partition,
        file=path,
        slice=str(part.barrier),
        kind=kind,
        commit=str(commit),
        completed_at=None,
        ordering=ordering,
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _current_commit(reader: SliceReader, part: FileSlice, key: str) -> str | None:
    """The write that the row comes from which readers see; None if they see none."""
    if not _is_there(part):
        return None
    for batch in reader.read(part, (RECORD_KEY, COMMIT_TIME)):
        for row in batch.filter(pc.equal(batch.column(RECORD_KEY), key)).to_pylist():
            return str(row[COMMIT_TIME] or (part.base and part.base.name.requested_at) or "")
    return None
