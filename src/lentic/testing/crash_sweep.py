"""Kill a flow at each of its storage calls in turn, and look at what each kill leaves.

    for run in sweep(flow, setup):
        recover(run.storage, run.world, run.lock)
        check(run.storage), run

The flow runs once unharmed to count its calls, then once for every call and every way to die there.
No threads are involved. `run.storage` is the plain memory behind the flow's storage: a fresh view
that does not crash, as a new process would have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lentic.coordination.lock import LockProvider
from lentic.storage.base import Storage
from lentic.storage.memory import MemoryStorage
from lentic.testing.simulation import Crashed, Raised, Simulation, When
from lentic.world import World

Flow = Callable[[Storage, World, LockProvider], object]


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """A way to die: at the storage call number `call`, counted from 1."""

    call: int
    when: When


@dataclass(frozen=True, slots=True)
class CrashRun:
    """What a flow left behind, and what a recovery needs."""

    point: CrashPoint | None
    crashed: bool
    storage: MemoryStorage
    world: World
    lock: LockProvider
    trace: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([f"{self.point}", *self.trace])


def sweep(flow: Flow, setup: Flow | None = None, *, seed: int = 0) -> Iterator[CrashRun]:
    """Every crash of `flow`, each on a storage of its own that `setup` prepared."""
    for point in crash_points(flow, setup, seed=seed):
        yield run_with_crash(flow, point, setup, seed=seed)


def crash_points(flow: Flow, setup: Flow | None = None, *, seed: int = 0) -> list[CrashPoint]:
    """Every call of `flow` with `before` and `after`, and `torn` where that is another end."""
    sim, _ = _run(flow, None, setup, seed)
    torn = set(sim.torn_calls("flow"))
    return [
        CrashPoint(call, when)
        for call in range(1, sim.calls("flow") + 1)
        for when in _ways(call in torn)
    ]


def run_with_crash(
    flow: Flow, point: CrashPoint | None, setup: Flow | None = None, *, seed: int = 0
) -> CrashRun:
    """Run `flow` and kill it at `point`; None lets it live. Its own errors are raised."""
    sim, lock = _run(flow, point, setup, seed)
    crashed = sim.outcomes["flow"] == Crashed()
    return CrashRun(point, crashed, sim.memory, sim.world("recovery"), lock, tuple(sim.trace))


def _ways(is_torn_different: bool) -> tuple[When, ...]:
    return ("before", "torn", "after") if is_torn_different else ("before", "after")


def _run(
    flow: Flow, point: CrashPoint | None, setup: Flow | None, seed: int
) -> tuple[Simulation, LockProvider]:
    sim = Simulation(seed)
    storage, lock = sim.storage(), sim.lock()
    if setup is not None:
        setup(storage, sim.world("setup"), lock)
    if point is not None:
        sim.crash_at("flow", call=point.call, when=point.when)
    world = sim.world("flow")
    sim.actor("flow", lambda: flow(storage, world, lock))
    outcome = sim.run()["flow"]
    if isinstance(outcome, Raised):
        raise outcome.error
    return sim, lock
