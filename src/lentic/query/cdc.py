"""The cdc query: every change of every row in a window, with the row before and after it.

Where a write kept a change log (`.cdc`) it is read; what the log does not hold is taken from the
file slices before and after the write. Where there is none, those two slices are compared: a key
that is new was inserted, a key that is gone was deleted, and a row whose `_hoodie_commit_time` is
the write's own was updated. Compaction, log compaction and clustering change no row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lentic.engine import Engine, Scan, ScanTask
from lentic.errors import Corrupt
from lentic.format.commit_metadata import REARRANGING, CommitMetadata
from lentic.format.log_block import BlockKind, Header, decode_blocks
from lentic.format.log_payload import decode_avro_payload
from lentic.format.names import parse_log_file
from lentic.format.record_fields import COMMIT_TIME, META_FIELDS, RECORD_KEY
from lentic.format.times import CompletedAt
from lentic.query.source import Source, ensure_readable, load_source
from lentic.query.window import Window, load_window
from lentic.records.slice_reader import SliceReader
from lentic.timeline.instant import Instant
from lentic.txn.transaction import OpenTable
from lentic.view.files import FileGroup, FileGroupId, FileSlice
from lentic.view.table_view import TableFiles

INSERT, UPDATE, DELETE = "i", "u", "d"


@dataclass(frozen=True, slots=True)
class GroupChange:
    """What one write did to one file group: the slices around it, or the logs that tell."""

    requested_at: str
    before: FileSlice | None
    after: FileSlice | None
    logs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadChanges:
    """Reads the changes of one write to one group; a picklable value."""

    reader: SliceReader

    def __call__(self, change: GroupChange) -> Iterator[pa.RecordBatch]:
        if change.logs:
            changes = self._from_logs(change)
        else:
            changes = _compare(
                self._rows(change.before), self._rows(change.after), change.requested_at
            )
        yield from self._shaped(changes, change.requested_at)

    def _rows(self, part: FileSlice | None) -> pa.Table:
        schema: pa.Schema = self.reader.schema
        batches = list(self.reader.read(part, tuple(schema.names))) if part else []
        return pa.Table.from_batches(batches, schema)

    def _from_logs(self, change: GroupChange) -> _Changes:
        tables = [table for path in change.logs for table in self._logged(path)]
        if not tables:
            raise Corrupt("A change log without a block.", where=change.logs[0])
        try:
            return self._told(pa.concat_tables(tables, promote_options="permissive"), change)
        except (KeyError, pa.ArrowException) as error:
            raise Corrupt(f"A change log does not read: {error}", where=change.logs[0]) from error

    def _told(self, logged: pa.Table, change: GroupChange) -> _Changes:
        operations = logged.column("op").cast(pa.string()).to_pylist()
        before = logged.column("before") if "before" in logged.column_names else None
        after = logged.column("after") if "after" in logged.column_names else None
        if before is None or after is None:
            keys = logged.column("record_key").cast(pa.string())
            if before is None:
                before = _lookup(self._rows(change.before), keys, self._user)
            if after is None:
                after = _lookup(self._rows(change.after), keys, self._user)
        return _Changes(operations, _struct(before, self._user), _struct(after, self._user))

    def _logged(self, path: str) -> Iterator[pa.Table]:
        for block in decode_blocks(self.reader.storage.read(path), path):
            where = f"{path}@{block.offset}"
            if block.kind is not BlockKind.CDC:
                raise Corrupt(f"A {block.kind.name} block in a change log.", where=where)
            yield decode_avro_payload(block.content, block.headers[Header.SCHEMA], where)

    @property
    def _user(self) -> pa.Schema:
        return pa.schema([f for f in self.reader.schema if f.name not in META_FIELDS])

    def _shaped(self, changes: _Changes, requested_at: str) -> Iterator[pa.RecordBatch]:
        if not changes.operations:
            return
        operations = pa.array(changes.operations, pa.string())
        before = pc.if_else(pc.equal(operations, INSERT), None, changes.before)
        after = pc.if_else(pc.equal(operations, DELETE), None, changes.after)
        times = pa.repeat(pa.scalar(requested_at), len(operations))
        schema = cdc_schema(self._user)
        columns = [
            operations,
            times,
            before.cast(schema.field(2).type),
            after.cast(schema.field(3).type),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


@dataclass(frozen=True, slots=True)
class _Changes:
    operations: list[str]
    before: pa.Array
    after: pa.Array


def cdc_schema(user: pa.Schema) -> pa.Schema:
    """Columns of the result: op (i, u, d), ts (the write's requested time), before, after. Where
    there is no row before or after, its columns are null, whatever the table says of them."""
    row = pa.struct([field.with_nullable(True) for field in user])
    return pa.schema([("op", pa.string()), ("ts", pa.string()), ("before", row), ("after", row)])


def read_cdc(table: OpenTable, engine: Engine, *, after: str, upto: str | None) -> Any:
    """Every change in the window, one row each."""
    source = load_source(table)
    window = load_window(source, after, upto)
    files = window.load_files(source, replaced=True)
    changes = [
        change
        for instant, metadata in window.writes.items()
        if metadata.operation not in REARRANGING and not metadata.compacted
        for change in _changes_of(source, window, files, instant, metadata)
    ]
    tasks = tuple(ScanTask(change) for change in changes)
    return engine.collect(Scan(cdc_schema(source.schema), tasks, ReadChanges(source.reader)))


def _changes_of(
    source: Source, window: Window, files: TableFiles, instant: Instant, metadata: CommitMetadata
) -> Iterator[GroupChange]:
    assert instant.completed_at is not None
    touched = {FileGroupId(stat.partition, stat.file_id) for stat in metadata.stats}
    ended = {FileGroupId(p, file_id) for p, ids in metadata.replaced.items() for file_id in ids}
    before = _groups_at(files, _time_before(files, instant.completed_at), touched | ended)
    after = _groups_at(files, instant.completed_at, touched)
    logs: dict[FileGroupId, list[str]] = {}
    for path in metadata.cdc_files:
        directory, _, name = path.rpartition("/")
        if parsed := parse_log_file(name):
            logs.setdefault(FileGroupId(directory, parsed.file_id), []).append(path)
    for group in sorted(touched | ended, key=str):
        around = [g for g in (before.get(group), after.get(group)) if g]
        if not _is_self_contained(source, tuple(logs.get(group, ()))):
            ensure_readable(source, window.history, around, instant.completed_at)
        yield GroupChange(
            str(instant.requested_at),
            before[group].latest if group in before else None,
            after[group].latest if group in after else None,
            tuple(logs.get(group, ())),
        )


def _is_self_contained(source: Source, logs: tuple[str, ...]) -> bool:
    mode = source.table.config.extra.get("hoodie.table.cdc.supplemental.logging.mode", "")
    return bool(logs) and mode.lower() == "data_before_after"


def _time_before(files: TableFiles, at: CompletedAt) -> CompletedAt:
    earlier = (write.completed_at for write in files.writes.values() if write.completed_at < at)
    return max(earlier, default=CompletedAt("0"))


def _groups_at(
    files: TableFiles, upto: CompletedAt, wanted: set[FileGroupId]
) -> dict[FileGroupId, FileGroup]:
    return {group.id: group for group in files.groups(upto) if group.id in wanted}


def _compare(before: pa.Table, after: pa.Table, requested_at: str) -> _Changes:
    """The changes between two states of a group, as far as one write made them."""
    was = pc.index_in(after.column(RECORD_KEY), value_set=before.column(RECORD_KEY))
    mine = _flags(pc.equal(after.column(COMMIT_TIME), requested_at))
    known = _flags(pc.is_valid(was))
    gone = ~_flags(pc.is_in(before.column(RECORD_KEY), value_set=after.column(RECORD_KEY)))
    new, changed, lost = (np.flatnonzero(f) for f in (mine & ~known, mine & known, gone))
    operations = [INSERT] * len(new) + [UPDATE] * len(changed) + [DELETE] * len(lost)
    old = pc.take(was, pa.array(changed)).to_numpy() if len(changed) else np.empty(0, np.int64)
    from_rows = np.concatenate([np.full(len(new), -1), old, lost]).astype(np.int64)
    to_rows = np.concatenate([new, changed, np.full(len(lost), -1)]).astype(np.int64)
    return _Changes(operations, _pick(before, from_rows), _pick(after, to_rows))


def _pick(rows: pa.Table, at: npt.NDArray[np.int64]) -> pa.Array:
    """Rows as structs of the user's columns; null where `at` is -1."""
    user = rows.drop_columns(list(META_FIELDS))
    structs = user.to_struct_array()
    return _combined(pc.take(structs, pa.array(at, mask=at < 0)))


def _lookup(rows: pa.Table, keys: pa.ChunkedArray, user: pa.Schema) -> pa.Array:
    found = pc.index_in(keys, value_set=rows.column(RECORD_KEY))
    structs = rows.select(user.names).to_struct_array()
    return _combined(pc.take(structs, found))


def _struct(values: pa.Array | pa.ChunkedArray, user: pa.Schema) -> pa.Array:
    """Structs with exactly the user's columns, whatever the log's schema was."""
    structs = _combined(values)
    names = [field.name for field in structs.type]
    columns = [
        structs.field(names.index(field.name)).cast(field.type)
        if field.name in names
        else pa.nulls(len(structs), field.type)
        for field in user
    ]
    return pa.StructArray.from_arrays(columns, fields=list(user), mask=structs.is_null())


def _combined(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _flags(values: Any) -> npt.NDArray[np.bool_]:
    return np.asarray(pc.fill_null(values, False).to_numpy(zero_copy_only=False), dtype=bool)
