"""Deterministic simulation of ordinary synchronous code.

Each actor is a plain function in a thread of its own, but only the one that holds the baton runs.
Every storage call, lock acquisition and sleep is a point where the seeded scheduler may hand the
baton on. The same seed gives the same trace, so a failure is replayed by its seed alone.

    sim = Simulation(seed=7)
    storage, lock = sim.storage(), sim.lock(timeout_ms=60_000)
    sim.actor("w1", lambda: write(storage, sim.world("w1"), lock))
    sim.actor("w2", lambda: write(storage, sim.world("w2"), lock))
    sim.crash_at("w1", call=17, when="after")
    outcome = sim.run()

Faults, each at the n-th storage call of an actor, counted from 1 (saving a lock's last time counts
as a storage call):

- `crash_at`: the actor is killed `before` the call had its effect, `after` it (the caller never
  learns), or `torn` (see `sim_storage`). From then on every storage, lock and clock call of the
  actor raises `Crash` without effect, so its `finally` blocks run in vain, as under kill -9. Its
  locks are free, as the system would free them.
- `fail_at`: the call raises `StorageError`, `before` its effect or `after` it (a lost reply).
- `pause_at`: the actor stands still for a while before the call, holding what it holds.

Actors must not start threads. Outside `run`, storage, lock and clocks work directly, which serves
to set a scene and to look at what is left.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable
from typing import Literal, TypeVar

from lentic.errors import LenticError, StorageError
from lentic.storage.base import FileInfo
from lentic.storage.memory import MemoryStorage
from lentic.testing.sim_actors import Actor, Crashed, Fault, Outcome, Raised, Returned, When
from lentic.testing.sim_storage import Crash, SimStorage
from lentic.testing.sim_world import SimBackground, SimClock, SimEntropy, SimLock, Timer
from lentic.world import Process, World

START_MS = 1_704_067_200_000  # 2024-01-01T00:00:00Z
_JUMP_CHANCE = 1 / 32

T = TypeVar("T")

__all__ = ["Crashed", "Deadlock", "Outcome", "Raised", "Returned", "Simulation", "When"]


class Deadlock(Exception):
    """No actor can ever run again, or the run does not come to an end."""


class Simulation:
    """A scheduler, a clock and a storage, all moved by one seed."""

    def __init__(self, seed: int = 0, *, jump_ms_max: int = 1000, steps_max: int = 100_000) -> None:
        self.seed = seed
        self.memory = MemoryStorage(lambda: START_MS + self.now_ms, root="sim://table")
        self.now_ms = 0
        self._jump_ms_max = jump_ms_max
        self._steps_max = steps_max
        self._random = random.Random(seed)
        # Some seeds switch at nearly every step, others let an actor run far ahead.
        self._stay_chance = self._random.choice((0.0, 0.5, 0.9))
        self._actors: dict[str, Actor] = {}
        self._live: list[Actor] = []
        self._current: Actor | None = None
        self.outcomes: dict[str, Outcome] = {}
        self._deadlock: Deadlock | None = None
        self._finished = threading.Lock()
        self._faults: dict[str, dict[int, Fault]] = {}
        self._steps = 0
        self._rows: list[tuple[int, str, str, str, str]] = []

    # Setting the scene

    def storage(self) -> SimStorage:
        """The storage all actors share. Its content is `memory`."""
        return SimStorage(self.memory, self)

    def world(self, name: str, *, skew_ms: int = 0) -> World:
        """A world of its own chance, and a clock that is off by `skew_ms`."""
        clock = SimClock(self, START_MS + skew_ms)
        process = Process(f"sim-{name}", 1)
        return World(clock, SimEntropy(f"{self.seed}/{name}"), process, SimBackground(self))

    def lock(self, timeout_ms: int | None = 60_000) -> SimLock:
        """A new lock for all actors; None waits for ever."""
        return SimLock(self, timeout_ms)

    def actor(self, name: str, work: Callable[[], object]) -> None:
        """Add an actor. Its `work` begins when `run` first hands it the baton."""
        assert name not in self._actors, f"there is an actor {name!r} already"
        self._actors[name] = Actor(name, work)

    def crash_at(self, name: str, *, call: int, when: When) -> None:
        """Kill the actor at its storage call number `call`."""
        self._add_fault(name, call, Fault("crash", when))

    def fail_at(self, name: str, *, call: int, when: Literal["before", "after"]) -> None:
        """Let that storage call raise `StorageError`."""
        self._add_fault(name, call, Fault("fail", when))

    def pause_at(self, name: str, *, call: int, pause_ms: int) -> None:
        """Let the actor stand still before that storage call."""
        self._add_fault(name, call, Fault("pause", pause_ms=pause_ms))

    def _add_fault(self, name: str, call: int, fault: Fault) -> None:
        assert call >= 1, "storage calls are counted from 1"
        self._faults.setdefault(name, {})[call] = fault

    # Running and looking back

    def run(self) -> dict[str, Outcome]:
        """Run the actors added since the last `run` to their end, and say how each ended."""
        self._live = [a for a in self._actors.values() if a.name not in self.outcomes]
        for actor in self._live:
            actor.faults = self._faults.get(actor.name, {})
        if len(self._live) == 1:
            self._current = self._live[0]
            self._perform(self._live[0])
        elif self._live:
            self._run_threads(list(self._live))
        self._current = None
        if self._deadlock is not None:
            raise self._deadlock
        for outcome in self.outcomes.values():
            if isinstance(outcome, Raised) and not isinstance(outcome.error, Exception):
                raise outcome.error  # an interrupt, or a test framework's own signal
        return dict(self.outcomes)

    @property
    def trace(self) -> list[str]:
        """One line per step: number, milliseconds since the start, actor, call, result, path."""
        return [
            f"{step:5d} {now_ms:9d} {name:<10} {op:<14} {result:<14} {path}".rstrip()
            for step, (now_ms, name, op, result, path) in enumerate(self._rows, start=1)
        ]

    def calls(self, name: str) -> int:
        """How many storage calls the actor made."""
        return self._actors[name].calls

    def torn_calls(self, name: str) -> list[int]:
        """The storage calls of the actor at which `torn` differs from `before`."""
        return list(self._actors[name].torn_calls)

    # What storage, clocks and locks ask for

    def call(self, op: str, path: str, effect: Callable[[], T]) -> T:
        """Let others run, then have the effect, unless a fault strikes here."""
        actor = self._running()
        if actor is None:
            return effect()
        self.now_ms += 1
        self._switch(actor)
        self._run_timers(actor)
        actor.calls += 1
        if actor.tears:
            actor.torn_calls.append(actor.calls)
        fault = actor.faults.get(actor.calls)
        if fault is not None and fault.when != "after":
            self._strike(actor, fault, op, path)
        try:
            result = effect()
        except LenticError as error:
            self.log(op, path, type(error).__name__)
            if fault is not None and fault.when == "after":
                self._strike(actor, fault, op, path)
            raise
        self.log(op, path, _summary(result))
        if fault is not None and fault.when == "after":
            self._strike(actor, fault, op, path)
        return result

    def add_stream(self, tear: Callable[[], object]) -> Callable[[], None]:
        """Call `tear` should the running actor be torn; the result takes that back."""
        actor = self._running()
        if actor is None:
            return lambda: None
        actor.tears.append(tear)
        return lambda: actor.tears.remove(tear)

    def tick(self) -> int:
        """Let a millisecond pass, or now and then many; the milliseconds since the start."""
        self._running()
        jump = self._random.random() < _JUMP_CHANCE
        self.now_ms += self._random.randint(1, self._jump_ms_max) if jump else 1
        return self.now_ms

    def sleep(self, seconds: float) -> None:
        """Let others run for that long."""
        actor = self._running()
        wake_ms = self.now_ms + max(1, math.ceil(seconds * 1000))
        if actor is None:
            self.now_ms = wake_ms
            return
        self.log("sleep", "", f"{seconds:g} s")
        while self.now_ms < wake_ms:
            due_ms = [] if actor.is_in_timer else [timer.due_ms for timer in actor.timers]
            self._wait(actor, min([wake_ms, *due_ms]), None)
            self._run_timers(actor)

    def add_timer(self, timer: Timer) -> Callable[[], None]:
        """Ring `timer` whenever it is due and the running actor runs or sleeps; the result takes
        that back."""
        actor = self._running()
        if actor is None:
            return lambda: None
        actor.timers.append(timer)
        return lambda: actor.timers.remove(timer)

    def _run_timers(self, actor: Actor) -> None:
        """Background work of an actor is done by the actor itself, so that one which stands still
        does none."""
        if actor.is_in_timer:
            return
        for timer in [timer for timer in actor.timers if timer.due_ms <= self.now_ms]:
            timer.due_ms = self.now_ms + timer.every_ms
            actor.is_in_timer = True
            try:
                timer.work()
            finally:
                actor.is_in_timer = False

    def take_turn(self) -> Actor | None:
        """Let others run; who runs now, or None outside a run."""
        actor = self._running()
        if actor is not None:
            self._switch(actor)
        return actor

    def wait_for(self, lock: SimLock, until_ms: int | None) -> None:
        """Let others run until the lock is free or the time has come."""
        actor = self._running()
        assert actor is not None, "the lock is held, and outside a run nobody will free it"
        due_ms = [] if actor.is_in_timer else [timer.due_ms for timer in actor.timers]
        wakes_ms = [*due_ms, *([] if until_ms is None else [until_ms])]
        self._wait(actor, min(wakes_ms, default=None), lock)
        self._run_timers(actor)

    def log(self, op: str, path: str, result: str) -> None:
        """Add a line to the trace."""
        if self._current is not None:
            self._rows.append((self.now_ms, self._current.name, op, result, path))

    # The scheduler

    def _run_threads(self, actors: list[Actor]) -> None:
        self._finished.acquire()
        for actor in actors:
            threading.Thread(target=self._in_thread, args=(actor,), daemon=True).start()
        self._hand_over(self._choose())
        self._finished.acquire()  # given back by the actor that ends last
        self._finished.release()

    def _in_thread(self, actor: Actor) -> None:
        actor.baton.acquire()
        self._perform(actor)
        if self._live:
            self._hand_over(self._choose())
        else:
            self._finished.release()

    def _perform(self, actor: Actor) -> None:
        actor.thread = threading.get_ident()
        outcome: Outcome
        try:
            outcome = Returned(actor.work())
        except Crash:
            outcome = Crashed()
        except BaseException as error:
            outcome = Raised(error)
        self.outcomes[actor.name] = Crashed() if actor.is_dead else outcome
        for lock in list(actor.locks):
            lock.free()
        self._live.remove(actor)

    def _running(self) -> Actor | None:
        """The actor that runs, None outside a run; `Crash` if it is dead."""
        actor = self._current
        if actor is None:
            return None
        assert actor.thread == threading.get_ident(), "an actor must not start threads"
        if actor.is_dead:
            raise Crash
        return actor

    def _wait(self, actor: Actor, wake_ms: int | None, lock: SimLock | None) -> None:
        actor.wake_ms, actor.waits_for = wake_ms, lock
        self._switch(actor)
        actor.wake_ms, actor.waits_for = None, None

    def _switch(self, actor: Actor) -> None:
        """Hand the baton to whom chance chooses, and come back when it is this actor's again."""
        chosen = self._choose()
        if chosen is not actor:
            self._hand_over(chosen)
            actor.baton.acquire()
        if actor.is_dead:
            raise Crash

    def _hand_over(self, chosen: Actor) -> None:
        self._current = chosen
        chosen.baton.release()

    def _choose(self) -> Actor:
        self._steps += 1
        if self._deadlock is None and self._steps > self._steps_max:
            self._give_up(f"no end after {self._steps_max} steps")
        ready = [actor for actor in self._live if actor.is_ready(self.now_ms)]
        if not ready:
            wakes = [actor.wake_ms for actor in self._live if actor.wake_ms is not None]
            if wakes:
                self.now_ms = min(wakes)
                ready = [actor for actor in self._live if actor.is_ready(self.now_ms)]
            else:
                self._give_up("nobody can run")
        if self._deadlock is not None:
            return self._live[0]  # all are dead: they end one by one
        if self._current in ready and self._random.random() < self._stay_chance:
            return self._current
        return ready[int(self._random.random() * len(ready))]

    def _give_up(self, why: str) -> None:
        lines = [f"Deadlock with seed {self.seed}: {why}."]
        for actor in self._live:
            actor.is_dead = True
            holder = actor.waits_for.holder if actor.waits_for is not None else None
            lines.append(f"  {actor.name}: {f'waits for {holder.name}' if holder else 'runs'}")
        self._deadlock = Deadlock("\n".join([*lines, *self.trace[-20:]]))

    # Faults

    def _strike(self, actor: Actor, fault: Fault, op: str, path: str) -> None:
        if fault.kind == "pause":
            self.log("pause", path, f"{fault.pause_ms} ms")
            self._wait(actor, self.now_ms + fault.pause_ms, None)
            return
        self.log(op, path, f"{fault.kind} {fault.when}")
        if fault.kind == "fail":
            raise StorageError(f"Simulated failure of {op} {path!r}.", where=path)
        if fault.when == "torn":
            for tear in actor.tears:
                tear()
        actor.is_dead = True  # its locks are free once it has unwound; nobody runs until then
        raise Crash


def _summary(result: object) -> str:
    if isinstance(result, bytes):
        return f"{len(result)} B"
    if isinstance(result, list):
        return f"{len(result)} files"
    if isinstance(result, FileInfo):
        return f"{result.size} B"
    return str(result) if isinstance(result, bool) else "ok" if result is None else ""
