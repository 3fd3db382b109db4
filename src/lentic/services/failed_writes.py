"""Undo what writers left that did not finish: all of it, or that of writers whose life has ended.

With a single writer whatever is pending has no owner any more (EAGER). With several, an instant is
given up when its heartbeat was seen unchanged for its time to live (LAZY), in the two steps of
RFC-79: rollbacks are planned in one transaction on a reloaded timeline, and carried out after it.
A writer that was given up and wakes finds its instant targeted or gone, and commits nothing (R1).
"""

from __future__ import annotations

from lentic.config.sharing import FailedWrites
from lentic.coordination.guards import remove_guards
from lentic.coordination.heartbeat import end_heartbeat, load_heartbeat
from lentic.format import layout
from lentic.format.names import Action
from lentic.format.times import RequestedAt
from lentic.services.restoring import finish_restores
from lentic.services.rollback import (
    Undo,
    execute_undo,
    load_undo,
    plan_undo,
    roll_back,
    sweep_markers,
)
from lentic.timeline.instant import WRITES, Instant
from lentic.timeline.reader import load_timeline
from lentic.timeline.timeline import Timeline
from lentic.txn.transaction import OpenTable, transaction


def clean_up_failed_writes(table: OpenTable) -> tuple[Instant, ...]:
    """Undo what the table's policy says has failed; the instants that were undone."""
    if table.sharing.failed_writes is FailedWrites.EAGER:
        return roll_back_all(table)
    return roll_back_expired(table)


def roll_back_all(table: OpenTable) -> tuple[Instant, ...]:
    """Undo every write that did not finish, and finish rollbacks that did not (EAGER).

    Should one of them have an owner all the same, that one finds its instant gone and commits
    nothing (R1).
    """
    timeline = sweep_markers(table)
    if finish_restores(table, timeline):
        timeline = load_timeline(table.storage)
    failed = timeline.pending(*WRITES)
    for instant in failed:
        roll_back(table, instant)
    for rollback in load_timeline(table.storage).pending(Action.ROLLBACK):
        execute_undo(table, load_undo(table, rollback), None)
    return failed


def roll_back_expired(table: OpenTable, *, waits: bool = False) -> tuple[Instant, ...]:
    """Undo writes whose heartbeat has expired, and finish rollbacks that were begun (LAZY).

    An expiry takes a time to live to be seen. Without `waits`, what was not seen for so long by
    this process is left for the next call; with it, the call lasts until all that is pending has
    ended or given a sign of life.
    """
    if waits:
        with transaction(table):
            pass  # what a holder of the lock decided and left undone is done now, and seen (R2)
    timeline = sweep_markers(table)
    if finish_restores(table, timeline):
        timeline = load_timeline(table.storage)
    if waits:
        _await_news(table)
        timeline = load_timeline(table.storage)
    _sweep_heartbeats(table)
    table.watch.forget_all_but(frozenset(i.requested_at for i in timeline.pending()))
    if not (_expired(table, timeline) or timeline.pending(Action.ROLLBACK)):
        return ()
    undos: list[tuple[Undo, Instant]] = []
    with transaction(table) as txn:  # 1  RFC-79: schedule, on a reloaded timeline
        expired = _expired(table, txn.timeline)
        undos += [(plan_undo(txn, instant), instant) for instant in expired]
        begun = txn.timeline.pending(Action.ROLLBACK)
    for undo, instant in undos:  # 2  execute, outside the lock
        execute_undo(table, undo, instant)
    for rollback in begun:
        execute_undo(table, load_undo(table, rollback), None)
    return expired


def _expired(table: OpenTable, timeline: Timeline) -> tuple[Instant, ...]:
    def has_expired(at: RequestedAt) -> bool:
        return table.watch.has_expired(at, load_heartbeat(table.storage, at))

    return tuple(i for i in timeline.pending(*WRITES) if has_expired(i.requested_at))


def _await_news(table: OpenTable) -> None:
    """Watch until each write that is pending now has expired, changed its heartbeat or ended."""
    said = {
        i.requested_at: load_heartbeat(table.storage, i.requested_at)
        for i in load_timeline(table.storage).pending(*WRITES)
    }
    while said:
        pending = {i.requested_at for i in load_timeline(table.storage).pending(*WRITES)}
        for at, first in list(said.items()):
            now = load_heartbeat(table.storage, at)
            if at not in pending or now != first or table.watch.has_expired(at, now):
                del said[at]
        if said:
            table.world.clock.sleep(table.pulse.beat_s)


def _sweep_heartbeats(table: OpenTable) -> None:
    """Remove signs of life of instants that have ended. They are listed first: who gives one is on
    the timeline before, so that an instant which is not pending now has ended."""
    found = [file.name for file in table.storage.list_files(layout.HEARTBEATS)]
    if not found:
        return
    pending = {str(i.requested_at) for i in load_timeline(table.storage).pending()}
    for name in found:
        if name.isdigit() and name not in pending:
            end_heartbeat(table.storage, RequestedAt(name))
            remove_guards(table.storage, RequestedAt(name))
