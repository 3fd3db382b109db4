"""Schemas as text, in Spark's DDL: `id bigint not null, name string comment 'x', a array<int>`.

    columns  := column (',' column)*
    column   := name ':'? type ('not' 'null')? ('comment' string)?
    type     := word | word '(' number (',' number)* ')'
              | 'array' '<' type '>' | 'map' '<' type ',' type '>' | 'struct' '<' columns '>'
    name     := letters, digits, '_' | anything in backticks, a backtick doubled

Words are case-insensitive, names keep their case. Comments are kept as field metadata.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NoReturn

import pyarrow as pa

from lentic.errors import ConfigError

_DEPTH_MAX: Final = 32
_DECIMAL_DIGITS_MAX: Final = 38

_TYPES: Final[dict[str, pa.DataType]] = {
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ltz": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
}
_DECIMALS: Final = ("decimal", "dec", "numeric")
_SIZED_TEXT: Final = ("varchar", "char", "character")
_NESTED: Final = ("array", "map", "struct")
_KNOWN: Final = ", ".join(sorted({*_TYPES, *_DECIMALS, *_SIZED_TEXT, *_NESTED}))

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+)
      | (?P<word>[A-Za-z0-9_]+)
      | (?P<quoted>`(?:[^`]|``)*`)
      | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<sign>[,:<>()])""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


def parse_ddl(text: str) -> pa.Schema:
    """The schema that `text` describes; `ConfigError` with position and expectation otherwise.

    `timestamp` is a moment (UTC), `timestamp_ntz` a wall clock reading, both in microseconds.
    """
    parser = _Parser(text)
    fields = parser.columns(0)
    parser.ensure_end()
    return pa.schema(fields)


def parse_type(text: str) -> pa.DataType:
    """The type that `text` names, as `parse_ddl` takes it behind a column's name."""
    parser = _Parser(text)
    found = parser.type(0)
    parser.ensure_end()
    return found


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            _refuse(
                text,
                at,
                "a name, a type or one of , : < > ( ) — names with other characters"
                " go in backticks",
            )
        if match.lastgroup != "space":
            yield _Token(match.lastgroup or "", match.group(), at)
        at = match.end()
    yield _Token("end", "", len(text))


def _refuse(text: str, at: int, expected: str) -> NoReturn:
    found = repr(text[at : at + 20]) if at < len(text) else "the end"
    raise ConfigError(
        f"The schema text does not parse at position {at}: expected {expected}, found {found}.",
        safe="Nothing was written.",
        next_step=f"Correct the text: {text[:at][-60:]}<HERE>{text[at:][:60]}",
    )


class _Parser:
    """Recursive descent; one token is looked at, none is taken back."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._next = 0

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _refuse(self, expected: str, token: _Token | None = None) -> NoReturn:
        _refuse(self._text, (token or self._token).at, expected)

    def _take(self) -> _Token:
        token = self._token
        self._next += 1
        return token

    def _skip(self, what: str) -> bool:
        """Takes the sign or word `what` if it comes next."""
        is_next = self._token.kind in ("sign", "word") and self._token.text.lower() == what
        self._next += is_next
        return is_next

    def _expect(self, what: str) -> None:
        if not self._skip(what):
            self._refuse(repr(what))

    def ensure_end(self) -> None:
        if self._token.kind != "end":
            self._refuse("',' or the end")

    def columns(self, depth: int) -> list[pa.Field]:
        fields: list[pa.Field] = []
        seen: set[str] = set()
        while True:
            token = self._token
            field = self._column(depth)
            # Engines that ignore case could not tell two such columns apart.
            if field.name.lower() in seen:
                self._refuse(f"another name than {field.name}, which is taken", token)
            seen.add(field.name.lower())
            fields.append(field)
            if not self._skip(","):
                return fields

    def _column(self, depth: int) -> pa.Field:
        name = self._name()
        self._skip(":")
        kind = self.type(depth)
        nullable = True
        if self._skip("not"):
            self._expect("null")
            nullable = False
        metadata = {"comment": self._comment()} if self._skip("comment") else None
        return pa.field(name, kind, nullable=nullable, metadata=metadata)

    def _name(self) -> str:
        token = self._token
        if token.kind == "word":
            return self._take().text
        if token.kind == "quoted" and len(token.text) > 2:
            return self._take().text[1:-1].replace("``", "`")
        self._refuse("a column name")

    def _comment(self) -> str:
        if self._token.kind != "text":
            self._refuse("the comment in quotes")
        return re.sub(r"\\(.)", r"\1", self._take().text[1:-1], flags=re.DOTALL)

    def type(self, depth: int) -> pa.DataType:
        if depth > _DEPTH_MAX:
            self._refuse(f"types nested at most {_DEPTH_MAX} deep")
        token = self._token
        word = token.text.lower()
        if token.kind != "word":
            self._refuse("a type")
        self._take()
        if word in _NESTED:
            return self._nested(word, depth + 1)
        if word in _DECIMALS:
            return self._decimal(token)
        if word in _SIZED_TEXT:
            if len(self._numbers()) != 1:
                self._refuse(f"{word}(length)", token)
            return pa.string()
        if word not in _TYPES:
            self._refuse(f"a type, one of {_KNOWN}", token)
        return _TYPES[word]

    def _nested(self, word: str, depth: int) -> pa.DataType:
        self._expect("<")
        kind: pa.DataType
        if word == "array":
            kind = pa.list_(pa.field("element", self.type(depth)))
        elif word == "map":
            key = self.type(depth)
            self._expect(",")
            kind = pa.map_(key, self.type(depth))
        else:
            kind = pa.struct(self.columns(depth))
        self._expect(">")
        return kind

    def _decimal(self, token: _Token) -> pa.DataType:
        numbers = self._numbers() or [10]
        precision, scale = (*numbers, 0)[:2]
        if len(numbers) > 2 or not 1 <= precision <= _DECIMAL_DIGITS_MAX or scale > precision:
            self._refuse(
                f"decimal(precision, scale) with 1 <= precision <= {_DECIMAL_DIGITS_MAX}"
                " and scale <= precision",
                token,
            )
        return pa.decimal128(precision, scale)

    def _numbers(self) -> list[int]:
        """The numbers in parentheses, if there are any."""
        if not self._skip("("):
            return []
        numbers = []
        while True:
            token = self._token
            # Nothing of this kind has more than ten digits; int() of very long ones is slow.
            if token.kind != "word" or not token.text.isdigit() or len(token.text) > 10:
                self._refuse("a number")
            numbers.append(int(self._take().text))
            if not self._skip(","):
                self._expect(")")
                return numbers
