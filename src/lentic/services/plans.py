"""Pending plans as operators see them: whose, how old, what stands in the way, what to do next."""

from __future__ import annotations

from dataclasses import replace

from lentic.coordination.heartbeat import heartbeat_owner, load_heartbeat
from lentic.errors import Corrupt, MissingFile
from lentic.format import layout
from lentic.format.cancellable import Cancellation
from lentic.format.names import Action
from lentic.format.times import RequestedAt, parse_epoch_ms
from lentic.services.cancel_policy import count_writes_since
from lentic.services.pending import (
    CancelState,
    PendingPlan,
    Standing,
    judge_cancellation,
    judge_plan,
)
from lentic.services.protected import compaction_inputs
from lentic.storage.base import Storage
from lentic.timeline.cancel_requests import load_cancel_request
from lentic.timeline.instant import PLANS, Instant
from lentic.timeline.reader import (
    load_clean_plan,
    load_clustering_claim,
    load_clustering_plan,
    load_compaction_plan,
    load_is_removable,
    load_restore_plan,
    load_rollback_plan,
    load_rollback_target,
    load_timeline,
)
from lentic.timeline.timeline import Timeline
from lentic.txn.transaction import OpenTable

_PLANNED = (*sorted(PLANS), Action.CLEAN, Action.ROLLBACK, Action.RESTORE)
_PARTITIONS_MEASURED = 100


def list_plans(table: OpenTable) -> tuple[PendingPlan, ...]:
    """Every plan that is pending, oldest first."""
    timeline = load_timeline(table.storage)
    return tuple(load_plan(table, timeline, plan) for plan in timeline.pending(*_PLANNED))


def is_planned(instant: Instant) -> bool:
    """Whether an instant works by a plan."""
    return instant.action in _PLANNED


def load_plan(table: OpenTable, timeline: Timeline, plan: Instant) -> PendingPlan:
    """One pending plan, and what may be done about it."""
    storage, at = table.storage, plan.requested_at
    files, unread = _load_files(storage, plan)
    now = replace(load_standing(table, timeline, plan), unread=unread)
    blockers, step = judge_plan(now)
    folders = {path.rpartition("/")[0] for path in files}
    is_measured = not unread and len(folders) <= _PARTITIONS_MEASURED
    return PendingPlan(
        requested_at=at,
        action=plan.action,
        state=plan.state,
        removable=now.removable,
        owner=now.owner,
        age_s=age_s(table, at),
        heartbeat_age_s=now.heartbeat_age_s,
        is_alive=now.is_alive,
        partitions=None if unread else len(folders),
        files=None if unread else len(files),
        bytes=_measure(storage, files) if is_measured else None,
        cancellation=now.cancellation,
        blockers=blockers,
        next_step=step.python,
        next_command=step.shell,
    )


def load_standing(table: OpenTable, timeline: Timeline, plan: Instant) -> Standing:
    """Who is at a plan, who undoes it, who cancelled it."""
    storage, at = table.storage, plan.requested_at
    heartbeat = heartbeat_age_s(table, at)
    undone_by, doubtful = _load_undoing(storage, timeline, plan)
    return Standing(
        root=storage.root,
        plan=plan,
        owner="" if heartbeat is None else heartbeat_owner(load_heartbeat(storage, at)),
        heartbeat_age_s=heartbeat,
        ttl_s=table.pulse.ttl_ms / 1000,
        removable=plan.action in PLANS and load_is_removable(storage, plan),
        undone_by=undone_by,
        doubtful=doubtful,
        cancellation=_load_cancel_state(table, timeline, plan),
    )


def _load_undoing(
    storage: Storage, timeline: Timeline, plan: Instant
) -> tuple[tuple[Instant, ...], tuple[Instant, ...]]:
    """The pending rollbacks that undo the plan, and those that do not say what they undo."""
    undoing, doubtful = [], []
    for rollback in timeline.pending(Action.ROLLBACK):
        try:
            if load_rollback_target(storage, rollback) == plan.requested_at:
                undoing.append(rollback)
        except Corrupt:
            if rollback != plan:
                doubtful.append(rollback)
    return tuple(undoing), tuple(doubtful)


def _load_cancel_state(table: OpenTable, timeline: Timeline, plan: Instant) -> CancelState:
    """Nothing of a plan that does not read: whoever executes it is told."""
    if plan.action is not Action.CLUSTERING:
        return CancelState()
    at = plan.requested_at
    request = load_cancel_request(table.storage, at)
    try:
        said = load_clustering_claim(table.storage, plan).cancellation
    except (Corrupt, MissingFile):
        said = Cancellation()
    return judge_cancellation(
        said,
        (request.by, request.why) if request else None,
        age_s=age_s(table, at),
        writes=count_writes_since(timeline, plan),
    )


def heartbeat_age_s(table: OpenTable, at: RequestedAt) -> float | None:
    """How old the last sign of life of an instant is; None if there is none."""
    found = table.storage.info(layout.heartbeat(at))
    if found is None:
        return None
    return max(0.0, (table.world.clock.now_ms() - found.modified_ms) / 1000)


def list_executed(table: OpenTable, timeline: Timeline) -> frozenset[RequestedAt]:
    """The pending plans that somebody seems to be at. As in `Standing`, by one look: ages are by
    this machine's clock."""
    plans = timeline.pending(*_PLANNED)
    ages = {plan.requested_at: heartbeat_age_s(table, plan.requested_at) for plan in plans}
    ttl_s = table.pulse.ttl_ms / 1000
    return frozenset(at for at, age in ages.items() if age is not None and age < ttl_s)


def age_s(table: OpenTable, at: RequestedAt) -> float:
    """How long ago an instant was requested; 0 where its time tells nothing."""
    try:
        begun_ms = parse_epoch_ms(at, table.config.zone)
    except Corrupt:  # another engine's time, such as a metadata table's
        return 0.0
    return max(0.0, (table.world.clock.now_ms() - begun_ms) / 1000)


# --- what a plan names --------------------------------------------------------------------------


def _load_files(storage: Storage, plan: Instant) -> tuple[frozenset[str], str]:
    """Every data file that the plan names, and why it does not read: it has to be shown all the
    same. One that is gone has ended since the timeline was loaded, and nothing is wrong with it."""
    try:
        return load_plan_files(storage, plan), ""
    except Corrupt as error:
        return frozenset(), f"{error.what.rstrip('.')} [{error.where}]"
    except MissingFile:
        return frozenset(), ""


def load_plan_files(storage: Storage, plan: Instant) -> frozenset[str]:
    """Every data file that a pending plan names, of whatever kind it is."""
    match plan.action:
        case Action.COMPACTION | Action.LOGCOMPACTION:
            return compaction_inputs(load_compaction_plan(storage, plan))
        case Action.CLUSTERING:
            groups = load_clustering_plan(storage, plan).groups
            return frozenset(path for g in groups for part in g.slices for path in part.paths)
        case Action.CLEAN:
            return frozenset(load_clean_plan(storage, plan).files)
        case Action.ROLLBACK:
            return frozenset(load_rollback_plan(storage, plan).files)
        case _:
            named = (load_restore_plan(storage, plan).files or {}).values()
            return frozenset(path for paths in named for path in paths)


def _measure(storage: Storage, paths: frozenset[str]) -> int:
    folders = {path.rpartition("/")[0] for path in paths}
    listed = (file for folder in folders for file in storage.list_files(folder))
    return sum(file.size for file in listed if file.path in paths)
