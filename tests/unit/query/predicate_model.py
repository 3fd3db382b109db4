"""What filters mean, row by row and literal by literal: the slow and plain form of predicates.

A wish is a filter before it is parsed: nested tuples whose literals are Python values, which need
not fit their columns. `text_of` writes it as text, `truth` answers it for one row, both without any
of the code under test.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from lentic.query.predicate import Bounds

Row = dict[str, Any]
Wish = tuple[Any, ...]

SCHEMA = pa.schema(
    [
        ("flag", pa.bool_()),
        ("tiny", pa.int8()),
        ("big", pa.int64()),
        ("ratio", pa.float32()),
        ("score", pa.float64()),
        ("name", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("clock", pa.timestamp("ms")),
        ("price", pa.decimal128(6, 2)),
        ("total", pa.decimal128(38, 10)),
        ("place", pa.struct([("x", pa.int32()), ("label", pa.string())])),
        ("tags", pa.list_(pa.string())),
    ]
)

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_TEXTS = [
    "",
    "a",
    "A",
    "ab",
    "abc",
    "b",
    "it's",
    "50%",
    "5_%",
    "x\\y",
    "ü",
    "z\n",
    "\U0001f600",
    "${a}",
]
_NUMBERS = [0, 1, -1, 2, 127, -128, 128, 2**31, -(2**63), 2**63 - 1, 2**63, 10**37]
_DECIMALS = [
    *(Decimal(text) for text in ("0.5", "-0.5", "1.50", "1.505", "-127.5", "9999.99", "9999.995")),
    *(Decimal(text) for text in ("-1E+3", "0.1", "1E-9")),
]
_DAYS = [date(1, 1, 1), date(1969, 12, 31), date(2026, 1, 1), date(2026, 1, 2), date(9999, 12, 31)]
_CLOCKS = [
    datetime(1969, 12, 31, 23, 59, 59, 999000),
    datetime(2026, 1, 1),
    datetime(2026, 1, 1, 0, 0, 0, 1000),
    datetime(2026, 1, 1, 0, 0, 0, 1500),
    datetime(2026, 1, 2, 12, 30),
]
_MOMENTS = [clock.replace(tzinfo=UTC) for clock in _CLOCKS]
_WEST = timezone(timedelta(hours=-7))


def _in_range(low: int, high: int) -> list[int]:
    return [number for number in _NUMBERS if low <= number <= high]


_HELD: dict[str, list[Any]] = {
    "flag": [True, False],
    "tiny": _in_range(-128, 127),
    "big": _in_range(-(2**63), 2**63 - 1),
    "ratio": [0.5, -0.5, 1.5, 0.0, -0.0, math.nan, math.inf, -math.inf, 0.10000000149011612],
    "score": [0.5, -0.5, 0.1, 1.5, 0.0, -0.0, 127.0, math.nan, math.inf, -math.inf, 2.0**63],
    "name": _TEXTS,
    "day": _DAYS,
    "at": _MOMENTS,
    "clock": [clock for clock in _CLOCKS if clock.microsecond % 1000 == 0],
    "price": [Decimal(text) for text in ("0.50", "-0.50", "1.50", "9999.99", "-9999.99", "0.00")],
    "total": [Decimal(text) for text in ("0.1", "1.505", "-1000", "9" * 28 + ".9999999999")],
    "place.x": _in_range(-(2**31), 2**31 - 1),
    "place.label": _TEXTS,
}
_NUMERIC = ("tiny", "big", "ratio", "score", "price", "total", "place.x")


def rows() -> st.SearchStrategy[list[Row]]:
    """Up to six rows of `SCHEMA`, with nulls everywhere."""

    def held(name: str) -> st.SearchStrategy[Any]:
        return st.none() | st.sampled_from(_HELD[name])

    flat = {name: held(name) for name in _HELD if "." not in name}
    place = st.fixed_dictionaries({"x": held("place.x"), "label": held("place.label")})
    tags = st.none() | st.just(["t"])
    row = st.fixed_dictionaries({**flat, "place": st.none() | place, "tags": tags})
    return st.lists(row, max_size=6)


def batch_of(given: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(given, SCHEMA)


def _literals(column: str) -> st.SearchStrategy[Any]:
    if column in _NUMERIC:
        known = st.sampled_from([*_NUMBERS, *_DECIMALS])
    elif column in ("at", "clock"):
        zoned = [moment.astimezone(_WEST) for moment in _MOMENTS] if column == "at" else []
        known = st.sampled_from([*_CLOCKS, *_DAYS[1:4], *zoned])
    else:
        known = st.sampled_from(_HELD[column])
    return known | st.none() if column in ("tiny", "name") else known


@st.composite
def _tests(draw: st.DrawFn) -> Wish:
    column = draw(st.sampled_from([*_HELD, "tags", "place"]))
    if column in ("tags", "place"):
        return ("null", column)
    kind = draw(
        st.sampled_from(["compare", "compare", "mirrored", "in", "between", "null", "like"])
    )
    literal = _literals(column)
    if kind == "null":
        return ("null", column)
    if kind == "in":
        return ("in", column, tuple(draw(st.lists(literal, min_size=1, max_size=4))))
    if kind == "between":
        return ("between", column, draw(literal), draw(literal))
    if kind == "like" and column in ("name", "place.label"):
        pieces = st.sampled_from(["%", "_", "a", "b", "5", "\\%", "\\_", "\\\\", "'", "\n", "y"])
        return ("like", column, "".join(draw(st.lists(pieces, max_size=4))))
    sign = draw(st.sampled_from(sorted(_OPERATORS)))
    return ("mirrored" if kind == "mirrored" else "compare", column, sign, draw(literal))


def wishes() -> st.SearchStrategy[Wish]:
    """Filters of up to about eight tests."""

    def larger(smaller: st.SearchStrategy[Wish]) -> st.SearchStrategy[Wish]:
        several = st.lists(smaller, min_size=2, max_size=3).map(tuple)
        joined = st.tuples(st.sampled_from(["and", "or"]), several)
        return joined | st.tuples(st.just("not"), smaller)

    return st.recursive(_tests() | st.just(("flag",)), larger, max_leaves=8)


def text_of(wish: Wish) -> str:
    """The filter as a user would type it."""
    match wish:
        case ("and" | "or" as word, parts):
            return f" {word} ".join(f"({text_of(part)})" for part in parts)
        case ("not", part):
            return f"not ({text_of(part)})"
        case ("flag",):
            return "flag"
        case ("null", column):
            return f"{column} is null"
        case ("in", column, values):
            return f"{column} in ({', '.join(map(_literal_text, values))})"
        case ("between", column, low, high):
            return f"{column} between {_literal_text(low)} and {_literal_text(high)}"
        case ("like", column, pattern):
            return f"{column} like {_literal_text(pattern)}"
        case ("compare", column, sign, value):
            return f"{column} {sign} {_literal_text(value)}"
        case ("mirrored", column, sign, value):
            return f"{_literal_text(value)}{sign}{column}"
    raise AssertionError(wish)


def _literal_text(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, datetime):
        return f"timestamp '{value.isoformat(' ')}'"
    if isinstance(value, date):
        return f"date '{value.isoformat()}'"
    return "null" if value is None else str(value).lower()


def truth(wish: Wish, row: Row) -> bool | None:
    """The answer for one row, by the rules of SQL as they stand in textbooks."""
    match wish:
        case ("and", parts):
            found = [truth(part, row) for part in parts]
            return False if False in found else None if None in found else True
        case ("or", parts):
            found = [truth(part, row) for part in parts]
            return True if True in found else None if None in found else False
        case ("not", part):
            answer = truth(part, row)
            return None if answer is None else not answer
        case ("flag",):
            answer = _held(row, "flag")
            return None if answer is None else bool(answer)
        case ("null", column):
            return _held(row, column) is None
        case ("in", column, values):
            return truth(("or", tuple(("compare", column, "=", value) for value in values)), row)
        case ("between", column, low, high):
            edges = (("compare", column, ">=", low), ("compare", column, "<=", high))
            return truth(("and", edges), row)
        case ("like", column, pattern):
            text = _held(row, column)
            return None if text is None else _is_like(text, pattern)
        case ("mirrored", column, sign, value):
            found = [_key(column, value), _key(column, _held(row, column))]
            return None if None in found else _OPERATORS[sign](*found)
        case ("compare", column, sign, value):
            found = [_key(column, _held(row, column)), _key(column, value)]
            return None if None in found else _OPERATORS[sign](*found)
    raise AssertionError(wish)


def _held(row: Row, column: str) -> Any:
    found: Any = row
    for name in column.split("."):
        found = None if found is None else found[name]
    return found


def _key(column: str, value: Any) -> Any:
    """What Python compares as Spark would."""
    if value is None:
        return None
    if column in ("ratio", "score"):
        return (1, 0.0) if math.isnan(value) else (0, float(value))
    if column in _NUMERIC:
        return Fraction(value)
    if column in ("at", "clock"):
        if not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    return value


def _is_like(text: str, pattern: str) -> bool:
    regex = re.sub(
        r"\\(.)|(%)|(_)|([^\\%_])",
        lambda m: ".*" if m[2] else "." if m[3] else re.escape(m[1] or m[4]),
        pattern,
        flags=re.DOTALL,
    )
    return re.fullmatch(regex, text, re.DOTALL) is not None


def bounds_of(given: list[Row], slack: int = 0) -> dict[str, Bounds]:
    """What statistics say of the rows. With `slack`, text is cut to that length, as writers do."""
    found = {}
    for name in SCHEMA.names:
        if name in ("place", "tags"):
            continue
        column = [row[name] for row in given]
        held = [v for v in column if v is not None and not (isinstance(v, float) and math.isnan(v))]
        low: Any = min(held, default=None)
        high: Any = max(held, default=None)
        if slack and name == "name" and held:
            low, high = low[:slack], high[:slack] + "\U0010ffff"
        found[name] = Bounds(low, high, column.count(None), len(column))
    return found
