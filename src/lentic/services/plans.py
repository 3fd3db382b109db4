"""Pending plans as operators see them: whose, how old, what stands in the way, what to do next."""

from __future__ import annotations

import json
from dataclasses import dataclass

from lentic.coordination.heartbeat import load_heartbeat
from lentic.errors import Corrupt
from lentic.format import layout
from lentic.format.names import Action, State
from lentic.format.times import RequestedAt, parse_epoch_ms
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_is_removable, load_rollback_target, load_timeline
from lentic.timeline.timeline import Timeline
from lentic.txn.transaction import OpenTable

PLANS = (
    Action.COMPACTION,
    Action.LOGCOMPACTION,
    Action.CLUSTERING,
    Action.CLEAN,
    Action.ROLLBACK,
    Action.RESTORE,
)
_EXECUTED_ALONE = (Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING)


@dataclass(frozen=True, slots=True)
class PendingPlan:
    """One plan that has not ended. Ages are in seconds, by this machine's clock."""

    requested_at: RequestedAt
    action: Action
    state: State
    removable: bool
    owner: str
    """Who executes it, `host:pid`; "" if nobody does."""
    age_s: float
    heartbeat_age_s: float | None
    """Since its executor's last sign of life; None if there is none."""
    blockers: tuple[str, ...]
    next_step: str


def list_plans(table: OpenTable) -> tuple[PendingPlan, ...]:
    """Every plan that is pending, oldest first."""
    timeline = load_timeline(table.storage)
    return tuple(_plan(table, timeline, instant) for instant in timeline.pending(*PLANS))


def _plan(table: OpenTable, timeline: Timeline, instant: Instant) -> PendingPlan:
    storage, at = table.storage, instant.requested_at
    removable = instant.action in _EXECUTED_ALONE and load_is_removable(storage, instant)
    heartbeat_age_s = _heartbeat_age_s(table, at)
    owner = heartbeat_owner(load_heartbeat(storage, at)) if heartbeat_age_s is not None else ""
    blockers, next_step = _judge(table, timeline, instant, owner, heartbeat_age_s, removable)
    return PendingPlan(
        requested_at=at,
        action=instant.action,
        state=instant.state,
        removable=removable,
        owner=owner,
        age_s=_age_s(table, at),
        heartbeat_age_s=heartbeat_age_s,
        blockers=blockers,
        next_step=next_step,
    )


def _judge(
    table: OpenTable,
    timeline: Timeline,
    plan: Instant,
    owner: str,
    heartbeat_age_s: float | None,
    removable: bool,
) -> tuple[tuple[str, ...], str]:
    """What stands in the way of the plan, and what may be done about it."""
    ttl_s = table.pulse.ttl_ms / 1000
    if heartbeat_age_s is not None and heartbeat_age_s < ttl_s:
        said = f"{owner} executes it; its last sign of life is {heartbeat_age_s:.0f} s old"
        return (said,), f"wait; it can be taken over {ttl_s:g} s after the last sign of life"
    blockers: list[str] = []
    if heartbeat_age_s is not None:
        blockers.append(f"{owner} began it and was last seen {heartbeat_age_s:.0f} s ago")
    undone_by = [
        rollback
        for rollback in timeline.pending(Action.ROLLBACK)
        if load_rollback_target(table.storage, rollback) == plan.requested_at
    ]
    blockers += [f"{rollback} undoes it" for rollback in undone_by]
    if removable and (undone_by or plan.state is State.INFLIGHT):
        blockers.append("it is removable and was begun: it cannot be executed again")
        return tuple(blockers), f't.rollback("{plan.requested_at}"), or t.clean() when it is older'
    if plan.action in (Action.ROLLBACK, Action.RESTORE):
        return tuple(blockers), "t.clean() finishes it, and so does the next write"
    return tuple(blockers), f't.execute("{plan.requested_at}")'


def heartbeat_owner(content: bytes) -> str:
    """Who gives the signs of life, if they are ours; Apache Hudi's say nothing."""
    try:
        fields = json.loads(content)
        return f"{fields['host']}:{fields['pid']}"
    except (ValueError, KeyError, TypeError):
        return "another engine"


def _heartbeat_age_s(table: OpenTable, at: RequestedAt) -> float | None:
    found = table.storage.info(layout.heartbeat(at))
    if found is None:
        return None
    return max(0.0, (table.world.clock.now_ms() - found.modified_ms) / 1000)


def _age_s(table: OpenTable, at: RequestedAt) -> float:
    try:
        begun_ms = parse_epoch_ms(at, table.config.zone)
    except Corrupt:  # another engine's time, such as a metadata table's
        return 0.0
    return max(0.0, (table.world.clock.now_ms() - begun_ms) / 1000)
