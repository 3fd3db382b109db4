"""What the texts of filters and expressions share: words, signs, names and literals.

    name     := letters, digits, '_' | anything in backticks, a backtick doubled
    literal  := '-'? number | string | 'true' | 'false' | 'null'
              | 'date' string | ('timestamp' | 'timestamp_ltz' | 'timestamp_ntz') string
    string   := one or more of '...' (a quote doubled) and r'...', joined

Errors point into the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar, Final, NoReturn

from lentic.errors import ConfigError
from lentic.query.literals import (
    ALL,
    NUMBERS,
    TIMES,
    Kind,
    Literal,
    Value,
    parse_date,
    parse_timestamp,
)
from lentic.query.predicate_values import like_pieces

TEXT_MAX: Final = 100_000
DEPTH_MAX: Final = 32
_DIGITS_MAX: Final = 76
_PATTERN_MAX: Final = 1_000

RESERVED: Final = frozenset(
    ("and", "or", "not", "in", "is", "null", "between", "like", "true", "false")
)
FILTER_SIGNS: Final = r"<=|>=|<>|!=|==|[=<>(),.-]"
# Two dashes are a sign of their own, which nothing takes: elsewhere they begin a comment.
EXPRESSION_SIGNS: Final = r"--|\|\||<=>|<=|>=|<>|!=|==|[=<>(),.+*/%-]"

_TOKEN: Final = r"""(?P<space>\s+)
      | (?P<raw>[rR]'[^']*')
      | (?P<text>'(?:[^']|'')*')
      | (?P<quoted>`(?:[^`]|``)+`)
      | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)
        (?P<suffix>[bB]?[dD])?(?![A-Za-z0-9_])
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<sign>SIGNS)"""
_UNCLOSED: Final = "a quote that is closed and, if a name is in it, not empty"
_A_TOKEN: Final = (
    "a column, a literal, an operator or a parenthesis (strings go in single quotes, names with"
    " other characters in backticks)"
)
_TIMESTAMPS: Final = {
    "timestamp": frozenset({Kind.MOMENT, Kind.CLOCK}),
    "timestamp_ltz": frozenset({Kind.MOMENT}),
    "timestamp_ntz": frozenset({Kind.CLOCK}),
}


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text: `kind` is the name of its group in the grammar of tokens."""

    kind: str
    text: str
    at: int
    suffix: str = ""


class Cursor:
    """A place in a text that is read from left to right.

    Two tokens are looked at, none is taken back. A grammar derives from it; `noun` is what its
    errors call the text.
    """

    noun: ClassVar[str] = "filter"
    signs: ClassVar[str] = FILTER_SIGNS

    def __init__(self, text: str) -> None:
        self._text = text
        self._next = 0
        if len(text) > TEXT_MAX:
            self._refuse_at(TEXT_MAX, f"a text of at most {TEXT_MAX} characters")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            self._text = text.encode(errors="replace").decode()
            self._refuse_at(error.start, "text that UTF-8 can hold")
        self._tokens = list(self._read())

    def _read(self) -> Iterator[Token]:
        """The tokens of the text, without spaces, the last one of kind `end`."""
        text, at = self._text, 0
        pattern = re.compile(_TOKEN.replace("SIGNS", self.signs), re.VERBOSE)
        while at < len(text):
            match = pattern.match(text, at)
            if match is None:
                self._refuse_at(at, _UNCLOSED if text[at] in "'`" else _A_TOKEN)
            kind = next(name for name, found in match.groupdict().items() if found is not None)
            if kind != "space":
                yield Token(kind, match.group(kind), at, (match["suffix"] or "").lower())
            at = match.end()
        yield Token("end", "", len(text))

    def _refuse_at(self, at: int, expected: str) -> NoReturn:
        """Raise `ConfigError` for what stands at position `at`, the first being 0."""
        text = self._text
        found = repr(text[at : at + 20]) if at < len(text) else "the end"
        raise ConfigError(
            f"The {self.noun} does not parse at position {at}: expected {expected}, found {found}.",
            safe="nothing was read or written",
            next_step=f"correct the text: {text[:at][-60:]}<HERE>{text[at:][:60]}",
        )

    def refuse(self, expected: str, token: Token | None = None) -> NoReturn:
        """Raise `ConfigError` for `token`, or for the one that comes next."""
        self._refuse_at((token or self.token).at, expected)

    @property
    def token(self) -> Token:
        """The token that comes next."""
        return self._tokens[self._next]

    @property
    def after(self) -> Token:
        """The token behind the next one."""
        return self._tokens[min(self._next + 1, len(self._tokens) - 1)]

    @property
    def keyword(self) -> str:
        """The next token in lower case if it is a word, else nothing."""
        return self.token.text.lower() if self.token.kind == "word" else ""

    def take(self) -> Token:
        token = self.token
        self._next += 1
        return token

    def skip(self, what: str) -> bool:
        """Takes the sign or keyword `what` if it comes next."""
        is_next = self.token.kind in ("sign", "word") and self.token.text.lower() == what
        self._next += is_next
        return is_next

    def expect(self, what: str) -> None:
        if not self.skip(what):
            self.refuse(what.upper() if what.isalpha() else repr(what))

    def deeper(self, depth: int, token: Token) -> int:
        if depth >= DEPTH_MAX:
            self.refuse(f"parentheses and NOT nested at most {DEPTH_MAX} deep", token)
        return depth + 1

    def name(self) -> str:
        if self.token.kind == "quoted":
            return self.take().text[1:-1].replace("``", "`")
        if self.token.kind != "word" or self.keyword in RESERVED:
            self.refuse("a column name")
        return self.take().text

    def literal(self) -> Literal | None:
        """The literal that comes next; None, with nothing taken, if none does."""
        start = self.token
        value, kinds = self._value()
        if self.token is start:
            return None
        return Literal(value, kinds, self._text[start.at : self.token.at].strip()[:60])

    def _value(self) -> tuple[Value, frozenset[Kind]]:
        token = self.token
        if self.skip("null"):
            return None, ALL
        if self.skip("true") or self.skip("false"):
            return token.text.lower() == "true", frozenset({Kind.BOOLEAN})
        if self.skip("-"):
            number = self._number()
            return number.copy_negate() if isinstance(number, Decimal) else -number, NUMBERS
        if token.kind == "number":
            return self._number(), NUMBERS
        if (text := self.string()) is not None:
            return text, TIMES | {Kind.TEXT}
        return self._typed()

    def _typed(self) -> tuple[Value, frozenset[Kind]]:
        word, after = self.keyword, self.after
        is_typed = word in ("date", *_TIMESTAMPS) and after.kind in ("text", "raw")
        if not is_typed:  # then it is a column of that name
            return None, ALL
        self.take()
        text = self.string() or ""
        if word == "date":
            return parse_date(text) or self.refuse("a day: '2026-01-31'", after), TIMES
        moment = parse_timestamp(text)
        if moment is None:
            self.refuse("a time: '2026-01-31 12:00:00' or '2026-01-31 12:00:00+02:00'", after)
        return moment, _TIMESTAMPS[word]

    def string(self) -> str | None:
        """The string that comes next, neighbouring ones joined; None if none does."""
        pieces = []
        while self.token.kind in ("text", "raw"):
            token = self.take()
            is_raw = token.kind == "raw"
            pieces.append(token.text[2:-1] if is_raw else token.text[1:-1].replace("''", "'"))
        return "".join(pieces) if pieces else None

    def pattern(self) -> str:
        """The pattern that `like` asks for."""
        token = self.token
        pattern = self.string()
        if pattern is None:
            self.refuse("a pattern in single quotes")
        if len(pattern) > _PATTERN_MAX:
            self.refuse(f"a pattern of at most {_PATTERN_MAX} characters", token)
        if like_pieces(pattern) is None:
            self.refuse("a pattern whose backslashes come before %, _ or a backslash", token)
        return pattern

    def _number(self) -> int | float | Decimal:
        token = self.token
        if token.kind != "number":
            self.refuse("a number")
        if sum(map(str.isdigit, token.text.lower().partition("e")[0])) > _DIGITS_MAX:
            self.refuse(f"a number of at most {_DIGITS_MAX} digits")
        self.take()
        return self.number_of(token)

    def number_of(self, token: Token) -> int | float | Decimal:
        """What the number means; here it is exact, whatever its suffix."""
        return int(token.text) if token.text.isdigit() else Decimal(token.text)
