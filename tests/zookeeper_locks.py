"""What the tests of the ZooKeeper lock share: other holders, and ways to lose a session."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace

from lentic.coordination import zookeeper as sessions
from lentic.coordination.lock_zookeeper import ZooKeeperHeld, ZooKeeperLock
from lentic.coordination.zookeeper import Endpoint, ZooKeeper
from lentic.errors import LockTimeout
from tests.zookeeper_server import ZooKeeperServer

WAIT_MS = 60_000
SHORT_MS = 2_000
"""A session so short that a test can wait for its end, and only for sessions that are to end."""

_HOLDER = """
import sys
from lentic.config.zookeeper import ZooKeeperOptions
from lentic.coordination.lock import Intent
from lentic.coordination.lock_zookeeper import ZooKeeperLock
from lentic.storage.local import LocalStorage
from lentic.world import real_world
root, hosts, path, session_ms = sys.argv[1:]
options = ZooKeeperOptions(hosts, path, int(session_ms), 15000)
with ZooKeeperLock(LocalStorage(root), real_world(), 60000, options).hold() as held:
    held.save_last_time("20240101000000000")
    print("held", held.epoch, flush=True)
    for line in sys.stdin:
        try:
            print("published", held.publish(Intent(*eval(line))), flush=True)
        except Exception as error:
            print(type(error).__name__, flush=True)
"""

Locks = Callable[..., ZooKeeperLock]


class Holder:
    """Another process that holds the lock."""

    def __init__(self, lock: ZooKeeperLock) -> None:
        options, root = lock.options, lock.storage.root
        arguments = [root, options.hosts, options.path, str(options.session_timeout_ms)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _HOLDER, *arguments],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        self.first_words = self.next_words()

    def next_words(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def publish(self, path: str, content: bytes) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{(path, content)!r}\n")
        self._process.stdin.flush()
        return self.next_words()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> None:
        """Release and exit, or, after a kill, be gone."""
        self._process.communicate(timeout=WAIT_MS / 1000)

    def __enter__(self) -> Holder:
        return self

    def __exit__(self, *failure: object) -> None:
        self._process.kill()
        self._process.communicate()


def fall_asleep(lock: ZooKeeperLock) -> ZooKeeperHeld:
    """Hold the lock and never let go, as one who is paused or dead."""
    held = lock._acquire()  # `hold` would release it when its block is thrown away
    held.carry_out()
    return held


def session(lock: ZooKeeperLock) -> ZooKeeper:
    options = lock.options
    return sessions.connect(
        Endpoint(options.hosts, options.session_timeout_ms, options.connection_timeout_ms)
    )


def is_free(lock: ZooKeeperLock) -> bool:
    try:
        with replace(lock, timeout_ms=0).hold():
            return True
    except LockTimeout:
        return False


def expire(lock: ZooKeeperLock, server: ZooKeeperServer) -> None:
    """End the session of this lock's client behind its back: whoever knows it may close it."""
    victim = session(lock)
    victim.list_children("/")  # so that it has a session to lose
    with server.client(victim._client.client_id):
        pass


def await_queue(
    server: ZooKeeperServer, path: str, is_so: Callable[[list[str]], bool]
) -> list[str]:
    """The names in the queue at `path`, once they are so."""
    with server.client() as client:
        while True:
            changed = threading.Event()
            names: list[str] = client.get_children(
                path, watch=lambda event, changed=changed: changed.set()
            )
            if is_so(names):
                return names
            assert changed.wait(WAIT_MS / 1000), names
