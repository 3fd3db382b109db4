"""The lock that is an object: who may have it, what its holder decides, and what a lost one may."""

from __future__ import annotations

import json

import pytest

from lentic.coordination.fenced import FencedHeld, decode_state, encode_state
from lentic.coordination.lock import Intent
from lentic.coordination.lock_storage import StorageLock
from lentic.errors import Conflict, Corrupt, LockTimeout, OutcomeUnknown, StorageError
from lentic.format import layout
from lentic.storage.base import ConditionalStorage, Versioned
from lentic.storage.memory import MemoryStorage
from lentic.storage.object_store import ObjectStorage
from lentic.testing.sim_world import SimEntropy
from lentic.world import Process, Threads, World
from tests.rfc.claims import says

LEASE_MS = 60_000
PATH = f"{layout.TIMELINE}/20240101000000000.commit.requested"


class _Clock:
    """Time that passes by sleeping only."""

    def __init__(self, skew_ms: int = 0) -> None:
        self.now = 0.0
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        return 1_700_000_000_000 + int(self.now * 1000) + self.skew_ms

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def _world(name: str, skew_ms: int = 0) -> World:
    return World(_Clock(skew_ms), SimEntropy(name), Process(f"host-{name}", 7), Threads())


def _fall_asleep(lock: StorageLock) -> FencedHeld:
    """Hold the lock and never let go, as one who is paused or dead."""
    held = lock._acquire()  # `hold` would release it when its block is thrown away
    held.carry_out()
    return held


def _lock(
    storage: ConditionalStorage, name: str = "a", *, timeout_ms: int = 200_000, skew_ms: int = 0
) -> StorageLock:
    return StorageLock(storage, _world(name, skew_ms), timeout_ms, LEASE_MS)


@pytest.fixture(params=["memory", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> object:
    if request.param == "memory":
        return MemoryStorage()
    options = request.getfixturevalue("s3_options")
    return ObjectStorage(f"s3://lake/{tmp_path_factory.mktemp('lock').name}", options)


def test_epoch_and_last_time_outlive_their_holder(storage: ConditionalStorage) -> None:
    with _lock(storage).hold() as held:
        held.save_last_time("20240101000000000")
        assert held.epoch == 1
    with _lock(storage, "b").hold() as held:
        assert (held.epoch, held.last_time) == (2, "20240101000000000")


@says("rfc79.heartbeat.lock")
def test_a_held_lock_is_waited_for_and_the_error_names_its_holder(
    storage: ConditionalStorage,
) -> None:
    with (
        _lock(storage).hold(),
        pytest.raises(LockTimeout, match="process 7 on host-a") as caught,
        _lock(storage, "b", timeout_ms=5_000).hold(),
    ):
        pass
    assert "lease of 60 s" in str(caught.value)


@pytest.mark.parametrize("skew_ms", [-600_000, 0, 600_000])
def test_a_dead_holders_lock_is_taken_after_its_lease_whatever_the_clocks_say(
    storage: ConditionalStorage, skew_ms: int
) -> None:
    _fall_asleep(_lock(storage))
    heir = _lock(storage, "b", skew_ms=skew_ms)
    with heir.hold() as held:
        assert held.epoch == 2
    assert heir.world.clock.monotonic() <= LEASE_MS / 1000 + 3


def test_a_dead_holders_lease_is_not_waited_for_longer_than_it_lasts() -> None:
    storage = MemoryStorage()
    _fall_asleep(_lock(storage))
    waits = _lock(storage, "b")
    with waits.hold():
        assert LEASE_MS / 1000 <= waits.world.clock.monotonic() < LEASE_MS / 1000 + 0.001


@says("R2")
def test_what_a_holder_decided_and_could_not_do_is_done_by_the_next(
    storage: ConditionalStorage,
) -> None:
    for content in (b"small", b"x" * 100_000):
        path = f"{layout.TIMELINE}/{len(content)}.commit.requested"
        _fall_asleep(_lock(storage)).publish(Intent(path, content))
        with _lock(storage, "b").hold():
            assert storage.read(path) == content
    assert not storage.walk(layout.STAGED)


@says("R2")
def test_a_holder_that_lost_the_lock_decides_nothing(storage: ConditionalStorage) -> None:
    sleeper = _fall_asleep(_lock(storage))
    with _lock(storage, "b").hold():
        pass
    with pytest.raises(Conflict, match="no longer held"):
        sleeper.publish(Intent(PATH, b"late"))
    assert storage.info(PATH) is None
    with pytest.raises(Conflict):
        sleeper.ensure_held()


def test_what_is_done_is_not_done_again(storage: ConditionalStorage) -> None:
    with _lock(storage).hold() as held:
        held.publish(Intent(PATH, b"once"))
        storage.put_if_absent(PATH, b"once")
        held.settle()
        storage.delete(PATH)
    with _lock(storage, "b").hold():
        assert storage.info(PATH) is None


def test_a_lock_of_apache_hudi_is_respected_and_replaced_when_it_has_ended(
    storage: ConditionalStorage,
) -> None:
    now = _world("x").clock.now_ms()
    theirs = {"expired": False, "validUntil": now + 30_000, "owner": "8d2f"}
    storage.replace(layout.STORAGE_LOCK, json.dumps(theirs).encode())
    with (
        pytest.raises(LockTimeout, match="owner 8d2f"),
        _lock(storage, timeout_ms=5_000).hold(),
    ):
        pass
    with _lock(storage).hold():
        ours = json.loads(storage.read(layout.STORAGE_LOCK))
        assert ours["expired"] is False and ours["validUntil"] > now and ours["owner"]
    assert json.loads(storage.read(layout.STORAGE_LOCK))["expired"] is True


class _Flaky(MemoryStorage):
    """A storage whose swaps fail: `lost` after taking effect, otherwise before."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[str] = []
        self.is_dumb = False

    def read_version(self, path: str) -> Versioned | None:
        if self.is_dumb:
            raise StorageError("no answer")
        return super().read_version(path)

    def put_if_match(self, path: str, data: bytes, version: str | None) -> str | None:
        how = self.failures.pop(0) if self.failures else ""
        if how == "before":
            raise StorageError("before")
        now: Versioned | None = self.read_version(path)
        if now is not None and now.data == data:  # as every storage resolves a lost reply
            return now.version
        done = super().put_if_match(path, data, version)
        if how == "lost":
            raise StorageError("lost")
        if how == "overtaken":
            with _lock(self, "heir").hold():
                pass
            return None
        if how == "overtaken, then dumb":
            with _lock(self, "heir").hold():
                pass
            self.is_dumb = True
            return None
        return done


@pytest.mark.parametrize("how", ["before", "lost"])
def test_a_lost_reply_is_asked_for_again(how: str) -> None:
    storage = _Flaky()
    storage.failures = [how]
    with _lock(storage).hold() as held:
        assert held.epoch == 1
        storage.failures = [how]
        assert held.publish(Intent(PATH, b"x"))


def test_an_unknown_decision_is_said_to_be_unknown() -> None:
    storage = _Flaky()
    with pytest.raises(OutcomeUnknown), _lock(storage).hold() as held:
        storage.failures = ["before"] * 3
        held.publish(Intent(PATH, b"x"))


def test_a_decision_is_unknown_where_nobody_says_whether_it_was_made() -> None:
    """The lock is lost, and the store does not say what became of it: the decision may have been
    carried out, as it was here, so nobody may be told that nothing has happened."""
    storage = _Flaky()
    with pytest.raises(OutcomeUnknown), _lock(storage).hold() as held:
        storage.failures = ["overtaken, then dumb"]
        held.publish(Intent(PATH, b"x"))
    assert storage.read(PATH) == b"x"


def test_a_decision_that_another_holder_carried_out_counts_although_the_lock_is_lost() -> None:
    storage = _Flaky()
    with _lock(storage).hold() as held:
        storage.failures = ["overtaken"]
        assert held.publish(Intent(PATH, b"x"))
        assert storage.read(PATH) == b"x"
        with pytest.raises(Conflict):
            held.publish(Intent(PATH + "2", b"y"))


def test_the_state_survives_its_text() -> None:
    storage = MemoryStorage()
    _fall_asleep(_lock(storage)).publish(Intent(PATH, b"\x00\xff"))
    data = storage.read(layout.STORAGE_LOCK)
    assert encode_state(decode_state(data, "here")) == data


@pytest.mark.parametrize(
    "change",
    [
        b"",
        b"[]",
        b"{}",
        b'{"expired": true, "epoch": -1}',
        b'{"expired": true, "owner": 3}',
        b'{"expired": true, "intent": {"path": "../x", "digest": "", "content": "", "staged": ""}}',
        b'{"expired": true, "intent": {"path": ".hoodie/timeline/..", "content": ""}}',
        b'{"expired": true, "intent": {"path": ".hoodie/timeline/a", "content": "eA=="}}',
        b'{"expired": true, "intent": {"path": ".hoodie/timeline/a", "staged": "/etc/passwd"}}',
    ],
)
def test_a_lock_that_is_none_is_corrupt_and_leads_nowhere(change: bytes) -> None:
    storage = MemoryStorage()
    storage.replace(layout.STORAGE_LOCK, change)
    with pytest.raises(Corrupt, match="not what a lock looks like"), _lock(storage).hold():
        pass
    assert [file.path for file in storage.walk("")] == [layout.STORAGE_LOCK]
