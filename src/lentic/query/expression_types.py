"""The types of values in expressions, and how one becomes another: as in Spark's ANSI mode.

    boolean   -> string, whole numbers           decimal -> decimal, double, float, bigint; the
    whole     -> whole, boolean, string,                    other whole numbers from 15 digits,
                 decimal, double; float from                string from up to 6 behind the point
                 tinyint and smallint            float, double -> each other, whole numbers
    string    -> whole numbers                   date <-> timestamp_ntz

There are no other casts: Spark would go through text whose form depends on Java, through the zone
of the session, or lose digits now and then. Types that Spark has not, such as unsigned numbers, are
only passed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lentic.query.expression_sql import format_type
from lentic.query.literals import NUMBERS, Kind, Value, kind_of_type

DIGITS_MAX: Final = 38
WIDE_DIGITS_MAX: Final = 76
DOUBLE: Final = pa.float64()
BOOLEAN: Final = pa.bool_()
TEXT: Final = pa.string()
MOMENT: Final = pa.timestamp("us", tz="UTC")
CLOCK: Final = pa.timestamp("us")

# By the number of bits, the digits that Spark and Arrow ask of a decimal for whole numbers.
_INTEGER_DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 20}
_INT64_DIGITS_MIN: Final = 19
_EXACT_AS_DOUBLE_DIGITS: Final = 15
_PLAIN_TEXT_SCALE_MAX: Final = 6
_LONG_END: Final = 2.0**63
# What Spark strips from text before it reads a number.
_WHOLE_NUMBER: Final = r"\A[\x00-\x20\x7f]*[+-]?[0-9]+[\x00-\x20\x7f]*\z"
_NO_DIGITS: Final = r"[\x00-\x20\x7f+]"


class Unfit(Exception):
    """The types do not go together, whatever the rows."""


class Failed(Exception):
    """A row for which there is no value."""


def kind_of(kind: pa.DataType) -> Kind | None:
    """How values of the type compare; None for types that Spark has not, or does not compare."""
    types = pa.types
    if types.is_unsigned_integer(kind) or types.is_float16(kind):
        return None
    if types.is_decimal(kind) and kind.precision > DIGITS_MAX:
        return None
    if types.is_timestamp(kind) and kind.unit == "ns":
        return None
    return kind_of_type(kind)


def spark_type(kind: pa.DataType) -> pa.DataType:
    """The one type for all that are alike to Spark; others as they are."""
    if pa.types.is_dictionary(kind):
        return spark_type(kind.value_type)
    match kind_of(kind):
        case Kind.TEXT:
            return TEXT
        case Kind.DATE:
            return pa.date32()
        case Kind.MOMENT:
            return MOMENT
        case Kind.CLOCK:
            return CLOCK
        case Kind.DECIMAL:
            return pa.decimal128(kind.precision, kind.scale)
    return kind


def constant_type(value: Value) -> pa.DataType:
    """The type that Spark gives to a literal."""
    match value:
        case None:
            return pa.null()
        case bool():
            return BOOLEAN
        case int():
            for kind in (pa.int32(), pa.int64()):
                if -(2 ** (kind.bit_width - 1)) <= value < 2 ** (kind.bit_width - 1):
                    return kind
            return pa.decimal128(len(str(abs(value))), 0)
        case float():
            return DOUBLE
        case Decimal():
            _, digits, exponent = value.as_tuple()
            assert isinstance(exponent, int) and exponent <= 0, value
            return pa.decimal128(max(len(digits), -exponent), -exponent)
        case str():
            return TEXT
        case datetime():
            return CLOCK if value.tzinfo is None else MOMENT
        case date():
            return pa.date32()


def decimal_type(kind: pa.DataType, literal: Value = None) -> pa.DataType:
    """The decimal type for a number without a fraction; a literal takes only its own digits."""
    if pa.types.is_decimal(kind):
        return kind
    digits = len(str(abs(literal))) if isinstance(literal, int) else None
    return pa.decimal128(digits or _INTEGER_DIGITS[kind.bit_width], 0)


def common_type(kinds: Sequence[pa.DataType]) -> pa.DataType:
    """The type that holds values of all these types; `Unfit` if there is none."""
    distinct = list(dict.fromkeys(kind for kind in kinds if not pa.types.is_null(kind)))
    if len(distinct) <= 1:
        return distinct[0] if distinct else pa.null()
    groups = {kind_of(kind) for kind in distinct}
    if None in groups or not groups <= NUMBERS:
        raise Unfit(f"{' and '.join(map(format_type, distinct))} have no type in common")
    if Kind.FLOATING in groups:
        return DOUBLE
    if Kind.DECIMAL in groups:
        return _wider_decimal([decimal_type(kind) for kind in distinct])
    return max(distinct, key=lambda kind: kind.bit_width)


def _wider_decimal(kinds: Sequence[pa.DataType]) -> pa.DataType:
    scale = max(kind.scale for kind in kinds)
    digits = scale + max(kind.precision - kind.scale for kind in kinds)
    if digits > DIGITS_MAX:
        shown = " and ".join(map(format_type, kinds))
        raise Unfit(f"no decimal of {DIGITS_MAX} digits holds all of {shown}")
    return pa.decimal128(digits, scale)


def coerced(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values as those of a type that `common_type` chose for them."""
    return values if values.type == kind else cast(values, kind)


def cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """CAST: `Unfit` for types that it does not join, `Failed` for a value that does not fit."""
    if values.type == kind:
        return values
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), kind)
    try:
        found = _cast(values, kind)
    except pa.ArrowInvalid as error:
        raise Failed(f"a value does not fit in {format_type(kind)}") from error
    if found is None:
        raise Unfit(f"{format_type(values.type)} is not cast to {format_type(kind)} here")
    return found


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array | None:
    source, target = kind_of(values.type), kind_of(kind)
    match source, target:
        case Kind.BOOLEAN, (Kind.INTEGER | Kind.TEXT):
            return values.cast(kind)
        case Kind.INTEGER, Kind.BOOLEAN:
            return pc.not_equal(values, pa.scalar(0, values.type))
        case Kind.INTEGER, (Kind.INTEGER | Kind.TEXT):
            return values.cast(kind)
        case Kind.INTEGER, Kind.FLOATING if kind == DOUBLE or values.type.bit_width <= 16:
            return values.cast(kind, safe=False)  # Spark at times leaves FLOAT out of INT to DOUBLE
        case Kind.INTEGER, Kind.DECIMAL:
            digits = min(_INTEGER_DIGITS[values.type.bit_width], _INT64_DIGITS_MIN)
            return rescaled(values.cast(pa.decimal128(digits, 0)), kind)
        case Kind.DECIMAL, _:
            return _from_decimal(values, kind, target)
        case Kind.FLOATING, Kind.FLOATING:
            return values.cast(kind, safe=False)
        case Kind.FLOATING, Kind.INTEGER:
            return _from_float(values.cast(DOUBLE), kind)
        case Kind.TEXT, Kind.INTEGER:
            return _from_text(values, kind)
        case (Kind.DATE, Kind.CLOCK) | (Kind.CLOCK, Kind.DATE):
            return values.cast(kind)
    return None


def _from_decimal(values: pa.Array, kind: pa.DataType, target: Kind | None) -> pa.Array | None:
    is_long = pa.types.is_int64(kind)
    match target:
        case Kind.DECIMAL:
            return rescaled(values, kind)
        case Kind.FLOATING:
            return values.cast(TEXT).cast(kind)  # this way the nearest one is found
        case Kind.INTEGER if is_long or values.type.precision <= _EXACT_AS_DOUBLE_DIGITS:
            # Spark goes through a double for the shorter ones, so they must not have more digits.
            digits, scale = values.type.precision, values.type.scale
            return pc.trunc(values.cast(pa.decimal256(digits + 1, scale))).cast(kind)
        case Kind.TEXT if values.type.scale <= _PLAIN_TEXT_SCALE_MAX:
            return values.cast(TEXT)  # with more digits, small ones would have an exponent
    return None


def _from_float(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Without the fraction. Spark lets 2^63, which is no long, be the greatest long."""
    whole = pc.trunc(values)
    if not pa.types.is_int64(kind):
        return whole.cast(kind)
    is_end = pc.equal(whole, _LONG_END)
    below = pc.if_else(is_end, 0.0, whole)
    in_range = pc.and_(pc.less(below, _LONG_END), pc.greater_equal(below, -_LONG_END))
    if pc.any(pc.invert(in_range)).as_py():
        raise Failed("a value does not fit in BIGINT")
    return pc.if_else(is_end, pa.scalar(2**63 - 1, kind), below.cast(kind, safe=False))


def _from_text(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if not pc.all(pc.match_substring_regex(values, _WHOLE_NUMBER), min_count=0).as_py():
        raise Failed("a text is no whole number")
    return pc.replace_substring_regex(values, _NO_DIGITS, "").cast(kind)


def rescaled(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Decimals with another precision and scale, halves rounded away from zero.

    Raises `pa.ArrowInvalid` if one does not fit.
    """
    digits, scale = values.type.precision, values.type.scale
    wide = values.cast(pa.decimal256(min(digits + 1, WIDE_DIGITS_MAX), scale))
    if kind.scale < scale:
        wide = pc.round(wide, kind.scale, round_mode="half_towards_infinity")
    return wide.cast(pa.decimal256(WIDE_DIGITS_MAX, kind.scale)).cast(kind)
