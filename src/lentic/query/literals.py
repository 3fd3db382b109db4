"""Literals, as SQL text and as Python values, and how they meet the columns of a table.

Columns of whole numbers, decimals, days and moments hold only the points of a grid: whole numbers
times a unit, within a range. A literal need not lie on it, so a comparison with any literal becomes
one with a point that the column can hold and that has the same answer for every row; nothing is
rounded and nothing overflows. Columns of floats are compared as doubles, as Spark does.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Final, TypeAlias
from typing import Literal as OneOf

import pyarrow as pa

from lentic.errors import SchemaMismatch

Operator: TypeAlias = OneOf["=", "!=", "<", "<=", ">", ">="]
Value: TypeAlias = bool | int | float | str | Decimal | date | datetime | None


class Kind(Enum):
    """Types that compare alike. A moment is a timestamp with a zone, a clock one without."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOATING = "floating"
    TEXT = "text"
    DATE = "date"
    MOMENT = "moment"
    CLOCK = "clock"


EXACT: Final = frozenset({Kind.INTEGER, Kind.DECIMAL})
NUMBERS: Final = EXACT | {Kind.FLOATING}
TIMES: Final = frozenset({Kind.DATE, Kind.MOMENT, Kind.CLOCK})
ALL: Final = frozenset(Kind)

NEGATED: Final[dict[Operator, Operator]] = {
    "=": "!=",
    "!=": "=",
    "<": ">=",
    "<=": ">",
    ">": "<=",
    ">=": "<",
}

MIRRORED: Final[dict[Operator, Operator]] = {
    "=": "=",
    "!=": "!=",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}

_MICROS_OF_UNIT: Final = {
    "s": Fraction(1_000_000),
    "ms": Fraction(1_000),
    "us": Fraction(1),
    "ns": Fraction(1, 1_000),
}
_MICROSECOND: Final = timedelta(microseconds=1)
_EPOCH: Final = datetime(1970, 1, 1)
_TYPE_TEXT_MAX: Final = 100

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP: Final = re.compile(
    r"""(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})
        (?:[ T](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})
           (?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,6}))?)?
           [ ]?(?P<zone>Z|UTC|(?P<sign>[+-])(?P<hours>[0-9]{2}):?(?P<minutes>[0-9]{2}))?
        )?""",
    re.VERBOSE,
)

_EXAMPLES: Final = {
    Kind.BOOLEAN: "true or false",
    Kind.INTEGER: "a number",
    Kind.DECIMAL: "a number such as 10.50",
    Kind.FLOATING: "a number such as 10.5, of the range of a double",
    Kind.TEXT: "a string in single quotes",
    Kind.DATE: "date '2026-01-31'",
    Kind.MOMENT: "timestamp '2026-01-31 12:00:00', which is UTC unless an offset follows",
    Kind.CLOCK: "timestamp '2026-01-31 12:00:00', without an offset",
}


@dataclass(frozen=True, slots=True)
class Literal:
    """A value as written, before it meets a column: `kinds` are those it can be compared with.

    A timestamp whose text has no offset is naive here.
    """

    value: Value
    kinds: frozenset[Kind]
    text: str


def parse_date(text: str) -> date | None:
    """The day that `2026-01-31` names, None if it names none."""
    try:
        return date.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        return None


def parse_timestamp(text: str) -> datetime | None:
    """`2026-01-31`, `2026-01-31 12:30[:00[.000001]]`, with `+02:00` or `Z` a moment in UTC."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    part = {name: found or "0" for name, found in match.groupdict().items()}
    try:
        day = date.fromisoformat(part["day"])
        clock = datetime(
            *(day.year, day.month, day.day),
            *(int(part["hour"]), int(part["minute"]), int(part["second"])),
            int(part["fraction"].ljust(6, "0")),
        )
        if match["zone"] is None:
            return clock
        offset = timedelta(hours=int(part["hours"]), minutes=int(part["minutes"]))
        zone = timezone(-offset if match["sign"] == "-" else offset)
        return clock.replace(tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def format_literal(value: Value) -> str:
    """The value as a typed literal of Spark SQL."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case float():
            return f"{value!r}D"
        case Decimal():
            return f"{value:f}BD"
        case str():
            return format_text(value)
        case datetime():
            text = value.isoformat(" ")
            return f"TIMESTAMP_{'NTZ' if value.tzinfo is None else 'LTZ'} '{text}'"
        case date():
            return f"DATE '{value.isoformat()}'"


def format_text(text: str) -> str:
    """A string literal that Spark takes as it is.

    Spark reads a backslash in plain quotes as an escape and replaces `${name}` by a setting, so
    backslashes stand in raw strings and no literal holds `${`; neighbouring literals are one.
    """
    pieces = [piece for piece in re.split(r"(\\+)|(?<=\$)(?=\{)", text) if piece]
    quoted = (f"r'{p}'" if p[0] == "\\" else "'" + p.replace("'", "''") + "'" for p in pieces)
    return " ".join(quoted) or "''"


def bind(column: str, kind: pa.DataType, literal: Literal) -> Value:
    """The literal as a value of the kind of the column, or `SchemaMismatch`."""
    of_column = kind_of_type(kind)
    shown = str(kind)[:_TYPE_TEXT_MAX]
    if of_column is None:
        raise SchemaMismatch(
            f"Column {column} has type {shown}, which cannot be compared with {literal.text}.",
            safe="nothing was read or written",
            next_step=f"ask whether {column} IS NULL"
            + (f", or compare a field of it: {column}.name" if pa.types.is_struct(kind) else ""),
        )
    if literal.value is None:
        return None
    value = _converted(literal.value, of_column) if of_column in literal.kinds else None
    if value is None:
        raise SchemaMismatch(
            f"Column {column} has type {shown}, which cannot be compared with {literal.text}.",
            safe="nothing was read or written",
            next_step=f"compare {column} with {_EXAMPLES[of_column]}",
        )
    return value


def _converted(value: Value, kind: Kind) -> Value:
    """`value` as one of `kind`; None if it does not fit after all."""
    if kind is Kind.FLOATING:
        assert isinstance(value, int | Decimal)
        try:
            number = float(value)
        except OverflowError:
            return None
        return number if math.isfinite(number) else None
    if kind is Kind.DATE:
        return parse_date(value) if isinstance(value, str) else value
    if kind not in (Kind.MOMENT, Kind.CLOCK):
        return value
    if isinstance(value, str):
        value = parse_timestamp(value)
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        return None
    if kind is Kind.MOMENT:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value
    return value if value.tzinfo is None else None


def kind_of_type(kind: pa.DataType) -> Kind | None:
    """How columns of this type compare; None if they do not (binary, time, nested types)."""
    types = pa.types
    if types.is_dictionary(kind):
        return kind_of_type(kind.value_type)
    if types.is_timestamp(kind):
        return Kind.CLOCK if kind.tz is None else Kind.MOMENT
    for is_kind, found in (
        (types.is_boolean, Kind.BOOLEAN),
        (types.is_integer, Kind.INTEGER),
        (types.is_floating, Kind.FLOATING),
        (types.is_decimal, Kind.DECIMAL),
        (types.is_string, Kind.TEXT),
        (types.is_large_string, Kind.TEXT),
        (types.is_string_view, Kind.TEXT),
        (types.is_date, Kind.DATE),
    ):
        if is_kind(kind):
            return found
    return None


def kind_of_value(value: object) -> Kind | None:
    """The kind of a Python value; None if it has none."""
    match value:
        case bool():
            return Kind.BOOLEAN
        case int():
            return Kind.INTEGER
        case float():
            return Kind.FLOATING
        case Decimal():
            return Kind.DECIMAL
        case str():
            return Kind.TEXT
        case datetime():
            return Kind.CLOCK if value.tzinfo is None else Kind.MOMENT
        case date():
            return Kind.DATE
    return None


def fit(kind: pa.DataType, operator: Operator, value: Value) -> tuple[Operator, int]:
    """The comparison with a grid point that answers like `operator value` for each row of `kind`.

    The point is counted in units of the type: the number itself, the decimal without its point,
    days, ticks. What holds for no row becomes `< least`, what holds for all `>= least`.
    """
    unit, low, high = _grid(kind)
    exact = _exact(value) / unit
    point = math.floor(exact)
    never: tuple[Operator, int] = ("<", low)
    always: tuple[Operator, int] = (">=", low)
    if point != exact:
        if operator in ("=", "!="):
            return never if operator == "=" else always
        operator = "<=" if operator in ("<", "<=") else ">"
    if low <= point <= high:
        return operator, point
    holds_above = operator in ("!=", ">", ">=")
    holds_below = operator in ("!=", "<", "<=")
    return always if (holds_above if point < low else holds_below) else never


def fitted(kind: pa.DataType, operator: Operator, value: Value) -> tuple[Operator, Value]:
    """The same comparison with a number that a column of the type can hold; others as they are."""
    of_column = kind_of_type(kind)
    if value is None or of_column not in EXACT:
        return operator, value
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    operator, point = fit(kind, operator, value)
    return operator, _decimal_of(point, kind.scale) if of_column is Kind.DECIMAL else point


def _decimal_of(digits: int, scale: int) -> Decimal:
    """`digits` times ten to the power of minus `scale`, exactly, whatever the decimal context."""
    return Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -scale))


def _grid(kind: pa.DataType) -> tuple[Fraction, int, int]:
    """The unit of the type's values, the least and the greatest number of units."""
    if pa.types.is_dictionary(kind):
        return _grid(kind.value_type)
    if pa.types.is_decimal(kind):
        most = 10**kind.precision - 1
        return Fraction(10) ** -kind.scale, -most, most
    bits = kind.bit_width
    if pa.types.is_unsigned_integer(kind):
        return Fraction(1), 0, 2**bits - 1
    unit = Fraction(1)
    if pa.types.is_timestamp(kind):
        unit = _MICROS_OF_UNIT[kind.unit]
    elif pa.types.is_date64(kind):
        unit = Fraction(1, 86_400_000)
    return unit, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _exact(value: Value) -> Fraction:
    """Numbers as they are, days since 1970 for dates, microseconds since 1970 for timestamps."""
    match value:
        case datetime():
            naive = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
            return Fraction((naive - _EPOCH) // _MICROSECOND)
        case date():
            return Fraction(value.toordinal() - _EPOCH.toordinal())
        case int() | float() | Decimal():
            return Fraction(value)
    raise AssertionError(f"{value!r} lies on no grid")
