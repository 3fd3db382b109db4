"""Execute a plan alone (RFC-79, "Changes to compaction/cluster plan execution").

A heartbeat tells others that somebody is at it; the guard, taken in the same transaction, tells who
it is. Where a heartbeat was given up although its owner only slept, the owner wakes to a later
guard and completes nothing.

A removable plan is executed once: what was begun and failed is rolled back with its plan. Any other
plan stays until it is completed: whoever comes next first undoes the execution before.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack

from lentic.coordination.guards import remove_guards
from lentic.coordination.heartbeat import load_heartbeat
from lentic.engine import Engine
from lentic.errors import (
    ConfigError,
    Conflict,
    InstantCancelled,
    LenticError,
    OutcomeUnknown,
    PlanBusy,
    PlanMustBeRolledBack,
    StorageError,
)
from lentic.format.names import State
from lentic.format.times import RequestedAt
from lentic.services.outcome import AlreadyCommitted, Committed, Outcome
from lentic.services.rollback import execute_undo, load_undo
from lentic.storage.base import Storage
from lentic.timeline.history import load_history
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_is_removable, load_timeline
from lentic.txn.transaction import OpenTable, Transaction, transaction
from lentic.write import markers
from lentic.write.alive import staying_alive
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
) -> Outcome:
    """Execute `plan`, alone. `PlanBusy` while another does; its completed instant if one did."""
    try:
        return _execute_alone(table, engine, plan, run, is_removable)
    except LenticError as error:
        if done := _find_completed_by_other(table, plan, error):
            return AlreadyCommitted(done)
        raise


def _execute_alone(
    table: OpenTable, engine: Engine, plan: Instant, run: RunPlan, is_removable: IsRemovable
) -> Outcome:
    """Numbers are those of the RFC's steps. It reads the plan before its transaction, which is only
    safe if it is read again inside, so here 1 comes after 2. Without the guard (option
    lentic.services.guard.enabled) 3 is left out, and whoever comes last may complete the plan.
    """
    at, is_guarded = plan.requested_at, table.services.guarded
    if is_guarded:
        _await_news(table, at)
    with ExitStack() as held:
        with transaction(table) as txn:  # 2
            now = txn.timeline.find(plan)  # 1
            if now is None or now.is_completed:
                return AlreadyCommitted(now or _find_archived(txn, plan))
            if is_guarded:
                _ensure_no_active_heartbeat(table, now)  # 3
            rollbacks = txn.rollbacks_of(now)
            if is_removable(table.storage, now):
                _ensure_never_begun(table, now, rollbacks)  # 4
            # Before the guard is taken: of whoever takes it later, nothing is among these (R4).
            leftovers = markers.list_announced(table.storage, at)
            number = txn.take_guard(now)
            alive = staying_alive(table, engine, at, epoch=txn.epoch)
            heart = held.enter_context(alive)  # 5
            instant = now if now.state is State.INFLIGHT else txn.start(now)
            settled = frozenset(rollback.requested_at for rollback in rollbacks)
            begun = Begun(instant, txn.timeline, epoch=txn.epoch, guard=number, settled=settled)
            # 6: the transaction ends here
        try:
            _finish_rollbacks(table, rollbacks)  # 7
            run(begun, leftovers)
        except Exception as error:
            if not isinstance(error, Conflict):
                heart.ensure_alive()  # else it failed because it was stopped
            raise
        # 8: `held` ends the heartbeat, on success or failure
    remove_guards(table.storage, at)
    done = load_timeline(table.storage).find(plan)
    assert done is not None
    return Committed(done)


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


def _await_news(table: OpenTable, at: RequestedAt) -> None:
    """If the plan has a heartbeat, watch it until it changes, or long enough to give it up.

    A living executor is known within a beat, a dead one within its time to live; without waiting a
    process that looks once and ends would never learn either.
    """
    first = load_heartbeat(table.storage, at)
    while first and not table.watch.has_expired(at, first):
        table.world.clock.sleep(table.pulse.beat_s / 2)
        if load_heartbeat(table.storage, at) != first:
            return


def _ensure_no_active_heartbeat(table: OpenTable, plan: Instant) -> None:
    """`PlanBusy` if somebody's heartbeat is there and has not expired. Who ends in good order takes
    the heartbeat away, and who dies leaves it, so that none means nobody."""
    content = load_heartbeat(table.storage, plan.requested_at)
    if not content or table.watch.has_expired(plan.requested_at, content):
        return
    raise PlanBusy(
        f"{plan} is being executed by {_owner(content)}.",
        where=table.storage.root,
        safe="nothing was changed by this call",
        next_step=f"wait; its heartbeat expires {table.pulse.ttl_ms / 1000:g} s after it stops",
    )


def _ensure_never_begun(table: OpenTable, plan: Instant, rollbacks: tuple[Instant, ...]) -> None:
    """`PlanMustBeRolledBack` if a removable plan was begun once, or is being rolled back."""
    if plan.state is State.REQUESTED and not rollbacks:
        return
    why = f"{rollbacks[0]} rolls it back" if rollbacks else "an execution of it was begun and ended"
    raise PlanMustBeRolledBack(
        f"{plan} is removable, and {why}: it cannot be executed any more.",
        where=table.storage.root,
        safe="nothing was changed by this call",
        next_step=f't.rollback("{plan.requested_at}"), or let a clean do it: t.clean(); then '
        "schedule anew",
    )


def _owner(content: bytes) -> str:
    """Who gives the signs of life, if they are ours; Apache Hudi's say nothing."""
    try:
        fields = json.loads(content)
        return f"{fields['host']}:{fields['pid']}"
    except (ValueError, KeyError, TypeError):
        return "another engine"


def _find_archived(txn: Transaction, plan: Instant) -> Instant:
    """The plan, completed, in the history; an error that says why it is nowhere if it is not."""
    storage = txn.table.storage
    if rollbacks := txn.rollbacks_of(plan):
        raise InstantCancelled(
            f"{plan} is gone: {rollbacks[-1]} rolled it back.",
            where=storage.root,
            safe="nothing was written",
            next_step="schedule anew",
        )
    for instant in load_history(storage).instants:
        if instant.identity == plan.identity and instant.is_completed:
            return instant
    raise ConfigError(
        f"There is no {plan.action} plan at {plan.requested_at}.",
        where=storage.root,
        safe="nothing was written",
        next_step=f"lentic timeline {storage.root}",
    )
