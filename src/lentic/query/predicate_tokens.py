"""The words and signs of a filter's text, and the error that points into it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NoReturn

from lentic.errors import ConfigError

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+)
      | (?P<raw>[rR]'[^']*')
      | (?P<text>'(?:[^']|'')*')
      | (?P<quoted>`(?:[^`]|``)+`)
      | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)
        (?P<suffix>[bB]?[dD])?(?![A-Za-z0-9_])
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<sign><=|>=|<>|!=|==|[=<>(),.-])""",
    re.VERBOSE,
)
_UNCLOSED: Final = "a quote that is closed and, if a name is in it, not empty"
_A_TOKEN: Final = (
    "a column, a literal, an operator or a parenthesis (strings go in single quotes, names with"
    " other characters in backticks)"
)


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text: `kind` is the name of its group in the grammar of tokens."""

    kind: str
    text: str
    at: int


def tokens(text: str) -> Iterator[Token]:
    """The tokens of `text`, without spaces, the last one of kind `end`."""
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            refuse(text, at, _UNCLOSED if text[at] in "'`" else _A_TOKEN)
        kind = next(name for name, found in match.groupdict().items() if found is not None)
        if kind != "space":
            yield Token(kind, match.group(kind), at)
        at = match.end()
    yield Token("end", "", len(text))


def refuse(text: str, at: int, expected: str) -> NoReturn:
    """Raise `ConfigError` for what stands at position `at`, the first being 0."""
    found = repr(text[at : at + 20]) if at < len(text) else "the end"
    raise ConfigError(
        f"The filter does not parse at position {at}: expected {expected}, found {found}.",
        safe="nothing was read or written",
        next_step=f"correct the text: {text[:at][-60:]}<HERE>{text[at:][:60]}",
    )
