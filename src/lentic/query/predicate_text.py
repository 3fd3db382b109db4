r"""Filters as text: a small part of SQL in, Spark SQL out. Nothing is ever evaluated.

    filter   := all ('or' all)*
    all      := one ('and' one)*
    one      := 'not' one | '(' filter ')' | column test | column | literal compare column
    test     := compare literal | 'is' 'not'? 'null' | 'not'? 'in' '(' literal (',' literal)* ')'
              | 'not'? 'between' literal 'and' literal | 'not'? 'like' string
    compare  := '=' | '==' | '!=' | '<>' | '<' | '<=' | '>' | '>='
    column   := name ('.' name)*          a struct's fields follow it; alone only if it is boolean

Names, literals and strings are those of `predicate_tokens`. Keywords are case-insensitive, names
are not. A backslash is just a character, but in a pattern of `like` it must come before `%`, `_` or
another one. Numbers are exact and may have an exponent; a `D` or `BD` after them, as Spark writes
types, changes nothing. A timestamp without an offset is UTC; for a column without a zone, it must
have none.

What `to_sql` writes parses back to an equal predicate, unless it is longer than `TEXT_MAX`.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Final

import pyarrow as pa

from lentic.errors import SchemaMismatch
from lentic.query.literals import (
    MIRRORED,
    NEGATED,
    Kind,
    Literal,
    Operator,
    bind,
    fitted,
    format_literal,
    format_text,
    kind_of_type,
)
from lentic.query.predicate_tokens import DEPTH_MAX as DEPTH_MAX
from lentic.query.predicate_tokens import RESERVED, Cursor
from lentic.query.predicate_tokens import TEXT_MAX as TEXT_MAX
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
)

_NAMES_SHOWN: Final = 20

_OPERATORS: Final[dict[str, Operator]] = {**{sign: sign for sign in NEGATED}, "==": "=", "<>": "!="}
_A_TEST: Final = "an operator: = != < <= > >=, IN, BETWEEN, LIKE or IS NULL"
_A_LITERAL: Final = (
    "a literal: a number, a string in single quotes, true, false, null, date '...' or"
    " timestamp '...'"
)


@dataclass(frozen=True, slots=True)
class _Column:
    path: Path
    type: pa.DataType

    @property
    def name(self) -> str:
        return ".".join(self.path)


def parse_predicate(text: str, schema: pa.Schema) -> Predicate:
    """The filter that `text` describes, its literals bound to the types of the columns.

    `ConfigError` with position and expectation if it does not parse; `SchemaMismatch` for a column
    that is not there or a literal that its type cannot be compared with.
    """
    return _Parser(text, schema).parse()


def to_sql(p: Predicate) -> str:
    """The predicate as Spark SQL: names in backticks, literals with their types.

    Spark 4 understands it the same whatever the zone of its session, unless it is set to
    `spark.sql.legacy.consecutiveStringLiterals.enabled`, which changes what a doubled quote means.
    """
    match p:
        case And():
            return " AND ".join(_part_sql(part, And | Or) for part in p.parts)
        case Or():
            return " OR ".join(_part_sql(part, Or) for part in p.parts)
        case Not(part=In() | Like() | IsNull() as test):
            return _test_sql(test, "NOT ")
        case Not():
            return f"NOT {_part_sql(p.part, And | Or)}"
        case Comparison():
            return f"{_column_sql(p.column)} {p.operator} {format_literal(p.value)}"
    return _test_sql(p, "")


def _part_sql(p: Predicate, weaker: type[Predicate] | UnionType) -> str:
    return f"({to_sql(p)})" if isinstance(p, weaker) else to_sql(p)


def _test_sql(p: In | Like | IsNull, negation: str) -> str:
    column = _column_sql(p.column)
    match p:
        case In():
            return f"{column} {negation}IN ({', '.join(map(format_literal, p.values))})"
        case Like():
            return f"{column} {negation}LIKE {format_text(p.pattern)}"
        case IsNull():
            return f"{column} IS {negation}NULL"


def _column_sql(path: Path) -> str:
    return ".".join("`" + name.replace("`", "``") + "`" for name in path)


def find_field(fields: Sequence[pa.Field], name: str, whole: str, noun: str = "table") -> pa.Field:
    """The one field called `name`; `SchemaMismatch`, with those that are near, otherwise."""
    names = [field.name for field in fields]
    if names.count(name) == 1:
        return fields[names.index(name)]
    raise SchemaMismatch(
        f"The {noun} has {'no' if name not in names else 'more than one'} column {whole}.",
        safe="nothing was read or written",
        next_step=near_names(name, names),
    )


def near_names(name: str, names: Sequence[str]) -> str:
    """What to write instead of `name`: the names like it, or else the first of all."""
    lowered = {known.lower(): known for known in reversed(names)}
    near = difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.5)
    if near:
        return f"did you mean {', '.join(lowered[found] for found in near)}?"
    return f"choose among {', '.join(names[:_NAMES_SHOWN])}"


class _Parser(Cursor):
    """Recursive descent over the tokens of a filter."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        super().__init__(text)
        self._schema = schema

    def parse(self) -> Predicate:
        found = self._any(0)
        if self.token.kind != "end":
            self.refuse("AND, OR or the end")
        return found

    def _any(self, depth: int) -> Predicate:
        parts = [self._all(depth)]
        while self.skip("or"):
            parts.append(self._all(depth))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _all(self, depth: int) -> Predicate:
        parts = [self._one(depth)]
        while self.skip("and"):
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _one(self, depth: int) -> Predicate:
        token = self.token
        if self.skip("not"):
            return Not(self._one(self.deeper(depth, token)))
        if self.skip("("):
            found = self._any(self.deeper(depth, token))
            if not self.skip(")"):
                self.refuse("AND, OR or ')'")
            return found
        literal = self.literal()
        if literal is not None:
            operator = self._operator() or self.refuse("a comparison with a column")
            return self._compare(self._column(), MIRRORED[operator], literal)
        return self._test(self._column(), depth)

    def _test(self, column: _Column, depth: int) -> Predicate:
        token = self.token
        if operator := self._operator():
            return self._compare(column, operator, self._expect_literal())
        if self.skip("is"):
            is_not = self.skip("not")
            self.expect("null")
            return Not(IsNull(column.path)) if is_not else IsNull(column.path)
        is_not = self.skip("not")
        if self.skip("in"):
            found = self._in(column)
        elif self.skip("like"):
            found = self._like(column)
        elif self.skip("between"):
            # It is written out as NOT ( >= AND <= ), which must parse again.
            inner = self.deeper(depth, token)
            inner = self.deeper(inner, token) if is_not else inner
            low = self._compare(column, ">=", self._expect_literal())
            self.expect("and")
            found = And((low, self._compare(column, "<=", self._expect_literal())))
        elif is_not:
            self.refuse("IN, BETWEEN or LIKE")
        elif kind_of_type(column.type) is Kind.BOOLEAN:
            found = Comparison(column.path, "=", True)
        else:
            self.refuse(_A_TEST)
        return Not(found) if is_not else found

    def _compare(self, column: _Column, operator: Operator, literal: Literal) -> Comparison:
        value = bind(column.name, column.type, literal)
        return Comparison(column.path, *fitted(column.type, operator, value))

    def _in(self, column: _Column) -> Predicate:
        self.expect("(")
        found = [self._compare(column, "=", self._expect_literal())]
        while self.skip(","):
            found.append(self._compare(column, "=", self._expect_literal()))
        if not self.skip(")"):
            self.refuse("',' or ')'")
        # What the column cannot hold equals no row; if that is all of it, so says its comparison.
        values = tuple(test.value for test in found if test.operator == "=")
        return In(column.path, values) if values else found[0]

    def _like(self, column: _Column) -> Like:
        pattern = self.pattern()
        bind(column.name, column.type, Literal(pattern, frozenset({Kind.TEXT}), repr(pattern)[:60]))
        return Like(column.path, pattern)

    def _operator(self) -> Operator | None:
        found = _OPERATORS.get(self.token.text) if self.token.kind == "sign" else None
        if found is not None:
            self.take()
        return found

    def _column(self) -> _Column:
        token = self.token
        path: Path = ()
        fields: Sequence[pa.Field] = list(self._schema)
        while True:
            name = self._column_name()
            field = find_field(fields, name, ".".join((*path, name)))
            path = (*path, name)
            if not self.skip("."):
                return _Column(path, field.type)
            if not pa.types.is_struct(field.type):
                self.refuse(f"no field after {'.'.join(path)}, which is no struct", token)
            fields = [field.type.field(n) for n in range(field.type.num_fields)]

    def _column_name(self) -> str:
        if self.keyword and self.keyword not in RESERVED and self.after.text == "(":
            self.refuse("a column name (there are no functions)")
        return self.name()

    def _expect_literal(self) -> Literal:
        found = self.literal()
        if found is None:
            is_name = self.token.kind in ("word", "quoted")
            self.refuse(_A_LITERAL + (" (not another column)" if is_name else ""))
        return found
