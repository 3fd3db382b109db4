"""Whether rows fit a table's schema, and the words for it when they do not. Pure."""

from __future__ import annotations

import pyarrow as pa

from lentic.errors import InvalidRecord, SchemaMismatch
from lentic.format.record_fields import META_FIELDS


def ensure_fits(given: pa.Schema, table: pa.Schema) -> None:
    """`SchemaMismatch` unless `given` has every column of `table`, no other, and types that read as
    the table's without losing a value. `_hoodie_*` columns in `given` are ignored."""
    names = [name for name in given.names if name not in META_FIELDS]
    if absent := [name for name in table.names if name not in names]:
        raise _mismatch(f"The rows lack column {_list(absent)} of the table.", f"add {absent[0]}")
    if extra := [name for name in names if name not in table.names]:
        raise _mismatch(f"The table has no column {_list(extra)}.", f"drop {extra[0]}")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise _mismatch(f"The rows have column {_list(twice)} twice.", "rename one of them")
    for column in table:
        if not reads_as(given.field(column.name).type, column.type):
            raise _mismatch(
                f"Column {column.name} is {given.field(column.name).type} in the rows and "
                f"{column.type} in the table.",
                f"cast {column.name} to {column.type}",
            )


def conform(rows: pa.RecordBatch, table: pa.Schema) -> pa.RecordBatch:
    """`rows` that passed `ensure_fits`, in the table's columns, order and types.

    `InvalidRecord` if a value is null where the table says it never is, at any depth.
    """
    columns = []
    for column in table:
        values = rows.column(column.name)
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        _ensure_no_nulls(values, column, column.name)
        columns.append(values if values.type == column.type else _cast(values, column))
    return pa.RecordBatch.from_arrays(columns, schema=table)


def _cast(values: pa.Array, wanted: pa.Field) -> pa.Array:
    if pa.types.is_nested(values.type):
        # A slice still carries the values around it, and the cast would judge those too.
        values = values.take(pa.array(range(len(values)), pa.int64()))
    try:
        return values.cast(wanted.type)
    except pa.ArrowInvalid as error:
        raise InvalidRecord(
            f"Column {wanted.name} holds a value that {wanted.type} cannot hold: {error}",
            safe="nothing was committed",
            next_step=f"mend {wanted.name}, or drop the rows, and write again",
        ) from error


def _ensure_no_nulls(values: pa.Array, wanted: pa.Field, name: str) -> None:
    if not wanted.nullable and values.null_count:
        raise InvalidRecord(
            f"Column {name} holds a null, but the table says it never does.",
            safe="nothing was committed",
            next_step=f"fill {name}, or drop the rows, and write again",
        )
    kind = wanted.type
    if pa.types.is_struct(kind):
        present = values.filter(values.is_valid())  # a field of no struct is no value
        for index, field in enumerate(kind):
            _ensure_no_nulls(present.field(index), field, f"{name}.{field.name}")
    elif pa.types.is_map(kind):
        present = values.filter(values.is_valid())
        _ensure_no_nulls(present.items, kind.item_field, f"{name}.value")
    elif _is_list(kind):
        _ensure_no_nulls(values.flatten(), kind.value_field, f"{name}.element")


def reads_as(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether every value of `given` is a value of `wanted`."""
    if pa.types.is_dictionary(given):
        given = given.value_type
    if given == wanted:
        return True
    if pa.types.is_struct(wanted):
        return pa.types.is_struct(given) and _structs_fit(given, wanted)
    if _is_list(wanted):
        return _is_list(given) and reads_as(given.value_type, wanted.value_type)
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


def _is_list(kind: pa.DataType) -> bool:
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


def _mismatch(what: str, fix: str) -> SchemaMismatch:
    return SchemaMismatch(what, safe="nothing was written", next_step=f"{fix} and write again")


def _list(names: list[str]) -> str:
    return ", ".join(names)
