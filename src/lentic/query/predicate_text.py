r"""Filters as text: a small part of SQL in, Spark SQL out. Nothing is ever evaluated.

    filter   := all ('or' all)*
    all      := one ('and' one)*
    one      := 'not' one | '(' filter ')' | column test | column | literal compare column
    test     := compare literal | 'is' 'not'? 'null' | 'not'? 'in' '(' literal (',' literal)* ')'
              | 'not'? 'between' literal 'and' literal | 'not'? 'like' string
    compare  := '=' | '==' | '!=' | '<>' | '<' | '<=' | '>' | '>='
    column   := name ('.' name)*          a struct's fields follow it; alone only if it is boolean
    name     := letters, digits, '_' | anything in backticks, a backtick doubled
    literal  := '-'? number | string | 'true' | 'false' | 'null'
              | 'date' string | ('timestamp' | 'timestamp_ltz' | 'timestamp_ntz') string
    string   := one or more of '...' (a quote doubled) and r'...', joined

Keywords are case-insensitive, names are not. A backslash is just a character, but in a pattern of
`like` it must come before `%`, `_` or another one. Numbers are exact and may have an exponent;
a `D` or `BD` after them, as Spark writes types, changes nothing. A timestamp without an offset is
UTC; for a column without a zone, it must have none.

What `to_sql` writes parses back to an equal predicate, unless it is longer than `TEXT_MAX`.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import UnionType
from typing import Final, NoReturn

import pyarrow as pa

from lentic.errors import SchemaMismatch
from lentic.query.literals import (
    ALL,
    MIRRORED,
    NEGATED,
    NUMBERS,
    TIMES,
    Kind,
    Literal,
    Operator,
    Value,
    bind,
    fitted,
    format_literal,
    format_text,
    kind_of_type,
    parse_date,
    parse_timestamp,
)
from lentic.query.predicate_tokens import Token, refuse, tokens
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
)

TEXT_MAX: Final = 100_000
DEPTH_MAX: Final = 32
_DIGITS_MAX: Final = 76
_PATTERN_MAX: Final = 1_000
_NAMES_SHOWN: Final = 20

_RESERVED: Final = frozenset(
    ("and", "or", "not", "in", "is", "null", "between", "like", "true", "false")
)
_OPERATORS: Final[dict[str, Operator]] = {**{sign: sign for sign in NEGATED}, "==": "=", "<>": "!="}
_TIMESTAMPS: Final = {
    "timestamp": frozenset({Kind.MOMENT, Kind.CLOCK}),
    "timestamp_ltz": frozenset({Kind.MOMENT}),
    "timestamp_ntz": frozenset({Kind.CLOCK}),
}
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
    if len(text) > TEXT_MAX:
        refuse(text, TEXT_MAX, f"a filter of at most {TEXT_MAX} characters")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        shown = text.encode(errors="replace").decode()
        refuse(shown, error.start, "text that UTF-8 can hold")
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


def _find(fields: Sequence[pa.Field], name: str, whole: str) -> pa.Field:
    """The one field called `name`."""
    names = [field.name for field in fields]
    if names.count(name) == 1:
        return fields[names.index(name)]
    lowered = {known.lower(): known for known in reversed(names)}
    near = difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.5)
    shown = [lowered[found] for found in near] or names[:_NAMES_SHOWN]
    raise SchemaMismatch(
        f"The table has {'no' if name not in names else 'more than one'} column {whole}.",
        safe="nothing was read or written",
        next_step=f"{'did you mean' if near else 'choose among'} {', '.join(shown)}"
        + ("?" if near else ""),
    )


class _Parser:
    """Recursive descent; two tokens are looked at, none is taken back."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._text = text
        self._schema = schema
        self._tokens = list(tokens(text))
        self._next = 0

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _refuse(self, expected: str, token: Token | None = None) -> NoReturn:
        refuse(self._text, (token or self._token).at, expected)

    def _take(self) -> Token:
        token = self._token
        self._next += 1
        return token

    def _skip(self, what: str) -> bool:
        """Takes the sign or keyword `what` if it comes next."""
        is_next = self._token.kind in ("sign", "word") and self._token.text.lower() == what
        self._next += is_next
        return is_next

    def _expect(self, what: str) -> None:
        if not self._skip(what):
            self._refuse(what.upper() if what.isalpha() else repr(what))

    def parse(self) -> Predicate:
        found = self._any(0)
        if self._token.kind != "end":
            self._refuse("AND, OR or the end")
        return found

    def _any(self, depth: int) -> Predicate:
        parts = [self._all(depth)]
        while self._skip("or"):
            parts.append(self._all(depth))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _all(self, depth: int) -> Predicate:
        parts = [self._one(depth)]
        while self._skip("and"):
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _one(self, depth: int) -> Predicate:
        token = self._token
        if self._skip("not"):
            return Not(self._one(self._deeper(depth, token)))
        if self._skip("("):
            found = self._any(self._deeper(depth, token))
            if not self._skip(")"):
                self._refuse("AND, OR or ')'")
            return found
        literal = self._literal()
        if literal is not None:
            operator = self._operator() or self._refuse("a comparison with a column")
            return self._compare(self._column(), MIRRORED[operator], literal)
        return self._test(self._column(), depth)

    def _deeper(self, depth: int, token: Token) -> int:
        if depth >= DEPTH_MAX:
            self._refuse(f"parentheses and NOT nested at most {DEPTH_MAX} deep", token)
        return depth + 1

    def _test(self, column: _Column, depth: int) -> Predicate:
        token = self._token
        if operator := self._operator():
            return self._compare(column, operator, self._expect_literal())
        if self._skip("is"):
            is_not = self._skip("not")
            self._expect("null")
            return Not(IsNull(column.path)) if is_not else IsNull(column.path)
        is_not = self._skip("not")
        if self._skip("in"):
            found = self._in(column)
        elif self._skip("like"):
            found = self._like(column)
        elif self._skip("between"):
            # It is written out as NOT ( >= AND <= ), which must parse again.
            inner = self._deeper(depth, token)
            inner = self._deeper(inner, token) if is_not else inner
            low = self._compare(column, ">=", self._expect_literal())
            self._expect("and")
            found = And((low, self._compare(column, "<=", self._expect_literal())))
        elif is_not:
            self._refuse("IN, BETWEEN or LIKE")
        elif kind_of_type(column.type) is Kind.BOOLEAN:
            found = Comparison(column.path, "=", True)
        else:
            self._refuse(_A_TEST)
        return Not(found) if is_not else found

    def _compare(self, column: _Column, operator: Operator, literal: Literal) -> Comparison:
        value = bind(column.name, column.type, literal)
        return Comparison(column.path, *fitted(column.type, operator, value))

    def _in(self, column: _Column) -> Predicate:
        self._expect("(")
        found = [self._compare(column, "=", self._expect_literal())]
        while self._skip(","):
            found.append(self._compare(column, "=", self._expect_literal()))
        if not self._skip(")"):
            self._refuse("',' or ')'")
        # What the column cannot hold equals no row; if that is all of it, so says its comparison.
        values = tuple(test.value for test in found if test.operator == "=")
        return In(column.path, values) if values else found[0]

    def _like(self, column: _Column) -> Like:
        token = self._token
        pattern = self._string()
        if pattern is None:
            self._refuse("a pattern in single quotes")
        bind(column.name, column.type, Literal(pattern, frozenset({Kind.TEXT}), repr(pattern)[:60]))
        if len(pattern) > _PATTERN_MAX:
            self._refuse(f"a pattern of at most {_PATTERN_MAX} characters", token)
        if like_pieces(pattern) is None:
            self._refuse("a pattern whose backslashes come before %, _ or a backslash", token)
        return Like(column.path, pattern)

    def _operator(self) -> Operator | None:
        found = _OPERATORS.get(self._token.text) if self._token.kind == "sign" else None
        self._next += found is not None
        return found

    def _column(self) -> _Column:
        token = self._token
        path: Path = ()
        fields: Sequence[pa.Field] = list(self._schema)
        while True:
            name = self._name()
            field = _find(fields, name, ".".join((*path, name)))
            path = (*path, name)
            if not self._skip("."):
                return _Column(path, field.type)
            if not pa.types.is_struct(field.type):
                self._refuse(f"no field after {'.'.join(path)}, which is no struct", token)
            fields = [field.type.field(n) for n in range(field.type.num_fields)]

    def _name(self) -> str:
        token = self._token
        if token.kind == "quoted":
            return self._take().text[1:-1].replace("``", "`")
        if token.kind != "word" or token.text.lower() in _RESERVED:
            self._refuse("a column name")
        if self._tokens[self._next + 1].text == "(":
            self._refuse("a column name (there are no functions)")
        return self._take().text

    def _expect_literal(self) -> Literal:
        found = self._literal()
        if found is None:
            is_name = self._token.kind in ("word", "quoted")
            self._refuse(_A_LITERAL + (" (not another column)" if is_name else ""))
        return found

    def _literal(self) -> Literal | None:
        """The literal that comes next; None, with nothing taken, if none does."""
        start = self._token
        value, kinds = self._value()
        if self._token is start:
            return None
        return Literal(value, kinds, self._text[start.at : self._token.at].strip()[:60])

    def _value(self) -> tuple[Value, frozenset[Kind]]:
        token = self._token
        if self._skip("null"):
            return None, ALL
        if self._skip("true") or self._skip("false"):
            return token.text.lower() == "true", frozenset({Kind.BOOLEAN})
        if self._skip("-"):
            number = self._number()
            return -number if isinstance(number, int) else number.copy_negate(), NUMBERS
        if token.kind == "number":
            return self._number(), NUMBERS
        if (text := self._string()) is not None:
            return text, TIMES | {Kind.TEXT}
        return self._typed()

    def _typed(self) -> tuple[Value, frozenset[Kind]]:
        token = self._token
        word = token.text.lower() if token.kind == "word" else ""
        if word not in ("date", *_TIMESTAMPS):
            return None, ALL
        after = self._tokens[self._next + 1]
        if after.kind not in ("text", "raw"):  # then it is a column of that name
            return None, ALL
        self._take()
        text = self._string() or ""
        if word == "date":
            return parse_date(text) or self._refuse("a day: '2026-01-31'", after), TIMES
        moment = parse_timestamp(text)
        if moment is None:
            self._refuse("a time: '2026-01-31 12:00:00' or '2026-01-31 12:00:00+02:00'", after)
        return moment, _TIMESTAMPS[word]

    def _string(self) -> str | None:
        pieces = []
        while self._token.kind in ("text", "raw"):
            token = self._take()
            is_raw = token.kind == "raw"
            pieces.append(token.text[2:-1] if is_raw else token.text[1:-1].replace("''", "'"))
        return "".join(pieces) if pieces else None

    def _number(self) -> int | Decimal:
        token = self._token
        if token.kind != "number":
            self._refuse("a number")
        if sum(map(str.isdigit, token.text.lower().partition("e")[0])) > _DIGITS_MAX:
            self._refuse(f"a number of at most {_DIGITS_MAX} digits")
        self._take()
        return int(token.text) if token.text.isdigit() else Decimal(token.text)
