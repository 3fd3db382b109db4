"""Whether rows fit a table's schema, the words for it when they do not, and rows made to fit.

Pure. How a table's schema grows with the rows is told in `evolve`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lentic.errors import InvalidRecord, SchemaMismatch
from lentic.format.record_fields import META_FIELDS


def ensure_fits(given: pa.Schema, table: pa.Schema) -> None:
    """`SchemaMismatch` unless `given` has every column of `table`, no other, and types that read as
    the table's without losing a value. `_hoodie_*` columns in `given` are ignored."""
    names = [name for name in given.names if name not in META_FIELDS]
    if absent := [name for name in table.names if name not in names]:
        raise mismatch(f"The rows lack column {listed(absent)} of the table.", f"add {absent[0]}")
    if extra := [name for name in names if name not in table.names]:
        raise mismatch(f"The table has no column {listed(extra)}.", f"drop {extra[0]}")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise mismatch(f"The rows have column {listed(twice)} twice.", "rename one of them")
    for column in table:
        if not reads_as(given.field(column.name).type, column.type):
            raise type_mismatch(column.name, given.field(column.name).type, column.type)


def conform(rows: pa.RecordBatch, table: pa.Schema) -> pa.RecordBatch:
    """`rows` in the table's columns, order and types; what they lack, at any depth, is null.

    The rows have passed `ensure_fits`, or `table` is what their schema made of the table's
    (`evolve`). `InvalidRecord` if a value is null where the table says it never is, at any depth.
    """
    columns = []
    for column in table:
        found = rows.schema.get_all_field_indices(column.name)
        if len(found) > 1:
            raise mismatch(f"The rows have column {column.name} twice.", "rename one of them")
        if found:
            columns.append(_fitted(rows.column(found[0]), 0, column, column.name))
        else:
            columns.append(_nulls(rows.num_rows, 0, column, column.name))
    return pa.RecordBatch.from_arrays(columns, schema=table)


def _fitted(values: pa.Array, absent: int, wanted: pa.Field, name: str) -> pa.Array:
    """`values` in the type of `wanted`; `absent` of them are null because what holds them is."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not wanted.nullable and values.null_count > absent:
        raise InvalidRecord(
            f"Column {name} holds a null, but the table says it never does.",
            safe="nothing was committed",
            next_step=f"fill {name}, or drop the rows, and write again",
        )
    if values.type == wanted.type and not _forbids_nulls(wanted.type):
        return values
    if pa.types.is_struct(wanted.type) and pa.types.is_struct(values.type):
        return _fitted_struct(values, wanted.type, name)
    if is_list(wanted.type) and is_list(values.type):
        return _fitted_list(values, wanted.type, name)
    if pa.types.is_map(wanted.type) and pa.types.is_map(values.type):
        return _fitted_map(values, wanted.type, name)
    return _cast(values, wanted.type, name)


def _nulls(count: int, absent: int, wanted: pa.Field, name: str) -> pa.Array:
    if not wanted.nullable and count > absent:
        raise mismatch(
            f"The rows lack column {name}, and the table says it is never null.", f"add {name}"
        )
    return pa.nulls(count, wanted.type)


def _fitted_struct(values: pa.StructArray, wanted: pa.StructType, name: str) -> pa.Array:
    names = [field.name for field in values.type]
    if extra := [each for each in names if wanted.get_field_index(each) < 0]:
        raise mismatch(f"The table has no column {name}.{extra[0]}.", f"drop {name}.{extra[0]}")
    # Flattened, a field of no struct is null, whatever lies there.
    parts, absent = values.flatten(), values.null_count
    fitted = []
    for field in wanted:
        path = f"{name}.{field.name}"
        if field.name in names:
            fitted.append(_fitted(parts[names.index(field.name)], absent, field, path))
        else:
            fitted.append(_nulls(len(values), absent, field, path))
    return pa.StructArray.from_arrays(fitted, fields=list(wanted), mask=values.is_null())


def _fitted_list(values: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    elements = _fitted(values.flatten(), 0, wanted.value_field, f"{name}.element")
    is_large = pa.types.is_large_list(wanted)
    made = pa.LargeListArray if is_large else pa.ListArray
    offsets = _cast(_offsets(values), pa.int64() if is_large else pa.int32(), name)
    return made.from_arrays(offsets, elements, type=wanted, mask=values.is_null())


def _fitted_map(values: pa.MapArray, wanted: pa.MapType, name: str) -> pa.Array:
    present = values.filter(values.is_valid())
    start, stop = present.offsets[0].as_py(), present.offsets[-1].as_py()
    keys, items = (part.slice(start, stop - start) for part in (present.keys, present.items))
    return pa.MapArray.from_arrays(
        _cast(_offsets(values), pa.int32(), name),
        _fitted(keys, 0, wanted.key_field, f"{name}.key"),
        _fitted(items, 0, wanted.item_field, f"{name}.value"),
        type=wanted,
        mask=values.is_null(),
    )


def _offsets(values: pa.Array) -> pa.Array:
    """Where each list or map of `values` begins once what no list holds is left out."""
    lengths = np.diff(values.offsets.to_numpy())
    lengths[values.is_null().to_numpy(zero_copy_only=False)] = 0
    return pa.array(np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))))


def _cast(values: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    try:
        return values.cast(wanted)
    except pa.ArrowInvalid as error:
        raise InvalidRecord(
            f"Column {name} holds a value that {wanted} cannot hold: {error}",
            safe="nothing was committed",
            next_step=f"mend {name}, or drop the rows, and write again",
        ) from error


def _forbids_nulls(kind: pa.DataType) -> bool:
    """Whether something within a value of this type is never null."""
    if pa.types.is_struct(kind):
        parts = list(kind)
    elif pa.types.is_map(kind):
        parts = [kind.item_field]
    elif is_list(kind):
        parts = [kind.value_field]
    else:
        return False
    return any(not part.nullable or _forbids_nulls(part.type) for part in parts)


def reads_as(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether every value of `given` is a value of `wanted`."""
    if pa.types.is_dictionary(given):
        given = given.value_type
    if given == wanted:
        return True
    if pa.types.is_struct(wanted):
        return pa.types.is_struct(given) and _structs_fit(given, wanted)
    if is_list(wanted):
        return is_list(given) and reads_as(given.value_type, wanted.value_type)
    if pa.types.is_map(wanted):
        return (
            pa.types.is_map(given)
            and reads_as(given.key_type, wanted.key_type)
            and reads_as(given.item_type, wanted.item_type)
        )
    return _widens(given, wanted)


def _structs_fit(given: pa.StructType, wanted: pa.StructType) -> bool:
    if [field.name for field in given] != [field.name for field in wanted]:
        return False
    return all(reads_as(a.type, b.type) for a, b in zip(given, wanted, strict=True))


def is_list(kind: pa.DataType) -> bool:
    """Whether values of this type are lists of any length."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _widens(given: pa.DataType, wanted: pa.DataType) -> bool:
    types = pa.types
    if types.is_string(wanted):
        return bool(types.is_large_string(given) or types.is_string_view(given))
    if types.is_binary(wanted):
        return bool(types.is_large_binary(given) or types.is_binary_view(given))
    if types.is_signed_integer(wanted):
        return bool(types.is_signed_integer(given) and given.bit_width <= wanted.bit_width)
    if types.is_float64(wanted):
        return bool(types.is_float32(given))
    if types.is_decimal(wanted):
        fits = types.is_decimal(given) and given.scale == wanted.scale
        return bool(fits and given.precision <= wanted.precision)
    if types.is_timestamp(wanted):
        same_kind = types.is_timestamp(given) and (given.tz is None) == (wanted.tz is None)
        return bool(same_kind and given.unit in ("s", "ms", wanted.unit))
    return False


def type_mismatch(
    name: str, given: pa.DataType, wanted: pa.DataType, why: str = ""
) -> SchemaMismatch:
    """The refusal of a column whose type in the rows is not the table's."""
    return mismatch(
        f"Column {name} is {given} in the rows and {wanted} in the table{why}.",
        f"cast {name} to {wanted}",
    )


def mismatch(what: str, fix: str) -> SchemaMismatch:
    """The refusal of rows, with what would make them fit."""
    return SchemaMismatch(what, safe="nothing was written", next_step=f"{fix} and write again")


def listed(names: list[str]) -> str:
    return ", ".join(names)
