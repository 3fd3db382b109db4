"""Record keys: how a row's key columns become the text in `_hoodie_record_key`.

A key must come out letter for letter as other engines form it, or an update of theirs would not
find a row of ours. So each type has one text form, that of Java's `toString`:

    integers    digits
    float       Java's form: `1.5`, `100.0`, `1.0E10`, `NaN`; fewest digits that read back alike
                (Java before 19 prints one digit too many for a few values; no key to choose)
    bool        `true`, `false`
    date        ISO: `2024-02-03`, a `+` before years over 9999
    decimal     with its scale: `12.50`; below 0.000001 as Java's BigDecimal does: `1.2E-7`
    timestamp   microseconds since the epoch, as digits
    string      as it is

Everything works on whole columns; Python code runs once per distinct value at most, and that
only for floats outside the range Java prints without an exponent.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lentic.errors import InvalidRecord, SchemaMismatch

NULL_VALUE: Final = "__null__"
EMPTY_VALUE: Final = "__empty__"

_DAYS_OF_YEAR_10000: Final = 2_932_897
_SAFE: Final = "Nothing was written."


def is_composite(keygen: str, key_fields: tuple[str, ...]) -> bool:
    """Whether keys are of the form `field:value,...` (table version 9).

    `keygen` is `hoodie.table.keygenerator.type`. COMPLEX is composite with one field as well.
    """
    return keygen.upper().removesuffix("_AVRO") == "COMPLEX" or len(key_fields) > 1


def record_keys(
    table: pa.Table | pa.RecordBatch, key_fields: tuple[str, ...], *, composite: bool
) -> pa.StringArray:
    """One key per row.

    Plain: the text of the one field, which must be neither null nor empty. Composite:
    `f:v,f2:v2` with `__null__` and `__empty__` for missing values, not all of which may be
    missing. A row that breaks this raises `InvalidRecord` naming column and row.
    """
    assert key_fields, "a table without key fields has generated keys"
    values = [string_form(column_of(table, name), name) for name in key_fields]
    if not composite:
        assert len(values) == 1, "several key fields make a composite key"
        _ensure_none_missing(_is_missing(values[0]), key_fields)
        return values[0]
    missing = _is_missing(values[0])
    for value in values[1:]:
        missing = pc.and_(missing, _is_missing(value))
    _ensure_none_missing(missing, key_fields)
    pieces: list[object] = []
    for number, (name, value) in enumerate(zip(key_fields, values, strict=True)):
        pieces.append(f",{name}:" if number else f"{name}:")
        filled = pc.fill_null(value, NULL_VALUE)
        pieces.append(pc.if_else(pc.equal(filled, ""), EMPTY_VALUE, filled))
    return pc.binary_join_element_wise(*pieces, "")


def column_of(table: pa.Table | pa.RecordBatch, name: str) -> pa.Array:
    """The column called `name` as one array; `SchemaMismatch` if there is none, or two."""
    found = table.schema.get_all_field_indices(name)
    if len(found) != 1:
        raise SchemaMismatch(
            f"Column {name} is needed for keys or partitions, but the rows have"
            f" {'no such column' if not found else f'{len(found)} columns of that name'}.",
            safe=_SAFE,
            next_step=f"Give the rows exactly one column {name}; they have:"
            f" {', '.join(table.schema.names)}.",
        )
    column = table.column(found[0])
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def string_form(column: pa.Array, name: str) -> pa.StringArray:
    """The text of each value as a key or a folder name holds it; nulls stay null."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return string_form(column.cast(kind.value_type), name)
    if pa.types.is_string(kind):
        return column
    if pa.types.is_date(kind):
        return _date_text(column.cast(pa.date32()))
    if pa.types.is_timestamp(kind):
        return _timestamp_text(column, name)
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return _float_text(column)
    if (
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
    ):
        return column.cast(pa.string())
    raise SchemaMismatch(
        f"Column {name} of type {kind} cannot be a key or partition field.",
        safe=_SAFE,
        next_step="Use a column of integers, strings, booleans, dates, decimals, floats or"
        " timestamps.",
    )


def _is_missing(value: pa.StringArray) -> pa.BooleanArray:
    return pc.fill_null(pc.equal(value, ""), True)


def _ensure_none_missing(missing: pa.BooleanArray, fields: tuple[str, ...]) -> None:
    row = pc.index(missing, True).as_py()
    if row < 0:
        return
    what = f"column {fields[0]} is" if len(fields) == 1 else f"columns {', '.join(fields)} are all"
    raise InvalidRecord(
        f"Row {row} (the first is 0) has no record key: {what} null or empty.",
        safe=_SAFE,
        next_step="Fill the key columns or leave such rows out.",
    )


def _date_text(days: pa.Date32Array) -> pa.StringArray:
    text = days.cast(pa.string())
    late = pc.greater_equal(days.cast(pa.int32()), _DAYS_OF_YEAR_10000)
    if not pc.any(late).as_py():
        return text
    return pc.if_else(late, pc.binary_join_element_wise("+", text, ""), text)


def _timestamp_text(column: pa.TimestampArray, name: str) -> pa.StringArray:
    try:
        micros = column.cast(pa.timestamp("us", column.type.tz))
    except pa.ArrowInvalid as error:
        raise SchemaMismatch(
            f"Column {name} of type {column.type} does not fit whole microseconds: {error}",
            safe=_SAFE,
            next_step=f"Cast {name} to timestamp('us').",
        ) from error
    return micros.cast(pa.int64()).cast(pa.string())


def _float_text(column: pa.FloatingPointArray) -> pa.StringArray:
    shortest = column.cast(pa.string())
    size = pc.abs(column)
    # Null where the value is null; NaN compares false, so it goes with the unusual ones.
    usual = pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7))
    whole = pc.invert(pc.match_substring(shortest, "."))
    plain = pc.if_else(whole, pc.binary_join_element_wise(shortest, ".0", ""), shortest)
    unusual = pc.fill_null(pc.invert(usual), False)
    if not pc.any(unusual).as_py():
        return plain
    encoded = pc.dictionary_encode(shortest.filter(unusual))
    kind = np.float32 if pa.types.is_float32(column.type) else np.float64
    forms = [_java_float(text, float(kind(text))) for text in encoded.dictionary.to_pylist()]
    return pc.replace_with_mask(plain, unusual, pa.array(forms, pa.string()).take(encoded.indices))


def _java_float(shortest: str, value: float) -> str:
    """Java's form of `value`, a number outside the range that is printed without exponent."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    sign, digits, exponent = Decimal(shortest).normalize().as_tuple()
    if len(digits) == 1:
        # Java asks for two digits at least, the nearest two: 4.9E-324, not 5.0E-324.
        sign, digits, exponent = Decimal(f"{value:.1e}").as_tuple()
    assert isinstance(exponent, int), shortest
    figures = "".join(map(str, digits))
    power = len(figures) - 1 + exponent
    return f"{'-' if sign else ''}{figures[0]}.{figures[1:]}E{power}"
