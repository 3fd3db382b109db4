"""What operators and functions do to whole columns, each as Spark does it in its ANSI mode.

Arrays in, array out, nulls for nulls. `Unfit` if the types do not go together, `Failed` if there is
no value for some row: division by zero, overflow.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lentic.query.expression_sql import format_type
from lentic.query.expression_types import (
    BOOLEAN,
    DIGITS_MAX,
    DOUBLE,
    TEXT,
    WIDE_DIGITS_MAX,
    Failed,
    Unfit,
    coerced,
    common_type,
    decimal_type,
    kind_of,
    rescaled,
)
from lentic.query.expression_values import Relation, Sign
from lentic.query.literals import NUMBERS, Kind, Value, parse_date

_SCALE_KEPT_MIN: Final = 6
_DIVISION_SCALE_MIN: Final = 6
_SPARK_DIVISION_SCALE: Final = 39
_ARROW_DIVISION_SCALE_MIN: Final = 4
_NEGATED_DIGITS_MAX: Final = 34  # Spark rounds longer ones when it negates them
_HALF_UP: Final = "half_towards_infinity"

# Doubles from here on have no fraction; below the other, no digit that a rounding keeps.
_WHOLE_DOUBLES: Final = 2.0**53
_NO_DOUBLE_DIGITS: Final = 1e-20
_DOUBLE_AS_DECIMAL: Final = pa.decimal256(WIDE_DIGITS_MAX, 40)

_CHECKED: Final[dict[str, Callable[[pa.Array, pa.Array], pa.Array]]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}
_UNCHECKED: Final[dict[str, Callable[[pa.Array, pa.Array], pa.Array]]] = {
    "+": pc.add,
    "-": pc.subtract,
    "*": pc.multiply,
    "/": pc.divide,
}
_COMPARED: Final[dict[str, Callable[[pa.Array, pa.Array], pa.Array]]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


@dataclass(frozen=True, slots=True)
class Operand:
    """Values, and the literal that they come from if it is one."""

    values: pa.Array
    literal: Value = None

    @property
    def type(self) -> pa.DataType:
        return self.values.type


def arithmetic(sign: Sign, left: Operand, right: Operand) -> pa.Array:
    """`left sign right`. Whole numbers divide to doubles; `%` has the sign of the left side."""
    groups = set()
    for side in (left, right):
        if not pa.types.is_null(side.type):
            groups.add(kind_of(side.type))
    if None in groups or not groups <= NUMBERS:
        shown = " and ".join(format_type(side.type) for side in (left, right))
        raise Unfit(f"{sign} takes numbers, not {shown}")
    try:
        if Kind.DECIMAL in groups and Kind.FLOATING not in groups:
            return _decimal_arithmetic(sign, left, right)
        is_double = sign == "/" or not groups
        kind = DOUBLE if is_double else common_type([left.type, right.type])
        a, b = coerced(left.values, kind), coerced(right.values, kind)
        if sign in ("/", "%"):
            b = _nonzero(a, b)
        if sign == "%":
            return _remainder(a, b)
        return (_UNCHECKED if pa.types.is_floating(kind) else _CHECKED)[sign](a, b)
    except pa.ArrowInvalid as error:
        raise Failed("a number is too large for its type") from error


def _nonzero(left: pa.Array, right: pa.Array) -> pa.Array:
    """The divisors, null where they are zero; `Failed` if one of those has something to divide."""
    is_zero = pc.equal(right, pa.scalar(0, right.type))
    if pc.any(pc.and_(is_zero, pc.is_valid(left))).as_py():
        raise Failed("a division by zero")
    return pc.if_else(is_zero, pa.scalar(None, right.type), right)


def _remainder(left: pa.Array, right: pa.Array) -> pa.Array:
    if pa.types.is_floating(left.type):
        with np.errstate(all="ignore"):
            found = np.fmod(*(side.to_numpy(zero_copy_only=False) for side in (left, right)))
        is_null = pc.or_(pc.is_null(left), pc.is_null(right))
        return pa.array(found, left.type, mask=is_null.to_numpy(zero_copy_only=False))
    # The least number has no quotient by -1, but both leave nothing.
    minus, one = pa.scalar(-1, right.type), pa.scalar(1, right.type)
    right = pc.if_else(pc.equal(right, minus), one, right)
    return pc.subtract(left, pc.multiply(pc.divide(left, right), right))


def _decimal_arithmetic(sign: Sign, left: Operand, right: Operand) -> pa.Array:
    """Exact if the result has up to 38 digits; if not, digits behind the point are given up."""
    if sign == "%":
        raise Unfit("% takes no decimals here")
    known = [side for side in (left, right) if not pa.types.is_null(side.type)]
    kinds = [decimal_type(side.type, side.literal) for side in known]
    a, b = coerced(left.values, kinds[0]), coerced(right.values, kinds[-1])
    if sign == "/":
        return _decimal_quotient(a, _nonzero(a, b))
    one, two = a.type, b.type
    if sign == "*":
        digits, scale = one.precision + two.precision + 1, one.scale + two.scale
    else:
        scale = max(one.scale, two.scale)
        digits = scale + 1 + max(one.precision - one.scale, two.precision - two.scale)
    if digits <= DIGITS_MAX:
        return _UNCHECKED[sign](a, b)
    wide = [side.cast(pa.decimal256(side.type.precision, side.type.scale)) for side in (a, b)]
    if digits > WIDE_DIGITS_MAX:
        raise _too_many_digits(sign, one, two)
    return rescaled(_UNCHECKED[sign](*wide), _bounded(digits, scale))


def _decimal_quotient(left: pa.Array, right: pa.Array) -> pa.Array:
    one, two = left.type, right.type
    scale = max(_DIVISION_SCALE_MIN, one.scale + two.precision + 1)
    result = _bounded(one.precision - one.scale + two.scale + scale, scale)
    # Spark rounds twice, first to 39 digits. That is as good as once if no quotient can be so near
    # to a half of the last digit, and a quotient is at least 1 / (2 * divisor * 10^scale) from it.
    nearest = two.precision + max(result.scale, one.scale - two.scale)
    # Arrow cuts the quotient off behind `computed` digits, and a half needs one to be seen.
    dividend = max(one.scale, result.scale + two.scale - two.precision)
    computed = max(_ARROW_DIVISION_SCALE_MIN, dividend + two.precision - two.scale + 1)
    digits = one.precision - one.scale + two.scale + computed
    if nearest > _SPARK_DIVISION_SCALE or digits > WIDE_DIGITS_MAX:
        raise _too_many_digits("/", one, two)
    exact = left.cast(pa.decimal256(one.precision - one.scale + dividend, dividend))
    quotient = pc.divide(exact, right.cast(pa.decimal256(two.precision, two.scale)))
    return rescaled(quotient, result)


def _bounded(digits: int, scale: int) -> pa.DataType:
    """A decimal of at most 38 digits, which gives up digits behind the point, but not the first."""
    if digits <= DIGITS_MAX:
        return pa.decimal128(digits, scale)
    kept = min(scale, _SCALE_KEPT_MIN)
    return pa.decimal128(DIGITS_MAX, max(DIGITS_MAX - (digits - scale), kept))


def _too_many_digits(sign: str, one: pa.DataType, two: pa.DataType) -> Unfit:
    shown = f"{format_type(one)} {sign} {format_type(two)}"
    return Unfit(f"{shown} has more digits than are computed exactly; cast to shorter decimals")


def _of_number(
    name: str,
    checked: Callable[[pa.Array], pa.Array],
    unchecked: Callable[[pa.Array], pa.Array],
    values: pa.Array,
) -> pa.Array:
    values = _numbers(name, values)
    if pa.types.is_decimal(values.type) and values.type.precision > _NEGATED_DIGITS_MAX:
        most = f"decimals of at most {_NEGATED_DIGITS_MAX} digits"
        raise Unfit(f"{name} takes {most}, not {format_type(values.type)}")
    try:
        return (checked if pa.types.is_integer(values.type) else unchecked)(values)
    except pa.ArrowInvalid as error:
        raise Failed(f"a number is too large for {format_type(values.type)}") from error


def _numbers(name: str, values: pa.Array) -> pa.Array:
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), DOUBLE)
    if kind_of(values.type) not in NUMBERS:
        raise Unfit(f"{name} takes a number, not {format_type(values.type)}")
    return values


def rounded(values: pa.Array, digits: int) -> pa.Array:
    """Halves away from zero, of the decimal that a number is written as, also for doubles."""
    values = _numbers("round", values)
    kind = values.type
    if pa.types.is_integer(kind):
        return values
    if pa.types.is_floating(kind):
        return _rounded_floats(values, digits)
    scale = min(kind.scale, digits)
    whole = kind.precision - kind.scale + 1  # 9.9 becomes 10
    return rescaled(values, pa.decimal128(min(whole + scale, DIGITS_MAX), scale))


def _rounded_floats(values: pa.Array, digits: int) -> pa.Array:
    doubles = values.cast(DOUBLE)
    size = pc.abs(doubles)
    is_tiny = pc.less(size, _NO_DOUBLE_DIGITS)
    has_digits = pc.and_(pc.less(size, _WHOLE_DOUBLES), pc.invert(is_tiny))
    written = pc.if_else(has_digits, doubles, pa.scalar(None, DOUBLE)).cast(TEXT)
    exact = pc.round(written.cast(_DOUBLE_AS_DECIMAL), digits, round_mode=_HALF_UP)
    zero = pa.scalar(0.0, values.type)
    rest = pc.if_else(is_tiny, zero, values)
    return pc.if_else(has_digits, exact.cast(TEXT).cast(values.type), rest)


def compared_type(operands: Sequence[Operand]) -> pa.DataType:
    """The type as which all these are compared. A literal text can be a date."""
    kinds = [operand.type for operand in operands]
    if any(map(pa.types.is_date, kinds)):
        is_text = [isinstance(operand.literal, str) for operand in operands]
        kinds = [pa.date32() if text else kind for text, kind in zip(is_text, kinds, strict=True)]
    if len(kinds) == 2 and any(map(pa.types.is_decimal, kinds)):
        kinds = [
            decimal_type(one.type, one.literal) if pa.types.is_integer(one.type) else one.type
            for one in operands
        ]
    kind = common_type(kinds)
    if not pa.types.is_null(kind) and kind_of(kind) is None:
        raise Unfit(f"{format_type(kind)} is not compared here")
    return kind


def as_compared(operand: Operand, kind: pa.DataType) -> pa.Array:
    """The values as ones of the type that `compared_type` chose."""
    if not (pa.types.is_date(kind) and isinstance(operand.literal, str)):
        return coerced(operand.values, kind)
    day = parse_date(operand.literal)
    if day is None:
        raise Unfit(f"{operand.literal!r:.60} is no day such as '2026-01-31'")
    return pa.repeat(pa.scalar(day, kind), len(operand.values))


def compared(relation: Relation, left: Operand, right: Operand) -> pa.Array:
    """NaN equals itself and is greater than every number; text compares by its UTF-8 bytes."""
    kind = compared_type((left, right))
    return related(relation, as_compared(left, kind), as_compared(right, kind))


def related(relation: Relation, left: pa.Array, right: pa.Array) -> pa.Array:
    """The same for values of one type."""
    if relation == "<=>":
        both_null = pc.and_(pc.is_null(left), pc.is_null(right))
        return pc.or_(both_null, pc.fill_null(related("=", left, right), False))
    if pa.types.is_null(left.type):
        return pa.nulls(len(left), BOOLEAN)
    if not pa.types.is_floating(left.type):
        return _COMPARED[relation](left, right)
    match relation:
        case "=":
            both_nan = pc.and_(pc.is_nan(left), pc.is_nan(right))
            return pc.or_(pc.equal(left, right), both_nan)
        case "<":
            only_right = pc.and_(pc.is_nan(right), pc.invert(pc.is_nan(left)))
            return pc.or_(pc.less(left, right), only_right)
        case ">":
            return related("<", right, left)
        case "!=":
            return pc.invert(related("=", left, right))
        case "<=":
            return pc.invert(related("<", right, left))
        case ">=":
            return pc.invert(related("<", left, right))


def is_among(operand: Operand, options: Sequence[Operand]) -> pa.Array:
    """IN with literals; each option has just one value."""
    kind = compared_type((operand, *options))
    rows = len(operand.values)
    if pa.types.is_null(kind):
        return pa.nulls(rows, BOOLEAN)
    values = as_compared(operand, kind)
    known = pa.concat_arrays([as_compared(option, kind) for option in options]).drop_null()
    if pa.types.is_floating(kind):  # is_in tells -0.0 from 0.0
        values, known = pc.add(values, 0.0), pc.add(known, 0.0)
    answer = pc.is_in(values, value_set=known)
    unknown = pa.scalar(None, BOOLEAN)
    if len(known) < len(options):
        return pc.if_else(answer, True, unknown)
    return pc.if_else(pc.is_valid(values), answer, unknown)


def extreme(relation: Relation, values: Sequence[pa.Array]) -> pa.Array:
    """The value that stands in this relation to all others; nulls are left out of it."""
    kind = common_type([one.type for one in values])
    if pa.types.is_null(kind):
        return values[0]
    compared_type([Operand(pa.nulls(0, kind))])

    def better(held: pa.Array, other: pa.Array) -> pa.Array:
        is_better = pc.or_kleene(related(relation, other, held), pc.is_null(held))
        return pc.if_else(pc.fill_null(is_better, False), other, held)

    return functools.reduce(better, (coerced(one, kind) for one in values))


def texts(name: str, values: pa.Array) -> pa.Array:
    """The values if they are text; an untyped null is."""
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), TEXT)
    if values.type != TEXT:
        raise Unfit(f"{name} takes text, not {format_type(values.type)}; cast it to string")
    return values


def booleans(name: str, values: pa.Array) -> pa.Array:
    """The values if they are true or false; an untyped null is."""
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), BOOLEAN)
    if values.type != BOOLEAN:
        raise Unfit(f"{name} takes a condition, not {format_type(values.type)}")
    return values


def concatenated(values: Sequence[pa.Array]) -> pa.Array:
    checked = [texts("concat", one) for one in values]
    return pc.binary_join_element_wise(*checked, pa.scalar(""), null_handling="emit_null")


def _cased(
    values: pa.Array, of_ascii: Callable[[pa.Array], pa.Array], of_text: Callable[[str], str]
) -> pa.Array:
    """Arrow maps letter by letter; Spark, like Python, knows those that become two."""
    is_other = pc.fill_null(pc.invert(pc.string_is_ascii(values)), False)
    found = of_ascii(values)
    if not pc.any(is_other).as_py():
        return found
    other = values.filter(is_other).dictionary_encode()
    mapped = pa.array([of_text(text) for text in other.dictionary.to_pylist()], TEXT)
    return pc.replace_with_mask(found, is_other, mapped.take(other.indices))


def substring(values: pa.Array, position: int, length: int | None = None) -> pa.Array:
    """From `position`, the first being 1, or counted from the end if it is negative."""
    start = position - 1 if position > 0 else position
    stop = None if length is None else start + max(length, 0)
    if start < 0 and stop is not None and stop >= 0:
        stop = None
    return pc.utf8_slice_codeunits(texts("substring", values), start=start, stop=stop)


OF_ONE: Final[dict[str, Callable[[pa.Array], pa.Array]]] = {
    "abs": lambda values: _of_number("abs", pc.abs_checked, pc.abs, values),
    "negate": lambda values: _of_number("-", pc.negate_checked, pc.negate, values),
    "length": lambda values: pc.utf8_length(texts("length", values)),
    "lower": lambda values: _cased(texts("lower", values), pc.ascii_lower, str.lower),
    "trim": lambda values: pc.utf8_trim(texts("trim", values), " "),
    "upper": lambda values: _cased(texts("upper", values), pc.ascii_upper, str.upper),
}
"""The functions of one argument."""
