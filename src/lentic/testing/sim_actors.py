"""The actors of a simulation: what the scheduler knows of each, and how each ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from lentic.testing.sim_world import SimLock, Timer

When = Literal["before", "after", "torn"]


@dataclass(frozen=True, slots=True)
class Returned:
    """The actor returned."""

    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """The actor raised."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Crashed:
    """The actor was killed by the simulation."""


Outcome = Returned | Raised | Crashed


@dataclass(frozen=True, slots=True)
class Fault:
    kind: Literal["crash", "fail", "pause"]
    when: When = "before"
    pause_ms: int = 0


class Actor:
    """One thread of the simulation and what the scheduler knows about it."""

    def __init__(self, name: str, work: Callable[[], object]) -> None:
        self.name = name
        self.work = work
        self.baton = threading.Lock()
        self.baton.acquire()
        self.thread = 0
        self.calls = 0
        self.faults: dict[int, Fault] = {}
        self.is_dead = False
        self.wake_ms: int | None = None
        self.waits_for: SimLock | None = None
        self.locks: set[SimLock] = set()
        self.tears: list[Callable[[], object]] = []
        self.torn_calls: list[int] = []  # those where `torn` differs from `before`
        self.timers: list[Timer] = []
        self.is_in_timer = False

    def is_ready(self, now_ms: int) -> bool:
        if self.waits_for is not None and self.waits_for.holder is None:
            return True
        if self.wake_ms is not None:
            return self.wake_ms <= now_ms
        return self.waits_for is None
