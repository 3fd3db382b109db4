"""The join index: a record's file group is the one whose base file holds its key.

For tables without buckets. Engines look the keys up (`Engine.locate`), in the partitions that rows
go to or, with a global index, in all of them. Only base files are looked at: that is where new keys
always go on such tables, because other engines look nowhere else either.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lentic.engine import FILE_ID, FOUND_IN, KEY, PARTITION, KeyFile
from lentic.errors import Corrupt
from lentic.format.record_fields import RECORD_KEY
from lentic.storage.base import Storage
from lentic.write.assign import Choice
from lentic.write.placement import DELETE_FLAG, GroupRows, KeyRules, group_rows

_BATCH_ROWS = 131_072


@dataclass(frozen=True, slots=True)
class TagRows:
    """Key and partition of rows, as a lookup wants them."""

    rules: KeyRules

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [self.rules.keys(rows), self.rules.partitions(rows)]
        return pa.RecordBatch.from_arrays(arrays, [KEY, PARTITION])


@dataclass(frozen=True, slots=True)
class ReadKeys:
    """The keys of a base file."""

    storage: Storage

    def __call__(self, file: KeyFile) -> Iterator[pa.Array]:
        try:
            with self.storage.open_input(file.path) as source:
                parquet = pq.ParquetFile(source, page_checksum_verification=True)
                for batch in parquet.iter_batches(_BATCH_ROWS, columns=[RECORD_KEY]):
                    yield batch.column(0)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise Corrupt(f"Base file does not read: {error}", where=file.path) from error


@dataclass(frozen=True, slots=True)
class JoinPlacement:
    """Sends located rows to their file group, and new keys to the groups chosen for them."""

    choices: Mapping[str, Choice]

    @property
    def columns(self) -> tuple[str, ...]:
        return (KEY, PARTITION, FILE_ID)

    def route(self, rows: pa.RecordBatch) -> pa.Array:
        slots = self._slots(pa.Table.from_batches([rows])).dictionary_encode()
        numbers = [zlib.crc32(slot.encode()) & 0x7FFFFFFF for slot in slots.dictionary.to_pylist()]
        return pa.array(np.array(numbers, np.int32)[slots.indices.to_numpy()])

    def split(self, rows: pa.Table) -> Iterator[GroupRows]:
        rows = rows.combine_chunks()
        keys, partitions = _array(rows.column(KEY)), _array(rows.column(PARTITION))
        return group_rows(rows, keys, partitions, self._slots(rows))

    def slot_of(self, file_id: str) -> str | None:
        return file_id

    def new_file_id(self, slot: str, ended: Set[str] = frozenset()) -> str:
        return slot

    def _slots(self, rows: pa.Table) -> pa.Array:
        """The file group of each row: where its key was found, else where new keys go."""
        found = _array(rows.column(FILE_ID))
        chosen = np.full(rows.num_rows, None, dtype=object)
        fresh = found.is_null().to_numpy(zero_copy_only=False)
        partitions = _array(rows.column(PARTITION)).dictionary_encode()
        codes = partitions.indices.to_numpy()
        keys = _array(rows.column(KEY))
        for code, partition in enumerate(partitions.dictionary.to_pylist()):
            at = np.flatnonzero(fresh & (codes == code))
            if len(at):
                choice = self.choices[partition]
                names = np.array(choice.file_ids, dtype=object)
                chosen[at] = names[choice.choose(keys.take(pa.array(at)))]
        return pc.coalesce(found, pa.array(chosen, pa.string()))


def settle_moves(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of a global lookup: one whose key lives in another partition is deleted there, and new
    where it belongs now."""
    found_in, wanted = rows.column(FOUND_IN), rows.column(PARTITION)
    moved = pc.fill_null(pc.not_equal(found_in, wanted), False)
    count = rows.num_rows
    flag = rows.schema.get_field_index(DELETE_FLAG)
    if flag < 0:
        rows = rows.append_column(DELETE_FLAG, pa.repeat(pa.scalar(False), count))
        flag = rows.num_columns - 1
    if not pc.any(moved).as_py():
        return rows
    old = _with(rows.filter(moved), PARTITION, found_in.filter(moved))
    old = _with(old, DELETE_FLAG, pa.repeat(pa.scalar(True), old.num_rows))
    new = _with(
        rows, FILE_ID, pc.if_else(moved, pa.scalar(None, pa.string()), rows.column(FILE_ID))
    )
    # A row that deletes has nothing to be new with.
    stays = pc.invert(pc.and_(moved, pc.fill_null(rows.column(flag), False)))
    return pa.concat_batches([old, new.filter(stays)])


def keep_places(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of a global lookup: one whose key lives in another partition stays there."""
    return _with(rows, PARTITION, pc.coalesce(rows.column(FOUND_IN), rows.column(PARTITION)))


def _with(rows: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    index = rows.schema.get_field_index(name)
    return rows.set_column(index, name, values)


def _array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
