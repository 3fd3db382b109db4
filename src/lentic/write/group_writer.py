"""One file of one file group, written by one attempt: a log on top, or the next base file.

Order: marker, partition metadata, data file, status; a crash after any of them leaves only what the
marker names. File names carry the run's nonce and the attempt (R4), so that no two attempts ever
share a name. A log file is written once and never appended to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from lentic.engine import Attempt
from lentic.format import layout
from lentic.format.carried import mark_carried
from lentic.format.commit_metadata import WriteStat
from lentic.format.layout import MarkerKind
from lentic.format.names import BaseFileName, LogFileName, format_base_file, format_log_file
from lentic.format.record_fields import META_SCHEMA, RECORD_KEY
from lentic.format.times import RequestedAt
from lentic.records.base_writer import ParquetStyle, write_base
from lentic.records.batch import Batch, GroupedBatch, combine_batch, reduce_batch
from lentic.records.log_writer import PartialRows, write_log
from lentic.records.merge import IS_DELETED, Deletes, Tally
from lentic.records.slice_reader import SliceReader
from lentic.storage.base import Storage
from lentic.view.files import FileSlice
from lentic.write import markers
from lentic.write.placement import DELETE_FLAG, GroupRows
from lentic.write.status import WriteStatus


class Into(Enum):
    """What becomes of a group's rows."""

    NOTHING = "nothing"
    LOG = "a log on top of the slice"
    NEXT_BASE = "the slice and the rows, merged into the next base file"
    LONGER_BASE = "the slice and the rows, side by side in the next base file"
    FRESH_BASE = "a base file with these rows alone"


@dataclass(frozen=True, slots=True)
class Carried:
    """The columns that the rows of a partial update have, `_hoodie_*` included."""

    schema: pa.Schema
    avro_schema: str


@dataclass(frozen=True, slots=True)
class Writing:
    """How one write turns rows into files; a picklable value.

    `appends`: existing groups get logs (MERGE_ON_READ), except those in `rewritten`.
    `starts_with_log`: so do new ones. `overwrites`: what a group held before is gone. `deletes`:
    the rows are keys to delete. `merges`: rows meet what their group holds key by key; else they
    are added to it.
    `combines`: of each key in the batch one row stays. `counts_exactly`: look into the slice that a
    log goes on, to tell inserted from updated keys. `carried`: the rows have these columns only.
    """

    reader: SliceReader
    requested_at: RequestedAt
    avro_schema: str
    style: ParquetStyle
    run: int
    appends: bool
    starts_with_log: bool
    overwrites: bool = False
    deletes: bool = False
    merges: bool = True
    combines: bool = True
    counts_exactly: bool = True
    sort_by: tuple[str, ...] = ()
    rewritten: frozenset[str] = frozenset()
    carried: Carried | None = None

    @property
    def storage(self) -> Storage:
        return self.reader.storage

    @property
    def schema(self) -> pa.Schema:
        """Of the rows as they are stored, `_hoodie_*` columns included."""
        return self.reader.schema

    @property
    def given(self) -> pa.Schema:
        """Of the rows as they come, `_hoodie_*` columns included."""
        return self.carried.schema if self.carried else self.schema


def choose_file(how: Writing, slot: str, current: FileSlice | None, *, has_rows: bool) -> Into:
    """What kind of file the rows of a slot go into. Pure."""
    if current is None:
        if not has_rows:
            return Into.NOTHING
        return Into.LOG if how.starts_with_log else Into.FRESH_BASE
    if how.overwrites:
        return Into.FRESH_BASE
    if how.appends and slot not in how.rewritten:
        return Into.LOG
    return Into.NEXT_BASE if how.merges else Into.LONGER_BASE


@dataclass(frozen=True, slots=True)
class _Content:
    """What a log holds: whole rows and partial ones, and what they do if that is known."""

    rows: pa.Table
    partial: pa.Table
    tally: Tally | None = None


@dataclass(frozen=True, slots=True)
class GroupWriter:
    """Writes one file for one attempt."""

    how: Writing
    attempt: Attempt
    partition: str
    file_id: str
    current: FileSlice | None

    def write(self, part: GroupRows, first_row: int) -> tuple[WriteStatus, ...]:
        """Write the rows of one file group; `first_row` numbers them within the attempt."""
        rows, deletes = self._rows(part, first_row)
        into = choose_file(self.how, part.slot, self.current, has_rows=rows.num_rows > 0)
        if into is Into.NOTHING:
            return ()
        if into is Into.FRESH_BASE:
            return (self._fresh_base(rows, deletes),)
        if into is Into.LONGER_BASE:
            return (self._longer_base(rows, deletes),)
        batch = self._reduce(rows, deletes)
        return self._log(batch) if into is Into.LOG else (self._next_base(batch),)

    def empty(self) -> tuple[WriteStatus, ...]:
        """A base file without rows: whatever the group held is gone."""
        nothing = Deletes(pa.array([], pa.string()), None)
        return (self._fresh_base(self.how.given.empty_table(), nothing),)

    def _rows(self, part: GroupRows, first_row: int) -> tuple[pa.Table, Deletes]:
        """The rows to store, with their `_hoodie_*` columns, and the keys to delete."""
        rows, keys = part.rows, part.keys
        if self.how.deletes:
            return self.how.given.empty_table(), Deletes(keys, None)
        gone = pa.array([], pa.string())
        if DELETE_FLAG in rows.column_names:
            flags = pc.fill_null(rows.column(DELETE_FLAG), False).combine_chunks()
            gone, keys = keys.filter(flags), keys.filter(pc.invert(flags))
            rows = rows.filter(pc.invert(flags))
        return self._with_meta(rows, keys, first_row), Deletes(gone, None)

    def _with_meta(self, rows: pa.Table, keys: pa.Array, first_row: int) -> pa.Table:
        schema, count = self.how.given, rows.num_rows
        if not count:
            return schema.empty_table()
        numbers = pc.cast(pa.array(range(first_row, first_row + count)), pa.string())
        prefix = f"{self.how.requested_at}_{self.attempt.task}"
        meta = [
            pa.repeat(pa.scalar(str(self.how.requested_at)), count),
            pc.binary_join_element_wise(prefix, numbers, "_"),
            keys,
            pa.repeat(pa.scalar(self.partition), count),
            pa.repeat(pa.scalar(self.file_id), count),
        ]
        columns = pa.table(meta, schema=META_SCHEMA).columns
        columns += [rows.column(name) for name in schema.names[len(columns) :]]
        return pa.table(columns, schema=schema)

    def _reduce(self, rows: pa.Table, deletes: Deletes) -> Batch:
        how, reader = self.how, self.how.reader
        if how.carried is None and not reader.grouping.groups:
            return reduce_batch(rows, deletes, reader.ordering)
        return combine_batch(rows, deletes, how.schema, reader.ordering, reader.grouping)

    def _log(self, batch: Batch) -> tuple[WriteStatus, ...]:
        how, current = self.how, self.current
        content = self._content(batch)
        if self._confuses_others(content):
            return (self._next_base(batch),)
        if not content.rows.num_rows + content.partial.num_rows + len(batch.deletes.keys):
            return ()
        name = format_log_file(LogFileName(self.file_id, how.requested_at, 1, self._token()))
        # Counted first: what is read may be undone meanwhile, and then nothing has been written.
        tally = content.tally or self._tally(batch)
        path = self._announce(name, "CREATE")
        schema = how.avro_schema
        written = write_log(
            how.storage,
            path,
            content.rows,
            partial=PartialRows(content.partial, how.carried.avro_schema) if how.carried else None,
            deletes=batch.deletes,
            partition=self.partition,
            avro_schema=mark_carried(schema, how.given.names) if how.carried else schema,
            requested_at=how.requested_at,
            style=how.style,
        )
        stat = WriteStat(
            file_id=self.file_id,
            path=path,
            partition=self.partition,
            prev_commit=how.requested_at,
            writes=written.rows,
            updates=tally.updated,
            inserts=tally.inserted,
            deletes=tally.deleted,
            size=written.size,
            base_file=current.base.path.rpartition("/")[2] if current and current.base else "",
            log_files=(name,),
            log_version=1,
        )
        return (WriteStatus(stat, tally.inserted, tally.updated, tally.deleted),)

    def _content(self, batch: Batch) -> _Content:
        """What of a batch a log holds.

        A partial row needs an older version to be read upon, so rows of new keys are stored whole,
        with a note of what they carry.
        """
        how, current, nothing = self.how, self.current, self.how.given.empty_table()
        if not isinstance(batch, GroupedBatch):
            return _Content(batch.rows, nothing)
        if not how.reader.grouping.groups:
            held = how.reader.read(current, (RECORD_KEY,)) if current else iter(())
            known = pa.concat_arrays([pa.array([], pa.string()), *(b.column(0) for b in held)])
            is_known = pc.is_in(batch.rows.column(RECORD_KEY), value_set=known)
            new = batch.rows.filter(pc.invert(is_known))
            return _Content(self._whole(new), batch.rows.filter(is_known))
        held = how.reader.read(current, tuple(how.given.names)) if current else iter(())
        settled = batch.settle(held)
        if how.carried is None:
            whole = pa.concat_tables([settled.new, settled.known])
            return _Content(whole, nothing, settled.tally)
        return _Content(self._whole(settled.new), settled.known, settled.tally)

    def _whole(self, rows: pa.Table) -> pa.Table:
        columns = [
            rows.column(f.name) if f.name in rows.column_names else pa.nulls(rows.num_rows, f.type)
            for f in self.how.schema
        ]
        return pa.table(columns, schema=self.how.schema)

    def _confuses_others(self, content: _Content) -> bool:
        """Whether a key comes back that was deleted in a slice with partial rows."""
        how, current = self.how, self.current
        if current is None or (how.carried is None and not how.reader.grouping.groups):
            return False
        keys = content.rows.column(RECORD_KEY)
        if not len(keys):
            return False
        gone = how.reader.deletes_upon_partial(current)
        return bool(pc.any(pc.is_in(keys, value_set=gone)).as_py())

    def _tally(self, batch: Batch) -> Tally:
        """What the batch does to the rows that are there, without reading more than decides it."""
        how, current = self.how, self.current
        if current is not None and not how.counts_exactly:
            return batch.guess
        columns = (RECORD_KEY, *how.reader.ordering, *how.reader.grouping.orderings)
        return batch.count(how.reader.read(current, columns) if current else ())

    def _next_base(self, batch: Batch) -> WriteStatus:
        how, current = self.how, self.current
        assert current is not None
        merge = batch.merging()
        rows = merge.batches(how.reader.read(current, tuple(how.schema.names)))
        return self._base(rows, merge.tally)

    def _fresh_base(self, rows: pa.Table, deletes: Deletes) -> WriteStatus:
        how = self.how
        tally = Tally()
        if self.current is not None and how.counts_exactly:
            tally.deleted = sum(b.num_rows for b in how.reader.read(self.current, (RECORD_KEY,)))
        added = self._combined(rows, deletes)
        if how.sort_by:
            added = added.sort_by([(name, "ascending") for name in how.sort_by])
        tally.inserted = added.num_rows
        return self._base(added.to_batches(), tally)

    def _longer_base(self, rows: pa.Table, deletes: Deletes) -> WriteStatus:
        how, current = self.how, self.current
        assert current is not None
        added = self._combined(rows, deletes)
        held = how.reader.read(current, tuple(how.schema.names))
        return self._base(chain(held, added.to_batches()), Tally(inserted=added.num_rows))

    def _combined(self, rows: pa.Table, deletes: Deletes) -> pa.Table:
        """What the batch itself leaves: of each key one row if so asked, and none that deletes."""
        how = self.how
        if how.combines or how.carried or how.reader.grouping.groups:
            merge = self._reduce(rows, deletes).merging()
            return pa.Table.from_batches(merge.batches(()), how.schema)
        if IS_DELETED in rows.column_names:
            return rows.filter(pc.invert(pc.fill_null(rows.column(IS_DELETED), False)))
        return rows

    def _base(self, rows: Iterable[pa.RecordBatch], tally: Tally) -> WriteStatus:
        """`tally` may still be counting while `rows` are read."""
        how = self.how
        old = self.current.base if self.current else None
        name = format_base_file(BaseFileName(self.file_id, self._token(), how.requested_at))
        path = self._announce(name, "MERGE" if old else "CREATE")
        written = write_base(how.storage, path, rows, how.schema, how.style)
        stat = WriteStat(
            file_id=self.file_id,
            path=path,
            partition=self.partition,
            prev_commit=self.current.barrier if self.current else None,
            writes=written.rows,
            updates=tally.updated,
            inserts=tally.inserted,
            deletes=tally.deleted,
            size=written.size,
            base_file=old.path.rpartition("/")[2] if old else None,
        )
        return WriteStatus(stat, tally.inserted, tally.updated, tally.deleted)

    def _announce(self, name: str, kind: MarkerKind) -> str:
        path = layout.data_file(self.partition, name)
        markers.announce(self.how.storage, self.how.requested_at, path, kind)
        ensure_partition(self.how.storage, self.partition, self.how.requested_at)
        return path

    def _token(self) -> str:
        return f"{self.attempt.task}-{self.how.run}-{self.attempt.number}"


def ensure_partition(storage: Storage, partition: str, requested_at: RequestedAt) -> None:
    """Make the folder a partition for readers that discover partitions by this file."""
    path = layout.partition_metadata(partition)
    if storage.info(path) is None:
        storage.put_if_absent(path, layout.encode_partition_metadata(requested_at, partition))
