"""Plays a history of `service_histories.py` on a table, with both engines and the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import cycle

import lentic
from tests.interop.compare import ensure_same_rows
from tests.interop.operations import KEY, batch
from tests.interop.service_histories import WRITES, Step
from tests.interop.services import HUDI, LENTIC, Rows, ServiceStory


@dataclass(slots=True)
class Player:
    """One table that a history is played on; `trace` tells what became of each step.

    `past` is what the table held when each write of it had completed, `plans` is when each pending
    plan was requested. Of the clusterings that lentic plans every other one may be cancelled, which
    `only_lentic` executes.
    """

    story: ServiceStory
    trace: list[str] = field(default_factory=list)
    plans: dict[str, str] = field(default_factory=dict)
    past: dict[str, Rows] = field(default_factory=dict)
    before: Rows | None = None
    saved_at: str = ""
    only_lentic: set[str] = field(default_factory=set)
    turns: Iterator[bool] = field(default_factory=lambda: cycle((True, False)))

    def play(self, step: Step) -> None:
        """Does the step, or skips it where it makes no sense."""
        self.trace.append(f"{len(self.trace):2} {step} -> FAILED")
        before = dict(self.story.model.rows)
        verb, _, service = step.kind.partition(" ")
        outcome = _PLAYERS.get(verb, _write)(self, step, service)
        self.trace[-1] = f"{len(self.trace) - 1:2} {step} -> {outcome}"
        self.before = before if step.kind in WRITES and outcome == "done" else None

    def look_at_the_past(self) -> None:
        """Time travel gives what was there then, as far as cleaning has left it."""
        table = self.story.open()
        for at, rows in self.past.items():
            try:
                seen = table.read(as_of=at)
            except lentic.RangeUnavailable:
                continue
            held = self.story.model.table_of(rows)
            ensure_same_rows(held, seen, KEY, f"the model as of {at}", "lentic")

    def forget_after(self, at: str) -> None:
        self.past = {time: rows for time, rows in self.past.items() if time <= at}


def _write(player: Player, step: Step, _: str) -> str:
    story = player.story
    rows = batch(step.first, step.last, step.ts, step.partitions)
    if rows.num_rows == 0:
        return "skipped, no rows"
    story.write(step.by, step.kind, rows)
    player.past[str(story.last_write().requested_at)] = dict(story.model.rows)
    return "done"


def _plan(player: Player, step: Step, service: str) -> str:
    params: dict[str, bool] = {}
    if (service, step.by) == ("clustering", LENTIC):
        params = {"cancellable": next(player.turns)}
    at = player.story.try_schedule(service, step.by, **params)
    if at is None:
        return "skipped, nothing to do"
    player.plans[service] = at
    if params.get("cancellable"):
        player.only_lentic.add(at)
    return at


def _execute(player: Player, step: Step, service: str) -> str:
    if (at := player.plans.pop(service, None)) is None:
        return "skipped, there is no plan"
    if at in player.only_lentic and step.by == HUDI:
        player.story.ensure_hudi_cannot_execute(service, at)
        player.story.execute(service, at, LENTIC)
        return f"{at}, by lentic"
    player.story.execute(service, at, step.by)
    return at


def _archive(player: Player, step: Step, _: str) -> str:
    return f"{player.story.archive(step.by)} instants"


def _savepoint(player: Player, step: Step, _: str) -> str:
    player.saved_at = player.story.savepoint(step.by)
    return player.saved_at


def _release(player: Player, step: Step, _: str) -> str:
    player.story.release(player.saved_at, step.by)
    return player.saved_at


def _restore(player: Player, step: Step, _: str) -> str:
    done = [i for i in player.story.open().timeline() if i.is_completed]
    after = [i for i in done if str(i.requested_at) > player.saved_at]
    if step.by == HUDI and after != sorted(after, key=lambda i: str(i.completed_at)):
        # Hudi undoes in the order of completion, and then finds a later instant in its way.
        return "skipped, instants overlap"
    player.story.restore(player.saved_at, step.by)
    player.forget_after(player.saved_at)
    return player.saved_at


def _rollback(player: Player, step: Step, _: str) -> str:
    last = str(player.story.last_write().requested_at)
    if player.before is None or len(player.past) < 2 or last in player.story.saved:
        return "skipped, nothing to roll back"
    player.story.roll_back(player.before, step.by)
    player.past.pop(last, None)
    return last


_PLAYERS: dict[str, Callable[[Player, Step, str], str]] = {
    "plan": _plan,
    "execute": _execute,
    "archive": _archive,
    "savepoint": _savepoint,
    "release": _release,
    "restore": _restore,
    "rollback": _rollback,
}
