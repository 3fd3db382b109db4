"""Which slices a compaction takes on. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Set

from lentic.config.services import CompactionOptions
from lentic.format.plans import CompactionOperation, CompactionPlan
from lentic.txn.conflicts import Group
from lentic.view.files import FileGroup, FileSlice


def plan_compaction(
    groups: Iterable[FileGroup], options: CompactionOptions, *, planned: Set[Group] = frozenset()
) -> CompactionPlan:
    """Compact the latest slice of every group that has logs and is in no plan yet."""
    slices = (
        group.latest
        for group in groups
        if group.latest.logs and (group.id.partition, group.id.file_id) not in planned
    )
    return CompactionPlan(tuple(map(plan_operation, slices)))


def plan_operation(part: FileSlice) -> CompactionOperation:
    """What a plan says of a slice: exactly its files."""
    first_log = min(log.name.requested_at for log in part.logs)
    return CompactionOperation(
        partition=part.group.partition,
        file_id=part.group.file_id,
        base_instant=part.base.name.requested_at if part.base else first_log,
        base_file=_name(part.base.path) if part.base else None,
        log_files=tuple(_name(log.path) for log in part.logs),
    )


def _name(path: str) -> str:
    return path.rpartition("/")[2]
