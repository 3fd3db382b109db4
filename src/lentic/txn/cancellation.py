"""Cancel a clustering plan, so that whoever wants its file groups need not wait (HUDI-7946).

A request in `.hoodie/.cancel` is a promise: its plan never completes, whoever executes it, because
completing looks for it in the same kind of transaction (R1, R3). Nobody waits for the executor. The
plan ends as aborted later, by whoever executes it, by a clean or by hand (`services/abort.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from lentic.errors import (
    Conflict,
    MissingFile,
    PlanCompleted,
    Refused,
    WriteConflict,
    shell_command,
)
from lentic.format.names import Action, State
from lentic.format.times import RequestedAt
from lentic.timeline.aborted_history import load_aborted
from lentic.timeline.cancel_requests import is_cancelled
from lentic.timeline.history import find_archived
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_clustering_claim
from lentic.txn.conflicts import Touched
from lentic.txn.transaction import OpenTable, Transaction, transaction

_log = logging.getLogger(__name__)

BY_HAND = "asked for by hand"


def request_cancel(table: OpenTable, at: RequestedAt, *, why: str = BY_HAND) -> None:
    """Promise that the plan at `at` will never complete. Numbers are the design's steps.

    `PlanCompleted` if it has; nothing happens if it is aborted, or cancelled, already. `Refused`
    for a plan that may not be cancelled.
    """
    with transaction(table) as txn:  # 1, 2
        plan = find_clustering(txn, at)
        if plan.is_completed:  # 3
            raise PlanCompleted(
                f"{plan} has completed, so that it cannot be cancelled.",
                where=table.storage.root,
                safe="nothing was changed by this call; its rows are as they were",
                next_step=shell_command("timeline", table.storage.root),
            )
        if plan.is_aborted:  # 4
            return
        with reading(txn, plan):
            claim = load_clustering_claim(table.storage, plan)
        if not claim.cancellation.cancellable:
            raise _not_cancellable(txn, plan)
        cancel_once(txn, plan, why)  # 5
        # 6: the transaction ends here


def cancel_once(txn: Transaction, plan: Instant, why: str) -> None:
    """Step 5, for whoever is in a transaction already."""
    if not is_cancelled(txn.table.storage, plan.requested_at):
        _log.info("%s is cancelled: %s", plan, why)
        txn.cancel(plan, why)


def cancel_conflicting(txn: Transaction, write: Instant, touched: Touched) -> None:
    """Cancel every pending clustering that `write`, about to complete, cannot stand beside.

    A plan under which rows stay in their file group (buckets) is only in the way of whoever
    rewrites the group; logs that come later belong to the next slice. `WriteConflict` if a plan
    that may not be cancelled is in the way: it was promised its file groups. Then nothing is
    cancelled, for nothing is written.
    """
    yielding: list[Instant] = []
    for plan in txn.timeline.pending(Action.CLUSTERING):
        with reading(txn, plan):
            found = load_clustering_claim(txn.table.storage, plan)
        mine = touched.rewritten | touched.ended if found.stays else touched.groups
        shared = mine & found.groups
        if not shared:
            continue
        if not found.cancellation.cancellable:
            raise _in_the_way(txn, plan, min(shared))
        yielding.append(plan)
    if yielding:
        # R1: a write that was given up must not take plans along that it does not need any more.
        txn.ensure_still_ours(write)
    for plan in yielding:
        cancel_once(txn, plan, f"{write} wrote to a file group of it")


@contextmanager
def reading(txn: Transaction, plan: Instant) -> Iterator[None]:
    """A block that reads `plan`, which the transaction has seen. `Conflict` if it is gone all the
    same: then the lock was lost, and its next holder has ended the plan."""
    try:
        yield
    except MissingFile as error:
        raise ended_meanwhile(txn, plan) from error


def ended_meanwhile(txn: Transaction, plan: Instant) -> Conflict:
    """What is told of a plan that ended within the transaction that had seen it."""
    return Conflict(
        f"{plan} was ended by somebody else while it was read.",
        where=txn.table.storage.root,
        safe="nothing was changed by this call",
        next_step="repeat the call",
    )


def find_clustering(txn: Transaction, at: RequestedAt) -> Instant:
    """The clustering requested at `at` in whatever state, archived too; `Refused` if none is."""
    plan = Instant(at, Action.CLUSTERING, State.REQUESTED)
    now = txn.timeline.find(plan)
    if now is not None and (now.is_completed or now.action is Action.CLUSTERING):
        return now
    storage = txn.table.storage
    if plan.identity in {aborted.identity for aborted in load_aborted(storage)}:
        return plan.at(State.ABORTED)
    if find_archived(storage, {plan.identity}):
        raise PlanCompleted(
            f"{plan} has completed and is archived.",
            where=storage.root,
            safe="nothing was changed by this call",
            next_step=shell_command("timeline", storage.root, "--all"),
        )
    undoing = (*txn.rollbacks_of(plan), txn.restore_of(plan))
    raise Refused(
        next((f"{plan} is gone: {by} undid it." for by in undoing if by), "")
        or f"There is no clustering at {at}; only clustering plans can be cancelled.",
        where=storage.root,
        safe="nothing was changed",
        next_step=shell_command("plans", storage.root),
    )


def _not_cancellable(txn: Transaction, plan: Instant) -> Refused:
    root = txn.table.storage.root
    return Refused(
        f"{plan} was not made cancellable.",
        where=root,
        safe="nothing was changed; the plan stays",
        next_step="execute it, or roll it back: "
        + shell_command("rollback", root, plan.requested_at),
    )


def _in_the_way(txn: Transaction, plan: Instant, group: tuple[str, str]) -> WriteConflict:
    root = txn.table.storage.root
    return WriteConflict(
        f"{plan} is pending, may not be cancelled, and has {'/'.join(filter(None, group))}, which "
        "this write changed.",
        where=root,
        safe="nothing of this write is visible; the plan stays",
        next_step="execute the plan first, or roll it back: "
        f"{shell_command('rollback', root, plan.requested_at)}; plans made with cancellable=True "
        "give way",
    )
