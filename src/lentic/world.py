"""Time, chance and identity: the only door to what differs from one run to the next.

Everything else receives a `World`. In production it is `real_world()`; in a simulation every clock
call is a point where the scheduler may switch actors, and entropy comes from the seed.
"""

from __future__ import annotations

import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

_AT_ONCE = 4


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


class Background(Protocol):
    """Work beside the caller's."""

    def every(self, seconds: float, work: Callable[[], object]) -> AbstractContextManager[None]:
        """Do `work` every so many seconds until the block ends, first after that many.

        A run that hangs does not hold the next one up: a few may be under way at once.
        """


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
    background: Background


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


class Threads:
    """Background work in daemon threads, so that it never keeps a process alive."""

    @contextmanager
    def every(self, seconds: float, work: Callable[[], object]) -> Iterator[None]:
        over, free = threading.Event(), threading.Semaphore(_AT_ONCE)

        def once() -> None:
            try:
                work()
            finally:
                free.release()

        def tick() -> None:
            while not over.wait(seconds):
                if free.acquire(blocking=False):
                    threading.Thread(target=once, name="lentic-background", daemon=True).start()

        threading.Thread(target=tick, name="lentic-ticker", daemon=True).start()
        try:
            yield
        finally:
            over.set()


def real_world() -> World:
    """The world of this process."""
    process = Process(socket.gethostname(), os.getpid())
    return World(_SystemClock(), _SystemEntropy(), process, Threads())


def after_fork(forget: Callable[[], object]) -> None:
    """Call `forget` in every process forked from this one.

    For what a child must not share with its parent: connections, and threads, which stay behind.
    """
    os.register_at_fork(after_in_child=forget)
