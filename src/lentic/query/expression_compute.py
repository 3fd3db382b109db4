"""Expressions over columns, part by part; `expression` says what they mean.

Types are found on the way, so an expression over no rows tells what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lentic.errors import InvalidRecord, SchemaMismatch
from lentic.query import expression_kernels as kernels
from lentic.query.expression_kernels import Operand
from lentic.query.expression_sql import Resolve, format_expression
from lentic.query.expression_types import (
    Failed,
    Unfit,
    cast,
    coerced,
    common_type,
    constant_type,
    spark_type,
)
from lentic.query.expression_values import (
    AllOf,
    AnyOf,
    Arithmetic,
    Call,
    Case,
    Cast,
    Column,
    Compare,
    Constant,
    Expression,
    IsIn,
    IsLike,
    IsNull,
    Not,
    walk,
)
from lentic.query.predicate import is_like
from lentic.query.predicate_text import find_field

_SHOWN_MAX: Final = 200
_FALLIBLE: Final = ("abs", "negate")


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of columns that are resolved; `picked` are their numbers, all if it is None."""

    columns: Mapping[str, pa.Array]
    count: int
    resolve: Resolve
    picked: pa.Array | None = None

    def column(self, name: str) -> pa.Array:
        whole = self.columns[name]
        return whole if self.picked is None else whole.take(self.picked)

    def where(self, is_wanted: pa.BooleanArray) -> tuple[Rows, pa.Array]:
        """The rows that are wanted, and their numbers among these rows."""
        numbers = pc.indices_nonzero(is_wanted)
        picked = numbers if self.picked is None else self.picked.take(numbers)
        return Rows(self.columns, len(numbers), self.resolve, picked), numbers


def value_of(e: Expression, rows: Rows) -> pa.Array:
    """The value for each of the rows; errors name the innermost expression they come from."""
    try:
        return _computed(e, rows)
    except Unfit as unfit:
        raise SchemaMismatch(
            f"{_shown(e)} has no value: {unfit}.",
            safe="nothing was read or written",
            next_step="change the expression, for instance with cast(... as type)",
        ) from unfit
    except Failed as failed:
        assert rows.count, "without rows there is none that fails"
        raise InvalidRecord(
            f"{_shown(e)} has no value for a row: {failed}.",
            safe="nothing was written",
            next_step="leave such rows out with CASE WHEN or nullif, or cast to a wider type",
        ) from failed


def _shown(e: Expression) -> str:
    text = format_expression(e)
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "..."


def _computed(e: Expression, rows: Rows) -> pa.Array:
    match e:
        case Constant():
            return pa.repeat(pa.scalar(e.value, constant_type(e.value)), rows.count)
        case Column():
            return _column(e, rows)
        case Arithmetic():
            return _arithmetic(e, rows)
        case Compare():
            return _compare(e, rows)
        case AllOf() | AnyOf():
            return _junction(e, rows)
        case Not():
            return pc.invert(kernels.booleans("NOT", value_of(e.part, rows)))
        case IsNull():
            return pc.is_null(value_of(e.operand, rows))
        case IsIn():
            return _is_in(e, rows)
        case IsLike():
            return is_like(kernels.texts("LIKE", value_of(e.operand, rows)), e.pattern)
        case Case():
            return _case(e, rows)
        case Cast():
            return cast(value_of(e.operand, rows), e.type)
        case Call(function="coalesce"):
            return _coalesce(e, rows)
        case Call():
            return _call(e, rows)


def _column(e: Column, rows: Rows) -> pa.Array:
    """The column, or the field of it, as the one type for all that are alike to Spark."""
    found = rows.column(rows.resolve(e.qualifier, e.path[0]))
    for depth, name in enumerate(e.path[1:], start=1):
        whole = ".".join(e.path[: depth + 1])
        if not pa.types.is_struct(found.type):
            raise Unfit(f"{'.'.join(e.path[:depth])} is no struct, so there is no {whole}")
        fields = [found.type.field(n) for n in range(found.type.num_fields)]
        field = find_field(fields, name, whole, "input")
        found = pc.struct_field(found, [fields.index(field)])  # null where the struct is null
    kind = spark_type(found.type)
    try:
        return found if found.type == kind else found.cast(kind)
    except pa.ArrowInvalid as error:
        raise Failed("a time lies beyond what microseconds reach") from error


def _where(e: Expression, rows: Rows, is_needed: pa.BooleanArray) -> pa.Array:
    """The value for the rows that need it; what others get means nothing.

    `is_needed` has no nulls. Only what can fail is kept from them, since it costs a selection.
    """
    if not _can_fail(e) or pc.all(is_needed, min_count=0).as_py():
        return value_of(e, rows)
    some, numbers = rows.where(is_needed)
    places = np.zeros(rows.count, np.int64)
    is_other = np.ones(rows.count, np.bool_)
    places[numbers.to_numpy()] = np.arange(some.count)
    is_other[numbers.to_numpy()] = False
    return value_of(e, some).take(pa.array(places, mask=is_other))


def _can_fail(e: Expression) -> bool:
    return any(
        isinstance(part, Arithmetic | Cast)
        or (isinstance(part, Call) and part.function in _FALLIBLE)
        for part, _ in walk(e)
    )


def _operand(e: Expression, values: pa.Array) -> Operand:
    return Operand(values, e.value if isinstance(e, Constant) else None)


def _both(first: Expression, second: Expression, rows: Rows) -> tuple[Operand, Operand]:
    """Two sides of an operator that is null if one is: the second matters if the first is known."""
    is_null = Constant(None) in (first, second)
    is_needed = pa.repeat(not is_null, rows.count)
    known = _where(first, rows, is_needed)
    is_needed = pc.and_(is_needed, pc.is_valid(known))
    return _operand(first, known), _operand(second, _where(second, rows, is_needed))


def _arithmetic(e: Arithmetic, rows: Rows) -> pa.Array:
    if e.sign in ("/", "%"):
        right, left = _both(e.right, e.left, rows)
    else:
        left, right = _both(e.left, e.right, rows)
    return kernels.arithmetic(e.sign, left, right)


def _compare(e: Compare, rows: Rows) -> pa.Array:
    if e.relation == "<=>":
        left, right = (_operand(side, value_of(side, rows)) for side in (e.left, e.right))
    else:
        left, right = _both(e.left, e.right, rows)
    return kernels.compared(e.relation, left, right)


def _junction(e: AllOf | AnyOf, rows: Rows) -> pa.Array:
    is_all = isinstance(e, AllOf)
    name, join = ("AND", pc.and_kleene) if is_all else ("OR", pc.or_kleene)
    found = pa.repeat(is_all, rows.count)
    for part in e.parts:
        is_open = pc.fill_null(pc.equal(found, is_all), True)
        found = join(found, kernels.booleans(name, _where(part, rows, is_open)))
    return found


def _is_in(e: IsIn, rows: Rows) -> pa.Array:
    operand = _operand(e.operand, value_of(e.operand, rows))
    if all(isinstance(option, Constant) for option in e.options):
        one_row = Rows({}, 1, rows.resolve)
        return kernels.is_among(operand, [_operand(o, value_of(o, one_row)) for o in e.options])
    nothing, _ = rows.where(pa.repeat(False, rows.count))
    samples = [_operand(option, value_of(option, nothing)) for option in e.options]
    kind = kernels.compared_type((operand, *samples))
    values = kernels.as_compared(operand, kind)
    found = pa.repeat(False, rows.count)
    for option in e.options:
        is_open = pc.and_(pc.is_valid(values), pc.invert(pc.fill_null(found, False)))
        other = _operand(option, _where(option, rows, is_open))
        equal = kernels.related("=", values, kernels.as_compared(other, kind))
        found = pc.or_kleene(found, equal)
    return found


def _case(e: Case, rows: Rows) -> pa.Array:
    is_open = pa.repeat(True, rows.count)
    chosen, values = [], []
    for test, value in e.branches:
        is_true = kernels.booleans("WHEN", _where(test, rows, is_open))
        chosen.append(pc.and_(pc.fill_null(is_true, False), is_open))
        values.append(_where(value, rows, chosen[-1]))
        is_open = pc.and_not(is_open, chosen[-1])
    values.append(_where(e.otherwise, rows, is_open))
    kind = common_type([one.type for one in values])
    if pa.types.is_null(kind):
        return pa.nulls(rows.count)
    return pc.case_when(pc.make_struct(*chosen), *(coerced(one, kind) for one in values))


def _coalesce(e: Call, rows: Rows) -> pa.Array:
    is_open = pa.repeat(True, rows.count)
    values = []
    for argument in e.arguments:
        values.append(_where(argument, rows, is_open))
        is_open = pc.and_(is_open, pc.is_null(values[-1]))
    kind = common_type([one.type for one in values])
    return pc.coalesce(*(coerced(one, kind) for one in values))


def _call(e: Call, rows: Rows) -> pa.Array:
    values = [value_of(argument, rows) for argument in e.arguments]
    behind = [part.value for part in e.arguments[1:] if isinstance(part, Constant)]
    numbers = [value for value in behind if isinstance(value, int)]
    match e.function:
        case "concat":
            return kernels.concatenated(values)
        case "greatest":
            return kernels.extreme(">", values)
        case "least":
            return kernels.extreme("<", values)
        case "round":
            return kernels.rounded(values[0], *numbers)
        case "substring":
            return kernels.substring(values[0], *numbers)
    return kernels.OF_ONE[e.function](values[0])
