"""The table lock on ZooKeeper, at the place and in the form of Apache Hudi's own provider.

Who holds Curator's mutex at `<base path>/<lock key>` (`curator.py`) holds the lock, whichever
engine they are; it is freed when its holder's session ends. What our holders share, epoch, last
time and decision, lies beside it, in `<lock key>.lentic-state`, out of the mutex's sight.

A holder whose session ended cannot decide anything any more (R2): each swap of the state also asks,
in one step, that the holder's own place in the mutex is still there, so it fails from the moment on
at which anybody else, of any engine, may have the lock. What was decided before is carried out by
our next holder; Apache Hudi's do not know of it, as they would not know of a file that came late.

Not reentrant: a thread that waits for a lock it holds waits until the time-out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from lentic.config.zookeeper import SESSION_TIMEOUT_MS, ZooKeeperOptions
from lentic.coordination.curator import Place, in_order, protected_prefix
from lentic.coordination.fenced import (
    FencedHeld,
    LockState,
    decode_state,
    encode_state,
    swap_surely,
)
from lentic.coordination.zookeeper import Endpoint, ZooKeeper, connect
from lentic.errors import LenticError, LockTimeout, StorageError
from lentic.storage.base import Storage, Versioned
from lentic.world import World

_STATE_SUFFIX = ".lentic-state"
_SHOWN_MAX = 120
_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class PlaceCell:
    """The state of a lock as a cell, for whoever holds `place`."""

    place: Place

    @property
    def where(self) -> str:
        return f"zookeeper://{self.place.zookeeper.endpoint.hosts}{self._path}"

    @property
    def lease_key(self) -> str:
        return SESSION_TIMEOUT_MS.key

    @property
    def _path(self) -> str:
        return self.place.path + _STATE_SUFFIX

    def read(self) -> Versioned | None:
        znode = self.place.zookeeper.read(self._path)
        return None if znode is None else Versioned(znode.data, str(znode.version))

    def swap(self, data: bytes, version: str | None) -> str | None:
        expected = None if version is None else int(version)
        node = self.place.node
        swapped = self.place.zookeeper.swap(self._path, data, expected, only_with=node)
        if swapped is not None:
            return str(swapped)
        now = self.read()  # perhaps it took place when it was asked for before
        return now.version if now is not None and now.data == data else None


class ZooKeeperHeld(FencedHeld):
    """Proof of holding a `ZooKeeperLock`."""

    def __init__(
        self, place: Place, cell: PlaceCell, storage: Storage, state: LockState, version: str
    ) -> None:
        super().__init__(cell, storage, state, version, lease_end_ms=lambda: 0)
        self._place = place

    def ensure_held(self) -> None:
        if self._place.is_lost:
            self._is_held = False
        super().ensure_held()

    def release(self) -> None:
        self._is_held = self._is_held and not self._place.is_lost
        try:
            super().release()
        finally:
            self._place.leave()


@dataclass(frozen=True, slots=True)
class ZooKeeperLock:
    """A lock for all writers, of any engine, that name the same servers and path."""

    storage: Storage
    world: World
    timeout_ms: int
    options: ZooKeeperOptions

    @contextmanager
    def hold(self) -> Iterator[ZooKeeperHeld]:
        held = self._acquire()
        try:
            held.carry_out()
            yield held
        finally:
            held.release()

    def _acquire(self) -> ZooKeeperHeld:
        options = self.options
        endpoint = Endpoint(
            options.hosts, options.session_timeout_ms, options.connection_timeout_ms
        )
        clock = self.world.clock
        until_s = clock.monotonic() + self.timeout_ms / 1000
        while True:
            zookeeper = connect(endpoint)
            failure: LenticError
            try:
                if held := self._try(zookeeper, until_s):
                    return held
                failure = self._timed_out(zookeeper)
            except StorageError as error:
                failure = error
            if clock.monotonic() >= until_s:
                raise failure
            clock.sleep(_PAUSE_S)

    def _try(self, zookeeper: ZooKeeper, until_s: float) -> ZooKeeperHeld | None:
        """Queue up and wait; None if it took too long or the session ended meanwhile."""
        process = self.world.process
        place = Place(zookeeper, self.options.path, self.world.entropy.uuid())
        with ExitStack() as undo:
            undo.callback(place.leave)
            place.enter(f"lentic, process {process.pid} on {process.host}".encode())
            held = self._take(place) if place.wait(self.world.clock, until_s) else None
            if held is not None:
                undo.pop_all()
            return held

    def _take(self, place: Place) -> ZooKeeperHeld | None:
        """The lock with its state, for who is first in the queue; None if they are no more."""
        cell = PlaceCell(place)
        now = cell.read()
        before = LockState() if now is None else decode_state(now.data, cell.where)
        state = before.taken(
            self.world.process,
            owner=place.uuid,
            now_ms=self.world.clock.now_ms(),
            valid_until_ms=0,
        )
        version = swap_surely(cell, encode_state(state), None if now is None else now.version)
        if version is None:
            return None
        return ZooKeeperHeld(place, cell, self.storage, state, version)

    def _timed_out(self, zookeeper: ZooKeeper) -> LockTimeout:
        session_s = self.options.session_timeout_ms / 1000
        return LockTimeout(
            f"The table lock was not free within {self.timeout_ms / 1000:g} s; it is held "
            f"{self._holder(zookeeper)}.",
            where=f"zookeeper://{self.options.hosts}{self.options.path}",
            safe="nothing was changed; the lock of a dead holder frees itself when its session "
            f"ends, after {session_s:g} s if it has the same {SESSION_TIMEOUT_MS.key}",
            next_step="wait and repeat the call, or look what the holder does; do not delete "
            "anything on ZooKeeper while it lives",
        )

    def _holder(self, zookeeper: ZooKeeper) -> str:
        """Who has the lock: one of ours by the state, another by what its own znode says."""
        path, unknown = self.options.path, "by another writer"
        try:
            names = in_order(zookeeper.list_children(path))
            first = zookeeper.read(f"{path}/{names[0]}") if names else None
            if first is None:
                return unknown
            if kept := zookeeper.read(path + _STATE_SUFFIX):
                state = decode_state(kept.data, path)
                if names[0].startswith(protected_prefix(state.owner)):
                    age = self._age(state.since_ms)
                    return f"by process {state.pid} on {state.host}, for {age}"
        except LenticError:
            return unknown
        told = first.data.decode(errors="replace")[:_SHOWN_MAX]
        who = f"by {told!r}" if told else unknown
        return f"{who}, which has asked for it {self._age(first.created_ms)} ago"

    def _age(self, since_ms: int) -> str:
        return f"{max(0, self.world.clock.now_ms() - since_ms) / 1000:.0f} s"
