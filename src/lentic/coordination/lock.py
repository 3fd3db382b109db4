"""The table lock: who may change the timeline, and the proof of it that such functions ask for.

A provider hands out one `Held` at a time per table. `Held` carries the fencing epoch and the last
time ever issued (R9), both kept with the lock itself so that they outlive their holder.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class Held(Protocol):
    """Proof of holding the table lock. Valid only inside the `with` block that gave it."""

    @property
    def epoch(self) -> int:
        """Rises by one with each acquisition, across processes and restarts."""

    @property
    def last_time(self) -> str:
        """The last instant time issued under this lock, or "" if none is known."""

    def save_last_time(self, time: str) -> None:
        """Remember `time` durably, before anything is named after it."""

    def ensure_held(self) -> None:
        """Raise `Conflict` if the lock was lost (a lease that ran out)."""


class LockProvider(Protocol):
    """A mutual exclusion between all writers of one table."""

    def hold(self) -> AbstractContextManager[Held]:
        """Wait for the lock, up to the provider's own time-out, then `LockTimeout`."""
