"""Undo what writers left that did not finish: all of it, or that of writers whose life has ended.

With a single writer, who gives no signs of life, whatever is pending without any has no owner any
more (EAGER). With several, and where there are any all the same, an instant is given up when its
heartbeat was seen unchanged for its time to live (LAZY). Either way in the two
steps of RFC-79, "Changes to clean's rollback of failed writers": rollbacks are planned in one
transaction on a reloaded timeline, and carried out after it. Who was given up and wakes finds its
instant targeted or gone, and commits nothing (R1).

Plans of services are nobody's until they are executed. They stay, unless they are removable, nobody
gives a sign of life for them, and they are older than lentic.services.rollback_delay_minutes; or
somebody has begun to roll them back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lentic.config.sharing import FailedWrites
from lentic.coordination.guards import remove_guards
from lentic.coordination.heartbeat import end_heartbeat, load_heartbeat
from lentic.format import layout
from lentic.format.names import Action
from lentic.format.removable import REMOVABLE_ACTIONS
from lentic.format.times import RequestedAt
from lentic.services.plan_age import list_older
from lentic.services.restoring import finish_restores
from lentic.services.rollback import execute_undo, load_undo, plan_undo, sweep_markers
from lentic.services.signs_of_life import is_executed, sight_all, tell_waiting
from lentic.storage.base import Storage
from lentic.timeline.cancel_requests import list_cancelled
from lentic.timeline.instant import WRITES, Instant
from lentic.timeline.reader import list_rollbacks_of, load_is_removable, load_timeline
from lentic.timeline.timeline import Timeline
from lentic.txn.transaction import OpenTable, transaction

PickFailed = Callable[[Timeline], tuple[Instant, ...]]
"""The writes on a timeline that have failed."""


def clean_up_failed_writes(table: OpenTable, *, waits: bool = False) -> tuple[Instant, ...]:
    """Undo what the table's policy says has failed; the instants that were undone.

    An expiry takes a time to live to be seen. Without `waits`, what was not seen for so long by
    this process is left for the next call; with it, the call lasts until all that is pending has
    ended or given a sign of life.
    """
    if table.sharing.failed_writes is FailedWrites.EAGER:
        return roll_back_all(table, waits=waits)
    return roll_back_expired(table, waits=waits)


def roll_back_all(table: OpenTable, *, waits: bool = False) -> tuple[Instant, ...]:
    """Undo every write that did not finish and every plan that was given up, and finish rollbacks
    that did not (EAGER).

    A write with a living heartbeat is somebody's who shares the table, whatever the options of this
    call say, and is left to them. Should another have an owner all the same, that one finds its
    instant gone and commits nothing (R1).
    """
    if waits:
        sweep_ended(table)

    def pick(timeline: Timeline) -> tuple[Instant, ...]:
        return tuple(i for i in timeline.pending(*WRITES) if not is_executed(table, i.requested_at))

    return _roll_back(table, pick, waits=waits)


def roll_back_expired(table: OpenTable, *, waits: bool = False) -> tuple[Instant, ...]:
    """The same for writes whose heartbeat has expired (LAZY)."""
    if waits:
        sight_all(table)  # the lock of a dead holder takes its time, too
        with transaction(table):
            pass  # what a holder of the lock decided and left undone is done now, and seen (R2)
    if waits:
        sweep_ended(table)
    else:
        _end_signs(table, _with_heartbeat(table.storage))

    def pick(timeline: Timeline) -> tuple[Instant, ...]:
        return tuple(i for i in timeline.pending(*WRITES) if _has_expired(table, i))

    return _roll_back(table, pick, waits=waits)


def roll_back_picked(table: OpenTable, pick: PickFailed) -> tuple[Instant, ...]:
    """The same for the writes that `pick` says have failed; it is asked again under the lock."""
    _end_signs(table, _with_heartbeat(table.storage))
    return _roll_back(table, pick, waits=False)


def _roll_back(table: OpenTable, pick: PickFailed, *, waits: bool) -> tuple[Instant, ...]:
    timeline = sweep_markers(table)
    if finish_restores(table, timeline):
        timeline = load_timeline(table.storage)
    old = _list_old_plans(table, timeline)
    if waits:
        _await_news(table, old, pick)
        timeline = load_timeline(table.storage)
    table.watch.forget_all_but(frozenset(i.requested_at for i in timeline.pending()))
    failed = (*pick(timeline), *_given_up(table, timeline, old))
    if not (failed or timeline.pending(Action.ROLLBACK)):
        return ()
    with transaction(table) as txn:  # 1  RFC-79: schedule, on a reloaded timeline
        failed = (*pick(txn.timeline), *_given_up(table, txn.timeline, old))
        undos = [(plan_undo(txn, instant), instant) for instant in failed]
        mine = {undo.rollback.requested_at for undo, _ in undos}
        begun = [r for r in txn.timeline.pending(Action.ROLLBACK) if r.requested_at not in mine]
    for undo, instant in undos:  # 2  execute, outside the lock
        execute_undo(table, undo, instant)
    for rollback in begun:
        execute_undo(table, load_undo(table, rollback), None)
    return failed


def _has_expired(table: OpenTable, instant: Instant) -> bool:
    at = instant.requested_at
    return table.watch.has_expired(at, load_heartbeat(table.storage, at))


# --- plans --------------------------------------------------------------------------------------


def _given_up(
    table: OpenTable, timeline: Timeline, old: frozenset[RequestedAt]
) -> tuple[Instant, ...]:
    """Removable plans that nobody may execute any more, or that nobody does for too long."""

    def is_given_up(plan: Instant) -> bool:
        if plan.requested_at in old and _has_expired(table, plan):
            return True
        return bool(list_rollbacks_of(table.storage, timeline, plan))

    return tuple(plan for plan in _list_removable(table, timeline) if is_given_up(plan))


def _list_removable(table: OpenTable, timeline: Timeline) -> tuple[Instant, ...]:
    """But for those that were cancelled: they end as aborted."""
    plans = timeline.pending(*REMOVABLE_ACTIONS)
    cancelled = list_cancelled(table.storage) if plans else frozenset()
    return tuple(
        plan
        for plan in plans
        if plan.requested_at not in cancelled and load_is_removable(table.storage, plan)
    )


def _list_old_plans(table: OpenTable, timeline: Timeline) -> frozenset[RequestedAt]:
    """Removable plans that are older than a plan must be before it may go, by both clocks."""
    delay_ms = table.services.rollback_delay_min * 60_000
    plans = list_older(table, _list_removable(table, timeline), delay_ms)
    return frozenset(plan.requested_at for plan in plans)


# --- signs of life ------------------------------------------------------------------------------


def _await_news(table: OpenTable, old: frozenset[RequestedAt], pick: PickFailed) -> None:
    """Watch until each write and old plan that is pending now has failed, changed its heartbeat or
    ended."""
    timeline = load_timeline(table.storage)
    sight_all(table)
    said = {at: load_heartbeat(table.storage, at) for at in _list_watched(timeline, old)}
    is_told = False
    while said:
        timeline = load_timeline(table.storage)
        failed = {instant.requested_at for instant in pick(timeline)}
        watched = _list_watched(timeline, old)
        for at, first in list(said.items()):
            now = load_heartbeat(table.storage, at)
            is_known = at not in watched or at in failed or now != first
            if is_known or table.watch.has_expired(at, now):
                del said[at]
        if said:
            if not is_told:
                tell_waiting(table, said)
            is_told = True
            left_s = min(table.watch.left_s(at) for at in said)
            table.world.clock.sleep(min(table.pulse.beat_s, left_s))


def _list_watched(timeline: Timeline, old: Iterable[RequestedAt]) -> frozenset[RequestedAt]:
    writes = {instant.requested_at for instant in timeline.pending(*WRITES)}
    plans = {instant.requested_at for instant in timeline.pending(*REMOVABLE_ACTIONS)}
    return frozenset(writes | plans.intersection(old))


def sweep_ended(table: OpenTable) -> None:
    """Remove signs of life and guards of instants that have ended: those who died after that are
    looked for by nobody else."""
    walked = table.storage.walk(layout.GUARDS)
    guarded = {file.directory.rpartition("/")[2] for file in walked}
    _end_signs(table, _with_heartbeat(table.storage) | guarded)


def _with_heartbeat(storage: Storage) -> set[str]:
    return {file.name for file in storage.list_files(layout.HEARTBEATS)}


def _end_signs(table: OpenTable, found: set[str]) -> None:
    """The same for those of `found`, which were listed first: who has one is on the timeline
    before, so that an instant which is not pending now has ended."""
    if not found:
        return
    pending = {str(i.requested_at) for i in load_timeline(table.storage).pending()}
    for name in found - pending:
        if name.isascii() and name.isdigit():
            end_heartbeat(table.storage, RequestedAt(name))
            remove_guards(table.storage, RequestedAt(name))
