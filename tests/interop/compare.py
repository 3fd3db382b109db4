"""Whether two engines see the same rows: every column, every type, every value, nested ones too.

Only what is physical is looked past: string, large_string and string_view (binary likewise), list
and large_list, dictionary encoding, names of list children and map entries, nullability, the order
of columns, of rows and of the entries of a map. All else must be equal: null is not an empty list,
-0.0 is not 0.0, and NaN equals NaN. Everything runs on whole columns, which are first cast to their
logical type; Python values are made only for what a message shows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

Mask = npt.NDArray[np.bool_]

META_COLUMNS = frozenset(
    f"_hoodie_{name}"
    for name in (
        "commit_time",
        "commit_seqno",
        "record_key",
        "partition_path",
        "file_name",
        "operation",
    )
)
SHOWN = 5
_SHOWN_CHARS = 300


class RowsDiffer(AssertionError):
    """Two engines see different rows; the message names the first differences."""


def ensure_same_rows(
    left: pa.Table,
    right: pa.Table,
    key: Sequence[str],
    left_name: str = "left",
    right_name: str = "right",
    *,
    meta_columns: bool = False,
) -> None:
    """Raises `RowsDiffer` unless both tables hold the same rows, which `key` tells apart.

    Hudi's meta columns take part only with `meta_columns`, or where `key` names them.
    """
    names = (left_name, right_name)
    left, right = (_chosen(table, key, meta_columns) for table in (left, right))
    _ensure_same_columns(left, right, names)
    left, right = (_sorted(_plain(table), key) for table in (left, right))
    _ensure_same_keys(left, right, key, names)
    differing = {
        name: mask
        for name in left.column_names
        if (mask := differs(_array(left, name), _array(right, name))).any()
    }
    if differing:
        raise RowsDiffer(_differences(left, right, key, names, differing))


def logical_type(kind: pa.DataType) -> pa.DataType:
    """The type without what is merely physical; equal for types that hold the same values."""
    if types.is_dictionary(kind):
        return logical_type(kind.value_type)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, logical_type(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(logical_type(kind.key_type), logical_type(kind.item_type))
    if types.is_fixed_size_list(kind):
        return pa.list_(pa.field("element", logical_type(kind.value_type)), kind.list_size)
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.large_list(pa.field("element", logical_type(kind.value_type)))
    return kind


def differs(left: pa.Array, right: pa.Array) -> Mask:
    """Where two arrays of one length and the same logical type hold different values."""
    left_valid, right_valid = _valid(left), _valid(right)
    answer: Mask = left_valid != right_valid
    both = np.flatnonzero(left_valid & right_valid)
    if len(both) == 0:
        return answer
    if len(both) < len(answer):
        left, right = left.take(pa.array(both)), right.take(pa.array(both))
    kind = left.type
    if types.is_struct(kind):
        fields = range(kind.num_fields)
        found = np.logical_or.reduce(
            [np.zeros(len(left), bool), *(differs(left.field(i), right.field(i)) for i in fields)]
        )
    elif types.is_nested(kind):
        found = _entries_differ(left, right)
    elif types.is_floating(kind):
        found = _floats_differ(left, right)
    else:
        found = pc.not_equal(left, right).to_numpy(zero_copy_only=False)
    answer[both] = found
    return answer


def _chosen(table: pa.Table, key: Sequence[str], meta_columns: bool) -> pa.Table:
    if meta_columns:
        return table
    dropped = META_COLUMNS.difference(key)
    return table.select([name for name in table.column_names if name not in dropped])


def _ensure_same_columns(left: pa.Table, right: pa.Table, names: tuple[str, str]) -> None:
    lines = [
        f"column {name!r} is only in {owner}"
        for owner, one, other in ((names[0], left, right), (names[1], right, left))
        for name in one.column_names
        if name not in other.column_names
    ]
    for name in left.column_names:
        if name not in right.column_names:
            continue
        types_ = left.schema.field(name).type, right.schema.field(name).type
        if logical_type(types_[0]) != logical_type(types_[1]):
            lines.append(f"column {name!r} is {types_[0]} in {names[0]}, {types_[1]} in {names[1]}")
    if lines:
        raise RowsDiffer("\n".join([f"{names[0]} and {names[1]} differ in columns", *lines]))


def _plain(table: pa.Table) -> pa.Table:
    plain = [pa.field(field.name, logical_type(field.type)) for field in table.schema]
    return table.cast(pa.schema(plain))


def _sorted(table: pa.Table, key: Sequence[str]) -> pa.Table:
    return table.take(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in key]))


def _ensure_same_keys(
    left: pa.Table, right: pa.Table, key: Sequence[str], names: tuple[str, str]
) -> None:
    for table, name in zip((left, right), names, strict=True):
        repeated = np.ones(max(len(table) - 1, 0), bool)
        for column in key:
            array = _array(table, column)
            repeated &= ~differs(array[:-1], array[1:])
        if repeated.any():
            shown = [_key(table, key, int(row)) for row in np.flatnonzero(repeated)[:SHOWN]]
            raise RowsDiffer(f"{name} holds rows with the same key: {'; '.join(shown)}")
    if len(left) == len(right) and not any(
        differs(_array(left, column), _array(right, column)).any() for column in key
    ):
        return
    lines = [f"{names[0]} holds {len(left)} rows, {names[1]} {len(right)}"]
    left_keys, right_keys = (
        [_key(table, key, row) for row in range(len(table))] for table in (left, right)
    )
    for owner, one, other in (
        (names[0], left_keys, set(right_keys)),
        (names[1], right_keys, set(left_keys)),
    ):
        alone = [row for row in one if row not in other]
        if alone:
            lines.append(f"{len(alone)} rows are only in {owner}: {'; '.join(alone[:SHOWN])}")
    raise RowsDiffer("\n".join(lines))


def _differences(
    left: pa.Table,
    right: pa.Table,
    key: Sequence[str],
    names: tuple[str, str],
    differing: dict[str, Mask],
) -> str:
    rows = np.flatnonzero(np.logical_or.reduce(list(differing.values())))
    tally = ", ".join(f"{name} in {int(mask.sum())}" for name, mask in differing.items())
    lines = [f"{names[0]} and {names[1]} differ in {len(rows)} of {len(left)} rows: {tally}"]
    for row in rows[:SHOWN]:
        for name in (name for name, mask in differing.items() if mask[row]):
            seen = [_shown(table[name][int(row)].as_py()) for table in (left, right)]
            lines.append(
                f"  {_key(left, key, int(row))}: {name} is {seen[0]} in {names[0]},"
                f" {seen[1]} in {names[1]}"
            )
    return "\n".join(lines)


def _key(table: pa.Table, key: Sequence[str], row: int) -> str:
    return ", ".join(f"{name}={_shown(table[name][row].as_py())}" for name in key)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."


def _array(table: pa.Table, name: str) -> pa.Array:
    chunks = table[name].combine_chunks()
    return chunks.combine_chunks() if isinstance(chunks, pa.ChunkedArray) else chunks


def _valid(array: pa.Array) -> Mask:
    valid: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _floats_differ(left: pa.Array, right: pa.Array) -> Mask:
    """Bit for bit, so that -0.0 is not 0.0; but any NaN equals any other."""
    one, other = left.to_numpy(zero_copy_only=False), right.to_numpy(zero_copy_only=False)
    bits = np.dtype(f"u{one.dtype.itemsize}")
    unequal: Mask = (one.view(bits) != other.view(bits)) & ~(np.isnan(one) & np.isnan(other))
    return unequal


def _entries_differ(left: pa.Array, right: pa.Array) -> Mask:
    """The same for lists and maps without nulls of their own: lengths first, then the entries."""
    left_lengths, right_lengths = _lengths(left), _lengths(right)
    answer: Mask = left_lengths != right_lengths
    same = np.flatnonzero(~answer)
    rows = pa.array(same)
    left, right = left.take(rows), right.take(rows)
    owner = np.repeat(same, left_lengths[same])
    for one, other in zip(_entries(left), _entries(right), strict=True):
        answer[owner[differs(one, other)]] = True
    return answer


def _lengths(array: pa.Array) -> npt.NDArray[np.int64]:
    if types.is_fixed_size_list(array.type):
        return np.full(len(array), array.type.list_size, np.int64)
    lengths: npt.NDArray[np.int64] = np.diff(array.offsets.to_numpy()).astype(np.int64)
    return lengths


def _entries(array: pa.Array) -> list[pa.Array]:
    """What the lists hold, end to end; for maps keys and values, each map sorted by key."""
    if not types.is_map(array.type):
        return [array.flatten()]
    offsets = array.offsets.to_numpy()
    start, stop = int(offsets[0]), int(offsets[-1])
    keys, values = array.keys[start:stop], array.items[start:stop]
    owner = np.repeat(np.arange(len(array)), np.diff(offsets))
    entries = pa.table({"owner": owner, "key": keys})
    order = pc.sort_indices(entries, sort_keys=[("owner", "ascending"), ("key", "ascending")])
    return [keys.take(order), values.take(order)]
