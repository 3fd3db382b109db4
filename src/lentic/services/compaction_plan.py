"""When a compaction is due, and which slices it takes on. Pure.

A slice costs what is read for it, base file and logs, and what is written: a base file about as
long as the one before, or as the logs if there is none. One compaction takes slices in the order of
its strategy until the next would cost more than is left of the limit; the first is taken whatever
it costs, so that none is too large for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

from lentic.config.services import CompactionOptions, CompactionStrategy, Trigger
from lentic.format.names import Action
from lentic.format.plans import CompactionOperation, CompactionPlan
from lentic.format.times import Zone, is_before, parse_epoch_ms
from lentic.timeline.timeline import Timeline
from lentic.txn.conflicts import Group
from lentic.view.files import FileGroup, FileSlice

_MB = 1024 * 1024
_FIRST_BASE_MB = 120
"""What Apache Hudi takes a first base file to be: its default for the largest."""


def is_compaction_due(
    timeline: Timeline, options: CompactionOptions, now_ms: int, zone: Zone
) -> bool:
    """Whether enough was written, or enough time has passed, since the last completed compaction.

    Without one it counts from the first commit; without a commit since, nothing is due. A log
    compaction counts as a commit, as it does for Apache Hudi.
    """
    last = max(timeline.completed(Action.COMMIT), key=lambda i: i.requested_at, default=None)
    since = [
        instant
        for instant in timeline.completed(Action.DELTACOMMIT)
        if instant.completed_at
        and (last is None or is_before(last.requested_at, instant.completed_at))
    ]
    if not since:
        return False
    start = last.requested_at if last else min(instant.requested_at for instant in since)
    enough = len(since) >= options.trigger_commits
    long_ago = now_ms - parse_epoch_ms(start, zone) >= options.trigger_seconds * 1000
    match options.trigger:
        case Trigger.NUM_COMMITS:
            return enough
        case Trigger.TIME_ELAPSED:
            return long_ago
        case Trigger.NUM_AND_TIME:
            return enough and long_ago
        case Trigger.NUM_OR_TIME:
            return enough or long_ago


def plan_compaction(
    groups: Iterable[FileGroup], options: CompactionOptions, *, planned: Set[Group] = frozenset()
) -> CompactionPlan:
    """Compact latest slices that have logs, and enough of them, and are in no plan yet. Partitions
    with slices that are left to another plan are named as missing."""
    found = [
        group.latest
        for group in groups
        if group.latest.logs
        and len(group.latest.logs) >= options.log_files
        and log_bytes(group.latest) >= options.log_bytes
    ]
    free = [part for part in found if _group(part) not in planned]
    chosen = tuple(_CHOOSE[options.strategy](free, options))
    return CompactionPlan(
        operations=tuple(map(plan_operation, chosen)), missing=partitions_left(found, chosen)
    )


def partitions_left(found: Iterable[FileSlice], chosen: Iterable[FileSlice]) -> tuple[str, ...]:
    """The partitions of the slices that were found and not chosen."""
    taken = {_group(part) for part in chosen}
    return tuple(sorted({part.group.partition for part in found if _group(part) not in taken}))


def _group(part: FileSlice) -> Group:
    return part.group.partition, part.group.file_id


def _all(parts: Sequence[FileSlice], options: CompactionOptions) -> Iterable[FileSlice]:
    return parts


def _largest_logs(parts: Sequence[FileSlice], options: CompactionOptions) -> Iterable[FileSlice]:
    return _within_limit(sorted(parts, key=log_bytes, reverse=True), options)


def _oldest_log(parts: Sequence[FileSlice], options: CompactionOptions) -> Iterable[FileSlice]:
    """Any order would do; in this one every slice has its turn."""
    return _within_limit(sorted(parts, key=lambda part: part.logs[0].completed_at), options)


def _newest_days(parts: Sequence[FileSlice], options: CompactionOptions) -> Iterable[FileSlice]:
    """Partitions that are called by their days, in any form in which text order is day order."""
    days = sorted({part.group.partition for part in parts}, reverse=True)[: options.days]
    kept = [part for day in days for part in parts if part.group.partition == day]
    return _within_limit(kept, options)


_CHOOSE: Mapping[
    CompactionStrategy, Callable[[Sequence[FileSlice], CompactionOptions], Iterable[FileSlice]]
] = {
    CompactionStrategy.LOG_SIZE: _largest_logs,
    CompactionStrategy.BOUNDED_IO: _oldest_log,
    CompactionStrategy.ALL: _all,
    CompactionStrategy.DAY_BASED: _newest_days,
}


def _within_limit(parts: Iterable[FileSlice], options: CompactionOptions) -> Iterator[FileSlice]:
    spent = 0
    for number, part in enumerate(parts):
        spent += part.size + (part.base.size if part.base else log_bytes(part))
        if number and spent > options.io_mb * _MB:
            return
        yield part


def log_bytes(part: FileSlice) -> int:
    return sum(log.size for log in part.logs)


def plan_operation(part: FileSlice) -> CompactionOperation:
    """What a plan says of a slice: exactly its files."""
    first_log = min(log.name.requested_at for log in part.logs)
    return CompactionOperation(
        partition=part.group.partition,
        file_id=part.group.file_id,
        base_instant=part.base.name.requested_at if part.base else first_log,
        base_file=_name(part.base.path) if part.base else None,
        log_files=tuple(_name(log.path) for log in part.logs),
        metrics=measure_slice(part),
    )


def measure_slice(part: FileSlice) -> dict[str, float]:
    """The figures of a slice as Apache Hudi computes them, by which it orders operations."""
    read_mb = part.size // _MB
    write_mb = part.base.size // _MB if part.base else _FIRST_BASE_MB
    return {
        "TOTAL_LOG_FILES": float(len(part.logs)),
        "TOTAL_LOG_FILES_SIZE": float(log_bytes(part)),
        "TOTAL_IO_READ_MB": float(read_mb),
        "TOTAL_IO_WRITE_MB": float(write_mb),
        "TOTAL_IO_MB": float(read_mb + write_mb),
    }


def _name(path: str) -> str:
    return path.rpartition("/")[2]
