"""The parts of a value expression. Frozen values that survive pickling; `expression` says what
they mean.

What SQL writes in several ways stands here in one: BETWEEN is two comparisons, `if` and `nullif`
are a `Case`, `||` is a call of `concat`, and a minus before a number belongs to the number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias

import pyarrow as pa

from lentic.query.literals import Value
from lentic.query.predicate_values import Path

Sign: TypeAlias = OneOf["+", "-", "*", "/", "%"]
Relation: TypeAlias = OneOf["=", "!=", "<", "<=", ">", ">=", "<=>"]
Function: TypeAlias = OneOf[
    "abs",
    "coalesce",
    "concat",
    "greatest",
    "least",
    "length",
    "lower",
    "negate",
    "round",
    "substring",
    "trim",
    "upper",
]


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal. Numbers have Spark's types: `1` is an int, `1.5` a decimal(2,1), `1e0` a double.

    A timestamp with a zone is in UTC.
    """

    value: Value


@dataclass(frozen=True, slots=True)
class Column:
    """A column of one side of a merge, or of the only side there is; or a field of its structs."""

    qualifier: str | None
    path: Path

    def __post_init__(self) -> None:
        assert self.path, "a column has a name"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left sign right`, of numbers."""

    sign: Sign
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Compare:
    """`left relation right`; null if a side is, but never for `<=>`."""

    relation: Relation
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class AllOf:
    """All of two or more parts, joined by AND."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Any of two or more parts, joined by OR."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a part; null where the part is null."""

    part: Expression


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether the operand is null; never null itself."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class IsIn:
    """Whether the operand equals one of the options; null if it does not and one of them is."""

    operand: Expression
    options: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class IsLike:
    """Whether the operand is like the pattern, as `predicate_values.Like` has it."""

    operand: Expression
    pattern: str


@dataclass(frozen=True, slots=True)
class Case:
    """The value behind the first condition that is true, else `otherwise`.

    Only the value that is chosen is computed for a row, and no condition behind its own.
    """

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression


@dataclass(frozen=True, slots=True)
class Cast:
    """The operand as a value of a type, as CAST does in Spark's ANSI mode."""

    operand: Expression
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Call:
    """A function's value. Positions, lengths and digits are constants."""

    function: Function
    arguments: tuple[Expression, ...]


Expression: TypeAlias = (
    Constant
    | Column
    | Arithmetic
    | Compare
    | AllOf
    | AnyOf
    | Not
    | IsNull
    | IsIn
    | IsLike
    | Case
    | Cast
    | Call
)


def parts_of(e: Expression) -> tuple[Expression, ...]:
    """The expressions that this one is made of, from left to right."""
    match e:
        case Constant() | Column():
            return ()
        case Arithmetic() | Compare():
            return e.left, e.right
        case AllOf() | AnyOf():
            return e.parts
        case Not():
            return (e.part,)
        case IsNull() | IsLike() | Cast():
            return (e.operand,)
        case IsIn():
            return e.operand, *e.options
        case Case():
            return (*(part for branch in e.branches for part in branch), e.otherwise)
        case Call():
            return e.arguments


def walk(e: Expression) -> Iterator[tuple[Expression, int]]:
    """Each expression within `e`, itself included, with the number of those around it."""
    waiting = [(e, 0)]
    while waiting:
        part, depth = waiting.pop()
        yield part, depth
        waiting += [(inner, depth + 1) for inner in parts_of(part)]


def columns_of(e: Expression) -> set[tuple[str | None, str]]:
    """The columns that the expression reads: qualifier and top-level name of each."""
    return {(part.qualifier, part.path[0]) for part, _ in walk(e) if isinstance(part, Column)}
