"""What one write brings to one file group, one entry per key: to go into a log, or to meet the rows
that are there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lentic.errors import InvalidRecord
from lentic.format.record_fields import COMMIT_TIME, RECORD_KEY
from lentic.records.grouped import GroupedMerge, Grouping
from lentic.records.merge import (
    IS_DELETED,
    Change,
    Changes,
    Deletes,
    Merge,
    Merging,
    Tally,
    as_array,
    by_kind,
    reduce_changes,
)


class Batch(Protocol):
    """Rows and deletes of distinct keys."""

    @property
    def rows(self) -> pa.Table:
        """What a log's data blocks hold."""

    @property
    def deletes(self) -> Deletes:
        """What its delete blocks hold."""

    @property
    def guess(self) -> Tally:
        """What the batch does if every key exists already."""

    def merging(self) -> Merging:
        """What merges the batch with rows that are there."""

    def count(self, base: Iterable[pa.RecordBatch]) -> Tally:
        """What it does to `base`, of which key and ordering columns are enough."""


@dataclass(frozen=True, slots=True)
class WholeBatch:
    """Whole rows of a table without column groups."""

    changes: Changes
    ordering: tuple[str, ...]

    @property
    def rows(self) -> pa.Table:
        row_of = self.changes.row_of
        return self.changes.rows.take(pa.array(np.sort(row_of[row_of >= 0])))

    @property
    def deletes(self) -> Deletes:
        return Deletes(self.changes.keys.filter(pa.array(self.changes.row_of < 0)), None)

    @property
    def guess(self) -> Tally:
        deleted = int(self.changes.deleted.sum())
        return Tally(updated=len(self.changes.keys) - deleted, deleted=deleted)

    def merging(self) -> Merging:
        return Merge(self.changes, self.ordering)

    def count(self, base: Iterable[pa.RecordBatch]) -> Tally:
        merge = self.merging()
        for _ in merge.batches(base):
            pass
        return merge.tally


@dataclass(frozen=True, slots=True)
class GroupedBatch:
    """Rows that carry some columns, or belong to a table with column groups."""

    rows: pa.Table
    deletes: Deletes
    schema: pa.Schema
    ordering: tuple[str, ...]
    grouping: Grouping

    @property
    def guess(self) -> Tally:
        return Tally(updated=self.rows.num_rows, deleted=len(self.deletes.keys))

    def merging(self) -> Merging:
        return self._merge()

    def count(self, base: Iterable[pa.RecordBatch]) -> Tally:
        merge = self._merge()
        merge.count(base)
        return merge.tally

    def settle(self, held: Iterable[pa.RecordBatch]) -> Settled:
        """The batch as it is once it has met `held`, rows with the columns that it carries."""
        keys = as_array(self.rows.column(RECORD_KEY))
        named = pa.concat_arrays([keys, self.deletes.keys])
        schema = self.rows.schema
        met = [b.filter(pc.is_in(b.column(RECORD_KEY), value_set=named)) for b in held]
        merge = GroupedMerge(self._changes, schema, self.ordering, self.grouping)
        now = pa.Table.from_batches(merge.batches(met), schema)
        known = as_array(pa.Table.from_batches(met, schema).column(RECORD_KEY))
        now = now.filter(
            pc.is_in(
                now.column(RECORD_KEY), value_set=known.filter(pc.is_in(known, value_set=keys))
            )
        )
        writes = pc.unique(self.rows.column(COMMIT_TIME))
        return Settled(
            known=now.filter(pc.is_in(now.column(COMMIT_TIME), value_set=writes)),
            new=self.rows.filter(pc.invert(pc.is_in(keys, value_set=known))),
            tally=merge.tally,
        )

    @property
    def _changes(self) -> tuple[Change, ...]:
        return (self.rows, *by_kind(self.deletes))

    def _merge(self) -> GroupedMerge:
        return GroupedMerge(self._changes, self.schema, self.ordering, self.grouping)


@dataclass(frozen=True, slots=True)
class Settled:
    """A batch that has met the rows that are there: what it changes of them, and what is new.

    A value that came late has given way to the one that is there, and rows that change nothing are
    left out. To us that makes no difference; engines that know no column groups see the same rows
    as we do.
    """

    known: pa.Table
    new: pa.Table
    tally: Tally


def reduce_batch(rows: pa.Table, deletes: Deletes, ordering: tuple[str, ...]) -> WholeBatch:
    """The batch of whole rows, and of deletes that come after them."""
    found: list[Change] = [rows, deletes]
    changes = reduce_changes(found, rows.schema, ordering)
    # With ordering fields, engines do not agree on a key that one batch deletes without an ordering
    # value and writes again: logs are reduced first and meet the stored row last.
    if ordering and changes.revived.any():
        key = changes.keys[int(np.argmax(changes.revived))]
        raise InvalidRecord(
            f"Key {key} is deleted without an ordering value and written again in one batch.",
            safe="nothing was committed",
            next_step="give the delete an ordering value, or write the deletes first",
        )
    return WholeBatch(changes, ordering)


def combine_batch(
    rows: pa.Table,
    deletes: Deletes,
    schema: pa.Schema,
    ordering: tuple[str, ...],
    grouping: Grouping,
) -> GroupedBatch:
    """The batch of rows that carry the columns they have, of a table with `schema`.

    Rows of one key become one, group by group. Which of a row and a delete of one key comes first
    could not be told from a log, so a batch with both is refused.
    """
    marks = _array(rows, IS_DELETED, pa.bool_())
    is_delete = pc.fill_null(marks, False)
    gone = _deletes(rows.filter(is_delete), deletes, ordering)
    rows = rows.filter(pc.invert(is_delete))
    keys = as_array(rows.column(RECORD_KEY))
    if (both := keys.filter(pc.is_in(keys, value_set=gone.keys))) and len(both):
        raise InvalidRecord(
            f"Key {both[0]} is deleted and written in one batch.",
            safe="nothing was committed",
            next_step="write the deletes first, and the rows in another call",
        )
    if pc.count_distinct(keys).as_py() < len(keys):
        merge = GroupedMerge((rows,), rows.schema, ordering, grouping)
        rows = pa.Table.from_batches(merge.batches(()), rows.schema)
    return GroupedBatch(rows, gone, schema, ordering, grouping)


def _deletes(rows: pa.Table, deletes: Deletes, ordering: tuple[str, ...]) -> Deletes:
    """One delete per key; null ordering values where it has none."""
    names = [n for n in (RECORD_KEY, *ordering, IS_DELETED) if n in rows.column_names]
    core = rows.select(names)
    net = reduce_changes([core, deletes], core.schema, ordering)
    if not ordering:
        return Deletes(net.keys, None)
    at = pa.array(np.maximum(net.row_of, 0), mask=(net.row_of < 0) | net.decided)
    values = tuple(as_array(net.rows.column(name).take(at)) for name in ordering)
    return Deletes(net.keys, values)


def _array(rows: pa.Table, name: str, kind: pa.DataType) -> pa.Array:
    if name in rows.column_names:
        return as_array(rows.column(name))
    return pa.nulls(rows.num_rows, kind)
