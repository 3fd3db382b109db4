"""A place in a queue on ZooKeeper, in the form of Apache Curator's `InterProcessMutex`.

Whoever wants the lock makes a znode under the queue's path that ends with their session, called
`_c_<uuid>-lock-<number>`; the server gives the number. The lowest number has the lock, every other
waits for the znode before its own to go. The uuid finds a znode whose creation was not answered.

Names are compared as Curator compares them: by what follows the last `lock-`, or whole.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from lentic.coordination.zookeeper import ZooKeeper, abandon
from lentic.errors import StorageError
from lentic.world import Clock

_LOCK = "lock-"
_TRIES_MAX = 2

_log = logging.getLogger(__name__)


def in_order(names: Iterable[str]) -> list[str]:
    """The names in the queue, the holder of the lock first."""
    return sorted(names, key=lambda name: name.rpartition(_LOCK)[2])


class Place:
    """One place in the queue at `path`. Whoever has entered must leave, whatever happens."""

    def __init__(self, zookeeper: ZooKeeper, path: str, uuid: str) -> None:
        self.zookeeper = zookeeper
        self.path = path
        self.uuid = uuid
        self._prefix = protected_prefix(uuid)
        self._name = ""
        self._losses = zookeeper.losses

    @property
    def node(self) -> str:
        """The path of the znode that is this place."""
        assert self._name, "enter first"
        return f"{self.path}/{self._name}"

    @property
    def is_lost(self) -> bool:
        """Whether the session in which it was entered is known to have ended."""
        return self.zookeeper.losses != self._losses

    def enter(self, data: bytes) -> None:
        """Queue up. `StorageError` if that failed, or may have."""
        try:
            made = self.zookeeper.create_numbered(f"{self.path}/{self._prefix}{_LOCK}", data)
        except StorageError:
            if not (found := self._find()):
                raise
            self._name = found
        else:
            self._name = made.rpartition("/")[2]
        self._losses = self.zookeeper.losses

    def wait(self, clock: Clock, until_s: float) -> bool:
        """Wait for the lock until that time. False if it went by, or the place is gone."""
        while True:
            names = in_order(self.zookeeper.list_children(self.path))
            if self._name not in names:
                return False
            position = names.index(self._name)
            left_s = until_s - clock.monotonic()
            if position == 0 or left_s <= 0:
                return position == 0
            self.zookeeper.wait_until_gone(f"{self.path}/{names[position - 1]}", left_s)

    def leave(self) -> None:
        """Give the place back. Where that cannot be done the session ends, and the place with it:
        a place that nobody knows of would hold the lock for as long as this process lives."""
        if self.zookeeper.is_inherited:
            return  # it is the parent's
        for _ in range(_TRIES_MAX):
            try:
                if name := self._name or self._find():
                    self.zookeeper.delete(f"{self.path}/{name}")
            except StorageError as error:
                _log.debug("the place at %s is given back again: %s", self.path, error)
            else:
                return
        _log.warning("a place at %s could not be given back; the session ends", self.path)
        abandon(self.zookeeper)

    def _find(self) -> str | None:
        names = self.zookeeper.list_children(self.path)
        return next((name for name in names if name.startswith(self._prefix)), None)


def protected_prefix(uuid: str) -> str:
    """How the name of a place begins that was entered under this uuid."""
    return f"_c_{uuid}-"
