"""A client of ZooKeeper whose every call ends, and the sessions that this process has.

There is one session per process and `Endpoint`, shared by all its tables and threads, closed at
exit; a forked child gets its own. A call that is not answered in time, or whose answer got lost
with the connection, is a `StorageError`: what it asked for may have happened, or still happen, but
in the order in which this session asked.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState

from lentic.errors import StorageError
from lentic.world import after_fork

_RECONNECT = {"max_tries": -1, "delay": 0.1, "max_delay": 2.0}
_CREATIONS_MAX = 3
_REFUSED = (BadVersionError, NodeExistsError, NoNodeError)
_WITH_ANOTHER = (RolledBackError, RuntimeInconsistency)

_client_log = logging.getLogger(f"{__name__}.client")
# Below this level the client tells contents, and the session's password.
_client_log.setLevel(logging.INFO)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Servers, and how patient they and we are."""

    hosts: str
    session_timeout_ms: int
    connection_timeout_ms: int


@dataclass(frozen=True, slots=True)
class Znode:
    """What lies at a path."""

    data: bytes
    version: int
    created_ms: int


class ZooKeeper:
    """One session, followed by another should it expire. Get it from `connect`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.losses = 0
        """How many sessions have ended so far; what was made in one ends with it."""
        self.is_inherited = False
        """Whether it is a forked parent's, and nothing can be asked here."""
        self._is_up = threading.Event()
        self._limit_s = endpoint.connection_timeout_ms / 1000
        self._client = KazooClient(
            hosts=endpoint.hosts,
            timeout=endpoint.session_timeout_ms / 1000,
            connection_retry=_RECONNECT,
            logger=_client_log,
        )
        self._client.add_listener(self._note)
        self._client.start_async()
        if not self._is_up.wait(self._limit_s):
            self.close(wait_s=0)
            raise self._silent("none of the servers can be reached")

    def read(self, path: str) -> Znode | None:
        """The znode, or None if there is none."""
        try:
            data, stat = self._ask(self._client.get_async, path)
        except NoNodeError:
            return None
        return Znode(data, stat.version, stat.ctime)

    def list_children(self, path: str) -> list[str]:
        """The names directly under `path`, in no order; none if it is not there."""
        try:
            names: list[str] = self._ask(self._client.get_children_async, path)
        except NoNodeError:
            return []
        return names

    def create_numbered(self, prefix: str, data: bytes) -> str:
        """Make a znode that ends with the session; its path is `prefix` and a rising number.

        What lies above it is made where it is missing, to stay.
        """
        for _ in range(_CREATIONS_MAX):
            # Step by step, so that nothing is asked for after the caller was told of a failure.
            try:
                path: str = self._ask(
                    self._client.create_async, prefix, data, ephemeral=True, sequence=True
                )
            except NoNodeError:
                self._ask(self._client.ensure_path_async, prefix.rpartition("/")[0])
            else:
                return path
        raise self._silent("somebody keeps deleting where the lock lies")

    def delete(self, path: str) -> None:
        """Remove the znode; nothing to do if it is gone."""
        with suppress(NoNodeError):
            self._ask(self._client.delete_async, path)

    def wait_until_gone(self, path: str, timeout_s: float) -> None:
        """Return when the znode changes or goes, when the connection does, or after the time."""
        changed = threading.Event()
        with suppress(NoNodeError):
            # Not `exists`: that would leave a watch behind where there is nothing any more.
            self._ask(self._client.get_async, path, watch=lambda event: changed.set())
            changed.wait(timeout_s)

    def swap(self, path: str, data: bytes, version: int | None, *, only_with: str) -> int | None:
        """Replace `version` of the znode (None: there is none yet), in one step with the check that
        `only_with` is there. The new version, or None if either is not so."""
        step = self._client.transaction()
        step.check(only_with, -1)
        if version is None:
            step.create(path, data)
        else:
            step.set_data(path, data, version)
        answers = self._ask(step.commit_async)
        failures = [a for a in answers if isinstance(a, Exception)]
        if not failures:
            return 0 if version is None else int(answers[1].version)
        causes = [f for f in failures if not isinstance(f, _WITH_ANOTHER)]
        if all(isinstance(cause, _REFUSED) for cause in causes):
            return None
        raise self._silent(f"it refused: {causes}")

    def close(self, wait_s: float) -> None:
        """End the session, waiting so long; unless the servers hear of it, it expires."""
        if self.is_inherited:
            return
        thread = threading.Thread(target=self._end, name="lentic-zookeeper-end", daemon=True)
        thread.start()
        thread.join(wait_s)

    def leave_to_parent(self) -> None:
        """What a forked child does with it, which has the sockets but not the threads."""
        self.is_inherited = True
        self.losses += 1

    def _end(self) -> None:
        with suppress(Exception):
            self._client.stop()
        with suppress(Exception):
            self._client.close()

    def _note(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._is_up.set()
        else:
            self._is_up.clear()
        if state == KazooState.LOST:
            self.losses += 1

    def _ask(self, call: Callable[..., Any], *args: object, **named: object) -> Any:
        """Make the call once there is a connection, and wait for its answer."""
        if self.is_inherited or not self._is_up.wait(self._limit_s):
            raise self._silent("there is no connection")
        try:
            return call(*args, **named).get(timeout=self._limit_s)
        except _REFUSED:
            raise
        except (KazooException, KazooTimeoutError) as error:
            raise self._silent(type(error).__name__) from error

    def _silent(self, why: str) -> StorageError:
        return StorageError(
            f"ZooKeeper did not do what it was asked for: {why}.",
            where=f"zookeeper://{self.endpoint.hosts}",
            safe="reading; no change of the timeline that was not decided before can happen",
            next_step="look whether the servers run and hoodie.write.lock.zookeeper.url names "
            "them, then repeat the call",
        )


# --- the sessions of this process ---------------------------------------------------------------

_sessions: dict[Endpoint, ZooKeeper] = {}
_inherited: list[ZooKeeper] = []
_sessions_lock = threading.Lock()


def connect(endpoint: Endpoint) -> ZooKeeper:
    """This process's session with the servers, begun if there is none; `StorageError` if they do
    not answer."""
    with _sessions_lock:
        if (found := _sessions.get(endpoint)) is None:
            found = _sessions[endpoint] = ZooKeeper(endpoint)
        return found


def abandon(zookeeper: ZooKeeper) -> None:
    """End this session, and all that was made in it, without waiting; the next call begins one."""
    with _sessions_lock:
        if _sessions.get(zookeeper.endpoint) is zookeeper:
            del _sessions[zookeeper.endpoint]
    zookeeper.close(wait_s=0)


@atexit.register
def _close_all() -> None:
    while _sessions:
        endpoint, zookeeper = _sessions.popitem()
        zookeeper.close(wait_s=endpoint.connection_timeout_ms / 1000)


def _forget() -> None:
    global _sessions_lock
    _sessions_lock = threading.Lock()
    for zookeeper in _sessions.values():
        zookeeper.leave_to_parent()
        _inherited.append(zookeeper)  # kept, so that nothing of the parent's is closed
    _sessions.clear()


after_fork(_forget)
