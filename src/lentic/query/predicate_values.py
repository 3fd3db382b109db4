"""The parts of a filter. Frozen values that survive pickling; `predicate` says what they mean.

Whoever parses a predicate fits its values to the columns: whole numbers for whole numbers, decimals
with the column's scale, doubles for floats, UTC for timestamps with a zone. No value is NaN or
infinite.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from lentic.query.literals import Operator, Value

Path: TypeAlias = tuple[str, ...]
"""A column's name, followed by the names of fields if it means a part of a struct."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """`column operator value`; null for every row if the value is None."""

    column: Path
    operator: Operator
    value: Value

    def __post_init__(self) -> None:
        assert not isinstance(self.value, float) or math.isfinite(self.value), self.value


@dataclass(frozen=True, slots=True)
class In:
    """`column IN (values)`; with None among the values it is true or null, never false."""

    column: Path
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        assert self.values, "IN has at least one value"
        assert all(math.isfinite(value) for value in self.values if isinstance(value, float))


@dataclass(frozen=True, slots=True)
class IsNull:
    """`column IS NULL`, the one test that is never null itself."""

    column: Path


@dataclass(frozen=True, slots=True)
class Like:
    r"""`column LIKE pattern`: `%` is any text, `_` any character, `\` takes the next one as is."""

    column: Path
    pattern: str


@dataclass(frozen=True, slots=True)
class And:
    """All of two or more parts."""

    parts: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        assert len(self.parts) >= 2, self.parts


@dataclass(frozen=True, slots=True)
class Or:
    """Any of two or more parts."""

    parts: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        assert len(self.parts) >= 2, self.parts


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a part; null where the part is null."""

    part: Predicate


Predicate: TypeAlias = Comparison | In | IsNull | Like | And | Or | Not

# A pattern in pieces: an escaped character, a wildcard, or text that stands for itself.
_LIKE_PIECE: Final = re.compile(r"\\([\\%_])|([%_])|([^\\%_]+)", re.DOTALL)


def like_pieces(pattern: str) -> list[tuple[str, bool]] | None:
    """The pattern as texts, each with whether it is a wildcard; None if an escape is unfinished."""
    pieces: list[tuple[str, bool]] = []
    at = 0
    while at < len(pattern):
        match = _LIKE_PIECE.match(pattern, at)
        if match is None:
            return None
        escaped, wildcard, text = match.groups()
        pieces.append((escaped or wildcard or text, wildcard is not None))
        at = match.end()
    return pieces


def like_prefix(pieces: list[tuple[str, bool]]) -> tuple[str, list[str]]:
    """The text before the first wildcard, and what follows it."""
    first = next((n for n, (_, is_wild) in enumerate(pieces) if is_wild), len(pieces))
    return "".join(text for text, _ in pieces[:first]), [text for text, _ in pieces[first:]]
