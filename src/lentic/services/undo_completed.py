"""Undo one instant by its time: a pending one as ever, or the write that completed last.

For a completed write the plan names the files of its commit metadata and those its attempts have
announced. Publishing it is the decision; the same transaction takes the completed file away, and
should it die before, the next one does (`Transaction.hide_undone`). From then on the write looks as
if it had never completed, and goes the way of one that did not: whoever undoes failed writes can
finish it, and it cannot complete again because a rollback targets it (R1).
"""

from __future__ import annotations

from lentic.errors import Conflict, Corrupt, InstantCancelled, Refused, shell_command
from lentic.format import layout
from lentic.format.names import Action, State, requested_at_of
from lentic.format.plans import RollbackPlan, encode_rollback_plan
from lentic.format.times import RequestedAt
from lentic.services.past_state import just_before, load_state
from lentic.services.rollback import Undo, execute_undo, plan_undo
from lentic.services.savepoint import load_savepoints
from lentic.timeline.cancel_requests import is_cancelled
from lentic.timeline.instant import PLANS, WRITES, Instant
from lentic.timeline.reader import load_commit_metadata, load_named_files, load_timeline
from lentic.txn.transaction import OpenTable, Transaction, transaction
from lentic.write import markers
from lentic.write.commit import ensure_metadata_table_true

_TRIES_MAX = 5


def roll_back_instant(table: OpenTable, at: RequestedAt) -> Instant:
    """Undo the write or plan requested at `at`, and return the completed rollback.

    Of completed writes only the last can be undone: what came later was built upon it. `Refused`
    otherwise, or if what the table was before it is not there any more. `Conflict` if a plan was
    executed meanwhile and has completed.
    """
    for _ in range(_TRIES_MAX):
        target, rollback = _roll_back_once(table, at)
        timeline = load_timeline(table.storage)
        now = None if target.is_completed else timeline.find(target)
        if now is None:
            return timeline.find(rollback) or rollback  # or it was archived since
        if not now.is_pending:
            raise _ended_first(table, now)
        # A clean has completed the rollback first, which it takes for that of an execution (G12).
    raise Conflict(
        f"The plan at {at} is still there: others completed each rollback of it first.",
        where=table.storage.root,
        safe="no row was changed; nothing of it is visible",
        next_step="repeat the call: " + shell_command("rollback", table.storage.root, at),
    )


def _roll_back_once(table: OpenTable, at: RequestedAt) -> tuple[Instant, Instant]:
    """What is to be undone, as it was found, and the rollback that did it."""
    with transaction(table) as txn:
        target = _find_target(txn, at)
        if target.is_completed:
            undo = _plan_undo_completed(txn, target)
            txn.reload()
            txn.hide_undone()
        else:
            undo = plan_undo(txn, target)
    execute_undo(table, undo, None if target.is_completed else target)
    return target, undo.rollback


def _ended_first(table: OpenTable, now: Instant) -> Conflict:
    root = table.storage.root
    return Conflict(
        f"{now} ended before it could be rolled back: somebody executed or aborted it meanwhile.",
        where=root,
        safe="its rows are as they were",
        next_step=shell_command("timeline", root),
    )


def _find_target(txn: Transaction, at: RequestedAt) -> Instant:
    named = [i for i in txn.timeline.instants if i.requested_at == at]
    root = txn.table.storage.root
    for instant in named:
        if instant.is_aborted or (instant.is_pending and is_cancelled(txn.table.storage, at)):
            ended = "was cancelled and has ended" if instant.is_aborted else "was cancelled"
            raise InstantCancelled(
                f"{instant} {ended}: it ends as aborted, not by a rollback.",
                where=root,
                safe="nothing was changed by this call; no row of it is or will be visible",
                next_step=shell_command("abort", root, at),
            )
        if instant.action in WRITES or instant.action in PLANS:
            return instant
    if named:
        raise Refused(
            f"{named[0]} changes no row, so that there is nothing to roll back.",
            where=root,
            safe="nothing was changed",
            next_step="choose a write or a plan: " + shell_command("timeline", root),
        )
    if undoing := _undone_by(txn, at):
        raise InstantCancelled(
            f"{at} was undone already, by {undoing}.",
            where=root,
            safe="nothing was changed by this call",
            next_step=shell_command("timeline", root),
        )
    raise Refused(
        f"There is no instant {at} on the active timeline.",
        where=root,
        safe="nothing was changed",
        next_step="choose one of: " + shell_command("timeline", root),
    )


def _undone_by(txn: Transaction, at: RequestedAt) -> Instant | None:
    for action in sorted(WRITES):
        gone = Instant(at, action, State.REQUESTED)
        if by := txn.rollback_of(gone) or txn.restore_of(gone):
            return by
    return None


def _plan_undo_completed(txn: Transaction, target: Instant) -> Undo:
    storage = txn.table.storage
    _ensure_last(txn, target)
    files = load_files_of(txn, target)
    _ensure_unprotected(txn, target, files)
    _ensure_in_no_plan(txn, target, files)
    load_state(txn, just_before(target))
    ensure_metadata_table_true(txn, may_drop=True)
    plan = RollbackPlan(target.requested_at, target.action, files)
    return Undo(txn.request(Action.ROLLBACK, encode_rollback_plan(plan, storage.root)), plan)


def load_files_of(txn: Transaction, target: Instant) -> tuple[str, ...]:
    """All files of a write or plan: those that its attempts announced and, if it has completed,
    those that its metadata names."""
    storage, at = txn.table.storage, target.requested_at
    files = set(markers.list_announced(storage, at))
    if target.is_completed:
        files |= load_commit_metadata(storage, target).paths()
    for path in files:
        if requested_at_of(path.rpartition("/")[2]) != at:
            raise Corrupt(
                f"The metadata of {target} names {path!r}, which is no file of that instant.",
                where=layout.timeline_file(target.file_name),
                safe="nothing was changed",
                next_step="bring the file back from a copy of the table",
            )
    return tuple(sorted(files))


def _ensure_last(txn: Transaction, target: Instant) -> None:
    last, root = txn.timeline.writes()[-1], txn.table.storage.root
    if last != target:
        raise Refused(
            f"{last} completed after {target} and may have been built upon it.",
            where=root,
            safe="nothing was changed",
            next_step="roll that one back first, or undo all that came since: "
            f"{shell_command('restore', root)} <the write before {target.requested_at}>",
        )


def _ensure_unprotected(txn: Transaction, target: Instant, files: tuple[str, ...]) -> None:
    for savepoint in load_savepoints(txn.table.storage, txn.timeline):
        if savepoint.requested_at == target.requested_at or savepoint.files & set(files):
            raise Refused(
                f"A savepoint protects {target}.",
                where=layout.timeline_file(savepoint.instant.file_name),
                safe="nothing was changed",
                next_step="remove the savepoint first",
            )


def _ensure_in_no_plan(txn: Transaction, target: Instant, files: tuple[str, ...]) -> None:
    names = {path.rpartition("/")[2] for path in files}
    for plan in txn.timeline.pending(*PLANS):
        if names & load_named_files(txn.table.storage, plan):
            root = txn.table.storage.root
            raise Refused(
                f"{plan} is going to read files of {target}.",
                where=root,
                safe="nothing was changed",
                next_step="roll the plan back first: "
                + shell_command("rollback", root, plan.requested_at),
            )
