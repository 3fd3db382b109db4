"""Which files nobody may delete: what pending plans are going to read, and what savepoints hold
(R13). A plan or savepoint that does not read is an error, for nobody knows what it names."""

from __future__ import annotations

from collections.abc import Iterable

from lentic.errors import Corrupt
from lentic.format import layout
from lentic.format.layout import data_file
from lentic.format.names import Action, State
from lentic.format.plan_inputs import decode_clustering_inputs
from lentic.format.plans import CompactionPlan, decode_compaction_plan
from lentic.format.savepoint import decode_savepoint
from lentic.storage.base import Storage
from lentic.timeline.instant import Instant
from lentic.timeline.timeline import Timeline
from lentic.view.table_view import TableFiles

_COMPACTIONS = (Action.COMPACTION, Action.LOGCOMPACTION)


def load_protected(storage: Storage, timeline: Timeline) -> frozenset[str]:
    """Every file that a pending plan or a savepoint of the timeline names."""
    return frozenset(load_holders(storage, timeline))


def load_holders(storage: Storage, timeline: Timeline) -> dict[str, tuple[Instant, ...]]:
    """By file, the pending plans and the savepoints of the timeline that name it."""
    held: dict[str, tuple[Instant, ...]] = {}
    for load, holders in (
        (_compaction_inputs, timeline.pending(*_COMPACTIONS)),
        (_clustering_inputs, timeline.pending(Action.CLUSTERING)),
        (_clustering_inputs, timeline.pending(Action.REPLACECOMMIT)),
        (_savepoint_files, timeline.completed(Action.SAVEPOINT)),
    ):
        for holder in holders:
            for path in load(storage, holder):
                held[path] = (*held.get(path, ()), holder)
    return held


def list_half_saved(timeline: Timeline, files: TableFiles) -> frozenset[str]:
    """The files that savepoints which are being made are going to name: the state right after the
    commit of each, whose requested time is the savepoint's own."""
    writes = (files.writes.get(held.requested_at) for held in timeline.pending(Action.SAVEPOINT))
    groups = (group for write in writes if write for group in files.groups(write.completed_at))
    return frozenset(path for group in groups for path in group.latest.paths)


def _compaction_inputs(storage: Storage, plan: Instant) -> Iterable[str]:
    path = _requested_file(plan)
    return compaction_inputs(decode_compaction_plan(storage.read(path), path))


def compaction_inputs(plan: CompactionPlan) -> frozenset[str]:
    """Every file that the plan reads, relative to the table."""
    return frozenset(
        data_file(operation.partition, name)
        for operation in plan.operations
        for name in (operation.base_file, *operation.log_files)
        if name
    )


def _clustering_inputs(storage: Storage, plan: Instant) -> Iterable[str]:
    path = _requested_file(plan)
    data = storage.read(path)
    if not data and plan.action is Action.CLUSTERING:
        raise Corrupt(
            "An empty file where a plan should be.",
            where=path,
            safe="nothing was deleted: it does not say which files it needs",
            next_step="roll the plan back",
        )
    return decode_clustering_inputs(data, path)


def _savepoint_files(storage: Storage, savepoint: Instant) -> Iterable[str]:
    path = layout.timeline_file(savepoint.file_name)
    return decode_savepoint(storage.read(path), path).files


def _requested_file(plan: Instant) -> str:
    requested = Instant(plan.requested_at, plan.action, State.REQUESTED)
    return layout.timeline_file(requested.file_name)
