"""How a runner is told to end: signals outside, and work that can be ended from another thread.

The first SIGTERM or SIGINT asks for the end: no action begins any more, and what is under way has a
while to finish. After that, or at the second signal, it is stopped where it stands: the plan stays
for others, and the heartbeat ends. This is the one module that handles signals.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Protocol, TypeVar

from lentic.engine import (
    WORKING,
    Attempt,
    Engine,
    Join,
    Located,
    Lookup,
    Scan,
    Shuffle,
    stopped,
)
from lentic.progress import Stage

T = TypeVar("T")


class Stop(Protocol):
    """Whether this process should end."""

    @property
    def is_asked(self) -> bool:
        """Whether it should begin nothing new."""

    @property
    def is_urgent(self) -> bool:
        """Whether it should not even finish what it does."""

    def wait(self, seconds: float) -> None:
        """Wait for so long, or until the end is asked for."""


class SignalStop:
    """Asked for by signals."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._urgent = threading.Event()

    @property
    def is_asked(self) -> bool:
        return self._asked.is_set()

    @property
    def is_urgent(self) -> bool:
        return self._urgent.is_set()

    def wait(self, seconds: float) -> None:
        self._asked.wait(seconds)

    def ask(self) -> None:
        """Ask for the end; for the second time, at once."""
        (self._urgent if self._asked.is_set() else self._asked).set()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen to SIGTERM and SIGINT in this block. Only for a process's main thread."""

        with _handling(self.ask):
            yield


@contextmanager
def leaving_at_once() -> Iterator[None]:
    """While nothing is under way yet in this block: upon a signal the process ends, with exit code
    0. Only for a process's main thread."""

    def leave() -> None:
        raise SystemExit(0)

    with _handling(leave):
        yield


_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def _handling(hear: Callable[[], None]) -> Iterator[None]:
    def heard(number: int, frame: FrameType | None) -> None:
        hear()

    before = {number: signal.signal(number, heard) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class StoppableEngine:
    """Another engine, whose work under way `stop` ends, in whatever thread it is called. Nothing
    begins here any more before the outermost `stoppable` block ends."""

    def __init__(self, inner: Engine) -> None:
        self._inner = inner
        self._stops: list[Callable[[], None]] = []
        self._is_stopped = False

    def stop(self) -> None:
        """End what runs here now, and what would run next."""
        self._is_stopped = bool(self._stops)
        for stop in tuple(self._stops):
            with suppress(Exception):  # it may have ended by itself
                stop()

    @contextmanager
    def stoppable(self) -> Iterator[Callable[[], None]]:
        with self._inner.stoppable() as stop:
            self._stops.append(stop)
            try:
                yield stop
            finally:
                self._stops.remove(stop)
                self._is_stopped = self._is_stopped and bool(self._stops)

    def _going(self) -> Engine:
        if self._is_stopped:
            raise stopped()
        return self._inner

    def schema(self, source: Any) -> Any:
        return self._inner.schema(source)

    def run(
        self, work: Callable[[Attempt, T], str], tasks: Sequence[T], stage: Stage = WORKING
    ) -> list[str]:
        return self._going().run(work, tasks, stage)

    def locate(self, source: Any, lookup: Lookup) -> Located:
        return self._going().locate(source, lookup)

    def release(self, located: Located) -> None:
        self._inner.release(located)

    def shuffle(self, source: Any, shuffle: Shuffle) -> list[str]:
        return self._going().shuffle(source, shuffle)

    def join(self, source: Any, target: Any, join: Join) -> Any:
        return self._going().join(source, target, join)

    def collect(self, scan: Scan) -> Any:
        return self._going().collect(scan)
