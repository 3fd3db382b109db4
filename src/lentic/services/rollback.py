"""Undo one pending instant: a plan with exact names, carried out, then completed (R16).

Steps, each safe to repeat: publish the plan; delete the named files; complete the rollback; take
the target's files off the timeline; remove its markers. From the first step on the target cannot
complete any more, because completing looks for rollbacks that name it (R1).
"""

from __future__ import annotations

from dataclasses import dataclass

from lentic.format.names import Action, State
from lentic.format.plans import (
    RollbackMetadata,
    RollbackPlan,
    encode_rollback_metadata,
    encode_rollback_plan,
)
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_rollback_plan, load_rollback_target, load_timeline
from lentic.timeline.timeline import Timeline
from lentic.txn.transaction import OpenTable, Transaction, transaction
from lentic.write import markers


@dataclass(frozen=True, slots=True)
class _Undo:
    """A rollback in whatever state it was found or made, and its plan."""

    rollback: Instant
    plan: RollbackPlan


def roll_back(table: OpenTable, target: Instant) -> None:
    """Undo `target`. Does nothing if it is no longer pending."""
    with transaction(table) as txn:
        now = txn.timeline.find(target)
        if now is None or not now.is_pending:
            return
        undo = _plan(txn, now)
    _execute(table, undo, now)


def withdraw(table: OpenTable, target: Instant) -> None:
    """Undo `target` without a trace, if no attempt at it has announced any file yet."""
    with transaction(table) as txn:
        now = txn.timeline.find(target)
        if now is None or not now.is_pending:
            return
        if not markers.list_announced(table.storage, target.requested_at):
            txn.remove(now)
            return
    roll_back(table, target)


def roll_back_failed_writes(table: OpenTable) -> tuple[Instant, ...]:
    """Undo every write that did not finish, and finish rollbacks that did not (EAGER policy).

    With a single writer, as that policy presumes, whatever is pending has no owner any more; should
    it have one all the same, that one finds its instant gone and commits nothing (R1).
    """
    timeline = _sweep_markers(table)
    failed = timeline.pending(Action.COMMIT, Action.DELTACOMMIT)
    for instant in failed:
        roll_back(table, instant)
    for rollback in load_timeline(table.storage).pending(Action.ROLLBACK):
        _execute(table, _Undo(rollback, load_rollback_plan(table.storage, rollback)), None)
    return failed


def _sweep_markers(table: OpenTable) -> Timeline:
    """Remove markers whose owner died after it had finished; the timeline this was judged by.

    Markers are listed first: what has markers was on the timeline before it had any, so that an
    instant which is not there now has ended. Files go only where a rollback says so, never because
    an instant is unknown: it may have completed and been archived.
    """
    marked = markers.list_marked(table.storage)
    timeline = load_timeline(table.storage)
    if not marked:
        return timeline
    pending = {instant.requested_at for instant in timeline.pending()}
    undone = {
        load_rollback_target(table.storage, rollback)
        for rollback in timeline.completed(Action.ROLLBACK)
    }
    for at in marked & (undone - pending):
        for path in markers.list_announced(table.storage, at):
            table.storage.delete(path)
    for at in marked & ((undone - pending) | timeline.completions().keys()):
        markers.remove_markers(table.storage, at)
    return timeline


def _plan(txn: Transaction, target: Instant) -> _Undo:
    if rollback := txn.rollback_of(target):
        return _Undo(rollback, load_rollback_plan(txn.table.storage, rollback))
    files = markers.list_announced(txn.table.storage, target.requested_at)
    plan = RollbackPlan(target.requested_at, target.action, files)
    rollback = txn.request(Action.ROLLBACK, encode_rollback_plan(plan, txn.table.storage.root))
    return _Undo(rollback, plan)


def _execute(table: OpenTable, undo: _Undo, target: Instant | None) -> None:
    # Attempts that still ran when the plan was made may have announced more files since.
    late = markers.list_announced(table.storage, undo.plan.target)
    files = tuple(sorted({*undo.plan.files, *late}))
    for path in files:
        table.storage.delete(path)
    with transaction(table) as txn:
        rollback = txn.timeline.find(undo.rollback)
        if rollback is not None and rollback.is_pending:
            inflight = rollback if rollback.state is State.INFLIGHT else txn.start(rollback)
            plan = undo.plan
            metadata = RollbackMetadata(inflight.requested_at, plan.target, plan.action, files)
            txn.finish_rollback(inflight, encode_rollback_metadata(metadata, table.storage.root))
        if target is not None:
            txn.remove(target)
    markers.remove_markers(table.storage, undo.plan.target)
