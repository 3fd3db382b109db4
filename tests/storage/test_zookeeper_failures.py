"""The lock on a real ZooKeeper when things fail: restarts, lost replies, silence, forks."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lentic.coordination import zookeeper as sessions
from lentic.coordination.lock import Intent
from lentic.coordination.zookeeper import ZooKeeper
from lentic.errors import Corrupt, OutcomeUnknown, StorageError
from lentic.format import layout
from tests.zookeeper_locks import WAIT_MS, Locks, expire, fall_asleep, is_free, session
from tests.zookeeper_server import ZooKeeperServer

PATH = f"{layout.TIMELINE}/20240101000000000.commit.requested"


def test_all_of_it_outlives_a_restart_of_the_server(tmp_path: Path, locks: Locks) -> None:
    (tmp_path / "server").mkdir()
    server = ZooKeeperServer(tmp_path / "server")
    try:
        server.start()
        lock = locks(hosts=server.hosts)
        fall_asleep(lock).publish(Intent(PATH, b"decided"))
        server.kill()
        server.start()
        expire(lock, server)
        with lock.hold() as held:
            assert held.epoch == 2
            assert lock.storage.read(PATH) == b"decided"
            held.save_last_time("20240101000000000")
            server.kill()
            server.start()
            assert held.publish(Intent(PATH + "2", b"x"))
        with locks(hosts=server.hosts).hold() as held:
            assert (held.epoch, held.last_time) == (3, "20240101000000000")
    finally:
        sessions._close_all()
        server.kill()


@pytest.mark.parametrize("call", ["create_numbered", "swap"])
@pytest.mark.parametrize("how", ["before", "after"])
def test_a_lost_reply_is_resolved(
    locks: Locks, monkeypatch: pytest.MonkeyPatch, call: str, how: str
) -> None:
    lock = locks()
    failures = _fail(monkeypatch, call, how)
    with lock.hold() as held:
        assert held.epoch == 1
        failures.append(call)
        assert held.publish(Intent(PATH, b"x"))
    with lock.hold() as held:
        assert held.epoch == 2
    assert session(lock).list_children(lock.options.path) == []


def test_an_unknown_decision_is_said_to_be_unknown(
    locks: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OutcomeUnknown), locks().hold() as held:
        _fail(monkeypatch, "swap", "before").extend(["again", "and again"])
        held.publish(Intent(PATH, b"x"))
    assert is_free(locks())


def test_a_place_that_cannot_be_given_back_ends_with_thesession(
    locks: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = locks()
    with lock.hold():
        before = session(lock)
        _fail(monkeypatch, "delete", "before").append("again")
    assert session(lock) is not before
    with lock.hold() as held:
        assert held.epoch == 2


def _fail(monkeypatch: pytest.MonkeyPatch, call: str, how: str) -> list[str]:
    """One call fails, before or after it took effect, and as many more as are put on the list."""
    real, failures = getattr(ZooKeeper, call), [call]

    def fail(self: ZooKeeper, *args: object, **named: object) -> object:
        if failures and how == "before":
            raise StorageError(failures.pop())
        done = real(self, *args, **named)
        if failures:
            raise StorageError(failures.pop())
        return done

    monkeypatch.setattr(ZooKeeper, call, fail)
    return failures


def test_servers_that_cannot_be_reached_are_a_storage_error(locks: Locks) -> None:
    lock = locks(hosts="127.0.0.1:1")
    options = replace(lock.options, connection_timeout_ms=200)
    with pytest.raises(StorageError, match="zookeeper.url"):
        fall_asleep(replace(lock, options=options))


def test_a_state_that_is_none_is_corrupt(locks: Locks, zookeeper: ZooKeeperServer) -> None:
    with locks().hold():
        pass
    with zookeeper.client() as client:
        client.set(locks().options.path + ".lentic-state", b"10.0.0.1")
    with pytest.raises(Corrupt, match="not what a lock looks like"), locks().hold():
        pass


def test_no_content_and_no_password_gets_into_the_log(
    locks: Locks, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(1)
    with locks().hold() as held:
        held.publish(Intent(PATH, b"not for the log"))
    assert "not for the log" not in caplog.text
    assert "passwd" not in caplog.text


_FORK = """
import os, sys
from lentic.config.zookeeper import ZooKeeperOptions
from lentic.coordination.lock_zookeeper import ZooKeeperLock
from lentic.storage.memory import MemoryStorage
from lentic.world import real_world
options = ZooKeeperOptions(*sys.argv[1:], 30000, 15000)
lock = ZooKeeperLock(MemoryStorage(), real_world(), 60000, options)
with lock.hold() as held:
    print(held.epoch)
    sys.stdout.flush()
    if (child := os.fork()) == 0:
        with lock.hold() as held:
            print(held.epoch)
        sys.exit()
os.waitpid(child, 0)
with lock.hold() as held:
    print(held.epoch)
"""


def test_a_forked_child_waits_for_its_parent_with_a_session_of_its_own(locks: Locks) -> None:
    options = locks().options
    done = subprocess.run(
        [sys.executable, "-c", _FORK, options.hosts, options.path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=WAIT_MS / 1000,
    )
    assert (done.stdout.split(), done.stderr) == (["1", "2", "3"], "")
