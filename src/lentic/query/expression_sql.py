"""Value expressions as Spark SQL, and as text that parses again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import pyarrow as pa

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
)
from lentic.query.literals import format_literal, format_text

Resolve: TypeAlias = Callable[[str | None, str], str]
"""From a qualifier, or None, and a name to the name of a column of the rows."""

TYPE_NAMES: Final = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.date32(): "DATE",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP_LTZ",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
}


def format_expression(expression: Expression) -> str:
    """The expression as text, which parses back to the same if it is not nested too deep."""
    return _sql(
        expression,
        lambda column: (column.qualifier + "." if column.qualifier else "") + _quoted(*column.path),
    )


def to_sql(expression: Expression, resolve: Resolve) -> str:
    """The expression for Spark 4, in its ANSI mode: names as `resolve` has them, in backticks.

    What `expression.ensure_resolves` accepts means to Spark what `expression.evaluate` computes,
    whatever the zone of the session.
    """
    return _sql(
        expression,
        lambda column: _quoted(resolve(column.qualifier, column.path[0]), *column.path[1:]),
    )


def format_type(kind: pa.DataType) -> str:
    """The name of the type in Spark SQL; other types than those of `Cast` as Arrow names them."""
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return TYPE_NAMES.get(kind) or str(kind)


def _quoted(*path: str) -> str:
    return ".".join("`" + name.replace("`", "``") + "`" for name in path)


def _sql(e: Expression, name_of: Callable[[Column], str]) -> str:
    """Operators stand in parentheses, so that no order among them is relied on."""

    def sql(part: Expression) -> str:
        return _sql(part, name_of)

    match e:
        case Constant():
            return format_literal(e.value)
        case Column():
            return name_of(e)
        case Arithmetic():
            return f"({sql(e.left)} {e.sign} {sql(e.right)})"
        case Compare():
            return f"({sql(e.left)} {e.relation} {sql(e.right)})"
        case AllOf():
            return f"({' AND '.join(map(sql, e.parts))})"
        case AnyOf():
            return f"({' OR '.join(map(sql, e.parts))})"
        case Not():
            return f"(NOT {sql(e.part)})"
        case IsNull():
            return f"({sql(e.operand)} IS NULL)"
        case IsIn():
            return f"({sql(e.operand)} IN ({', '.join(map(sql, e.options))}))"
        case IsLike():
            return f"({sql(e.operand)} LIKE {format_text(e.pattern)})"
        case Case():
            branches = (f"WHEN {sql(test)} THEN {sql(value)}" for test, value in e.branches)
            return f"CASE {' '.join(branches)} ELSE {sql(e.otherwise)} END"
        case Cast():
            return f"CAST({sql(e.operand)} AS {format_type(e.type)})"
        case Call(function="negate"):
            return f"(- {sql(e.arguments[0])})"
        case Call():
            return f"{e.function}({', '.join(map(sql, e.arguments))})"
