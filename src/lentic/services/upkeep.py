"""What a run of the cleaner has to do besides cleaning, as far as one look tells. Reads only.

The run itself watches heartbeats, to be sure of who is dead; here their age by this machine's clock
has to do, as everywhere that people are told of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lentic.format.names import Action
from lentic.format.removable import REMOVABLE_ACTIONS
from lentic.services.orphans import is_sweep_due, list_orphans
from lentic.services.pending import Standing
from lentic.services.plans import age_s, heartbeat_age_s, load_standing
from lentic.timeline.instant import WRITES, Instant
from lentic.timeline.reader import load_rollback_target, load_timeline
from lentic.timeline.timeline import Timeline
from lentic.txn.transaction import OpenTable


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What would be done, in this order: plans cancelled, plans aborted, writes and plans undone,
    rollbacks and restores finished, orphans deleted."""

    cancels: tuple[Instant, ...] = ()
    aborts: tuple[Instant, ...] = ()
    undoes: tuple[Instant, ...] = ()
    finishes: tuple[Instant, ...] = ()
    orphans: tuple[str, ...] = ()
    busy: tuple[tuple[Instant, str], ...] = ()
    """Cancelled plans that are left to their executor, and who that is."""


def load_upkeep(table: OpenTable, *, waits: bool = False) -> Upkeep:
    """What `run_clean` with the same `waits` would do now."""
    timeline = load_timeline(table.storage)
    plans = [load_standing(table, timeline, p) for p in timeline.pending(*REMOVABLE_ACTIONS)]
    ends = table.services.cancellation.clean_cancels
    due = [now.plan for now in plans if ends and _is_due(now)]
    told = [now for now in plans if ends and now.cancellation.is_requested]
    sweeps = table.services.clean.sweeps_orphans and (waits or is_sweep_due(table))
    return Upkeep(
        cancels=tuple(due),
        aborts=(*(now.plan for now in told if not now.is_alive), *due),
        undoes=(
            *_list_silent(table, timeline),
            *(n.plan for n in plans if n.plan not in due and _is_given_up(table, n)),
        ),
        finishes=timeline.pending(Action.ROLLBACK, Action.RESTORE),
        orphans=list_orphans(table, now_ms=table.world.clock.now_ms()) if sweeps else (),
        busy=tuple((now.plan, now.owner) for now in told if now.is_alive),
    )


def _is_due(now: Standing) -> bool:
    said = now.cancellation
    return said.cancellable and said.is_met and not said.is_requested and not now.is_alive


def _is_given_up(table: OpenTable, now: Standing) -> bool:
    """Whether a plan goes because it is removable, and nobody may or does execute it."""
    if not now.removable or now.undone_by or now.is_alive or now.cancellation.is_requested:
        return False
    return age_s(table, now.plan.requested_at) >= table.services.rollback_delay_min * 60


def _list_silent(table: OpenTable, timeline: Timeline) -> Iterator[Instant]:
    """Pending writes that give no sign of life, but for those that somebody undoes already."""
    rollbacks = timeline.pending(Action.ROLLBACK)
    undone = {load_rollback_target(table.storage, rollback) for rollback in rollbacks}
    for write in timeline.pending(*WRITES):
        beat = heartbeat_age_s(table, write.requested_at)
        is_alive = beat is not None and beat < table.pulse.ttl_ms / 1000
        if write.requested_at not in undone and not is_alive:
            yield write
