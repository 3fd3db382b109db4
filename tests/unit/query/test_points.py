"""Moments as users write them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest

from lentic.errors import ConfigError
from lentic.format.names import Action, State
from lentic.format.times import CompletedAt, RequestedAt, Zone
from lentic.query.points import parse_bound, parse_point
from lentic.timeline.instant import Instant
from tests.rfc.claims import says

INSTANT = Instant(
    RequestedAt("20260101120000000"),
    Action.COMMIT,
    State.COMPLETED,
    CompletedAt("20260101120500000"),
)
EAST = timezone(timedelta(hours=2))


@says("rfc66.travel.moment")
@pytest.mark.parametrize(
    ("moment", "time"),
    [
        ("20260101120000000", "20260101120500000"),
        ("20260101120000001", "20260101120000001"),
        ("20260101120000", "20260101120000999"),
        ("2026-01-01", "20260101000000000"),
        ("2026-01-01T12:00:00", "20260101120000000"),
        ("2026-01-01 12:00:00.250", "20260101120000250"),
        ("2026-01-01T12:00:00+02:00", "20260101100000000"),
        (date(2026, 1, 1), "20260101000000000"),
        (datetime(2026, 1, 1, 12), "20260101120000000"),
        (datetime(2026, 1, 1, 12, tzinfo=UTC), "20260101120000000"),
        (datetime(2026, 1, 1, 12, tzinfo=EAST), "20260101100000000"),
    ],
    ids=str,
)
def test_a_moment_is_compared_with_completion_times(moment: Any, time: str) -> None:
    """An instant's requested time means the moment it completed; everything else is a time."""
    assert parse_point(moment, [INSTANT], Zone.UTC) == time


@pytest.mark.parametrize("moment", ["", "yesterday", "2026-13-01", "123", 5, b"2026", ["2026"]])
def test_what_is_no_moment_is_refused_with_an_example(moment: Any) -> None:
    with pytest.raises(ConfigError, match="no point in time") as caught:
        parse_point(moment, [INSTANT], Zone.UTC)
    assert "17 digits" in caught.value.next_step


@says("rfc66.changes.window")
def test_bounds_are_completion_times() -> None:
    assert parse_bound("000") == "000"
    with pytest.raises(ConfigError, match="no completion time"):
        parse_bound("2026-01-01")
