"""Execute a plan alone (RFC-79, "Changes to compaction/cluster plan execution").

A heartbeat tells others that somebody is at it; the guard, taken in the same transaction, tells who
it is. Where a heartbeat was given up although its owner only slept, the owner wakes to a later
guard and completes nothing.

A removable plan is executed once: what was begun and failed is rolled back with its plan. Any other
plan stays until it is completed: whoever comes next first undoes the execution before.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from lentic.coordination.guards import remove_guards
from lentic.engine import Engine
from lentic.errors import (
    ConfigError,
    Conflict,
    Corrupt,
    InstantCancelled,
    LenticError,
    OutcomeUnknown,
    PlanMustBeRolledBack,
    StorageError,
    shell_command,
)
from lentic.format.names import Action, State
from lentic.services.outcome import Aborted, AlreadyCommitted, Committed, Outcome
from lentic.services.rollback import execute_undo, is_finalized_empty, load_undo
from lentic.services.signs_of_life import await_news, ensure_not_executed
from lentic.storage.base import Storage
from lentic.timeline.aborted_history import load_aborted
from lentic.timeline.history import load_history
from lentic.timeline.instant import PLANS, Instant
from lentic.timeline.reader import load_is_removable, load_rollback_undone, load_timeline
from lentic.txn.transaction import OpenTable, Transaction, transaction
from lentic.write import markers
from lentic.write.alive import StopWhen, staying_alive
from lentic.write.commit import Begun, Commit

RunPlan = Callable[[Begun, tuple[str, ...]], Commit]
"""Carries a plan out, after deleting the files that earlier executions announced."""


IsRemovable = Callable[[Storage, Instant], bool]
"""Whether a plan is removable, as the plan itself says."""


def execute_plan(
    table: OpenTable,
    engine: Engine,
    plan: Instant,
    run: RunPlan,
    *,
    is_removable: IsRemovable = load_is_removable,
    watch: StopWhen | None = None,
) -> Outcome:
    """Execute `plan`, alone. `PlanBusy` while another does; its completed instant if one did.

    `watch` stops what runs on `engine` early; a plan that was cancelled is not begun.
    """
    try:
        return _execute_alone(table, engine, plan, run, is_removable, watch)
    except LenticError as error:
        if done := _find_completed_by_other(table, plan, error):
            return AlreadyCommitted(done)
        raise


def _execute_alone(
    table: OpenTable,
    engine: Engine,
    plan: Instant,
    run: RunPlan,
    is_removable: IsRemovable,
    watch: StopWhen | None,
) -> Outcome:
    """Numbers are those of the RFC's steps. It reads the plan before its transaction, which is only
    safe if it is read again inside, so here 1 comes after 2. Without the guard (option
    lentic.services.guard.enabled) 3 is left out, and whoever comes last may complete the plan.
    """
    at, is_guarded = plan.requested_at, table.services.guarded
    if is_guarded:
        await_news(table, at)
    with ExitStack() as held:
        with transaction(table) as txn:  # 2
            now = txn.timeline.find(plan) or _find_archived(txn, plan)  # 1
            if not now.is_pending:
                return Aborted(now) if now.is_aborted else AlreadyCommitted(now)
            txn.ensure_not_cancelled(now)
            _ensure_not_undone(txn, now)
            if is_guarded:
                ensure_not_executed(table, now)  # 3
            rollbacks = txn.rollbacks_of(now)
            _ensure_executable(table, now, rollbacks, once=is_removable(table.storage, now))  # 4
            # Before the guard is taken: of whoever takes it later, nothing is among these (R4).
            leftovers = markers.list_announced(table.storage, at)
            number = txn.take_guard(now)
            alive = staying_alive(table, engine, at, epoch=txn.epoch, watch=watch)
            heart = held.enter_context(alive)  # 5
            instant = now if now.state is State.INFLIGHT else txn.start(now)
            settled = frozenset(rollback.requested_at for rollback in rollbacks)
            begun = Begun(instant, txn.timeline, epoch=txn.epoch, guard=number, settled=settled)
            # 6: the transaction ends here
        try:
            _finish_rollbacks(table, rollbacks)  # 7
            commit = run(begun, leftovers)
        except Exception as error:
            if not isinstance(error, Conflict | OutcomeUnknown):
                heart.ensure_alive()  # else it failed because it was stopped
            raise
        # 8: `held` ends the heartbeat, on success or failure
    remove_guards(table.storage, at)
    # As it was completed: by now it may be archived.
    return Committed(begun.instant.at(State.COMPLETED, commit.completed_at))


def _ensure_not_undone(txn: Transaction, plan: Instant) -> None:
    """A plan that was undone for good has come back if its planner lost the lock, slept, and made
    the file that the next holder had made for it (R2). It goes again."""
    try:
        has_come_back = is_finalized_empty(txn.table.storage, plan.requested_at)
    except Corrupt:  # left by an earlier execution, as which it is removed
        return
    if has_come_back:
        txn.remove(plan)
        raise _gone(txn, f"{plan} is gone: it was undone.")


def _finish_rollbacks(table: OpenTable, rollbacks: tuple[Instant, ...]) -> None:
    """Carry out what somebody began, to undo an earlier execution of the plan; the plan stays."""
    for rollback in rollbacks:
        if rollback.is_pending:
            execute_undo(table, load_undo(table, rollback), None)


def _find_completed_by_other(table: OpenTable, plan: Instant, error: LenticError) -> Instant | None:
    """The completed plan, if this execution failed and another did it: then a caller who was told
    of the failure would try in vain for ever (G11). Not where the outcome is unknown (R15)."""
    if isinstance(error, OutcomeUnknown):
        return None
    try:
        now = load_timeline(table.storage).find(plan)
    except StorageError:
        return None
    return now if now is not None and now.is_completed else None


def _ensure_executable(
    table: OpenTable, plan: Instant, rollbacks: tuple[Instant, ...], *, once: bool
) -> None:
    """`PlanMustBeRolledBack` if a removable plan (`once`) was begun or is being rolled back.

    Any other plan, if a rollback names the commit it had become, and not one of its executions:
    that one means all of it.
    """
    undone = (load_rollback_undone(table.storage, rollback)[1] for rollback in rollbacks)
    is_ended = any(once or action not in PLANS for action in undone)
    if not (is_ended or (once and plan.state is State.INFLIGHT)):
        return
    why = f"{rollbacks[0]} rolls it back" if rollbacks else "it is removable and was begun before"
    raise PlanMustBeRolledBack(
        f"{plan} cannot be executed any more: {why}.",
        where=table.storage.root,
        safe="nothing was changed by this call",
        next_step=f't.rollback("{plan.requested_at}"), or let a clean do it: t.clean(); then '
        "schedule anew",
    )


def _gone(txn: Transaction, what: str) -> InstantCancelled:
    return InstantCancelled(
        what,
        where=txn.table.storage.root,
        safe="nothing was written",
        next_step="schedule anew",
    )


def _find_archived(txn: Transaction, plan: Instant) -> Instant:
    """The plan as it ended, in the history; an error that says why it is nowhere if it is not."""
    storage = txn.table.storage
    for by in (*reversed(txn.rollbacks_of(plan)), txn.restore_of(plan)):
        if by:
            how = "rolled it back" if by.action is Action.ROLLBACK else "undid it"
            raise _gone(txn, f"{plan} is gone: {by} {how}.")
    for instant in (*load_history(storage).instants, *load_aborted(storage)):
        if instant.identity == plan.identity:
            return instant
    raise ConfigError(
        f"There is no {plan.action} plan at {plan.requested_at}.",
        where=storage.root,
        safe="nothing was written",
        next_step=shell_command("timeline", storage.root),
    )
