"""Windows of plans against what was really left undone: no history makes a planner forget.

The histories are bare: writes to partitions, slow ones too, bounded plans beside each other that
complete, are aborted or rolled back in any order, before or after others, looks in vain, archiving.
What a partition still needs is known here from the writes and the plans that stand. At every moment
each such partition is where the next planner would look.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from lentic.format.names import Action, State
from lentic.format.plan_window import Look, PlanWindow
from lentic.format.times import CompletedAt, RequestedAt
from lentic.timeline.instant import Instant
from lentic.timeline.timeline import Timeline
from lentic.view.changed_partitions import (
    Doubt,
    Fates,
    Now,
    find_floor,
    find_start,
    list_completed,
    needs_history,
    order_carry,
)
from tests.rfc.claims import says
from tests.unit.builders import completed, requested

EXAMPLES = int(os.environ.get("LENTIC_EXAMPLES", "1500"))
EVENTS = (
    "begin",
    "begin",
    "land",
    "land",
    "plan",
    "plan",
    "end",
    "abort",
    "undo",
    "archive",
    "drop",
)
STEPS = st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 5)), min_size=5, max_size=40)


@dataclass
class Plan:
    instant: Instant
    window: PlanWindow
    parts: frozenset[str]
    archived: bool = False


@dataclass
class World:
    """A table of partitions that are written to and planned for."""

    limit: int
    now: int = 0
    writes: dict[Instant, str] = field(default_factory=dict)
    old: dict[Instant, str] = field(default_factory=dict)
    """Archived writes."""
    plans: list[Plan] = field(default_factory=list)
    note: PlanWindow | None = None
    edge: RequestedAt = field(default_factory=lambda: RequestedAt(""))

    def tick(self) -> int:
        self.now += 1
        return self.now

    @property
    def timeline(self) -> Timeline:
        active = [*self.writes, *(plan.instant for plan in self.plans if not plan.archived)]
        return Timeline(tuple(sorted(active, key=lambda i: i.requested_at)))

    def live(self) -> list[Plan]:
        return [p for p in self.plans if not p.instant.is_aborted]

    def pending(self) -> list[Plan]:
        return [p for p in self.plans if p.instant.is_pending]

    # --- what happens ---------------------------------------------------------------------------

    def begin(self, number: int) -> None:
        at = requested(self.tick())
        self.writes[Instant(at, Action.DELTACOMMIT, State.INFLIGHT)] = f"p{number}"

    def land(self, number: int) -> None:
        if open_writes := [i for i in self.writes if i.is_pending]:
            write = open_writes[number % len(open_writes)]
            at = completed(self.tick())
            self.writes[write.at(State.COMPLETED, at)] = self.writes.pop(write)

    def plan(self, number: int) -> None:
        at = requested(self.tick())
        window, places, waiting = self.look(at)
        todo = self.undone() & places
        busy = {part for plan in self.pending() for part in plan.parts}
        ordered = [part for part in order_carry(waiting, todo) if part not in busy]
        parts = frozenset(ordered[: self.limit])
        window = replace(window, carry=order_carry(waiting, todo - parts))
        if parts:
            instant = Instant(at, Action.CLUSTERING, State.REQUESTED)
            self.plans.append(Plan(instant, window, parts))
        elif number % 2 == 0:
            self.note = window

    def end(self, number: int) -> None:
        if pending := self.pending():
            plan = pending[number % len(pending)]
            inflight = plan.instant.at(State.INFLIGHT)
            plan.instant = inflight.at(State.COMPLETED, completed(self.tick()))

    def abort(self, number: int) -> None:
        if pending := self.pending():
            plan = pending[number % len(pending)]
            plan.instant = plan.instant.at(State.ABORTED)

    def undo(self, number: int) -> None:
        """A rollback, of a pending plan or of the write that completed last, be it a plan's."""
        done = [p for p in self.live() if p.instant.is_completed and not p.archived]
        last = max((str(i.completed_at) for i in self.timeline.completed()), default="")
        can = [*self.pending(), *(p for p in done if str(p.instant.completed_at) == last)]
        if can:
            self.plans.remove(can[number % len(can)])

    def archive(self, number: int) -> None:
        """Completed instants go, the oldest first; nothing that is undecided lies before them."""
        done = sorted(self.timeline.completed(), key=lambda i: i.requested_at)
        first = min((i.requested_at for i in self.timeline.pending()), default=None)
        for count in range(len(done) - 1, 0, -1):
            going, staying = done[:count], done[count:]
            latest = max(str(i.completed_at) for i in going)
            is_free = first is None or latest < str(first)
            if is_free and all(latest < str(i.completed_at) for i in staying):
                self.edge = max(self.edge, going[-1].requested_at)
                self.old |= {i: self.writes.pop(i) for i in going if i in self.writes}
                for plan in self.plans:
                    plan.archived |= plan.instant in going
                return

    def drop(self, number: int) -> None:
        """Aborted plans that archiving has passed go, their lists with them, whoever needs them."""
        self.plans = [
            p
            for p in self.plans
            if not (p.instant.is_aborted and p.instant.requested_at < self.edge)
        ]

    # --- what a planner sees --------------------------------------------------------------------

    def look(self, at: RequestedAt) -> tuple[PlanWindow, frozenset[str], tuple[str, ...]]:
        hi, timeline = CompletedAt(at), self.timeline
        live = [p for p in self.live() if not p.archived]
        window = PlanWindow(
            at=at,
            kind=Look.INCREMENTAL,
            lo=CompletedAt(""),
            hi=hi,
            relies=tuple(p.instant.requested_at for p in live),
            floor=find_floor(timeline, at, hi),
        )
        start = find_start(
            self.windows(),
            Now(
                options="",
                fates=self.fates,
                is_undone=lambda at: False,
                rolled_back=lambda after: (),
            ),
        )
        if isinstance(start, Doubt):
            everything = frozenset(self.writes.values()) | frozenset(self.old.values())
            return replace(window, kind=Look.FULL), everything, start.carry
        done = {
            i: self.writes[i]
            for i in list_completed(timeline, start.base.hi, hi)
            if i in self.writes
        }
        if needs_history(start.base, self.edge):
            done |= {
                i: p
                for i, p in self.old.items()
                if i.completed_at and start.base.hi <= i.completed_at
            }
        lists = {p.instant.requested_at: (*p.parts, *p.window.carry) for p in self.plans}
        aborted = {part for at in start.aborted for part in lists[at]}
        places = frozenset(done.values()) | {*start.carry} | aborted
        window = replace(window, lo=start.base.hi, plans=start.base.plans + 1)
        return window, places, start.carry

    def windows(self) -> Iterator[PlanWindow]:
        found = [p.window for p in self.live() if not p.archived]
        found += [self.note] if self.note else []
        yield from sorted(found, key=lambda window: window.at, reverse=True)
        archived = (p.window for p in self.live() if p.archived)
        yield from sorted(archived, key=lambda window: window.at, reverse=True)

    def fates(self, relies: tuple[RequestedAt, ...]) -> Fates:
        live = {p.instant.requested_at for p in self.live()}
        ended = {p.instant.requested_at for p in self.plans if p.instant.is_aborted}
        return Fates(
            aborted=tuple(at for at in relies if at in ended),
            gone=tuple(at for at in relies if at not in live and at not in ended),
        )

    # --- what is so -----------------------------------------------------------------------------

    def undone(self) -> frozenset[str]:
        """Partitions with a write that no plan which stands has taken on."""
        found = set()
        for write, part in (self.writes | self.old).items():
            seen = (p for p in self.live() if part in p.parts)
            if write.completed_at and not any(
                str(write.completed_at) < str(p.instant.requested_at) for p in seen
            ):
                found.add(part)
        return frozenset(found)

    def check(self) -> None:
        _, places, _ = self.look(requested(self.now + 1))
        assert self.undone() <= places, f"{sorted(self.undone() - places)} forgotten"


@says("P20", "R11")
@settings(max_examples=EXAMPLES)
@given(st.integers(1, 3), STEPS)
def test_whatever_is_undone_is_where_the_next_planner_looks(
    limit: int, steps: list[tuple[str, int]]
) -> None:
    world = World(limit)
    for event, number in steps:
        getattr(world, event)(number)
        world.check()
