"""Which slices a log compaction takes on. Pure.

It takes the latest slice of a group once enough of its logs are not folded. Logs are counted, not
the blocks in them: a log has one block, or two where it also deletes, and to tell would mean to
read them all. The log of an earlier log compaction counts as one; it stands for what had completed
when that was planned, so that what came later is not folded yet, whenever it was finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

from lentic.format.plans import CompactionPlan
from lentic.format.times import is_upto
from lentic.services.compaction_plan import plan_operation
from lentic.txn.conflicts import Group
from lentic.view.files import FileGroup, FileSlice, LogFile

REMOVABLE = "lentic.plan.removable"
"""Where the extra map of a plan says that the plan goes when its execution fails."""

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
    log is only asked about if it is to be folded.
    """
    parts = [
        group.latest
        for group in groups
        if len(unfolded_logs(group.latest)) >= threshold
        and (group.id.partition, group.id.file_id) not in planned
        and not any(map(is_partial, unfolded_logs(group.latest)))
    ]
    extra = {REMOVABLE: "true"} if removable else {}
    return CompactionPlan(tuple(map(plan_operation, parts)), extra, _COMPACTOR)


def unfolded_logs(part: FileSlice) -> tuple[LogFile, ...]:
    """The logs of a slice that none of its logs stands for."""
    folding = [log for log in part.logs if log.folds]
    if not folding:
        return part.logs
    last = max(folding, key=lambda log: log.name.requested_at)
    return tuple(
        log for log in part.logs if log is last or is_upto(last.name.requested_at, log.completed_at)
    )
