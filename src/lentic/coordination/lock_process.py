"""The table lock for writers that are threads of one process, shared by name.

Epoch and last time live as long as the process; after a restart the caller's maximum over the
timeline is all there is. Not reentrant: a thread that asks for a lock it holds is told so at once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lentic.coordination.lock import Intent
from lentic.errors import Conflict, LockTimeout


class _State:
    """What all locks of one name share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.epoch = 0
        self.last_time = ""
        self.thread = 0


_states: dict[str, _State] = {}
_states_lock = threading.Lock()


def _state_of(name: str) -> _State:
    with _states_lock:
        return _states.setdefault(name, _State())


@dataclass(frozen=True, slots=True)
class ProcessLock:
    """A lock for all threads of this process that use the same `name`."""

    name: str
    timeout_ms: int

    @contextmanager
    def hold(self) -> Iterator[_ProcessHeld]:
        state = _state_of(self.name)
        assert state.thread != threading.get_ident(), (
            f"this thread already holds the lock {self.name!r}, which is not reentrant"
        )
        if not state.lock.acquire(timeout=self.timeout_ms / 1000):
            raise LockTimeout(
                f"The table lock was not free within {self.timeout_ms / 1000:g} s; "
                f"thread {state.thread} of this process holds it.",
                where=self.name,
                safe="nothing was changed",
                next_step="wait and repeat the call, or give the lock a longer time-out",
            )
        try:
            state.thread = threading.get_ident()
            state.epoch += 1
            held = _ProcessHeld(self.name, state, state.epoch)
            try:
                yield held
            finally:
                held.end()
                state.thread = 0
        finally:
            state.lock.release()


class _ProcessHeld:
    """Proof of holding a `ProcessLock`."""

    can_be_lost = False

    def __init__(self, name: str, state: _State, epoch: int) -> None:
        self._name = name
        self._state = state
        self._epoch = epoch
        self._is_held = True

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def last_time(self) -> str:
        return self._state.last_time

    def save_last_time(self, time: str) -> None:
        self.ensure_held()
        self._state.last_time = str(time)

    def ensure_held(self) -> None:
        if not self._is_held:
            raise Conflict(
                "The table lock is no longer held: its block has ended.",
                where=self._name,
                safe="nothing was changed after the lock was released",
                next_step="repeat the call",
            )

    def publish(self, intent: Intent) -> bool:
        self.ensure_held()
        return False

    def settle(self) -> None:
        pass

    def end(self) -> None:
        """From here on nothing is held."""
        self._is_held = False
