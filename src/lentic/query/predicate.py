"""Filters as values: which rows a reader wants, and what can be told from that without the rows.

Logic is SQL's, with three values: a test of null is null, and a row is wanted only if the whole is
true. NaN is as in Spark: equal to itself and greater than every number.

`may_match` and `keys_equal` serve to leave files out, so they err only towards reading more.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lentic.errors import SchemaMismatch
from lentic.query.literals import (
    EXACT,
    NEGATED,
    NUMBERS,
    TIMES,
    Kind,
    Operator,
    Value,
    fit,
    fitted,
    kind_of_type,
    kind_of_value,
)
from lentic.query.predicate_values import (
    And,
    Comparison,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Path,
    Predicate,
    like_pieces,
    like_prefix,
)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is known of a column in some rows; None is unknown.

    No value but null and NaN lies outside `minimum` and `maximum`, which need not occur themselves.
    """

    minimum: Value = None
    maximum: Value = None
    nulls: int | None = None
    rows: int | None = None


_COMPARE: Final = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def columns_of(p: Predicate) -> frozenset[str]:
    """The top-level columns that the predicate asks about."""
    match p:
        case And() | Or():
            return frozenset[str]().union(*map(columns_of, p.parts))
        case Not():
            return columns_of(p.part)
    return frozenset({p.column[0]})


def keys_equal(p: Predicate, column: str) -> frozenset[Value] | None:
    """The only values of `column` with which the predicate can hold; None if they are not finite.

    Never contains null. None for columns of floats too, whose equal values can look different.
    """
    return _keys(p, column, holds=True)


def _keys(p: Predicate, column: str, *, holds: bool) -> frozenset[Value] | None:
    match p:
        case Not():
            return _keys(p.part, column, holds=not holds)
        case And() | Or():
            found = [_keys(part, column, holds=holds) for part in p.parts]
            known = [keys for keys in found if keys is not None]
            if isinstance(p, And) == holds:  # all parts must come out so, else any of them
                return functools.reduce(frozenset.intersection, known) if known else None
            return frozenset[Value]().union(*known) if len(known) == len(found) else None
        case Comparison() if p.column == (column,) and p.operator == ("=" if holds else "!="):
            return _key_set((p.value,))
        case In() if p.column == (column,) and holds:
            return _key_set(p.values)
    return None


def _key_set(values: tuple[Value, ...]) -> frozenset[Value] | None:
    if any(isinstance(value, float) for value in values):
        return None
    return frozenset(value for value in values if value is not None)


def may_match(p: Predicate, bounds: Mapping[str, Bounds]) -> bool:
    """Whether one of the rows that `bounds`, by top-level column, describes could be wanted.

    False is certain, True is not. What is unknown, or not comparable with the predicate's value,
    could match.
    """
    return _outcomes(p, bounds)[0]


def _outcomes(p: Predicate, bounds: Mapping[str, Bounds]) -> tuple[bool, bool]:
    """Whether the predicate could be true, and whether it could be false, for one of the rows."""
    match p:
        case Not():
            could_hold, could_fail = _outcomes(p.part, bounds)
            return could_fail, could_hold
        case And() | Or():
            holds, fails = zip(*(_outcomes(part, bounds) for part in p.parts), strict=True)
            return (all(holds), any(fails)) if isinstance(p, And) else (any(holds), all(fails))
    # Statistics of struct fields are not looked at: a dot in a name could mean either.
    known = bounds.get(p.column[0], Bounds()) if len(p.column) == 1 else Bounds()
    if known.rows == 0:
        return False, False
    has_values = known.rows is None or known.nulls != known.rows
    if isinstance(p, IsNull):
        return known.nulls != 0, has_values
    if not has_values:
        return False, False
    match p:
        case Comparison():
            if p.value is None:
                return False, False
            return (
                _could_be(p.operator, p.value, known),
                _could_be(NEGATED[p.operator], p.value, known),
            )
        case In():
            values = [value for value in p.values if value is not None]
            return (
                any(_could_be("=", value, known) for value in values),
                len(values) == len(p.values)
                and all(_could_be("!=", value, known) for value in values),
            )
        case Like():
            return _like_outcomes(p.pattern, known)


def _could_be(operator: Operator, value: Value, known: Bounds) -> bool:
    """Whether a value within the bounds could stand in this relation to `value`."""
    low, high = _bound(known.minimum, value), _bound(known.maximum, value)
    # Bounds say nothing of NaN, which differs from every number and is greater.
    has_nan = isinstance(value, float)
    could_be_less: bool = low is None or low < value
    could_be_greater: bool = has_nan or high is None or high > value
    could_equal: bool = (low is None or low <= value) and (high is None or high >= value)
    match operator:
        case "=":
            return could_equal
        case "!=":
            return could_be_less or could_be_greater
        case "<":
            return could_be_less
        case "<=":
            return could_be_less or could_equal
        case ">":
            return could_be_greater
        case ">=":
            return could_be_greater or could_equal


def _bound(bound: Value, value: Value) -> Any:
    """`bound` if it can be compared with `value`, else None."""
    kinds = {kind_of_value(bound), kind_of_value(value)}
    if None in kinds or (isinstance(bound, float) and math.isnan(bound)):
        return None
    return bound if len(kinds) == 1 or kinds <= EXACT else None


def _like_outcomes(pattern: str, known: Bounds) -> tuple[bool, bool]:
    pieces = like_pieces(pattern)
    assert pieces is not None, pattern
    prefix, rest = like_prefix(pieces)
    if not rest:
        return _could_be("=", prefix, known), _could_be("!=", prefix, known)
    low, high = _bound(known.minimum, prefix), _bound(known.maximum, prefix)
    could_hold = (low is None or low[: len(prefix)] <= prefix) and (high is None or high >= prefix)
    # Between two texts with this beginning lie only texts with this beginning.
    is_within = low is not None and high is not None
    is_within = is_within and low.startswith(prefix) and high.startswith(prefix)
    return could_hold, not (is_within and rest == ["%"])


def matches(p: Predicate, batch: pa.RecordBatch) -> pa.BooleanArray:
    """For each row whether it is wanted, without nulls: `batch.filter(matches(p, batch))`.

    The batch may have more columns than the predicate asks about, and other types than the schema
    it was parsed for, as long as they compare; `SchemaMismatch` otherwise.
    """
    wanted: pa.BooleanArray = pc.fill_null(_truth(p, batch), False)
    return wanted


def _truth(p: Predicate, batch: pa.RecordBatch) -> pa.Array:
    match p:
        case And():
            return functools.reduce(pc.and_kleene, (_truth(part, batch) for part in p.parts))
        case Or():
            return functools.reduce(pc.or_kleene, (_truth(part, batch) for part in p.parts))
        case Not():
            return pc.invert(_truth(p.part, batch))
        case IsNull():
            return pc.is_null(_column(batch, p.column))
        case Comparison():
            return _compare(p, _column(batch, p.column))
        case In():
            return _is_in(p, _column(batch, p.column))
        case Like():
            return _is_like(p, _column(batch, p.column))


def _column(batch: pa.RecordBatch, path: Path) -> pa.Array:
    """The column, or the part of it, with dictionaries decoded."""
    if batch.schema.names.count(path[0]) != 1:
        raise _mismatch(f"The rows have no single column {path[0]} to filter by.")
    found = batch.column(path[0])
    for name in path[1:]:
        index = found.type.get_field_index(name) if pa.types.is_struct(found.type) else -1
        if index < 0:
            raise _mismatch(f"The rows have no field {'.'.join(path)} to filter by.")
        found = pc.struct_field(found, [index])  # null where the struct is null, unlike field()
    return found.dictionary_decode() if pa.types.is_dictionary(found.type) else found


def _compare(p: Comparison, column: pa.Array) -> pa.Array:
    if p.value is None or pa.types.is_null(column.type):
        return pa.nulls(len(column), pa.bool_())
    operator, value = _operand(p.column, column.type, p.operator, p.value)
    ready = _comparable(column)
    found = _COMPARE[operator](ready, pa.scalar(value, ready.type))
    if operator in (">", ">=") and pa.types.is_floating(ready.type):
        found = pc.or_kleene(found, pc.is_nan(ready))
    return found


def _is_in(p: In, column: pa.Array) -> pa.Array:
    unknown = pa.scalar(None, pa.bool_())
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), pa.bool_())
    fitted = [_operand(p.column, column.type, "=", v) for v in p.values if v is not None]
    ready = _comparable(column)
    if pa.types.is_floating(ready.type):
        ready = pc.add(ready, 0.0)  # is_in tells -0.0 from 0.0
    values = pa.array([value for operator, value in fitted if operator == "="], ready.type)
    found = pc.is_in(ready, value_set=values)
    if len(fitted) < len(p.values):
        return pc.if_else(found, True, unknown)
    return pc.if_else(pc.is_valid(column), found, unknown)


def _is_like(p: Like, column: pa.Array) -> pa.Array:
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), pa.bool_())
    _operand(p.column, column.type, "=", p.pattern)
    return is_like(_comparable(column), p.pattern)


def is_like(texts: pa.Array, pattern: str) -> pa.Array:
    """For each text whether it is like the pattern, which has no unfinished escape."""
    pieces = like_pieces(pattern)
    assert pieces is not None, pattern
    prefix, rest = like_prefix(pieces)
    if rest == ["%"]:
        return pc.starts_with(texts, prefix)
    wild = {"%": ".*", "_": "."}
    regex = "".join(wild[text] if is_wild else re.escape(text) for text, is_wild in pieces)
    return pc.match_substring_regex(texts, rf"(?s)\A{regex}\z")


def _comparable(column: pa.Array) -> pa.Array:
    """The column as what kernels compare: doubles, whole numbers, plain text."""
    kind = column.type
    if pa.types.is_floating(kind):
        return column.cast(pa.float64())
    if pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        return column.view(pa.int64())
    if pa.types.is_date32(kind):
        return column.view(pa.int32())
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        return column.cast(pa.decimal128(kind.precision, kind.scale))
    return column.cast(pa.large_string()) if pa.types.is_string_view(kind) else column


def _operand(
    path: Path, kind: pa.DataType, operator: Operator, value: Value
) -> tuple[Operator, Value]:
    """The comparison in the terms of `_comparable`."""
    of_column, of_value = kind_of_type(kind), kind_of_value(value)
    if of_column is None or not (of_column == of_value or {of_column, of_value} <= NUMBERS):
        raise _mismatch(
            f"Column {'.'.join(path)} has type {kind}, which cannot be compared with {value!r}."
        )
    if of_column is Kind.FLOATING:
        assert isinstance(value, int | float | Decimal)
        return operator, float(value) + 0.0
    return fit(kind, operator, value) if of_column in TIMES else fitted(kind, operator, value)


def _mismatch(what: str) -> SchemaMismatch:
    return SchemaMismatch(
        what, safe="nothing was written", next_step="parse the filter with the schema of the rows"
    )
