"""Merging versions of records: what a series of changes does to each key, and to the base rows.

Rules (format: record merging; R17). Changes come in merge order. Without ordering fields the later
change wins. With them the greater ordering value wins and a tie goes to the later change; a null
ordering value lies below every other. A delete without an ordering value (a hard delete) wins over
all that came before it and loses to the next row. Between the two there is nothing to delete, so
the deletes of delete blocks that come there count for nothing. Changes are first reduced among
themselves, and what is left of them meets the base row last, as every engine of this format does
it: a row that came after a hard delete is compared with the base row by ordering value again.
Everything here works on whole columns; the only loops run over columns and fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lentic.format.record_fields import RECORD_KEY

IS_DELETED = "_hoodie_is_deleted"
"""A boolean column of this name, if the table has one, makes a row a delete."""

Flags = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Deletes:
    """Keys to remove. `ordering` has one array per ordering field; None means hard deletes."""

    keys: pa.Array
    ordering: tuple[pa.Array, ...] | None


Change: TypeAlias = "pa.Table | Deletes"
"""Upserted rows (with the `_hoodie_*` columns), or deletes."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The net effect of a series of changes: one entry per key."""

    keys: pa.Array
    rows: pa.Table
    row_of: Positions
    """Per key: index of the winning row in `rows`, or -1 for a delete that came without a row."""
    deleted: Flags
    """Per key: the winner is a delete."""
    ordering: tuple[pa.Array, ...]
    """Per ordering field: the winner's values, per key. Empty without ordering fields."""
    decided: Flags
    """Per key: wins over any base row without comparing (the winner is a hard delete)."""
    revived: Flags
    """Per key: the winner is a row that came after a hard delete."""


@dataclass(slots=True)
class Tally:
    """What a merge did, counted in keys."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


class Merging(Protocol):
    """Base rows in, current rows out; `tally` is complete once the batches are used up."""

    @property
    def tally(self) -> Tally: ...

    def batches(self, base: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]: ...


def reduce_changes(
    changes: Sequence[Change], schema: pa.Schema, ordering: tuple[str, ...]
) -> Changes:
    """The net effect of `changes`, which are in merge order; `schema` is that of their rows."""
    series = line_up(changes, schema, ordering)
    codes = series.keys.dictionary_encode()
    code_of = codes.indices.to_numpy().astype(np.int64)
    count = len(codes.dictionary)
    wall = np.full(count, -1, dtype=np.int64)
    hard = np.flatnonzero(series.is_hard)
    wall[code_of[hard]] = hard
    alive = _counting(code_of, wall, series.row)
    winner = wall.copy()
    last = last_per_key(code_of, alive, series.ordering)
    winner[last[0]] = last[1]
    winners = pa.array(winner)
    is_row = ~series.is_delete[winner]
    return Changes(
        keys=codes.dictionary,
        rows=series.rows,
        row_of=series.row[winner],
        deleted=series.is_delete[winner],
        ordering=tuple(values.take(winners) for values in series.ordering),
        decided=series.is_hard[winner],
        revived=(wall >= 0) & is_row,
    )


@dataclass(frozen=True, slots=True)
class Series:
    """All changes side by side, in merge order."""

    keys: pa.Array
    rows: pa.Table
    row: Positions
    is_delete: Flags
    is_hard: Flags
    ordering: tuple[pa.Array, ...]


def line_up(changes: Sequence[Change], schema: pa.Schema, ordering: tuple[str, ...]) -> Series:
    rows = pa.concat_tables(
        [c for c in changes if isinstance(c, pa.Table)] or [schema.empty_table()]
    )
    keys, row, is_delete, is_hard = [], [], [], []
    values: list[list[pa.Array]] = [[] for _ in ordering]
    start = 0
    for change in changes:
        if isinstance(change, Deletes):
            size = len(change.keys)
            keys.append(change.keys)
            row.append(np.full(size, -1))
            is_delete.append(np.ones(size, dtype=bool))
            is_hard.append(np.full(size, change.ordering is None or not ordering))
            given = change.ordering
        else:
            size = change.num_rows
            keys.append(as_array(change.column(RECORD_KEY)))
            row.append(np.arange(start, start + size))
            is_delete.append(_deleted(change))
            given = tuple(as_array(change.column(name)) for name in ordering)
            unordered = [as_flags(values.is_null()) for values in given]
            is_hard.append(is_delete[-1] & np.logical_and.reduce(unordered, initial=True))
            start += size
        for index, name in enumerate(ordering):
            kind = schema.field(name).type
            part = given[index].cast(kind) if given else pa.nulls(size, kind)
            values[index].append(comparable(part))
    return Series(
        keys=pa.concat_arrays(keys) if keys else pa.array([], pa.string()),
        rows=rows,
        row=np.concatenate(row) if row else np.empty(0, dtype=np.int64),
        is_delete=np.concatenate(is_delete) if is_delete else np.empty(0, dtype=bool),
        is_hard=np.concatenate(is_hard) if is_hard else np.empty(0, dtype=bool),
        ordering=tuple(
            pa.concat_arrays(parts) if parts else comparable(pa.array([], schema.field(name).type))
            for name, parts in zip(ordering, values, strict=True)
        ),
    )


def _deleted(rows: pa.Table) -> Flags:
    if IS_DELETED not in rows.column_names:
        return np.zeros(rows.num_rows, dtype=bool)
    return as_flags(pc.fill_null(as_array(rows.column(IS_DELETED)), False))


def _counting(code_of: Positions, wall: Positions, row: Positions) -> Flags:
    """Which changes come after their key's last hard delete, at `wall`, and are not deletes without
    a row right behind it."""
    positions = np.arange(len(code_of))
    alive: Flags = positions > wall[code_of]
    walled = alive & (wall[code_of] >= 0)
    if walled.any():
        rows = np.flatnonzero(walled & (row >= 0))[::-1]
        next_row = np.full(len(wall), len(code_of), dtype=np.int64)
        next_row[code_of[rows]] = rows  # from the back, so that the first one stays
        alive &= ~walled | (positions >= next_row[code_of])
    return alive


def last_per_key(
    code_of: Positions, alive: Flags, ordering: tuple[pa.Array, ...]
) -> tuple[Positions, Positions]:
    """Per key with a change that counts: (its code, the position of the winner)."""
    positions = np.flatnonzero(alive)
    codes = code_of[positions]
    if ordering and len(np.unique(codes)) < len(codes):
        taken = pa.array(positions)
        columns: dict[str, Any] = {"code": codes}
        columns |= {f"o{i}": values.take(taken) for i, values in enumerate(ordering)}
        keys = [(name, "ascending", "at_start") for name in (*columns, "position")]
        columns["position"] = positions
        order = pc.sort_indices(pa.table(columns), sort_keys=keys).to_numpy()
        positions, codes = positions[order], codes[order]
    winner = np.full(int(code_of.max(initial=-1)) + 1, -1, dtype=np.int64)
    # Where an index repeats, assignment keeps the last value: later in merge order wins.
    winner[codes] = positions
    present = np.flatnonzero(winner >= 0)
    return present, winner[present]


@dataclass(slots=True)
class Merge:
    """One pass of base rows against `changes`: base rows that stay, then the changed rows.

    Streams: memory holds the changes and one batch. `tally` is complete once `batches` is used up.
    """

    changes: Changes
    ordering: tuple[str, ...]
    tally: Tally = field(default_factory=Tally)

    def batches(self, base: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        size = len(self.changes.keys)
        met, lost = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
        for batch in base:
            yield self._keep(batch, met, lost)
        deletes = self.changes.deleted
        self.tally.inserted = int((~deletes & ~met).sum())
        self.tally.updated = int((~deletes & met & ~lost).sum())
        self.tally.deleted = int((deletes & met & ~lost).sum())
        chosen = self.changes.row_of[~deletes & ~lost]
        if len(chosen):
            yield from self.changes.rows.take(np.sort(chosen)).combine_chunks().to_batches()

    def _keep(self, batch: pa.RecordBatch, met: Flags, lost: Flags) -> pa.RecordBatch:
        found = pc.index_in(batch.column(RECORD_KEY), value_set=self.changes.keys)
        hit = np.flatnonzero(as_flags(found.is_valid()))
        if not len(hit):
            return batch
        change = found.take(pa.array(hit)).to_numpy().astype(np.int64)
        wins = self.wins(change, [batch.column(name).take(hit) for name in self.ordering])
        met[change] = True
        lost[change[~wins]] = True
        stays = np.ones(batch.num_rows, dtype=bool)
        stays[hit[wins]] = False
        return batch.filter(pa.array(stays))

    def wins(self, change: Positions, base: list[pa.Array]) -> Flags:
        """Whether each change wins over the base row beside it, given that row's ordering."""
        if not self.ordering:
            return np.ones(len(change), dtype=bool)
        at = pa.array(change)
        newer = [values.take(at) for values in self.changes.ordering]
        return self.changes.decided[change] | not_below(newer, [comparable(v) for v in base])


def not_below(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> Flags:
    """Row by row, whether `left` >= `right` field by field from the first; null is lowest."""
    above = np.zeros(len(left[0]), dtype=bool)
    level = np.ones(len(left[0]), dtype=bool)
    for one, other in zip(left, right, strict=True):
        one = one.cast(other.type)
        null_one, null_other = as_flags(one.is_null()), as_flags(other.is_null())
        greater = as_flags(pc.fill_null(pc.greater(one, other), False)) | (~null_one & null_other)
        equal = as_flags(pc.fill_null(pc.equal(one, other), False)) | (null_one & null_other)
        above |= level & greater
        level &= equal
    return above | level


def comparable(values: pa.Array) -> pa.Array:
    """Values in an order that has no exceptions: floats as Java orders them, so that every engine
    picks the same winner. Not a number is greater than all, and -0.0 lies below 0.0."""
    if not pa.types.is_floating(values.type):
        return values
    null = as_flags(values.is_null())
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
    numbers[np.isnan(numbers)] = np.nan  # one bit pattern, whatever the sign or payload was
    bits = numbers.view(np.int64)
    return pa.array(np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits), mask=null)


def plain(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """What `comparable` was given, for a column of type `kind`."""
    if not pa.types.is_floating(kind):
        return values
    bits = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    numbers = np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits).view(np.float64)
    return pa.array(numbers, mask=as_flags(values.is_null())).cast(kind)


def by_kind(deletes: Deletes) -> tuple[Deletes, ...]:
    """The hard ones, then the timed ones: hudi-rs reads no block that holds both."""
    if not deletes.ordering:
        return (deletes,)
    is_hard = reduce(pc.and_, (values.is_null() for values in deletes.ordering))
    is_timed = pc.invert(is_hard)
    timed = tuple(values.filter(is_timed) for values in deletes.ordering)
    return (
        Deletes(deletes.keys.filter(is_hard), None),
        Deletes(deletes.keys.filter(is_timed), timed),
    )


def as_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def as_flags(values: pa.Array | pa.ChunkedArray) -> Flags:
    flags: Flags = np.asarray(values.to_numpy(zero_copy_only=False), dtype=bool)
    return flags
