"""The scenarios of RFC-79's test plan as plays: who does what in which order, with faults by seed.

A play is one schedule: a seed decides how the actors interleave at every storage call, who falls
asleep, fails or dies where, which clocks are off, and whether the lock has a lease. What must hold
of every play is judged here; what a scenario expects besides stands with its test.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from lentic.errors import LenticError
from lentic.format import layout
from lentic.format.names import State
from lentic.services.failed_writes import roll_back_expired
from lentic.services.outcome import AlreadyCommitted, Committed
from lentic.testing.checkers import check_table
from lentic.testing.crash_sweep import Scene
from lentic.testing.simulation import Crashed, Outcome, Raised, Returned
from lentic.txn.transaction import OpenTable, transaction
from tests.rfc.guard_scenes import (
    ROWS,
    Gate,
    PowerCut,
    Stage,
    attempt,
    cut_power,
    execute,
    nth_call,
    planned,
    stage,
)
from tests.simulation.faults import KINDS, arrange

SKEWS_MS = (0, 0, 0, -3_600_000, 600_000)
PAUSES_MS = (1_000, 6_000, 30_000)
AT_ONCE = {"lentic.services.rollback_delay_minutes": 0}


@dataclass
class Play:
    """One schedule, before and after it was played."""

    seed: int
    scene: Stage
    chance: random.Random
    faults: dict[str, str] = field(default_factory=dict)
    skews_ms: dict[str, int] = field(default_factory=dict)
    ends: dict[str, Outcome] = field(default_factory=dict)

    def __str__(self) -> str:
        ends = [f"{name}: {end}" for name, end in self.ends.items()]
        head = f"seed {self.seed}, {self.faults}, {self.skews_ms}"
        return "\n".join([head, *ends, *self.scene.sim.trace])

    @property
    def is_calm(self) -> bool:
        return not self.faults

    def table(self, name: str) -> OpenTable:
        self.skews_ms[name] = self.chance.choice(SKEWS_MS)
        storage = self.scene.sim.storage()
        return self.scene.table(name, storage, skew_ms=self.skews_ms[name])

    def harm(self, *names: str, calls: int = 60) -> None:
        """Perhaps something happens to some of them, at one of their storage calls."""
        if self.chance.random() < 0.15:
            return
        for name in names:
            if self.chance.random() < 0.6:
                pauses = tuple(f"pause {ms}" for ms in PAUSES_MS)
                kind = self.chance.choice((*KINDS, *pauses, *pauses))
                call = self.chance.randint(1, calls)
                self.faults[name] = f"{kind} at {call}"
                arrange(self.scene.sim, [(name, call, kind)])

    def executes(self, name: str, after: Callable[[], bool] | None = None) -> None:
        """Somebody executes the plan, once something has happened or nobody else is left."""
        table = self.table(name)
        self._acts(name, table, lambda: execute(table, self.scene.plan), after)

    def cleans(self, name: str, after: Callable[[], bool] | None = None) -> None:
        """Somebody runs the part of a clean that rolls back what has failed."""
        table = self.table(name)
        self._acts(name, table, lambda: roll_back_expired(table, waits=True), after)

    def _acts(
        self,
        name: str,
        table: OpenTable,
        act: Callable[[], object],
        after: Callable[[], bool] | None,
    ) -> None:
        def work() -> object:
            for _ in range(10_000):
                if after is None or after():
                    break
                table.world.clock.sleep(0.05)
            return act()

        self.scene.sim.actor(name, work)

    def is_over(self, name: str) -> bool:
        return name in self.scene.sim.outcomes

    def is_begun(self) -> bool:
        """Whether the plan has left the state in which it was published."""
        now = self.scene.now()
        return now is None or now.state is not State.REQUESTED

    def run(self) -> None:
        self.ends = self.scene.sim.run()
        with transaction(self.scene.table("next")):
            pass  # what somebody decided and did not live to do is done by whoever comes next (R2)

    def has_committed(self, name: str) -> bool:
        end = self.ends[name]
        return isinstance(end, Returned) and isinstance(end.value, Committed)

    def has_failed(self, name: str) -> bool:
        """Whether it was told so, or not told anything."""
        return not isinstance(self.ends[name], Returned)

    def was_told_completed(self, name: str) -> bool:
        end = self.ends[name]
        return isinstance(end, Returned) and isinstance(end.value, Committed | AlreadyCommitted)

    def error(self, name: str) -> BaseException | None:
        end = self.ends[name]
        return end.error if isinstance(end, Raised) else None

    def is_done(self) -> bool:
        now = self.scene.now()
        return now is not None and now.is_completed

    def when(self, name: str, op: str, *words: str) -> int | None:
        """The step at which somebody first created such a file, if ever; a failure creates none."""
        for line in self.scene.sim.trace:
            step, _, who, what, *rest = line.split()
            if (who, what, rest[:1]) == (name, op, ["True"]) and all(w in line for w in words):
                return int(step)
        return None


def begin(
    kind: str, seed: int, scenario: str, scenes: Callable[[str, bool], tuple[Scene, ...]]
) -> Play:
    """A play on one of the scenes."""
    chance = random.Random(f"{scenario} {seed}")
    has_lease = chance.random() < 0.5
    chosen = chance.choice(scenes(kind, has_lease))
    # Time jumps by little compared with a heartbeat: who is not paused is not starved either.
    scene = stage(chosen, seed, has_lease=has_lease, jump_ms_max=100)
    return Play(seed, scene, chance)


@cache
def requested(kind: str, has_lease: bool) -> tuple[Scene, ...]:
    """The plan is new; its scheduler's clock may be off."""
    return tuple(planned(kind, skew_ms, has_lease=has_lease) for skew_ms in (0, -3_600_000))


@cache
def inflight(kind: str, has_lease: bool) -> tuple[Scene, ...]:
    """Somebody began to execute the plan, and died at any of its calls since."""
    found = []
    for number in range(1, 80):
        scene = stage(planned(kind, has_lease=has_lease), has_lease=has_lease)
        gate = Gate(scene.memory, lambda op, path: False, cut_power)
        table = scene.table("dead", gate)
        gate._when = nth_call(number)
        try:
            execute(table, scene.plan)
        except PowerCut:
            scene.sleep(6)  # the lease of the dead is over
            with transaction(scene.table("next")):
                pass
            now = scene.now()
            if now is not None and now.state is State.INFLIGHT:
                found.append(scene.leave())
    assert len(found) > 10
    return tuple(found)


def judge(play: Play) -> None:
    """What must hold of every play: nothing of it depends on the scenario."""
    names = list(play.ends)
    for name in names:
        end = play.ends[name]
        if isinstance(end, Raised):
            assert isinstance(end.error, LenticError), f"{name}\n{play}"
        else:
            assert isinstance(end, Returned | Crashed)
    assert sum(play.has_committed(name) for name in names) <= 1, play
    if any(play.was_told_completed(name) for name in names):
        assert play.is_done(), play
    assert play.scene.rows() == ROWS, play
    assert check_table(play.scene.memory) == [], play
    if play.is_done():
        assert play.scene.named() <= play.scene.files(), play


def ensure_it_ends(play: Play, *, is_removable: bool) -> None:
    """Liveness: once faults have stopped the plan comes to an end, and nothing of it is left."""
    scene = play.scene
    result = attempt(lambda: execute(scene.table("after"), scene.plan))
    if not is_removable:
        assert isinstance(result, Committed | AlreadyCommitted), f"{result}\n{play}"
    roll_back_expired(scene.table("cleaner", options=AT_ONCE), waits=True)
    now = scene.now()
    assert now is None or now.is_completed, play
    assert is_removable or now is not None, play
    assert scene.rows() == ROWS, play
    assert check_table(scene.memory) == [], play
    roll_back_expired(scene.table("cleaner"), waits=True)
    assert scene.files() == scene.named(), play
    for folder in (layout.GUARDS, layout.HEARTBEATS, layout.TEMP):
        assert scene.memory.walk(folder) == [], play
