"""An engine for simulations whose tasks other actors run, each task several times over.

The driver is an actor of its own, and so is every worker: worker n makes attempt n at every task of
every stage, odd workers in reverse order. The driver takes the first result of each task and goes
on; it neither waits for the other attempts nor stops them, which makes them strays. When a task has
failed `tries` times, the driver fails with its first error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import pyarrow as pa

from lentic.coordination.lock import LockProvider
from lentic.engine import Attempt, LocalEngine, Shuffle
from lentic.errors import Conflict, LenticError, StorageError
from lentic.table import Table
from lentic.testing.crash_sweep import Flow, Scene
from lentic.testing.sim_world import SimLock
from lentic.testing.simulation import START_MS, Outcome, Returned, Simulation
from lentic.testing.tables import open_on
from lentic.timeline.reader import load_commit_metadata, load_timeline
from lentic.world import World
from tests.simulation.cases import (
    BEFORE,
    Case,
    Rows,
    data_files,
    ensure_sound,
    read,
    storage_calls,
)

T = TypeVar("T")
Task = Callable[[Attempt], list[str]]

COMPACT = Case("compact", lambda table: table.compact(), BEFORE)
WORKERS = 2
_AFTER_FAILURE = 30.0
OPTIONS: dict[str, object] = {"hoodie.upsert.shuffle.parallelism": 2}


@dataclass(slots=True)
class Stage:
    """Tasks that the driver asked for, and what became of each attempt."""

    tasks: dict[int, Task]
    done: dict[Attempt, list[str]] = field(default_factory=dict)
    failed: dict[Attempt, LenticError] = field(default_factory=dict)
    ended_ms: dict[Attempt, int] = field(default_factory=dict)

    def first(self, task: int) -> list[str] | None:
        return next((texts for by, texts in self.done.items() if by.task == task), None)

    def errors(self, task: int) -> list[LenticError]:
        return [error for by, error in self.failed.items() if by.task == task]


@dataclass(slots=True)
class Job:
    """What a driver has its workers do."""

    stages: list[Stage] = field(default_factory=list)
    is_closed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster(LocalEngine):
    """The engine: what touches no file group runs in the driver itself."""

    threads: int = 1
    world: World
    tries: int
    job: Job = field(default_factory=Job)

    def run(
        self, work: Callable[[Attempt, T], str], tasks: Sequence[T], stage: object = None
    ) -> list[str]:
        def task(given: T) -> Task:
            return lambda attempt: [work(attempt, given)]

        return self._spread({number: task(given) for number, given in enumerate(tasks)})

    def shuffle(self, source: pa.Table, shuffle: Shuffle) -> list[str]:
        table = source.combine_chunks()
        batches = table.select(list(shuffle.columns)).to_batches()
        numbers = np.concatenate([shuffle.route(batch).to_numpy() for batch in batches])
        numbers = numbers % shuffle.tasks

        def task(number: int) -> Task:
            share = np.flatnonzero(numbers == number)

            def attempt_at(attempt: Attempt) -> list[str]:
                # Nobody promises that rows come in the same order to each attempt (S9).
                order = share[::-1] if attempt.number % 2 else share
                return list(shuffle.handle(attempt, iter(table.take(order).to_batches())))

            return attempt_at

        return self._spread({number: task(number) for number in np.unique(numbers).tolist()})

    def _spread(self, tasks: dict[int, Task]) -> list[str]:
        stage = Stage(tasks)
        self.job.stages.append(stage)
        waits = _waits(self.world)
        while any(stage.first(task) is None for task in tasks):
            for task in tasks:
                if len(errors := stage.errors(task)) >= self.tries and not stage.first(task):
                    raise errors[0]
            next(waits)
        return [text for task in tasks for text in stage.first(task) or ()]

    def work(self, number: int, world: World) -> None:
        """Worker `number`: an attempt at every task of every stage, also once the driver is done
        with them."""
        at = 0
        waits = _waits(world)
        while at < len(self.job.stages) or not self.job.is_closed:
            if at == len(self.job.stages):
                next(waits)
                continue
            self._attempt_all(self.job.stages[at], number, world)
            at, waits = at + 1, _waits(world)

    def _attempt_all(self, stage: Stage, number: int, world: World) -> None:
        for task in sorted(stage.tasks, reverse=number % 2 == 1):
            attempt = Attempt(task, number)
            try:
                stage.done[attempt] = stage.tasks[task](attempt)
                stage.ended_ms[attempt] = world.clock.now_ms()
            except LenticError as error:
                stage.failed[attempt] = error
                world.clock.sleep(_AFTER_FAILURE)  # the driver hears of it before the next task


def _waits(world: World) -> Iterator[None]:
    """Each step waits, longer and longer: a long pause must not take as many steps."""
    seconds = 0.002
    while True:
        world.clock.sleep(seconds)
        yield
        seconds = min(1.2 * seconds, 20.0)


@dataclass(frozen=True, slots=True)
class ClusterRun:
    """A simulation in which a driver and its workers carry one operation out."""

    sim: Simulation
    lock: SimLock
    cluster: Cluster

    @property
    def outcome(self) -> Outcome:
        """How the driver ended."""
        return self.sim.outcomes["driver"]

    @property
    def finalized_ms(self) -> int:
        """When the driver made the finalize marker."""
        calls = storage_calls(self.sim.trace, "driver")
        made = [line for line in calls if "put_if_absent" in line and ".finalized.json" in line]
        return START_MS + int(made[-1].split()[1])

    @property
    def failures(self) -> list[LenticError]:
        """The error of every attempt that failed."""
        return [error for stage in self.cluster.job.stages for error in stage.failed.values()]

    def __str__(self) -> str:
        stages = [f"{stage.done} {stage.failed}" for stage in self.cluster.job.stages]
        return "\n".join([f"seed {self.sim.seed}: {self.outcome}", *stages, *self.sim.trace])


def play(
    act: Callable[[Table], object],
    scene: Scene,
    *,
    seed: int = 0,
    tries: int = 2,
    options: dict[str, object] | None = None,
    plan: Callable[[Simulation], object] = lambda sim: None,
    then: Flow | None = None,
) -> ClusterRun:
    """Let a driver and two workers carry `act` out; `plan` may arrange faults for them.

    The actors are called `driver`, `worker-0` and `worker-1`. When the driver has ended, however it
    ended, `then` runs as one more actor, `next`; the workers may still be at it.
    """
    sim, lock = scene.stage(seed)
    cluster = Cluster(world=sim.world("waits"), tries=tries)
    plan(sim)
    sim.actor("driver", lambda: _drive(act, sim, lock, cluster, OPTIONS | (options or {})))
    for number in range(WORKERS):
        world = sim.world(f"worker-{number}")
        sim.actor(f"worker-{number}", lambda n=number, w=world: cluster.work(n, w))  # type: ignore[misc]
    if then is not None:
        sim.actor("next", lambda: _follow(then, sim, lock, cluster))
    sim.run()
    return ClusterRun(sim, lock, cluster)


def _drive(
    act: Callable[[Table], object],
    sim: Simulation,
    lock: LockProvider,
    cluster: Cluster,
    options: dict[str, object],
) -> object:
    try:
        return act(open_on(sim.storage(), sim.world("driver"), lock, options, cluster))
    finally:
        cluster.job.is_closed = True


def _follow(then: Flow, sim: Simulation, lock: LockProvider, cluster: Cluster) -> object:
    world = sim.world("next")
    waits = _waits(world)
    while not cluster.job.is_closed:
        next(waits)
    return then(sim.storage(), world, lock)


# Looking at what a run left


def ensure_written_once(run: ClusterRun, case: Case, start: Scene) -> None:
    """The driver committed one file per file group, no other file of it is there, and attempts
    that came to an end before it finalized agree on what counts."""
    storage = run.sim.memory
    assert isinstance(run.outcome, Returned), run
    assert all(isinstance(error, Conflict | StorageError) for error in run.failures), run
    for stage in run.cluster.job.stages:
        for attempt, ended_ms in stage.ended_ms.items():
            if ended_ms < run.finalized_ms:
                told = sorted(stage.done[attempt])
                assert told == sorted(stage.first(attempt.task) or ()), f"{attempt}\n{run}"
    newest = load_timeline(storage).writes()[-1]
    stats = load_commit_metadata(storage, newest).stats
    per_group = Counter((stat.partition, stat.file_id) for stat in stats)
    assert set(per_group.values()) <= {1}, run
    known = {path for path, _ in start.files} | {stat.path for stat in stats}
    assert data_files(storage).keys() <= known, run
    assert read(storage, run.sim.world("reader"), run.lock) == case.after, run


def ensure_next_writer_works(run: ClusterRun, allowed: Sequence[Rows], start: Scene) -> Rows:
    """The table holds one of `allowed`, and the next writer finds nothing in its way. What it
    held."""
    world = run.sim.world("after all")
    return ensure_sound(
        run.sim.memory, world, run.lock, began=start, allowed=allowed, trace=str(run)
    )
