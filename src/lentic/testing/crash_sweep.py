"""Kill a flow at each of its storage calls in turn, and look at what each kill leaves.

    for run in sweep(flow, setup):
        recover(run.storage, run.world, run.lock)
        check(run.storage), run

The flow runs once unharmed to count its calls, then once for every call and every way to die there.
The setup runs once; each run begins on a copy of what it left. No threads are involved.
`run.storage` is the plain memory behind the flow's storage: a fresh view that does not crash, as a
new process would have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lentic.coordination.lock import LockProvider
from lentic.storage.base import Storage
from lentic.storage.memory import MemoryStorage
from lentic.testing.sim_world import SimLock
from lentic.testing.simulation import Crashed, Raised, Simulation, When
from lentic.world import World

Flow = Callable[[Storage, World, LockProvider], object]


@dataclass(frozen=True, slots=True)
class Scene:
    """What a setup left, for any number of runs to begin on: files, time, and the lock's memory."""

    files: tuple[tuple[str, bytes], ...] = ()
    now_ms: int = 0
    epoch: int = 0
    last_time: str = ""

    def stage(
        self, seed: int = 0, *, jump_ms_max: int = 1000, steps_max: int = 100_000
    ) -> tuple[Simulation, SimLock]:
        """A new simulation that finds the scene as it was left."""
        sim = Simulation(seed, jump_ms_max=jump_ms_max, steps_max=steps_max)
        lock = sim.lock()
        sim.now_ms, lock.epoch, lock.last_time = self.now_ms, self.epoch, self.last_time
        for path, data in self.files:
            sim.memory.replace(path, data)
        return sim, lock


EMPTY = Scene()


def set_scene(setup: Flow, *, seed: int = 0) -> Scene:
    """Run `setup` and keep what it leaves."""
    sim = Simulation(seed)
    lock = sim.lock()
    setup(sim.storage(), sim.world("setup"), lock)
    files = tuple((file.path, sim.memory.read(file.path)) for file in sim.memory.walk(""))
    return Scene(files, sim.now_ms, lock.epoch, lock.last_time)


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


def sweep(flow: Flow, setup: Flow | Scene = EMPTY, *, seed: int = 0) -> Iterator[CrashRun]:
    """Every crash of `flow`, each on a storage of its own that `setup` prepared."""
    scene = _scene(setup, seed)
    for point in crash_points(flow, scene, seed=seed):
        yield run_with_crash(flow, point, scene, seed=seed)


def crash_points(flow: Flow, setup: Flow | Scene = EMPTY, *, seed: int = 0) -> list[CrashPoint]:
    """Every call of `flow` with `before` and `after`, and `torn` where that is another end."""
    sim, _ = _run(flow, None, _scene(setup, seed), seed)
    torn = set(sim.torn_calls("flow"))
    return [
        CrashPoint(call, when)
        for call in range(1, sim.calls("flow") + 1)
        for when in _ways(call in torn)
    ]


def run_with_crash(
    flow: Flow, point: CrashPoint | None, setup: Flow | Scene = EMPTY, *, seed: int = 0
) -> CrashRun:
    """Run `flow` and kill it at `point`; None lets it live. Its own errors are raised."""
    sim, lock = _run(flow, point, _scene(setup, seed), seed)
    crashed = sim.outcomes["flow"] == Crashed()
    return CrashRun(point, crashed, sim.memory, sim.world("recovery"), lock, tuple(sim.trace))


def _scene(setup: Flow | Scene, seed: int) -> Scene:
    return setup if isinstance(setup, Scene) else set_scene(setup, seed=seed)


def _ways(is_torn_different: bool) -> tuple[When, ...]:
    return ("before", "torn", "after") if is_torn_different else ("before", "after")


def _run(
    flow: Flow, point: CrashPoint | None, scene: Scene, seed: int
) -> tuple[Simulation, LockProvider]:
    sim, lock = scene.stage(seed)
    if point is not None:
        sim.crash_at("flow", call=point.call, when=point.when)
    storage, world = sim.storage(), sim.world("flow")
    sim.actor("flow", lambda: flow(storage, world, lock))
    outcome = sim.run()["flow"]
    if isinstance(outcome, Raised):
        raise outcome.error
    return sim, lock
