"""Time, chance and identity: the only door to what differs from one run to the next.

Everything else receives a `World`. In production it is `real_world()`; in a simulation every clock
call is a point where the scheduler may switch actors, and entropy comes from the seed.
"""

from __future__ import annotations

import os
import random
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Wall time for instants, monotonic time for waiting and expiry."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch; may jump either way."""

    def monotonic(self) -> float:
        """Seconds that never run backwards within this process."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class Entropy(Protocol):
    """Chance."""

    def uuid(self) -> str:
        """A fresh random UUID in its 36-character form."""

    def integer(self, below: int) -> int:
        """A whole number from 0 to `below` - 1."""


@dataclass(frozen=True, slots=True)
class Process:
    """Who we are, for locks, heartbeats and error messages."""

    host: str
    pid: int

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"


@dataclass(frozen=True, slots=True)
class World:
    """All that a flow needs of the outside besides storage and lock."""

    clock: Clock
    entropy: Entropy
    process: Process


class _SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class _SystemEntropy:
    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def uuid(self) -> str:
        return str(uuid.uuid4())

    def integer(self, below: int) -> int:
        return self._random.randrange(below)


def real_world() -> World:
    """The world of this process."""
    return World(_SystemClock(), _SystemEntropy(), Process(socket.gethostname(), os.getpid()))


def after_fork(forget: Callable[[], object]) -> None:
    """Call `forget` in every process forked from this one.

    For what a child must not share with its parent: connections, and threads, which stay behind.
    """
    os.register_at_fork(after_in_child=forget)
