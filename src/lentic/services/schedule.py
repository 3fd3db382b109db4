"""What plans have in common: who is planned for already, and the slice that a plan names.

A file group is in one pending plan at most, whatever kind of plan it is. A compaction puts all logs
into a base file; a log compaction, planned before that and finished after it, would put old rows on
top of the new base file. So each planner leaves out what `planned_groups` gives, under the lock
under which it publishes.
"""

from __future__ import annotations

from lentic.errors import MissingFile
from lentic.format import layout
from lentic.format.names import Action, requested_at_of
from lentic.format.plans import CompactionOperation, CompactionPlan
from lentic.format.times import RequestedAt
from lentic.storage.base import FileInfo, Storage
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_clustered_groups, load_compaction_plan
from lentic.timeline.timeline import Timeline
from lentic.txn.conflicts import Group
from lentic.view.files import FileSlice
from lentic.view.table_view import Writes, build_view


def planned_groups(
    storage: Storage, timeline: Timeline, *, but: Instant | None = None
) -> frozenset[Group]:
    """Partition and file id of every file group that a pending plan names, but for one plan's."""
    own = but.identity if but else None
    plans = (i for i in timeline.pending(*_PLANS) if i.identity != own)
    return frozenset(group for plan in plans for group in _groups_of(storage, plan))


_PLANS = (Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING)


def _groups_of(storage: Storage, plan: Instant) -> frozenset[Group]:
    if plan.action is Action.CLUSTERING:
        return load_clustered_groups(storage, plan)
    return load_compaction_plan(storage, plan).groups()


def makers(plan: CompactionPlan) -> frozenset[RequestedAt]:
    """The instants that made the files that the plan names."""
    names = (name for op in plan.operations for name in (*op.log_files, op.base_file or ""))
    return frozenset(at for name in names if (at := requested_at_of(name)))


def load_planned_slice(
    storage: Storage, operation: CompactionOperation, writes: Writes
) -> FileSlice:
    """Exactly the files the plan names (R12), none found by listing; `writes` made them."""
    names = [*([operation.base_file] if operation.base_file else []), *operation.log_files]
    files = [_found(storage, layout.data_file(operation.partition, name)) for name in names]
    groups = build_view(files, writes)
    if len(groups) != 1 or len(groups[0].slices) != 1 or len(groups[0].latest.paths) != len(names):
        raise MissingFile(
            f"The plan of file group {operation.file_id} names files that no commit made.",
            where=storage.root,
            safe="nothing was committed; the plan stays",
            next_step="roll the plan back and schedule again",
        )
    return groups[0].latest


def _found(storage: Storage, path: str) -> FileInfo:
    if (info := storage.info(path)) is None:
        raise MissingFile(
            "A file that the plan names is gone.",
            where=path,
            safe="nothing was committed; the plan stays",
            next_step="roll the plan back and schedule again",
        )
    return info
