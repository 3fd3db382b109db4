"""Merging rows whose column groups have orderings of their own (partial updates, ADR 0012).

The result is that of replaying every change in merge order upon the base row, one by one:

- A row sets the columns it carries. Those of a group are set if its value of the group's ordering
  column is not below the one that is there; columns of no group by the table's ordering, or always
  if the table has none. Null lies below every value, and a tie goes to the later change.
- A delete without an ordering value removes the row. One with a value does if the row's is not
  greater. The next row begins the record anew, late or not; what it does not carry is null.

All that decides lies in the row itself, so that it makes no difference which changes a base file
holds already. Everything works on whole columns; the loops run over columns, changes, and, for keys
whose deletes have ordering values, over the deletes of one key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lentic.config.column_groups import NO_GROUPS, ColumnGroups
from lentic.format.record_fields import META_FIELDS, RECORD_KEY
from lentic.records.merge import (
    IS_DELETED,
    Change,
    Deletes,
    Flags,
    Positions,
    Series,
    Tally,
    as_array,
    as_flags,
    comparable,
    last_per_key,
    line_up,
    not_below,
)
from lentic.records.partial import choose

_NONE, _NULL = -1, -2
"""Instead of the row that a value comes from: the base row; nowhere."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """The column groups of a table, and the columns that are the same in all versions of a record:
    those of key and partition."""

    groups: ColumnGroups = NO_GROUPS
    fixed: tuple[str, ...] = ()

    @property
    def orderings(self) -> tuple[str, ...]:
        return tuple(group.ordering for group in self.groups)


@dataclass(frozen=True, slots=True)
class _Bundle:
    """Columns that the same changes carry and that one ordering decides."""

    values: Mapping[str, pa.ChunkedArray]
    by: tuple[str, ...]
    counts: bool
    """Whether to win here is to change the record."""
    position: Positions
    """Per key: where in the series the winner lies, or -1."""
    row: Positions
    """Per key: the winner's row in `values`, or -1."""
    ordering: tuple[pa.Array, ...]
    """Per field of `by`: the winners' values, per key."""


@dataclass(frozen=True, slots=True)
class _Net:
    """What is left of a series of changes, per key."""

    keys: pa.Array
    series: Series
    walled: Flags
    """A delete won: whatever was there before is gone."""
    last: Positions
    """Where the last row lies that no delete took away, or -1."""
    contested: Flags
    """A delete has an ordering value, so that the base row decides whether it wins."""
    bundles: tuple[_Bundle, ...]


@dataclass(slots=True)
class GroupedMerge:
    """One pass of base rows against changes. Streams as `Merge` does; base rows of keys that a
    delete with an ordering value names are kept until the end."""

    changes: tuple[Change, ...]
    schema: pa.Schema
    ordering: tuple[str, ...]
    grouping: Grouping
    tally: Tally = field(default_factory=Tally)

    def batches(self, base: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Every base row with its columns decided, then the rows that no base row has."""
        net = self._net(self.changes)
        met = np.zeros(len(net.keys), dtype=bool)
        aside: list[pa.RecordBatch] = []
        for batch in base:
            rows, codes = _matched(batch, net)
            met[codes] = True
            if len(apart := rows[net.contested[codes]]):
                aside.append(batch.take(pa.array(apart)))
            yield self._patched(batch, net, rows, codes)
        new = np.flatnonzero(~met & ~net.contested & (net.last >= 0))
        self.tally.inserted += len(new)
        if len(new):
            yield self._fresh(net, new)
        if net.contested.any():
            yield from self._settled(net.keys.filter(pa.array(net.contested)), aside)

    def count(self, base: Iterable[pa.RecordBatch]) -> None:
        """Complete the tally; of the base rows only key and ordering columns are looked at."""
        for _ in self.batches(_widened(batch, self.schema) for batch in base):
            pass

    def _patched(
        self, batch: pa.RecordBatch, net: _Net, rows: Positions, codes: Positions
    ) -> pa.RecordBatch:
        if not len(rows):
            return batch
        walled, apart = net.walled[codes], net.contested[codes]
        gone = apart | (walled & (net.last[codes] < 0))
        wins = [_wins(bundle, batch, rows, codes) | walled for bundle in net.bundles]
        counted = [won for won, bundle in zip(wins, net.bundles, strict=True) if bundle.counts]
        changed = walled | np.logical_or.reduce([np.zeros(len(rows), dtype=bool), *counted])
        self.tally.deleted += int((gone & ~apart).sum())
        self.tally.updated += int((changed & ~gone).sum())
        stays = np.ones(batch.num_rows, dtype=bool)
        stays[rows[gone]] = False
        moved = np.cumsum(stays) - 1
        kept = batch.filter(pa.array(stays))
        at, code = moved[rows[~gone]], codes[~gone]
        return self._assembled(kept, net, at, code, [won[~gone] for won in wins], walled[~gone])

    def _fresh(self, net: _Net, codes: Positions) -> pa.RecordBatch:
        """The rows of keys that no base row has."""
        blank = pa.RecordBatch.from_arrays(
            [pa.nulls(len(codes), f.type) for f in self.schema], schema=self.schema
        )
        every = np.ones(len(codes), dtype=bool)
        return self._assembled(
            blank, net, np.arange(len(codes)), codes, [every for _ in net.bundles], every
        )

    def _assembled(
        self,
        base: pa.RecordBatch,
        net: _Net,
        rows: Positions,
        codes: Positions,
        wins: Sequence[Flags],
        fresh: Flags,
    ) -> pa.RecordBatch:
        """`base` with values of `net` where those win; `fresh` rows keep nothing of the base."""
        columns = {name: base.column(name) for name in self.schema.names}
        newest = np.where(fresh, net.last[codes], _NONE)
        decided = np.full(len(codes), _NONE)
        for bundle, won in zip(net.bundles, wins, strict=True):
            chosen = np.where(won, bundle.row[codes], _NONE)
            chosen[fresh & (chosen < 0)] = _NULL
            if bundle.counts:
                decided = np.maximum(decided, np.where(won, bundle.position[codes], _NONE))
            pick = np.full(base.num_rows, _NONE)
            pick[rows] = chosen
            for name, values in bundle.values.items():
                columns[name] = choose(columns[name], values, pick)
        decided = np.where(decided >= 0, decided, newest)
        pick = np.full(base.num_rows, _NONE)
        pick[rows] = np.where(decided >= 0, net.series.row[decided], _NONE)
        for name in META_FIELDS:
            if name in columns:
                columns[name] = choose(columns[name], net.series.rows.column(name), pick)
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self.schema.names], schema=self.schema
        )

    def _settled(self, keys: pa.Array, aside: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of contested `keys`, their base rows replayed with the changes."""
        base = pa.Table.from_batches(aside, self.schema)
        net = self._net((base, *(_of_keys(change, keys) for change in self.changes)))
        in_base = as_flags(pc.is_in(net.keys, value_set=as_array(base.column(RECORD_KEY))))
        alive = net.last >= 0
        newest = np.maximum.reduce(
            [np.full(len(net.keys), _NONE), *(b.position for b in net.bundles if b.counts)]
        )
        self.tally.inserted += int((alive & ~in_base).sum())
        self.tally.deleted += int((in_base & ~alive).sum())
        self.tally.updated += int(
            (in_base & alive & (net.walled | (newest >= base.num_rows))).sum()
        )
        if alive.any():
            yield self._fresh(net, np.flatnonzero(alive))

    def _net(self, changes: Sequence[Change]) -> _Net:
        names = (*META_FIELDS, *self.ordering, IS_DELETED)
        core = pa.schema([f for f in self.schema if f.name in names])
        cores: list[Change] = [c if isinstance(c, Deletes) else _with(c, core) for c in changes]
        series = line_up(cores, core, self.ordering)
        codes = series.keys.dictionary_encode()
        code_of = codes.indices.to_numpy().astype(np.int64)
        count = len(codes.dictionary)
        wall = _walls(series, code_of, count)
        counts = ~series.is_delete & (np.arange(len(code_of)) > wall[code_of])
        last = np.full(count, _NONE)
        last[code_of[counts]] = np.flatnonzero(counts)
        contested = np.zeros(count, dtype=bool)
        contested[code_of[series.is_delete & ~series.is_hard]] = True
        lots = _lots(changes, self.schema, self.ordering, self.grouping)
        bundles = tuple(_bundle(lot, changes, self.schema, code_of, count, counts) for lot in lots)
        return _Net(codes.dictionary, series, wall >= 0, last, contested, bundles)


@dataclass(frozen=True, slots=True)
class _Lot:
    """Columns of one ordering that the same changes carry."""

    names: tuple[str, ...]
    by: tuple[str, ...]
    counts: bool
    carried: tuple[bool, ...]


def _lots(
    changes: Sequence[Change], schema: pa.Schema, ordering: tuple[str, ...], grouping: Grouping
) -> list[_Lot]:
    group_of = {name: (group.ordering,) for group in grouping.groups for name in group.names}
    names: dict[tuple[tuple[str, ...], bool, tuple[bool, ...]], list[str]] = {}
    for name in schema.names:
        if name in META_FIELDS:
            continue
        is_fixed = name in grouping.fixed
        by = () if is_fixed else group_of.get(name, ordering)
        carried = tuple(isinstance(c, pa.Table) and name in c.column_names for c in changes)
        names.setdefault((by, not is_fixed, carried), []).append(name)
    return [_Lot(tuple(found), *how) for how, found in names.items()]


def _bundle(
    lot: _Lot,
    changes: Sequence[Change],
    schema: pa.Schema,
    code_of: Positions,
    count: int,
    counts: Flags,
) -> _Bundle:
    row, values, start = [], [], 0
    for change, carries in zip(changes, lot.carried, strict=True):
        size = len(change.keys) if isinstance(change, Deletes) else change.num_rows
        row.append(np.arange(start, start + size) if carries else np.full(size, _NONE))
        start += size if carries else 0
        if carries:
            values.append(change)
    rows = np.concatenate(row) if row else np.empty(0, dtype=np.int64)
    ordering = tuple(_ordering(name, changes, schema) for name in lot.by)
    present, winner = last_per_key(code_of, counts & (rows >= 0), ordering)
    position = np.full(count, _NONE)
    position[present] = winner
    at = pa.array(np.maximum(position, 0), mask=position < 0)
    return _Bundle(
        values={name: _column(name, values, schema) for name in lot.names},
        by=lot.by,
        counts=lot.counts,
        position=position,
        row=np.where(position >= 0, rows[position], _NONE) if len(rows) else position,
        ordering=tuple(part.take(at) for part in ordering),
    )


def _ordering(name: str, changes: Sequence[Change], schema: pa.Schema) -> pa.Array:
    """The column's values beside each entry of the series; null where there are none."""
    kind = schema.field(name).type
    parts = []
    for change in changes:
        if isinstance(change, Deletes):
            parts.append(pa.nulls(len(change.keys), kind))
        elif name in change.column_names:
            parts.append(as_array(change.column(name)).cast(kind))
        else:
            parts.append(pa.nulls(change.num_rows, kind))
    return comparable(pa.concat_arrays(parts) if parts else pa.array([], kind))


def _column(name: str, tables: Sequence[pa.Table], schema: pa.Schema) -> pa.ChunkedArray:
    chunks = [chunk for table in tables for chunk in table.column(name).chunks]
    return pa.chunked_array(chunks, schema.field(name).type)


def _walls(series: Series, code_of: Positions, count: int) -> Positions:
    """Per key: where the last delete lies that wins when all is replayed upon nothing, or -1."""
    wall = np.full(count, _NONE)
    if series.is_hard[series.is_delete].all():
        hard = np.flatnonzero(series.is_delete)
        wall[code_of[hard]] = hard
        return wall
    rank, positions = _ranks(series.ordering), np.arange(len(code_of))
    deletes = np.flatnonzero(series.is_delete)
    deletes = deletes[np.argsort(code_of[deletes], kind="stable")]
    owner = code_of[deletes]
    turn = np.arange(len(deletes)) - np.searchsorted(owner, owner)
    for number in range(int(turn.max()) + 1):
        now = deletes[turn == number]
        here = np.full(count, _NONE)
        here[code_of[now]] = now
        met = ~series.is_delete & (positions < here[code_of]) & (positions > wall[code_of])
        top = np.full(count, _NONE)
        np.maximum.at(top, code_of[met], rank[met])
        won = now[series.is_hard[now] | (rank[now] >= top[code_of[now]])]
        wall[code_of[won]] = won
    return wall


def _ranks(ordering: tuple[pa.Array, ...]) -> Positions:
    """Numbers in the order of the ordering values, equal for equal ones; null is lowest."""
    columns = {f"o{i}": values for i, values in enumerate(ordering)}
    keys = [(name, "ascending", "at_start") for name in columns]
    order = pc.sort_indices(pa.table(columns), sort_keys=keys).to_numpy().astype(np.int64)
    ranks = np.zeros(len(order), dtype=np.int64)
    if len(order) > 1:
        one, other = pa.array(order[1:]), pa.array(order[:-1])
        steps = not_below([v.take(other) for v in ordering], [v.take(one) for v in ordering])
        ranks[order[1:]] = np.cumsum(~steps)
    return ranks


def _wins(bundle: _Bundle, batch: pa.RecordBatch, rows: Positions, codes: Positions) -> Flags:
    """Whether the bundle's winner wins over the base row beside it too."""
    wins: Flags = bundle.position[codes] >= 0
    if bundle.by and wins.any():
        at, here = pa.array(codes), pa.array(rows)
        newer = [values.take(at) for values in bundle.ordering]
        wins = wins & not_below(newer, [comparable(batch.column(n).take(here)) for n in bundle.by])
    return wins


def _matched(batch: pa.RecordBatch, net: _Net) -> tuple[Positions, Positions]:
    """The rows of the batch that some change is for, and the codes of their keys."""
    found = pc.index_in(batch.column(RECORD_KEY), value_set=net.keys)
    rows = np.flatnonzero(as_flags(found.is_valid()))
    return rows, found.take(pa.array(rows)).to_numpy().astype(np.int64)


def _of_keys(change: Change, keys: pa.Array) -> Change:
    if isinstance(change, pa.Table):
        return change.filter(pc.is_in(change.column(RECORD_KEY), value_set=keys))
    chosen = pc.is_in(change.keys, value_set=keys)
    ordering = change.ordering and tuple(values.filter(chosen) for values in change.ordering)
    return Deletes(change.keys.filter(chosen), ordering)


def _with(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of `schema`; null those that the rows lack."""
    columns = [
        rows.column(f.name) if f.name in rows.column_names else pa.nulls(rows.num_rows, f.type)
        for f in schema
    ]
    return pa.table(columns, schema=schema)


def _widened(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        batch.column(f.name) if f.name in batch.schema.names else pa.nulls(batch.num_rows, f.type)
        for f in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
