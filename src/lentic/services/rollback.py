"""Undo one pending instant: a plan with exact names, carried out, then completed (R16).

Steps, each safe to repeat: publish the plan; finalize the target with nothing accepted; delete the
named files; complete the rollback; take the target's files off the timeline; remove its markers.
From the first step on the target cannot complete any more, because completing looks for rollbacks
that name it (R1). From the second on an attempt at it that still runs removes what it writes (R7):
once its begin marker is gone, nobody else would.

The plan of a table service may be executed again, perhaps while a slow process still carries the
rollback of an earlier execution out (G8). So of a plan only the files that the rollback names are
deleted, which no later execution has; what else was announced goes once a transaction has found
the plan gone for good. A removable plan goes with its rollback; any other stays (G12), unless the
caller meant the plan itself and nobody executed it in between.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from lentic.coordination.guards import remove_guards
from lentic.coordination.heartbeat import end_heartbeat
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
from lentic.timeline.cancel_requests import is_cancelled
from lentic.timeline.history import load_archived, load_archived_edge
from lentic.timeline.instant import PLANS, WRITES, Instant
from lentic.timeline.reader import (
    decode_write,
    load_commit_metadata,
    load_is_removable,
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
        undo = plan_undo(txn, now)
        is_first = txn.timeline.find(undo.rollback) is None
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
    active = {instant.requested_at for instant in timeline.instants}
    edge = load_archived_edge(storage) if (finalized | marked) - active else RequestedAt("")
    for at in finalized - pending:
        if _is_old(table, at) or (at not in active and at <= edge):
            completion.remove_completions(storage, at, keep_finalized=False)
    if not marked:
        return timeline
    _sweep_archived(table, {at for at in marked - active if at <= edge})
    done = timeline.completions().keys()
    undone = _list_undone(storage, timeline) | {i.requested_at for i in timeline.aborted()}
    undone |= {at for at, _ in load_restored(storage, timeline.completed(Action.RESTORE))}
    undone &= marked - pending - done
    if undone:  # of a plan perhaps one execution alone; another may have completed it since
        archived = load_archived(storage, undone).instants
        undone -= {i.requested_at for i in archived if i.is_completed}
    ended = undone | done
    withdrawn = {at for at in marked - pending - ended if is_finalized_empty(storage, at)}
    seen: dict[RequestedAt, frozenset[str]] = {}
    for instant in timeline.writes():
        if instant.requested_at in marked:
            # An attempt that came after all had been finalized, and died before it cleaned up.
            named = load_commit_metadata(storage, instant).paths()
            seen[instant.requested_at] = _delete_announced(table, instant.requested_at, but=named)
    for at in marked & (undone | withdrawn):
        finalize_empty(storage, at)  # whoever undid it may have died before it came to that
        seen[at] = _delete_announced(table, at)
    for at in marked & (ended | withdrawn):
        markers.remove_markers(storage, at, of=seen.get(at))
        completion.remove_completions(storage, at, keep_finalized=True)
    return timeline


def _list_undone(storage: Storage, timeline: Timeline) -> frozenset[RequestedAt]:
    rollbacks = timeline.completed(Action.ROLLBACK)
    return frozenset(filter(None, (load_rollback_target(storage, r) for r in rollbacks)))


def _sweep_archived(table: OpenTable, marked: set[RequestedAt]) -> None:
    """The same for instants that archiving has passed: what history does not know was undone."""
    storage = table.storage
    history = load_archived(storage, marked)
    for at in marked:
        named: frozenset[str] = frozenset()
        for instant, content in history.contents.items():
            if instant.requested_at == at and instant.action in WRITES:
                named |= decode_write(content, instant, f"{layout.HISTORY} {instant}").paths()
        seen = _delete_announced(table, at, but=named)
        markers.remove_markers(storage, at, of=seen)
        completion.remove_completions(storage, at, keep_finalized=False)


def _delete_announced(
    table: OpenTable, at: RequestedAt, but: frozenset[str] = frozenset()
) -> frozenset[str]:
    """Delete what attempts at the instant announced; all that they announced."""
    announced = frozenset(markers.list_announced(table.storage, at))
    for path in sorted(announced - but):
        table.storage.delete(path)
    return announced


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
    if rollback := _find_rollback(txn, target):
        return Undo(rollback, load_rollback_plan(txn.table.storage, rollback))
    files = markers.list_announced(txn.table.storage, target.requested_at)
    plan = RollbackPlan(target.requested_at, target.action, files)
    rollback = txn.request(Action.ROLLBACK, encode_rollback_plan(plan, txn.table.storage.root))
    return Undo(rollback, plan)


def _find_rollback(txn: Transaction, target: Instant) -> Instant | None:
    """The rollback that ends `target`. For a plan that stays, those that are completed have only
    undone an execution."""
    stays = target.action in PLANS and not load_is_removable(txn.table.storage, target)
    found = txn.rollbacks_of(target)
    return next((r for r in found if r.is_pending or not stays), None)


def finalize_empty(storage: Storage, at: RequestedAt) -> None:
    """Have attempts that still run find that nothing may be added, if the write's own run has not
    said so before."""
    storage.delete(layout.accepted_statuses(at))  # of a run that died before its finalize marker
    with suppress(WriteConflict):
        completion.finalize(storage, at, _NO_RUN, ())


def is_finalized_empty(storage: Storage, at: RequestedAt) -> bool:
    """Whether somebody has undone the instant, and no attempt may add anything to it."""
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
    if undo.plan.action in PLANS:
        _undo_execution(table, undo, removes=target is not None)
    else:
        _undo_write(table, undo, target)


def _undo_write(table: OpenTable, undo: Undo, target: Instant | None) -> None:
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
        _complete(txn, undo, files)
        if target is not None:
            txn.remove(target)
    markers.remove_markers(table.storage, undo.plan.target, of=files)
    completion.remove_completions(table.storage, undo.plan.target, keep_finalized=True)


def _undo_execution(table: OpenTable, undo: Undo, *, removes: bool) -> None:
    storage, at = table.storage, undo.plan.target
    plan = Instant(at, undo.plan.action, State.REQUESTED)
    for path in undo.plan.files:
        storage.delete(path)
    with transaction(table) as txn:
        is_mine = _complete(txn, undo, undo.plan.files)
        now = txn.timeline.find(plan)
        is_there = now is not None and now.is_pending
        is_ended = (removes and is_mine) or load_is_removable(storage, plan)
        # What was cancelled since the rollback was planned ends as aborted: that is promised.
        if is_there and is_ended and not is_cancelled(storage, at):
            txn.remove(plan)
    with transaction(table) as txn:
        # Only here it is certain: deleting is not fenced, and a sleeper's may have come too late.
        is_gone = txn.timeline.find(plan) is None
    if is_gone:
        remove_traces(table, at)
        end_heartbeat(storage, at)
        remove_guards(storage, at)


def remove_traces(table: OpenTable, at: RequestedAt) -> None:
    """Delete all that any attempt at a plan announced, once the plan has ended without completing;
    attempts that still run find that nothing may be added."""
    finalize_empty(table.storage, at)
    remove_announced(table, at)


def remove_announced(table: OpenTable, at: RequestedAt) -> None:
    """The same where that has been said."""
    seen = _delete_announced(table, at)
    markers.remove_markers(table.storage, at, of=seen)
    completion.remove_completions(table.storage, at, keep_finalized=True)


def _complete(txn: Transaction, undo: Undo, files: tuple[str, ...]) -> bool:
    """Complete the rollback; False if somebody has."""
    rollback = txn.timeline.find(undo.rollback)
    if rollback is None or not rollback.is_pending:
        return False
    inflight = rollback if rollback.state is State.INFLIGHT else txn.start(rollback)
    plan, root = undo.plan, txn.table.storage.root
    metadata = RollbackMetadata(inflight.requested_at, plan.target, plan.action, files)
    txn.finish_rollback(inflight, encode_rollback_metadata(metadata, root))
    return True
