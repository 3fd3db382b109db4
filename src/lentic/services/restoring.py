"""Carry published restores out: delete what their plans name, then take the instants away.

When a plan is published the state is decided, and no transaction sees the undone writes any more
(`Transaction.hide_undone`); what is left to do here frees space and names. Every step is safe to
repeat, and to do twice at once: files go by exact names (R4), which hold the instant that made
them, so that nothing of the state restored to, or of a later write, is ever among them.
"""

from __future__ import annotations

from lentic.coordination.guards import remove_guards
from lentic.coordination.heartbeat import end_heartbeat
from lentic.format.names import Action, State
from lentic.format.plans import RollbackMetadata
from lentic.format.restore import (
    RestoreMetadata,
    RestorePlan,
    Undone,
    encode_restore_metadata,
)
from lentic.format.times import RequestedAt
from lentic.services.rollback import finalize_empty
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_restore_plan, load_timeline
from lentic.timeline.timeline import Timeline
from lentic.txn.transaction import OpenTable, Transaction, transaction
from lentic.write import completion, markers


def finish_restores(table: OpenTable, timeline: Timeline | None = None) -> tuple[Instant, ...]:
    """Finish the restores that are pending on `timeline`, if it was loaded already; those that
    were. Another engine's are left to it."""
    begun = (timeline or load_timeline(table.storage)).pending(Action.RESTORE)
    return tuple(restore for restore in begun if execute_restore(table, restore))


def execute_restore(table: OpenTable, restore: Instant) -> Instant | None:
    """Carry a published restore out; None if it is another engine's, or has gone meanwhile."""
    with transaction(table) as txn:
        if txn.timeline.find(restore) is None:
            return None
        plan = load_restore_plan(table.storage, restore)
    if plan.files is None:
        return None
    deleted = {one.requested_at: _delete_files(table, one, plan) for one in plan.undone}
    with transaction(table) as txn:
        done = _take_off(txn, restore, plan, deleted)
    for one in plan.undone:
        at = one.requested_at
        markers.remove_markers(table.storage, at, of=deleted[at])
        completion.remove_completions(table.storage, at, keep_finalized=True)
        end_heartbeat(table.storage, at)
    return done


def _delete_files(table: OpenTable, undone: Undone, plan: RestorePlan) -> tuple[str, ...]:
    storage, at = table.storage, undone.requested_at
    assert plan.files is not None
    finalize_empty(storage, at)  # attempts that still run remove what they write (R7)
    late = markers.list_announced(storage, at)
    files = tuple(sorted({*plan.files[at], *late}))
    for path in files:
        storage.delete(path)
    remove_guards(storage, at)
    return files


def _take_off(
    txn: Transaction,
    restore: Instant,
    plan: RestorePlan,
    deleted: dict[RequestedAt, tuple[str, ...]],
) -> Instant | None:
    """Take what was undone off the timeline, the instants whose files are gone, then complete."""
    now = txn.timeline.find(restore)
    if now is None or now.is_completed:
        return now
    for one in plan.undone:
        if left := _find_left(txn.timeline, one):
            txn.remove(left)
        if one.action is Action.CLUSTERING:
            txn.discard_cancel(one.requested_at)
    inflight = now if now.state is State.INFLIGHT else txn.start(now)
    rollbacks = (
        RollbackMetadata(
            restore.requested_at, one.requested_at, one.action, deleted[one.requested_at]
        )
        for one in plan.undone
    )
    metadata = RestoreMetadata(restore.requested_at, tuple(rollbacks))
    content = encode_restore_metadata(metadata, txn.table.storage.root)
    return txn.finish_rollback(inflight, content)


def _find_left(timeline: Timeline, undone: Undone) -> Instant | None:
    return next((i for i in timeline.pending() if i.identity == undone.identity), None)
