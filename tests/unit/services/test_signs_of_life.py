"""Who has to wait for a sign of life says so before, and says nothing where there is no wait."""

from __future__ import annotations

import logging

import pytest

from lentic.errors import PlanBusy
from lentic.format import layout
from lentic.format.times import RequestedAt
from lentic.services.signs_of_life import await_news
from lentic.storage.base import Storage
from tests.unit.insight.cases import Case
from tests.unit.verbs import MOR


def planned() -> tuple[Case, RequestedAt]:
    case = Case(MOR, buckets=1)
    case.write("a")
    at = case.table.schedule("compaction")
    assert at is not None
    return case, at


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    name = "lentic.services.signs_of_life"
    return [r.getMessage() for r in caplog.records if r.name == name]


def test_a_heartbeat_that_has_to_be_watched_is_told_once_with_its_owner_and_the_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    case, at = planned()
    case.beat(at)
    before_ms = case.clock.ms
    assert case.table.execute(at)
    ttl_s = case.opened.pulse.ttl_ms / 1000
    assert case.clock.ms - before_ms >= ttl_s * 1000
    (line,) = told(caplog)
    assert f"{at}" in line and "far:7" in line and f"up to {ttl_s:g} s" in line
    assert [r.levelno for r in caplog.records if r.getMessage() == line] == [logging.WARNING]


def test_a_living_executor_is_told_of_before_it_is_said_to_be_busy(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, at = planned()
    case.beat(at)

    def sleep(seconds: float) -> None:
        case.clock.ms += round(seconds * 1000)
        case.storage.replace(layout.heartbeat(at), str(case.clock.ms).encode())

    monkeypatch.setattr(case.clock, "sleep", sleep)
    with pytest.raises(PlanBusy):
        case.table.execute(at)
    assert len(told(caplog)) == 1


def test_nothing_is_said_where_nobody_has_to_wait(caplog: pytest.LogCaptureFixture) -> None:
    case, at = planned()
    await_news(case.opened, at)
    case.beat(at)
    storage: Storage = case.opened.storage
    content = storage.read(layout.heartbeat(at))
    assert not case.opened.watch.has_expired(at, content)
    case.clock.ms += case.opened.pulse.ttl_ms
    await_news(case.opened, at)
    assert told(caplog) == []


def test_a_clean_that_waits_for_writers_says_so(caplog: pytest.LogCaptureFixture) -> None:
    case = Case(options={"hoodie.clean.failed.writes.policy": "LAZY"})
    case.write("a")
    case.beat(case.begin_write())
    case.table.clean(wait=True)
    (line,) = told(caplog)
    assert line.endswith("(far:7)")
    caplog.clear()
    case.table.clean(wait=True)
    assert told(caplog) == []
