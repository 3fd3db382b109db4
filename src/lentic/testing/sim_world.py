"""Clock, chance and lock of a simulation, all driven by its scheduler."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from lentic.coordination.lock import Intent
from lentic.errors import Conflict, LockTimeout

T = TypeVar("T")


class Runner(Protocol):
    """An actor, as far as a lock knows it."""

    @property
    def name(self) -> str: ...

    @property
    def locks(self) -> set[SimLock]:
        """The locks to free when the actor ends, however it ends."""


class Scheduler(Protocol):
    """What clocks and locks ask of the simulation."""

    def tick(self) -> int:
        """Let a little time pass; the milliseconds since the start."""

    def sleep(self, seconds: float) -> None:
        """Let others run for that long."""

    def take_turn(self) -> Runner | None:
        """Let others run; who runs now, or None outside a run."""

    def wait_for(self, lock: SimLock, until_ms: int | None) -> None:
        """Let others run until the lock is free or the time has come."""

    def call(self, op: str, path: str, effect: Callable[[], T]) -> T:
        """As for a storage call."""

    def log(self, op: str, path: str, result: str) -> None:
        """Add a line to the trace."""

    def add_timer(self, timer: Timer) -> Callable[[], None]:
        """Ring the timer when it is due; the result takes that back."""


@dataclass(slots=True)
class Timer:
    """Work that an actor does now and then beside its own."""

    every_ms: int
    due_ms: int
    work: Callable[[], object]


class SimBackground:
    """Background work on simulated time."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    @contextmanager
    def every(self, seconds: float, work: Callable[[], object]) -> Iterator[None]:
        every_ms = max(1, int(seconds * 1000))
        forget = self._scheduler.add_timer(Timer(every_ms, self._scheduler.tick() + every_ms, work))
        try:
            yield
        finally:
            forget()


class SimClock:
    """Time that passes by being looked at and by sleeping."""

    def __init__(self, scheduler: Scheduler, start_ms: int) -> None:
        self._scheduler = scheduler
        self._start_ms = start_ms

    def now_ms(self) -> int:
        return self._start_ms + self._scheduler.tick()

    def monotonic(self) -> float:
        return self._scheduler.tick() / 1000

    def sleep(self, seconds: float) -> None:
        self._scheduler.sleep(seconds)


class SimEntropy:
    """Chance that only depends on its seed."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def uuid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def integer(self, below: int) -> int:
        return self._random.randrange(below)


class _Outside:
    """Whoever uses a lock while no run is going on."""

    name = "outside"

    def __init__(self) -> None:
        self.locks: set[SimLock] = set()


class SimLock:
    """A lock without lease, like `flock`: free when its holder ends. Not reentrant."""

    def __init__(self, scheduler: Scheduler, timeout_ms: int | None) -> None:
        self._scheduler = scheduler
        self._timeout_ms = timeout_ms
        self.holder: Runner | None = None
        self.epoch = 0
        self.last_time = ""

    @contextmanager
    def hold(self) -> Iterator[SimHeld]:
        runner = self._acquire()
        held = SimHeld(self, self._scheduler, self.epoch)
        try:
            yield held
        finally:
            held.end()
            # A block that outlives its actor lost the lock already; another may have it now.
            if self in runner.locks:
                self._scheduler.log("unlock", "", "")
                self.free()

    def free(self) -> None:
        """Take the lock away from its holder."""
        assert self.holder is not None
        self.holder.locks.discard(self)
        self.holder = None

    def _acquire(self) -> Runner:
        runner = self._scheduler.take_turn() or _Outside()
        until_ms = None
        if self._timeout_ms is not None:
            until_ms = self._scheduler.tick() + self._timeout_ms
        while self.holder is not None:
            if until_ms is not None and self._scheduler.tick() >= until_ms:
                self._scheduler.log("lock", "", "timed out")
                raise LockTimeout(f"The lock is held by {self.holder.name}.")
            self._scheduler.wait_for(self, until_ms)
        self.holder = runner
        runner.locks.add(self)
        self.epoch += 1
        self._scheduler.log("lock", "", f"epoch {self.epoch}")
        return runner


class SimHeld:
    """Proof of holding a `SimLock`."""

    can_be_lost = False

    def __init__(self, lock: SimLock, scheduler: Scheduler, epoch: int) -> None:
        self._lock = lock
        self._scheduler = scheduler
        self._epoch = epoch
        self._is_held = True

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def last_time(self) -> str:
        return self._lock.last_time

    def save_last_time(self, time: str) -> None:
        self.ensure_held()
        self._scheduler.call("save_last_time", str(time), lambda: self._save(str(time)))

    def ensure_held(self) -> None:
        if not self._is_held:
            raise Conflict("The lock is no longer held: its block has ended.")

    def publish(self, intent: Intent) -> bool:
        self.ensure_held()
        return False

    def settle(self) -> None:
        pass

    def end(self) -> None:
        """From here on nothing is held."""
        self._is_held = False

    def _save(self, time: str) -> None:
        self._lock.last_time = time
