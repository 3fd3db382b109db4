"""Restore: the table as it was right after one write, for good.

All that completed later is undone, and all that is pending, by one plan which names every file to
delete. Publishing it is the decision: the same transaction takes the completed files away, the last
that completed first, so that readers see states the table was in before and then the one asked for;
should it die on the way, the next transaction goes on (`Transaction.hide_undone`). Files go after
that (`restoring`). Cleans and rollbacks stay on the timeline: what they deleted stays deleted.
"""

from __future__ import annotations

from lentic.errors import Refused
from lentic.format.names import Action
from lentic.format.restore import RestorePlan, Undone, encode_restore_plan
from lentic.format.times import RequestedAt
from lentic.services.past_state import find_write, load_state
from lentic.services.restoring import execute_restore, finish_restores
from lentic.services.savepoint import load_savepoints
from lentic.services.undo_completed import load_files_of
from lentic.timeline.history import load_history
from lentic.timeline.instant import PLANS, WRITES, Instant
from lentic.timeline.reader import load_restore_plan
from lentic.timeline.timeline import Timeline
from lentic.txn.transaction import OpenTable, Transaction, transaction
from lentic.write.commit import ensure_metadata_table_true


def restore_table(table: OpenTable, at: RequestedAt) -> Instant:
    """Go back to the state right after the write requested at `at`; the completed restore.

    `Refused` if there is no such completed write, a file of that state is not there any more, or
    a later savepoint protects what would have to go.
    """
    finish_restores(table)
    with transaction(table) as txn:
        restore = publish_restore(txn, at)
    return execute_restore(table, restore) or restore


def plan_undone(timeline: Timeline, point: Instant) -> tuple[Instant, ...]:
    """What must go for the table to be as right after `point`: first what is pending, then what
    completed later, the last first."""
    pending = timeline.pending(*sorted(WRITES | PLANS))
    later = (i for i in timeline.writes() if str(i.completed_at) > str(point.completed_at))
    return (*reversed(pending), *reversed(tuple(later)))


def publish_restore(txn: Transaction, at: RequestedAt) -> Instant:
    """Decide to go back: from here on nothing later is seen, and nobody builds upon it."""
    point = find_write(txn, at)
    assert point.completed_at is not None
    _ensure_none_begun_elsewhere(txn)
    _ensure_none_archived_since(txn, point)
    undone = plan_undone(txn.timeline, point)
    _ensure_unprotected(txn, undone)
    kept = frozenset(load_state(txn, point.completed_at))
    files = {one.requested_at: load_files_of(txn, one) for one in undone}
    assert not any(kept.intersection(paths) for paths in files.values()), "names hold instants"
    ensure_metadata_table_true(txn, may_drop=True)
    named = tuple(Undone(one.requested_at, one.action) for one in undone)
    content = encode_restore_plan(RestorePlan(at, named, files))
    restore = txn.start(txn.request(Action.RESTORE, content))
    txn.reload()
    txn.hide_undone()
    return restore


def _ensure_none_begun_elsewhere(txn: Transaction) -> None:
    for restore in txn.timeline.pending(Action.RESTORE):
        if load_restore_plan(txn.table.storage, restore).files is None:
            raise Refused(
                f"{restore} was begun by another engine and is not finished.",
                where=txn.table.storage.root,
                safe="nothing was changed",
                next_step="finish it with that engine first",
            )


def _ensure_none_archived_since(txn: Transaction, point: Instant) -> None:
    """What left the active timeline cannot be undone."""
    for instant in load_history(txn.table.storage).instants:
        if instant.action in WRITES and str(instant.completed_at) > str(point.completed_at):
            raise Refused(
                f"{instant} completed after {point} and has been archived.",
                where=txn.table.storage.root,
                safe="nothing was changed",
                next_step="choose a later write, and make a savepoint of what must stay reachable",
            )


def _ensure_unprotected(txn: Transaction, undone: tuple[Instant, ...]) -> None:
    times = {one.requested_at for one in undone}
    for savepoint in load_savepoints(txn.table.storage, txn.timeline):
        if savepoint.requested_at in times:
            raise Refused(
                f"The later savepoint of {savepoint.requested_at} protects what would have to go.",
                where=txn.table.storage.root,
                safe="nothing was changed",
                next_step="remove that savepoint first, or restore to it",
            )
