"""Undo one pending instant: a plan with exact names, carried out, then completed (R16).

Steps, each safe to repeat: publish the plan; finalize the target with nothing accepted; delete the
named files; complete the rollback; take the target's files off the timeline; remove its markers.
From the first step on the target cannot complete any more, because completing looks for rollbacks
that name it (R1). From the second on an attempt at it that still runs removes what it writes (R7):
once its begin marker is gone, nobody else would.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from lentic.errors import Corrupt, WriteConflict
from lentic.format import layout
from lentic.format.names import Action, State
from lentic.format.plans import (
    RollbackMetadata,
    RollbackPlan,
    encode_rollback_metadata,
    encode_rollback_plan,
)
from lentic.format.times import RequestedAt, parse_epoch_ms
from lentic.storage.base import Storage
from lentic.timeline.instant import WRITES, Instant
from lentic.timeline.reader import (
    load_commit_metadata,
    load_restored,
    load_rollback_plan,
    load_rollback_target,
    load_timeline,
)
from lentic.timeline.timeline import Timeline
from lentic.txn.transaction import OpenTable, Transaction, transaction
from lentic.write import completion, markers

_STRAY_MS = 24 * 3600 * 1000
"""How long an attempt may sleep and still find the finalize marker that stops it."""
_NO_RUN = -1
"""What a finalize marker has for a run if whoever undid the write made it."""


@dataclass(frozen=True, slots=True)
class Undo:
    """A rollback in whatever state it was found or made, and its plan."""

    rollback: Instant
    plan: RollbackPlan


def roll_back(table: OpenTable, target: Instant) -> bool:
    """Undo `target` if it is still pending. False if someone else has, or had begun to."""
    with transaction(table) as txn:
        now = txn.timeline.find(target)
        if now is None or not now.is_pending:
            return now is not None
        is_first = txn.rollback_of(now) is None
        undo = plan_undo(txn, now)
    execute_undo(table, undo, now)
    return is_first


def withdraw(table: OpenTable, target: Instant) -> None:
    """Undo `target` without a trace on the timeline, if no attempt has announced any file yet."""
    storage, at = table.storage, target.requested_at
    with transaction(table) as txn:
        now = txn.timeline.find(target)
        if now is None or not now.is_pending:
            return
        finalize_empty(storage, at)
        if not markers.list_announced(storage, at):
            txn.remove(now)
            completion.remove_completions(storage, at, keep_finalized=True)
            return
    roll_back(table, target)


def sweep_markers(table: OpenTable) -> Timeline:
    """Remove markers whose owner died after it had finished; the timeline this was judged by.

    Markers are listed first: what has markers was on the timeline before it had any, so that an
    instant which is not there now has ended. Files go only where a rollback says so, or a finalize
    marker, or a commit that does not name them, never because an instant is unknown: it may have
    been archived.
    """
    storage = table.storage
    shared, finalized = completion.list_with_completions(storage)
    marked = markers.list_marked(storage) | shared
    timeline = load_timeline(storage)
    pending = {instant.requested_at for instant in timeline.pending()}
    for at in finalized - pending:
        if _is_old(table, at):
            completion.remove_completions(storage, at, keep_finalized=False)
    if not marked:
        return timeline
    undone = {
        load_rollback_target(storage, rollback) for rollback in timeline.completed(Action.ROLLBACK)
    }
    undone |= {at for at, _ in load_restored(storage, timeline.completed(Action.RESTORE))}
    undone -= pending
    ended = undone | timeline.completions().keys()
    withdrawn = {at for at in marked - pending - ended if _is_finalized_empty(storage, at)}
    for instant in timeline.writes():
        if instant.requested_at in marked:
            # An attempt that came after all had been finalized, and died before it cleaned up.
            named = load_commit_metadata(storage, instant).paths()
            _delete_announced(table, instant.requested_at, but=named)
    for at in marked & (undone | withdrawn):
        _delete_announced(table, at)
    for at in marked & (ended | withdrawn):
        markers.remove_markers(storage, at)
        completion.remove_completions(storage, at, keep_finalized=True)
    return timeline


def _delete_announced(table: OpenTable, at: RequestedAt, but: frozenset[str] = frozenset()) -> None:
    for path in markers.list_announced(table.storage, at):
        if path not in but:
            table.storage.delete(path)


def _is_old(table: OpenTable, at: RequestedAt) -> bool:
    """Whether no attempt at the instant can still be running that a finalize marker must stop."""
    try:
        age_ms = table.world.clock.now_ms() - parse_epoch_ms(at, table.config.zone)
    except Corrupt:  # a folder with another number for a name; nobody's, so nobody's to remove
        return False
    return age_ms > _STRAY_MS


def load_undo(table: OpenTable, rollback: Instant) -> Undo:
    """A rollback that somebody has begun."""
    return Undo(rollback, load_rollback_plan(table.storage, rollback))


def plan_undo(txn: Transaction, target: Instant) -> Undo:
    """Publish the plan to undo `target`, unless there is one: from here on it cannot complete."""
    if rollback := txn.rollback_of(target):
        return Undo(rollback, load_rollback_plan(txn.table.storage, rollback))
    files = markers.list_announced(txn.table.storage, target.requested_at)
    plan = RollbackPlan(target.requested_at, target.action, files)
    rollback = txn.request(Action.ROLLBACK, encode_rollback_plan(plan, txn.table.storage.root))
    return Undo(rollback, plan)


def finalize_empty(storage: Storage, at: RequestedAt) -> None:
    """Have attempts that still run find that nothing may be added, if the write's own run has not
    said so before."""
    storage.delete(layout.accepted_statuses(at))  # of a run that died before its finalize marker
    with suppress(WriteConflict):
        completion.finalize(storage, at, _NO_RUN, ())


def _is_finalized_empty(storage: Storage, at: RequestedAt) -> bool:
    found = completion.load_finalized(storage, at)
    return found is not None and found.run == _NO_RUN


def _hidden_target(timeline: Timeline, plan: RollbackPlan) -> Instant | None:
    """What a rollback of a completed write has left of it: it looks as if it had never completed.
    The plan names it by the action it completed as, so that no plan which is kept is meant."""
    if plan.action not in WRITES:
        return None
    pending = (i for i in timeline.pending() if i.identity == (plan.target, plan.action))
    return next(pending, None)


def execute_undo(table: OpenTable, undo: Undo, target: Instant | None) -> None:
    """Carry a published plan out, and take `target` off the timeline, or what is left of a write
    that had completed. Safe to repeat, and to do twice at once."""
    finalize_empty(table.storage, undo.plan.target)
    # Attempts that still ran when the plan was made may have announced more files since.
    late = markers.list_announced(table.storage, undo.plan.target)
    files = tuple(sorted({*undo.plan.files, *late}))
    for path in files:
        table.storage.delete(path)
    with transaction(table) as txn:
        if target is None and (hidden := _hidden_target(txn.timeline, undo.plan)):
            # It had completed, so that nobody looks after it, and nobody's heartbeat expires: the
            # rollback stays pending, and finds its way here again, until it is off the timeline.
            txn.remove(hidden)
        rollback = txn.timeline.find(undo.rollback)
        if rollback is not None and rollback.is_pending:
            inflight = rollback if rollback.state is State.INFLIGHT else txn.start(rollback)
            plan = undo.plan
            metadata = RollbackMetadata(inflight.requested_at, plan.target, plan.action, files)
            txn.finish_rollback(inflight, encode_rollback_metadata(metadata, table.storage.root))
        if target is not None:
            txn.remove(target)
    markers.remove_markers(table.storage, undo.plan.target)
    completion.remove_completions(table.storage, undo.plan.target, keep_finalized=True)
