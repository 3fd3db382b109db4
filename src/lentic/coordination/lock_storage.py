"""The table lock as an object next to the table, taken by conditional puts.

The object is the one Apache Hudi's storage-based provider uses, in its form, so that either waits
while the other holds it. A holder that died, or sleeps longer than its lease, is replaced: its lock
counts as free once it has not changed for a lease on the clock of whoever waits, or sooner where
its own word says that it ended. Clocks that are off make that happen too early or too late, never
wrong: a holder that lost the lock cannot publish any more (`fenced.py`).

Not reentrant: a thread that waits for a lock it holds waits until the time-out or the lease's end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lentic.coordination.fenced import (
    FencedHeld,
    LockState,
    decode_state,
    encode_state,
    swap_surely,
)
from lentic.errors import LockTimeout, StorageError
from lentic.format import layout
from lentic.storage.base import ConditionalStorage, Versioned
from lentic.world import World

_DRIFT_MS = 500  # as Hudi's provider allows between clocks
_STILL_S = 2.0
_PAUSE_S, _PAUSE_S_MAX = 0.02, 1.0


@dataclass(frozen=True, slots=True)
class StorageCell:
    """One object as a cell."""

    storage: ConditionalStorage
    path: str

    @property
    def where(self) -> str:
        return f"{self.storage.root.rstrip('/')}/{self.path}"

    @property
    def lease_key(self) -> str:
        return "hoodie.write.lock.storage.validity.timeout.secs"

    def read(self) -> Versioned | None:
        return self.storage.read_version(self.path)

    def swap(self, data: bytes, version: str | None) -> str | None:
        return self.storage.put_if_match(self.path, data, version)


@dataclass(frozen=True, slots=True)
class StorageLock:
    """A lock for all writers that reach the same storage."""

    storage: ConditionalStorage
    world: World
    timeout_ms: int
    lease_ms: int

    @contextmanager
    def hold(self) -> Iterator[FencedHeld]:
        held = self._acquire()
        try:
            held.carry_out()
            yield held
        finally:
            held.release()

    def _acquire(self) -> FencedHeld:
        cell = StorageCell(self.storage, layout.STORAGE_LOCK)
        clock = self.world.clock
        begun = clock.monotonic()
        seen, seen_since, pause_s = "", begun, _PAUSE_S
        while True:
            now = cell.read()
            before = LockState() if now is None else decode_state(now.data, cell.where)
            version = None if now is None else now.version
            if (version or "") != seen:
                seen, seen_since = version or "", clock.monotonic()
            still_s = clock.monotonic() - seen_since
            if self._is_over(before, still_s) and (held := self._take(cell, before, version)):
                return held
            if (clock.monotonic() - begun) * 1000 >= self.timeout_ms:
                raise self._timed_out(cell, before)
            left_s = self.lease_ms / 1000 - still_s
            chance_s = pause_s * (0.5 + self.world.entropy.integer(1000) / 1000)
            # A dead holder's lease is not waited for longer than it lasts.
            clock.sleep(min(chance_s, left_s) if left_s > 0 else chance_s)
            pause_s = min(pause_s * 1.5, _PAUSE_S_MAX)

    def _is_over(self, before: LockState, still_s: float) -> bool:
        if before.is_free or still_s * 1000 >= self.lease_ms:
            return True
        ended = self.world.clock.now_ms() > before.valid_until_ms + _DRIFT_MS
        return ended and still_s >= _STILL_S

    def _take(self, cell: StorageCell, before: LockState, version: str | None) -> FencedHeld | None:
        clock = self.world.clock
        now_ms = clock.now_ms()
        state = before.taken(
            self.world.process,
            owner=self.world.entropy.uuid(),
            now_ms=now_ms,
            valid_until_ms=now_ms + self.lease_ms,
        )
        try:
            taken = swap_surely(cell, encode_state(state), version)
        except StorageError:
            return None  # should it have taken place after all, the lease ends by itself
        if taken is None:
            return None
        return FencedHeld(cell, self.storage, state, taken, lambda: clock.now_ms() + self.lease_ms)

    def _timed_out(self, cell: StorageCell, holder: LockState) -> LockTimeout:
        who = "by another writer"
        if holder.host:
            age_s = max(0, self.world.clock.now_ms() - holder.since_ms) / 1000
            who = f"by process {holder.pid} on {holder.host}, for {age_s:.0f} s"
        elif holder.owner:
            who = f"by owner {holder.owner}"
        return LockTimeout(
            f"The table lock was not free within {self.timeout_ms / 1000:g} s; it is held {who}.",
            where=cell.where,
            safe="nothing was changed; a dead holder's lock is free when its lease of "
            f"{self.lease_ms / 1000:g} s has ended",
            next_step="wait and repeat the call; do not delete the lock",
        )
