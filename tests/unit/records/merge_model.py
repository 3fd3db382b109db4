"""What merging means, record by record: the slow and plain form of `lentic.records.merge`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lentic.format.record_fields import RECORD_KEY
from lentic.records.merge import IS_DELETED, Change, Deletes, Merge, Tally, reduce_changes
from tests.unit.builders import concat

Row = dict[str, Any]

PAYLOAD = "v"


@dataclass(frozen=True)
class Version:
    """One version of a key: a row or a delete, with its ordering values; None if it is hard."""

    row: Row | None
    ordering: tuple[Any, ...] | None
    is_bare: bool = False
    """A delete that came without a row."""


def schema_of(*types: pa.DataType, with_flag: bool = True) -> pa.Schema:
    """Key, payload, perhaps the delete flag, and one ordering column o0, o1, ... per type."""
    columns = [pa.field(RECORD_KEY, pa.string()), pa.field(PAYLOAD, pa.int64())]
    columns += [pa.field(IS_DELETED, pa.bool_())] if with_flag else []
    return pa.schema([*columns, *(pa.field(f"o{n}", kind) for n, kind in enumerate(types))])


def ordering_of(schema: pa.Schema) -> tuple[str, ...]:
    return tuple(name for name in schema.names if name[0] == "o")


def replay(base: Sequence[Row], changes: Sequence[Change], ordering: tuple[str, ...]) -> list[Row]:
    """The rows that are left: changes one after the other, then what is left against the base."""
    reduced: dict[str, Version] = {}
    for change in changes:
        for key, version in _versions(change, ordering):
            known = reduced.get(key)
            if known and known.row is None and known.ordering is None and version.is_bare:
                continue  # nothing is left to delete
            if known is None or _wins(version, known):
                reduced[key] = version
    current: dict[str, Version] = {
        row[RECORD_KEY]: Version(row, tuple(row[name] for name in ordering)) for row in base
    }
    for key, version in reduced.items():
        known = current.get(key)
        if known is None or _wins(version, known):
            current[key] = version
    return [version.row for version in current.values() if version.row is not None]


def _versions(change: Change, ordering: tuple[str, ...]) -> list[tuple[str, Version]]:
    if isinstance(change, Deletes):
        keys = change.keys.to_pylist()
        if change.ordering is None or not ordering:
            return [(key, Version(None, None, is_bare=True)) for key in keys]
        values = zip(*(column.to_pylist() for column in change.ordering), strict=True)
        timed = zip(keys, values, strict=True)
        return [(key, Version(None, value, is_bare=True)) for key, value in timed]
    found = []
    for row in change.to_pylist():
        at = tuple(row[name] for name in ordering)
        if not row.get(IS_DELETED):
            found.append((row[RECORD_KEY], Version(row, at)))
        else:
            is_hard = all(value is None for value in at)
            found.append((row[RECORD_KEY], Version(None, None if is_hard else at)))
    return found


def _wins(later: Version, earlier: Version) -> bool:
    if later.ordering is None or earlier.ordering is None:
        return True
    for one, other in zip(later.ordering, earlier.ordering, strict=True):
        if one is None or other is None:
            if (one is None) != (other is None):
                return one is not None
        elif _rank(one) != _rank(other):
            return bool(_rank(one) > _rank(other))
    return True


def _rank(value: Any) -> Any:
    """What to compare: floats as Java does, NaN above all and -0.0 below 0.0."""
    if not isinstance(value, float):
        return value
    if math.isnan(value):
        return (1, 0.0, 0.0)
    return (0, value, math.copysign(1, value))


def merged(
    base: Sequence[pa.RecordBatch], changes: Sequence[Change], schema: pa.Schema
) -> tuple[list[Row], Tally]:
    """The same through the code under test."""
    ordering = ordering_of(schema)
    merge = Merge(reduce_changes(changes, schema, ordering), ordering)
    return concat(merge.batches(base), schema).to_pylist(), merge.tally


def tally_of(
    base: Sequence[Row], changes: Sequence[Change], ordering: tuple[str, ...]
) -> tuple[int, int, int]:
    """(inserted, updated, deleted), by looking at every key before and after.

    A key counts if its newest version is a change; a delete of a key that the base lacks counts
    nowhere.
    """
    before = {row[RECORD_KEY]: row for row in base}
    after = {row[RECORD_KEY]: row for row in replay(base, changes, ordering)}
    inserted = len(after.keys() - before.keys())
    deleted = len(before.keys() - after.keys())
    updated = sum(after[key] is not before[key] for key in before.keys() & after.keys())
    return inserted, updated, deleted


def in_order(rows: Sequence[Row]) -> list[tuple[tuple[str, str], ...]]:
    """Rows by their key, in a form in which NaN equals itself and -0.0 does not equal 0.0."""
    ordered = sorted(rows, key=lambda row: row[RECORD_KEY])
    return [tuple((name, repr(value)) for name, value in row.items()) for row in ordered]
