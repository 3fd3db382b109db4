"""Signs of life: who gives them, who may doubt them, and on whose clock (R14)."""

from __future__ import annotations

import json
import logging
import threading

import pytest

from lentic.coordination.heartbeat import Heart, Pulse, Watch, beating, load_heartbeat
from lentic.errors import HeartbeatLost, StorageError
from lentic.format import layout
from lentic.format.times import RequestedAt
from lentic.storage.memory import MemoryStorage
from lentic.testing.sim_world import SimEntropy
from lentic.world import Process, Threads, World
from tests.rfc.claims import says

AT = RequestedAt("20240101000000000")
PULSE = Pulse(interval_ms=60_000, misses_max=2)


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.wall_ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def _heart(storage: MemoryStorage, clock: _Clock) -> Heart:
    world = World(clock, SimEntropy("x"), Process("host-7", 4121), Threads())
    return Heart(storage, world, AT, PULSE, epoch=5)


class _Broken(MemoryStorage):
    is_broken = False

    def replace(self, path: str, data: bytes) -> None:
        if self.is_broken:
            raise StorageError("no")
        super().replace(path, data)


@says("rfc79.heartbeat.touch")
def test_a_beat_says_who_and_which_and_never_the_same_twice() -> None:
    storage = MemoryStorage()
    heart = _heart(storage, _Clock())
    heart.beat()
    first = load_heartbeat(storage, AT)
    fields = json.loads(first)
    assert (fields["host"], fields["pid"], fields["epoch"], fields["seq"]) == ("host-7", 4121, 5, 1)
    heart.beat()
    assert load_heartbeat(storage, AT) != first


@says("rfc79.heartbeat.end")
def test_the_block_leaves_nothing_behind_whether_it_fails_or_not() -> None:
    storage = MemoryStorage()
    world = World(_Clock(), SimEntropy("x"), Process("h", 1), Threads())
    with pytest.raises(KeyError), beating(storage, world, AT, PULSE, epoch=1):
        assert storage.info(layout.heartbeat(AT)) is not None
        raise KeyError
    assert storage.walk("") == []


@says("rfc79.heartbeat.expiry", "G5", "R14")
@pytest.mark.parametrize("wall_jump_ms", [-3_600_000, -600_000, -60_000, 60_000, 600_000])
def test_g5_observers_compare_no_clocks(wall_jump_ms: int) -> None:
    """G5: whatever the wall clocks say, only a time to live without change is an end."""
    storage, clock = MemoryStorage(), _Clock()
    heart, watch = _heart(storage, _Clock()), Watch(clock, PULSE.ttl_ms)
    heart.beat()
    assert not watch.has_expired(AT, load_heartbeat(storage, AT))
    clock.wall_ms += wall_jump_ms
    clock.now += PULSE.ttl_ms / 1000 - 1
    assert not watch.has_expired(AT, load_heartbeat(storage, AT))
    heart.beat()
    clock.now += 1
    assert not watch.has_expired(AT, load_heartbeat(storage, AT))
    clock.now += PULSE.ttl_ms / 1000
    assert watch.has_expired(AT, load_heartbeat(storage, AT))


@says("rfc79.heartbeat.expiry", "P9")
def test_p9_what_is_missing_has_not_expired_until_it_was_missed_for_a_time_to_live() -> None:
    clock = _Clock()
    watch = Watch(clock, PULSE.ttl_ms)
    assert not watch.has_expired(AT, b"")
    clock.now += PULSE.ttl_ms / 1000
    assert watch.has_expired(AT, b"")
    watch.forget_all_but(frozenset())
    assert not watch.has_expired(AT, b"")


def test_who_waits_knows_how_long_until_a_heartbeat_has_expired() -> None:
    clock = _Clock()
    watch = Watch(clock, PULSE.ttl_ms)
    watch.has_expired(AT, b"1")
    clock.now += 1
    assert watch.left_s(AT) == PULSE.ttl_ms / 1000 - 1
    clock.now += PULSE.ttl_ms
    assert watch.left_s(AT) == 0
    watch.has_expired(AT, b"2")
    assert watch.left_s(AT) == PULSE.ttl_ms / 1000


@says("R14", "P10")
def test_an_owner_gives_up_before_others_do_and_says_so_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage, clock = _Broken(), _Clock()
    heart = _heart(storage, clock)
    stopped: list[str] = []
    heart.when_lost(lambda: stopped.append("stop"))
    heart.beat()
    storage.is_broken = True
    clock.now += PULSE.ttl_ms / 2000
    heart.beat()
    heart.ensure_alive()
    clock.now += 1
    with caplog.at_level(logging.ERROR):
        heart.beat()
    assert stopped == ["stop"]
    assert "lost" in caplog.text
    with pytest.raises(HeartbeatLost, match="60 s"):
        heart.ensure_alive()


@says("R14")
def test_an_owner_that_woke_too_late_does_not_look_alive_again() -> None:
    storage, clock = MemoryStorage(), _Clock()
    heart = _heart(storage, clock)
    heart.beat()
    before = load_heartbeat(storage, AT)
    clock.now += PULSE.ttl_ms / 1000
    heart.beat()
    assert heart.is_lost
    assert load_heartbeat(storage, AT) == before


@says("rfc79.heartbeat.touch", "P10")
def test_p10_a_beat_that_hangs_does_not_stop_the_next() -> None:
    hung, beats = threading.Event(), []
    done = threading.Event()

    def work() -> None:
        beats.append(1)
        if len(beats) == 1:
            hung.wait(10)
        elif len(beats) >= 3:
            done.set()

    with Threads().every(0.01, work):
        assert done.wait(10), "later beats came although the first one hung"
    hung.set()


def test_three_beats_fit_into_the_time_an_owner_has() -> None:
    assert PULSE.beat_s * 3 <= PULSE.ttl_ms / 2000
    assert Pulse(interval_ms=1_000, misses_max=100).beat_s == 1.0


class _Slow(MemoryStorage):
    """What happens while a beat is on its way."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile = lambda: None

    def replace(self, path: str, data: bytes) -> None:
        happens, self.meanwhile = self.meanwhile, lambda: None
        happens()
        super().replace(path, data)


def test_a_beat_that_arrives_after_the_end_leaves_no_sign_of_life() -> None:
    """Else whoever wants the plan next would wait for the end of somebody who has ended."""
    storage = _Slow()
    heart = _heart(storage, _Clock())
    heart.beat()
    storage.meanwhile = heart.end
    heart.beat()
    assert load_heartbeat(storage, AT) == b""


def test_after_the_end_a_beat_says_nothing() -> None:
    storage = MemoryStorage()
    heart = _heart(storage, _Clock())
    heart.beat()
    heart.end()
    heart.beat()
    assert load_heartbeat(storage, AT) == b""


def test_ending_leaves_the_sign_of_life_of_whoever_took_over() -> None:
    storage, clock = MemoryStorage(), _Clock()
    mine = _heart(storage, clock)
    mine.beat()
    storage.replace(layout.heartbeat(AT), b'{"owner": "another"}')
    mine.end()
    assert load_heartbeat(storage, AT) == b'{"owner": "another"}'
