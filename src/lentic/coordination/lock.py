"""The table lock: who may change the timeline, and the proof of it that such functions ask for.

A provider hands out one `Held` at a time per table. `Held` carries the fencing epoch and the last
time ever issued (R9), both kept with the lock itself so that they outlive their holder.

A lock may be lost while its holder sleeps (a lease that ran out), and looking again before a change
does not help: the holder may fall asleep between the look and the change. So the *decision* to
change the timeline is part of the lock (R2): `publish` stores it there in one step that fails for
whoever holds the lock no more, and only then is the file made. Who comes next first carries out
what was decided before, so that changes appear in the order of the epochs.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Intent:
    """A file of the timeline that is going to be made: `content` at `path`."""

    path: str
    content: bytes


class Held(Protocol):
    """Proof of holding the table lock. Valid only inside the `with` block that gave it."""

    @property
    def epoch(self) -> int:
        """Rises by one with each acquisition, across processes and restarts."""

    @property
    def last_time(self) -> str:
        """The last instant time issued under this lock, or "" if none is known."""

    @property
    def can_be_lost(self) -> bool:
        """Whether others may get the lock while its holder lives."""

    def save_last_time(self, time: str) -> None:
        """Remember `time`, durably before anything that is named after it is published."""

    def ensure_held(self) -> None:
        """Raise `Conflict` if the lock was lost, as far as that can be known without asking."""

    def publish(self, intent: Intent) -> bool:
        """The commit point of `intent`: from here on it happens, whoever has to carry it out.

        `Conflict` if the lock was lost, and then it never happens; `OutcomeUnknown` if the storage
        does not say. False where a lock cannot be lost while its holder lives: then nothing is
        stored, and it is the holder alone who makes it happen.
        """

    def settle(self) -> None:
        """What was published has happened; nobody needs to carry it out any more."""


class LockProvider(Protocol):
    """A mutual exclusion between all writers of one table."""

    def hold(self) -> AbstractContextManager[Held]:
        """Wait for the lock, up to the provider's own time-out, then `LockTimeout`."""
