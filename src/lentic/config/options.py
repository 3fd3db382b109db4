"""One option is one value: key, type, default, meaning, old names.

Users pass a mapping of text; `resolve` turns old names into today's, refuses contradictions with
both keys named, and warns about keys nobody reads, with the nearest one that exists. After that a
mapping holds only known keys, and `Option.of` parses each exactly once, at the edge.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, NewType, TypeVar

from lentic.errors import ConfigError

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

Settings = NewType("Settings", dict[str, str])
"""Options after `resolve`: canonical keys only, values as text."""

STORAGE_PREFIX = "lentic.storage."
"""Keys under this prefix go to the object store as they are (endpoint, region, credentials)."""


class UnknownOption(UserWarning):
    """An option that lentic does not read."""


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """One typed option. `aliases` are read as if they were `key`."""

    key: str
    parse: Callable[[str], T]
    default: T
    doc: str
    aliases: tuple[str, ...] = ()
    since: str = "0.1.0"

    def of(self, settings: Settings) -> T:
        """The value in `settings`, or the default; `ConfigError` if the text does not parse."""
        text = settings.get(self.key)
        if text is None:
            return self.default
        try:
            return self.parse(text)
        except ValueError as error:
            raise ConfigError(
                f"Option {self.key} cannot be {text!r}: {error}.",
                safe="nothing was written",
                next_step=f"leave {self.key} out to get {format_value(self.default)!r}",
            ) from error


def resolve(given: Mapping[str, object], known: Iterable[Option[Any]]) -> Settings:
    """`given` with canonical keys and text values.

    An alias and its key with different values are refused. A key that nobody reads is dropped with
    an `UnknownOption` warning that names the nearest known key.
    """
    canonical = {name: option.key for option in known for name in (option.key, *option.aliases)}
    settings = Settings({})
    said_as: dict[str, str] = {}
    for key, value in given.items():
        text = format_value(value)
        target = key if key.startswith(STORAGE_PREFIX) else canonical.get(key)
        if target is None:
            _warn_unknown(key, canonical)
            continue
        if target in settings and settings[target] != text:
            raise contradiction(said_as[target], settings[target], key, text)
        settings[target] = text
        said_as[target] = key
    return settings


def contradiction(
    first: str, first_value: object, second: str, second_value: object
) -> ConfigError:
    """The error for two settings that cannot both hold."""
    return ConfigError(
        f"{first}={format_value(first_value)} contradicts {second}={format_value(second_value)}.",
        safe="nothing was written",
        next_step=f"set one of {first} and {second}, or both to the same meaning",
    )


def format_value(value: object) -> str:
    """A value as it is written in options and properties."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(str(part) for part in value)
    return "" if value is None else str(value)


def _warn_unknown(key: str, canonical: Mapping[str, str]) -> None:
    near = difflib.get_close_matches(key, canonical, n=1, cutoff=0.6)
    hint = f" Did you mean {near[0]}?" if near else ""
    warnings.warn(f"Option {key} has no effect in lentic.{hint}", UnknownOption, stacklevel=4)


def parse_bool(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError("it must be true or false")
    return lowered == "true"


def parse_names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_whole(at_least: int, at_most: int) -> Callable[[str], int]:
    """A parser for whole numbers within bounds."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ValueError("it must be a whole number") from None
        if not at_least <= number <= at_most:
            raise ValueError(f"it must lie between {at_least} and {at_most}")
        return number

    return parse


def parse_choice(choices: type[E]) -> Callable[[str], E]:
    """A parser for one of a fixed set of words, in any case."""

    def parse(text: str) -> E:
        by_word = {choice.value.lower(): choice for choice in choices}
        if (found := by_word.get(text.strip().lower())) is None:
            words = ", ".join(choice.value for choice in choices)
            raise ValueError(f"it must be one of {words}")
        return found

    return parse
