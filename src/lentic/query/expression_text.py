"""Value expressions as text: a part of SQL. `expression` says what they mean.

    expression := all ('or' all)*
    all        := one ('and' one)*
    one        := 'not' one | sum test?
    test       := compare sum | 'is' 'not'? 'null'
                | 'not'? 'in' '(' expression (',' expression)* ')'
                | 'not'? 'between' sum 'and' sum | 'not'? 'like' string
    compare    := '=' | '==' | '!=' | '<>' | '<' | '<=' | '>' | '>=' | '<=>'
    sum        := product (('+' | '-' | '||') product)*
    product    := unary (('*' | '/' | '%') unary)*
    unary      := '-' unary | literal | '(' expression ')' | column | call
                | 'case' ('when' expression 'then' expression)+ ('else' expression)? 'end'
                | 'cast' '(' expression 'as' type ')'
    call       := function '(' expression (',' expression)* ')'
    column     := (('source' | 'target') '.')? name ('.' name)*      a struct's fields follow it

Names, literals and strings are those of `predicate_tokens`, but numbers have Spark's types: `1` is
an int or, if it is large, a bigint or a decimal; `1.5` and `1BD` are decimals, `1e0` and `1D`
doubles. A timestamp without an offset is UTC; `timestamp_ntz` is one without a zone. A first name
`source` or `target`, quoted or not, that a dot follows is never a column.
"""

from __future__ import annotations

import contextlib
import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final, get_args

import pyarrow as pa

from lentic.errors import ConfigError
from lentic.format.ddl import parse_type
from lentic.query.expression_sql import TYPE_NAMES
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
    Function,
    IsIn,
    IsLike,
    IsNull,
    Not,
    Relation,
    Sign,
    walk,
)
from lentic.query.literals import Kind, Literal
from lentic.query.predicate_text import near_names
from lentic.query.predicate_tokens import EXPRESSION_SIGNS, Cursor, Token

HEIGHT_MAX: Final = 100
QUALIFIERS: Final = ("source", "target")
DECIMAL_DIGITS_MAX: Final = 38
_ROUND_DIGITS_MAX: Final = 18
_INT_MAX: Final = 2**31 - 1

_RELATIONS: Final[dict[str, Relation]] = {
    **{sign: sign for sign in get_args(Relation)},
    "==": "=",
    "<>": "!=",
}
_SUMS: Final[dict[str, Sign]] = {"+": "+", "-": "-"}
_PRODUCTS: Final[dict[str, Sign]] = {"*": "*", "/": "/", "%": "%"}

_MANY: Final = 1_000
_ARGUMENTS: Final = {
    "abs": (1, 1),
    "coalesce": (1, _MANY),
    "concat": (1, _MANY),
    "greatest": (2, _MANY),
    "if": (3, 3),
    "least": (2, _MANY),
    "length": (1, 1),
    "lower": (1, 1),
    "nullif": (2, 2),
    "round": (1, 2),
    "substring": (2, 3),
    "trim": (1, 1),
    "upper": (1, 1),
}
_CASINGS: Final = ("lower", "upper")  # only the outermost counts, as Spark's optimizer has it
_FUNCTIONS: Final[dict[str, Function]] = {name: name for name in get_args(Function)}
_A_TYPE: Final = (
    "a type: boolean, tinyint, smallint, int, bigint, float, double, decimal(p, s), string, date,"
    " timestamp or timestamp_ntz"
)
_A_VALUE: Final = "a value: a column, a literal, a function, CASE, '-' or '('"


def parse_expression(text: str) -> Expression:
    """The expression that `text` describes; `ConfigError` with position and expectation otherwise.

    Columns and types are not known here: `expression.ensure_resolves` looks at those.
    """
    return _Parser(text).parse()


def _negated(e: Expression) -> Expression:
    value = e.value if isinstance(e, Constant) else None
    if isinstance(value, Decimal):
        return Constant(value.copy_negate())
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Constant(-value)
    return Call("negate", (e,))


class _Parser(Cursor):
    """Recursive descent over the tokens of an expression."""

    noun = "expression"
    signs = EXPRESSION_SIGNS

    def parse(self) -> Expression:
        found = self._any(0)
        if self.token.kind != "end":
            self.refuse("an operator or the end")
        if max(depth for _, depth in walk(found)) >= HEIGHT_MAX:
            self._refuse_at(0, f"an expression of at most {HEIGHT_MAX} operators on one another")
        return found

    def _any(self, depth: int) -> Expression:
        parts = [self._all(depth)]
        while self.skip("or"):
            parts.append(self._all(depth))
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def _all(self, depth: int) -> Expression:
        parts = [self._one(depth)]
        while self.skip("and"):
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _one(self, depth: int) -> Expression:
        token = self.token
        if self.skip("not"):
            return Not(self._one(self.deeper(depth, token)))
        return self._test(self._sum(depth), depth)

    def _test(self, operand: Expression, depth: int) -> Expression:
        relation = _RELATIONS.get(self.token.text) if self.token.kind == "sign" else None
        if relation is not None:
            self.take()
            return Compare(relation, operand, self._sum(depth))
        if self.skip("is"):
            is_not = self.skip("not")
            self.expect("null")
            return Not(IsNull(operand)) if is_not else IsNull(operand)
        is_not = self.skip("not")
        found: Expression
        if self.skip("in"):
            self.expect("(")
            found = IsIn(operand, self._list(self.deeper(depth, self.token)))
        elif self.skip("like"):
            found = IsLike(operand, self.pattern())
        elif self.skip("between"):
            low = Compare(">=", operand, self._sum(depth))
            self.expect("and")
            found = AllOf((low, Compare("<=", operand, self._sum(depth))))
        elif is_not:
            self.refuse("IN, BETWEEN or LIKE")
        else:
            return operand
        return Not(found) if is_not else found

    def _list(self, depth: int) -> tuple[Expression, ...]:
        """Expressions up to the closing parenthesis, which is taken too."""
        found = [self._any(depth)]
        while self.skip(","):
            found.append(self._any(depth))
        if not self.skip(")"):
            self.refuse("an operator, ',' or ')'")
        return tuple(found)

    def _sum(self, depth: int) -> Expression:
        found = self._product(depth)
        while self.token.kind == "sign" and self.token.text in ("+", "-", "||"):
            sign = self.take().text
            right = self._product(depth)
            if sign == "||":
                joined = [found, right]
                while self.skip("||"):
                    joined.append(self._product(depth))
                found = Call("concat", tuple(joined))
            else:
                found = Arithmetic(_SUMS[sign], found, right)
        return found

    def _product(self, depth: int) -> Expression:
        found = self._unary(depth)
        while self.token.kind == "sign" and self.token.text in _PRODUCTS:
            sign = _PRODUCTS[self.take().text]
            found = Arithmetic(sign, found, self._unary(depth))
        return found

    def _unary(self, depth: int) -> Expression:
        token = self.token
        if token.text == "-" and self.after.kind != "number" and self.skip("-"):
            return _negated(self._unary(self.deeper(depth, token)))
        literal = self.literal()
        if literal is not None:
            return self._constant(literal, token)
        if self.skip("("):
            found = self._any(self.deeper(depth, token))
            if not self.skip(")"):
                self.refuse("an operator or ')'")
            return found
        if self.keyword == "case" and self.after.text.lower() == "when":
            self.take()
            return self._case(self.deeper(depth, token))
        if self.keyword and self.after.text == "(":
            return self._call(self.deeper(depth, token))
        return self._column()

    def _constant(self, literal: Literal, token: Token) -> Constant:
        value = literal.value
        if not isinstance(value, datetime):
            return Constant(value)
        if Kind.MOMENT in literal.kinds:
            return Constant(value if value.tzinfo else value.replace(tzinfo=UTC))
        if value.tzinfo is not None:
            self.refuse("a time without an offset", token)
        return Constant(value)

    def number_of(self, token: Token) -> int | float | Decimal:
        text = token.text.lower()
        if token.suffix == "d" or (not token.suffix and "e" in text):
            if math.isinf(number := float(text)):
                self.refuse("a number of the range of a double", token)
            return number
        exact = Decimal(f"{Decimal(text):f}")  # without an exponent, as Spark counts its digits
        _, digits, exponent = exact.as_tuple()
        assert isinstance(exponent, int)
        if max(len(digits), -exponent) > DECIMAL_DIGITS_MAX:
            self.refuse(f"at most {DECIMAL_DIGITS_MAX} digits, or a double such as 1e50", token)
        return int(text) if text.isdigit() and not token.suffix else exact

    def _column(self) -> Column:
        if self.token.kind not in ("word", "quoted"):
            self.refuse(_A_VALUE)
        path = [self.name()]
        while self.skip("."):
            path.append(self.name())
        qualifier = path[0].lower()
        if len(path) > 1 and qualifier in QUALIFIERS:
            return Column(qualifier, tuple(path[1:]))
        return Column(None, tuple(path))

    def _case(self, depth: int) -> Case:
        branches = []
        while self.skip("when"):
            test = self._any(depth)
            self.expect("then")
            branches.append((test, self._any(depth)))
        otherwise = self._any(depth) if self.skip("else") else Constant(None)
        if not self.skip("end"):
            self.refuse("an operator, WHEN, ELSE or END")
        return Case(tuple(branches), otherwise)

    def _call(self, depth: int) -> Expression:
        token, name = self.token, self.keyword
        if name == "cast":
            return self._cast(depth)
        if name not in _ARGUMENTS:
            near = near_names(name, [*_ARGUMENTS, "cast"])
            self.refuse(f"a function that is known ({near})", token)
        self.take()
        self.expect("(")
        arguments = self._list(depth)
        least, most = _ARGUMENTS[name]
        if not least <= len(arguments) <= most:
            count = str(least) if least == most else f"{least} or more"
            count = f"{least} or {most}" if most == least + 1 else count
            self.refuse(f"{count} argument{'' if count == '1' else 's'} of {name}", token)
        if name == "if":
            return Case(((arguments[0], arguments[1]),), arguments[2])
        if name == "nullif":
            return Case(((Compare("=", *arguments), Constant(None)),), arguments[0])
        if name == "round":
            self._ensure_whole(arguments[1:], 0, _ROUND_DIGITS_MAX, token)
            arguments = (*arguments, Constant(0))[:2]
        elif name == "substring":
            self._ensure_whole(arguments[1:], -_INT_MAX, _INT_MAX, token)
        elif name in _CASINGS:
            first = arguments[0]
            while isinstance(first, Call) and first.function in _CASINGS:
                first = first.arguments[0]
            arguments = (first,)
        return Call(_FUNCTIONS[name], arguments)

    def _ensure_whole(
        self, arguments: tuple[Expression, ...], low: int, high: int, token: Token
    ) -> None:
        for argument in arguments:
            value = argument.value if isinstance(argument, Constant) else None
            if type(value) is not int or not low <= value <= high:
                what = f"whole numbers from {low} to {high}, written out"
                self.refuse(f"{what}, behind the first argument of {token.text}", token)

    def _cast(self, depth: int) -> Cast:
        self.take()
        self.expect("(")
        operand = self._any(depth)
        self.expect("as")
        token = self.token
        while self.token.kind in ("word", "number") or self.token.text in (",", "("):
            self.take()
        text = self._text[token.at : self.token.at].strip()
        text += ")" if "(" in text and self.skip(")") else ""
        kind: pa.DataType = None
        with contextlib.suppress(ConfigError):
            kind = parse_type(text)
        is_sized = kind == pa.string() and text.lower() != "string"  # nothing is cut or filled
        if kind is None or is_sized or not (kind in TYPE_NAMES or pa.types.is_decimal(kind)):
            self.refuse(_A_TYPE, token)
        if not self.skip(")"):
            self.refuse("')'")
        return Cast(operand, kind)
