"""Bring a cancelled plan to its end, and leave nothing of it (HUDI-7946, `execute_abort`).

The design's steps, with what protocols need besides: whoever aborts takes the guard, so that
neither an executor that was given up nor a second aborter can be at it as well; a plan that has
completed is refused; and before the last step everything is checked again (R1, R3).
"""

from __future__ import annotations

from contextlib import ExitStack

from lentic.coordination.guards import latest_guard, remove_guards
from lentic.coordination.heartbeat import end_heartbeat
from lentic.engine import Engine
from lentic.errors import InstantCancelled, PlanCompleted, Refused, shell_command
from lentic.format.clustering_plan import note_canceller
from lentic.format.times import RequestedAt
from lentic.services.outcome import Aborted
from lentic.services.rollback import finalize_empty, remove_announced
from lentic.services.signs_of_life import await_news, ensure_not_executed
from lentic.storage.base import Storage
from lentic.timeline.cancel_requests import is_cancelled, load_cancel_request
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_clustering_content, load_timeline
from lentic.txn.cancellation import ended_meanwhile, find_clustering, reading
from lentic.txn.transaction import OpenTable, Transaction, transaction
from lentic.write import markers
from lentic.write.alive import staying_alive


def execute_abort(
    table: OpenTable, engine: Engine, at: RequestedAt, *, waits: bool = True
) -> Aborted:
    """End the cancelled plan at `at` as aborted. Safe to repeat.

    `PlanBusy` while somebody executes it, or aborts it; `PlanCompleted` if it has completed;
    `Refused` if nobody has cancelled it. Whether a heartbeat lives shows only while it is watched:
    without `waits` one that this process has not watched for long enough counts as living.
    """
    if waits:
        await_news(table, at)
    aborted = _abort(table, engine, at)
    # Also after an aborter that died, of whom nobody else looks for what is left here.
    remove_announced(table, at)
    end_heartbeat(table.storage, at)
    remove_guards(table.storage, at)
    return Aborted(aborted)


def _abort(table: OpenTable, engine: Engine, at: RequestedAt) -> Instant:
    """The steps of the design."""
    with ExitStack() as held:
        with transaction(table) as txn:  # 1, 2
            plan = find_clustering(txn, at)
            if plan.is_aborted:  # 3
                txn.discard_cancel(at)
                return plan
            _ensure_abortable(txn, plan)
            ensure_not_executed(table, plan)  # 4
            # Before the guard is taken: of whoever takes it later, nothing is among these (R4).
            leftovers = markers.list_announced(table.storage, at)
            guard = txn.take_guard(plan)
            held.enter_context(staying_alive(table, engine, at, epoch=txn.epoch))
            # 5, 6: the transaction ends here
        # Attempts that wake up later find that nothing may be added, also if this aborter dies.
        finalize_empty(table.storage, at)
        for path in leftovers:  # 7
            table.storage.delete(path)
        with transaction(table) as txn:  # 8
            now = find_clustering(txn, at)
            if now.is_aborted:  # 3, for whoever slept: another was faster
                txn.discard_cancel(at)
                return now
            _ensure_mine(txn, now, guard)
            with reading(txn, now):
                content = _load_content(table.storage, now)
            aborted = txn.abort(now, content)  # 9
            txn.discard_cancel(at)  # 10
            return aborted  # 11


def _load_content(storage: Storage, plan: Instant) -> bytes:
    """The plan, with who cancelled it and why, which nobody could tell once the request is gone."""
    content, path = load_clustering_content(storage, plan)
    request = load_cancel_request(storage, plan.requested_at)
    return note_canceller(content, path, request.by, request.why) if request else content


def _ensure_abortable(txn: Transaction, plan: Instant) -> None:
    root, at = txn.table.storage.root, plan.requested_at
    if plan.is_completed:
        raise PlanCompleted(
            f"{plan} has completed, so that it cannot be aborted.",
            where=root,
            safe="nothing was changed by this call; its rows are as they were",
            next_step=shell_command("timeline", root),
        )
    if not is_cancelled(txn.table.storage, at):
        now = load_timeline(txn.table.storage).find(plan)
        if now is None or not now.is_pending:
            raise ended_meanwhile(txn, plan)
        raise Refused(
            f"{plan} was not cancelled.",
            where=root,
            safe="nothing was changed",
            next_step=shell_command("cancel", root, at),
        )


def _ensure_mine(txn: Transaction, plan: Instant, guard: int) -> None:
    """R1: the plan is as it was, and nobody took it over since."""
    is_taken_over = latest_guard(txn.table.storage, plan.requested_at) != guard
    if not plan.is_pending or is_taken_over:
        raise InstantCancelled(
            f"{plan} was ended by another job, which took this one for dead.",
            where=txn.table.storage.root,
            safe="nothing was completed by this call",
            next_step=shell_command("timeline", txn.table.storage.root),
        )
