"""Partial updates: changes that carry some columns only.

Among the changes each column is decided by itself: those that carry it (whole rows, partial rows
that set it, deletes) compete by the rules for whole rows. What is left of the changes then meets
the base row as one: if it wins by its ordering value, its columns replace the base row's and the
others stay; else the base row stays as it is. Columns that are always carried together form a
bundle and are decided in one step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lentic.format.record_fields import RECORD_KEY
from lentic.records.merge import Change, Changes, Deletes, Merge, Tally, reduce_changes

Positions = npt.NDArray[np.int64]


def is_partial(changes: Sequence[Change], schema: pa.Schema) -> bool:
    """Whether some change lacks columns of `schema`."""
    return any(
        isinstance(change, pa.Table) and len(change.column_names) < len(schema.names)
        for change in changes
    )


@dataclass(frozen=True, slots=True)
class _Bundle:
    """Columns that the same changes carry, and the net effect of those changes."""

    columns: tuple[str, ...]
    changes: Changes


@dataclass(slots=True)
class PartialMerge:
    """One pass of base rows against changes of which some are partial. Streams like `Merge`."""

    schema: pa.Schema
    ordering: tuple[str, ...]
    whole: Changes
    bundles: tuple[_Bundle, ...]
    tally: Tally = field(default_factory=Tally)

    def batches(self, base: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Every base row with its columns decided, then the rows that no base row has."""
        met = np.zeros(len(self.whole.keys), dtype=bool)
        for batch in base:
            yield self._patch(batch, met)
        new = np.flatnonzero(~met & ~self.whole.deleted)
        self.tally.inserted = len(new)
        if len(new):
            keys = self.whole.keys.take(pa.array(new))
            yield self._assemble(keys, None, np.ones(len(new), dtype=bool))

    def _patch(self, batch: pa.RecordBatch, met: npt.NDArray[np.bool_]) -> pa.RecordBatch:
        found = pc.index_in(batch.column(RECORD_KEY), value_set=self.whole.keys)
        hit = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
        if not len(hit):
            return batch
        change = found.take(pa.array(hit)).to_numpy().astype(np.int64)
        met[change] = True
        base_ordering = [batch.column(name).take(hit) for name in self.ordering]
        wins = Merge(self.whole, self.ordering).wins(change, base_ordering)
        gone = np.zeros(batch.num_rows, dtype=bool)
        gone[hit] = self.whole.deleted[change] & wins
        self.tally.deleted += int(gone.sum())
        self.tally.updated += int((wins & ~self.whole.deleted[change]).sum())
        changed = np.zeros(batch.num_rows, dtype=bool)
        changed[hit] = wins
        kept = batch.filter(pa.array(~gone))
        return self._assemble(kept.column(RECORD_KEY), kept, changed[~gone])

    def _assemble(
        self, keys: pa.Array, base: pa.RecordBatch | None, changed: npt.NDArray[np.bool_]
    ) -> pa.RecordBatch:
        columns: dict[str, pa.Array] = {}
        for bundle in self.bundles:
            pick = _pick(bundle.changes, keys, changed)
            for name in bundle.columns:
                fallback = (
                    base.column(name) if base else pa.nulls(len(keys), self.schema.field(name).type)
                )
                columns[name] = choose(fallback, bundle.changes.rows.column(name), pick)
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self.schema.names], schema=self.schema
        )


def _pick(changes: Changes, keys: pa.Array, changed: npt.NDArray[np.bool_]) -> Positions:
    """Per key: the row of the change that decides, -1 for the base row, -2 for a null."""
    found = pc.index_in(keys, value_set=changes.keys)
    pick = np.full(len(keys), -1, dtype=np.int64)
    known = found.is_valid().to_numpy(zero_copy_only=False)
    hit = np.flatnonzero(known & changed)
    change = found.take(pa.array(hit)).to_numpy().astype(np.int64)
    pick[hit] = np.where(changes.deleted[change], -2, changes.row_of[change])
    return pick


def partial_merge(
    changes: Sequence[Change], schema: pa.Schema, ordering: tuple[str, ...]
) -> PartialMerge:
    """Prepare the merge of `changes`, in merge order, of which some are partial."""
    carried = [set(c.column_names) if isinstance(c, pa.Table) else None for c in changes]
    bundles: dict[tuple[bool, ...], list[str]] = {}
    for name in schema.names:
        pattern = tuple(columns is None or name in columns for columns in carried)
        bundles.setdefault(pattern, []).append(name)
    core = (RECORD_KEY, *ordering)

    def reduce(pattern: tuple[bool, ...], columns: list[str]) -> Changes:
        names = list(dict.fromkeys((*core, *columns)))
        chosen: list[Change] = [
            c if isinstance(c, Deletes) else c.select(names)
            for c, carries in zip(changes, pattern, strict=True)
            if carries
        ]
        return reduce_changes(chosen, pa.schema([schema.field(n) for n in names]), ordering)

    everything = tuple(True for _ in changes)
    return PartialMerge(
        schema=schema,
        ordering=ordering,
        whole=reduce(everything, []),
        bundles=tuple(_Bundle(tuple(names), reduce(p, names)) for p, names in bundles.items()),
    )


def choose(base: pa.Array, changed: pa.ChunkedArray, pick: Positions) -> pa.Array:
    """`base` with rows of `changed` where `pick` names one; -1 keeps the base, -2 is null."""
    both = pa.chunked_array([base, *changed.chunks], base.type)
    rows = np.where(pick >= 0, pick + len(base), np.arange(len(base)))
    chosen = both.take(pa.array(rows, mask=pick == -2))
    return chosen.combine_chunks()
