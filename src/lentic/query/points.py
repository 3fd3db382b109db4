"""Moments as users write them -> completion times. Pure.

A table's state is a function of the completion time: a write exists from the moment it completed.
So every moment is compared with completion times. Naming an instant by its requested time means the
moment that instant completed, because that is when a reader could first see it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta

from lentic.errors import ConfigError
from lentic.format.names import Action
from lentic.format.times import CompletedAt, Zone, format_time
from lentic.timeline.instant import Instant

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_point(moment: object, instants: Iterable[Instant], zone: Zone) -> CompletedAt:
    """The completion time up to which `moment` looks, inclusive.

    `moment`: digits of an instant or of a time (14 or 17 of them), an ISO date-time, a date (its
    first moment), or a datetime or date. Without an offset a date-time is UTC.
    """
    if isinstance(moment, str) and moment.isascii() and moment.isdigit():
        return _of_digits(moment, instants)
    at = _datetime_of(moment)
    return CompletedAt(format_time((at - _EPOCH) // timedelta(milliseconds=1), zone))


def parse_bound(moment: str) -> CompletedAt:
    """A bound of a window of changes: a completion time, or "000" for the beginning."""
    if not (moment.isascii() and moment.isdigit()):
        raise ConfigError(
            f"{moment!r} is no completion time.",
            safe="nothing was read",
            next_step='pass the completed_at of a commit, or "000" for the beginning',
        )
    return CompletedAt(moment)


def _of_digits(digits: str, instants: Iterable[Instant]) -> CompletedAt:
    named = [i for i in instants if i.requested_at == digits and i.action is not Action.SAVEPOINT]
    if times := [i.completed_at for i in named if i.completed_at]:
        return max(times)
    if len(digits) not in (14, 17):
        raise _unreadable(digits)
    return CompletedAt(digits if len(digits) == 17 else digits + "999")


def _datetime_of(moment: object) -> datetime:
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            raise _unreadable(moment) from None
    if isinstance(moment, date) and not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    if not isinstance(moment, datetime):
        raise _unreadable(moment)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _unreadable(moment: object) -> ConfigError:
    return ConfigError(
        f"{moment!r} is no point in time.",
        safe="nothing was read",
        next_step="pass an instant (17 digits), an ISO date-time or date, or a datetime",
    )
