"""Instant times: 17 digits `yyyyMMddHHmmssSSS`, ordered as text.

An instant has two times and mixing them up loses rows (protocols, N6 and N12), so they are two
types: `RequestedAt` names an instant, `CompletedAt` says when its effect became visible. Comparing
one with the other raises `TypeError`; the few places that must (file slicing, windows) say so by
calling `is_before` or `is_upto`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Self

from lentic.errors import Corrupt

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Zone(StrEnum):
    """`hoodie.table.timeline.timezone`: the zone instant times are written in."""

    UTC = "UTC"
    LOCAL = "LOCAL"


class _Time(str):
    __slots__ = ()

    def _ensure_same_kind(self, other: str) -> None:
        if isinstance(other, _Time) and type(other) is not type(self):
            raise TypeError(f"{type(self).__name__} compared with {type(other).__name__}")

    def __lt__(self, other: str) -> bool:
        self._ensure_same_kind(other)
        return str.__lt__(self, other)

    def __le__(self, other: str) -> bool:
        self._ensure_same_kind(other)
        return str.__le__(self, other)

    def __gt__(self, other: str) -> bool:
        self._ensure_same_kind(other)
        return str.__gt__(self, other)

    def __ge__(self, other: str) -> bool:
        self._ensure_same_kind(other)
        return str.__ge__(self, other)

    @classmethod
    def parse(cls, text: str) -> Self:
        """`text` as a time; `Corrupt` if it is not made of digits only."""
        if not (text.isascii() and text.isdigit()):
            raise Corrupt(f"{text!r} is not an instant time (digits only).")
        return cls(text)


class RequestedAt(_Time):
    """When an instant was requested. Identifies the instant in its table."""

    __slots__ = ()


class CompletedAt(_Time):
    """When an instant completed, that is, when readers began to see it."""

    __slots__ = ()


def is_before(first: _Time, second: _Time) -> bool:
    """Whether `first` lies strictly before `second`, whatever the kinds."""
    return str.__lt__(first, second)


def is_upto(first: _Time, second: _Time) -> bool:
    """Whether `first` lies before `second` or equals it, whatever the kinds."""
    return str.__le__(first, second)


def format_time(epoch_ms: int, zone: Zone) -> str:
    """17 digits for a moment, in the table's zone."""
    moment = _EPOCH + timedelta(milliseconds=epoch_ms)
    if zone is Zone.LOCAL:
        moment = moment.astimezone()
    return moment.strftime("%Y%m%d%H%M%S") + f"{moment.microsecond // 1000:03d}"


def next_time(time: str) -> str:
    """The time one millisecond later, by the digits alone: it is greater even in an hour that a
    zone's clocks pass through twice."""
    return format_time(parse_epoch_ms(time, Zone.UTC) + 1, Zone.UTC)


def parse_epoch_ms(time: str, zone: Zone) -> int:
    """The moment a 14- or 17-digit time stands for; 14 digits mean the end of that second."""
    digits = time if len(time) >= 17 else time + "999"
    try:
        moment = datetime.strptime(digits[:17] + "000", "%Y%m%d%H%M%S%f")
    except ValueError as error:
        raise Corrupt(f"{time!r} is not an instant time.") from error
    # A LOCAL time is naive: astimezone() then reads it in this machine's zone.
    moment = moment.replace(tzinfo=UTC) if zone is Zone.UTC else moment.astimezone()
    return round((moment - _EPOCH) / timedelta(milliseconds=1))
