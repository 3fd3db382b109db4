"""Instant times strictly rise, whatever the clock does (R9, N3, N11)."""

from __future__ import annotations

import time as system_time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lentic.coordination.lock import Intent
from lentic.coordination.time_generator import issue_time
from lentic.errors import Conflict, Unavailable
from lentic.format.times import Zone, format_time, parse_epoch_ms
from tests.rfc.claims import says
from tests.unit.builders import START_MS, StillClock


@dataclass
class RememberingLock:
    """A lock that is held, or not, and keeps every time it was given."""

    last_time: str = ""
    is_held: bool = True
    epoch: int = 1
    saved: list[str] = field(default_factory=list)

    def publish(self, intent: Intent) -> bool:
        self.ensure_held()
        return False

    def settle(self) -> None:
        pass

    def save_last_time(self, time: str) -> None:
        self.saved.append(time)
        self.last_time = time

    def ensure_held(self) -> None:
        if not self.is_held:
            raise Conflict("Lost.")


def _issue(held: RememberingLock, now_ms: int, *, seen: str = "", skew_ms: int = 200) -> str:
    return issue_time(held, StillClock(now_ms), Zone.UTC, seen=seen, skew_ms_max=skew_ms)


def test_the_first_time_is_the_clocks_and_is_saved_before_it_is_used() -> None:
    held = RememberingLock()
    assert _issue(held, START_MS) == "20260101000000000"
    assert held.saved == ["20260101000000000"]


def test_equal_milliseconds_give_different_times() -> None:
    held = RememberingLock()
    issued = [_issue(held, START_MS) for _ in range(5)]
    assert issued == [f"2026010100000000{n}" for n in range(5)]


@pytest.mark.parametrize("back_ms", [1, 50, 200])
def test_a_clock_within_the_skew_behind_still_gives_later_times(back_ms: int) -> None:
    held = RememberingLock()
    first = _issue(held, START_MS)
    second = _issue(held, START_MS - back_ms)
    assert second == format_time(START_MS + 1, Zone.UTC)
    assert second > first


def test_a_clock_beyond_the_skew_is_refused_and_nothing_is_saved() -> None:
    held = RememberingLock()
    _issue(held, START_MS)
    with pytest.raises(Unavailable) as caught:
        _issue(held, START_MS - 201)
    assert held.saved == ["20260101000000000"]
    assert "0.2 s behind" in caught.value.what
    assert "20260101000000000" in caught.value.what
    assert caught.value.safe == "nothing was written"
    assert "hoodie.time.generator.max_expected_clock_skew_ms" in caught.value.next_step


@says("N11", "R9")
def test_an_hour_back_is_refused_until_the_clock_has_caught_up() -> None:
    held = RememberingLock()
    last = _issue(held, START_MS)
    with pytest.raises(Unavailable, match="3600.0 s behind"):
        _issue(held, START_MS - 3_600_000)
    assert _issue(held, START_MS + 1) > last


def test_the_timeline_counts_when_the_lock_has_forgotten() -> None:
    seen = format_time(START_MS + 100, Zone.UTC)
    assert _issue(RememberingLock(), START_MS, seen=seen) == format_time(START_MS + 101, Zone.UTC)


def test_the_lock_counts_when_the_timeline_is_behind() -> None:
    held = RememberingLock(last_time=format_time(START_MS + 100, Zone.UTC))
    seen = format_time(START_MS - 500, Zone.UTC)
    assert _issue(held, START_MS, seen=seen) == format_time(START_MS + 101, Zone.UTC)


def test_times_of_whole_seconds_are_passed_too() -> None:
    assert _issue(RememberingLock(), START_MS, seen="20260101000000") > "20260101000000"
    ahead = _issue(RememberingLock(), START_MS, seen="20260101000001", skew_ms=5_000)
    assert ahead == "20260101000002000"


@says("rfc66.time.lock")
def test_no_time_is_issued_without_the_lock() -> None:
    held = RememberingLock(is_held=False)
    with pytest.raises(Conflict):
        _issue(held, START_MS)
    assert held.saved == []


@says("rfc66.time.rise", "N11", "R9")
@given(st.lists(st.tuples(st.integers(-400, 400), st.integers(-100, 100)), max_size=30))
def test_times_strictly_rise_under_any_clock_or_are_refused(
    steps: list[tuple[int, int]],
) -> None:
    held = RememberingLock()
    issued: list[str] = []
    now_ms = START_MS
    for step, ahead in steps:
        now_ms += step
        seen = format_time(START_MS + ahead, Zone.UTC)
        last = max(held.last_time, seen)
        try:
            time = _issue(held, now_ms, seen=seen)
        except Unavailable:
            assert parse_epoch_ms(last, Zone.UTC) - now_ms > 200
        else:
            assert time > last
            assert parse_epoch_ms(time, Zone.UTC) >= now_ms
            issued.append(time)
    assert held.saved == issued == sorted(set(issued))


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose local time goes back by an hour on 2026-10-25 at 01:00 UTC."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    system_time.tzset()
    yield
    monkeypatch.undo()
    system_time.tzset()


HOUR_GOES_BACK_MS = 1_792_890_000_000


@pytest.mark.usefixtures("berlin")
def test_a_table_in_local_time_gets_later_times_on_an_ordinary_day() -> None:
    held = RememberingLock()
    clock = StillClock(START_MS)
    issued = [issue_time(held, clock, Zone.LOCAL, seen="", skew_ms_max=200) for _ in range(3)]
    assert issued == ["20260101010000000", "20260101010000001", "20260101010000002"]


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize("after_ms", [1, 60_000, 1_800_000, 3_599_999, 3_600_001])
def test_when_local_clocks_go_back_times_rise_or_are_refused(after_ms: int) -> None:
    held = RememberingLock()
    before = StillClock(HOUR_GOES_BACK_MS - 1)
    last = issue_time(held, before, Zone.LOCAL, seen="", skew_ms_max=200)
    assert last == "20261025025959999"
    later = StillClock(HOUR_GOES_BACK_MS - 1 + after_ms)
    try:
        time = issue_time(held, later, Zone.LOCAL, seen="", skew_ms_max=200)
    except Unavailable:
        return
    assert time > last
