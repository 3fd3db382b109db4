"""Which slices a log compaction takes on. Pure.

It takes the latest slice of a group once enough of its logs are not folded. Logs are counted, not
the blocks in them: a log has one block, or two where it also deletes, and to tell would mean to
read them all. The log of an earlier log compaction counts as one; it stands for what had completed
when that was planned, so that what came later is not folded yet, whenever it was finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

from lentic.format.plans import CompactionPlan
from lentic.format.removable import REMOVABLE_KEY
from lentic.format.times import is_upto
from lentic.services.compaction_plan import partitions_left, plan_operation
from lentic.txn.conflicts import Group
from lentic.view.files import FileGroup, FileSlice, LogFile

_COMPACTOR = "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper"


def plan_log_compaction(
    groups: Iterable[FileGroup],
    threshold: int,
    *,
    planned: Set[Group],
    is_partial: Callable[[LogFile], bool],
    removable: bool,
) -> CompactionPlan:
    """Fold the logs of every latest slice with `threshold` logs or more that are not folded.

    `planned` groups are in other plans. Slices with partial rows are left out (`records.fold`); a
    log is only asked about if it is to be folded. Partitions with slices in other plans are named
    as missing.
    """
    found = [g.latest for g in groups if len(unfolded_logs(g.latest)) >= threshold]
    free = [part for part in found if (part.group.partition, part.group.file_id) not in planned]
    busy = [part for part in found if part not in free]
    parts = [part for part in free if not any(map(is_partial, unfolded_logs(part)))]
    return CompactionPlan(
        operations=tuple(map(plan_operation, parts)),
        extra={REMOVABLE_KEY: "true"} if removable else {},
        compactor=_COMPACTOR,
        missing=partitions_left(busy, ()),
    )


def unfolded_logs(part: FileSlice) -> tuple[LogFile, ...]:
    """The logs of a slice that none of its logs stands for."""
    folding = [log for log in part.logs if log.folds]
    if not folding:
        return part.logs
    last = max(folding, key=lambda log: log.name.requested_at)
    return tuple(
        log for log in part.logs if log is last or is_upto(last.name.requested_at, log.completed_at)
    )
