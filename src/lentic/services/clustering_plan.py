"""Which slices a clustering takes on, and which of them are written together. Pure.

As in Apache Hudi: partitions by a filter, of these the slices that are small, and in each partition
groups of them, largest first, each as large as one task may read. In buckets a row's key decides
where it lies, so that there nothing moves between files: each slice is sorted by itself.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from lentic.config.clustering import ClusteringOptions, Curve, PartitionFilter
from lentic.format.cancellable import Cancellation, group_key
from lentic.format.clustering_plan import (
    ClusteringGroup,
    ClusteringPlan,
    SlicePlan,
    slice_metrics,
)
from lentic.format.times import RequestedAt, is_before
from lentic.timeline.timeline import Timeline
from lentic.txn.conflicts import Group
from lentic.view.files import FileGroup, FileSlice

_HOURS = 24


@dataclass(frozen=True, slots=True)
class ClusteringQuestion:
    """What is asked of a plan. `partitions`, if given, are taken instead of what the filter gives.
    `busy` are file groups that another pending plan names."""

    at: RequestedAt
    sort_by: tuple[str, ...] = ()
    curve: Curve = Curve.LINEAR
    removable: bool = False
    partitions: tuple[str, ...] | None = None
    is_bucketed: bool = False
    busy: frozenset[Group] = frozenset()
    recent: tuple[str, ...] = ()
    """The newest partitions as the last plan knew them, where not all of them are looked at."""
    waiting: tuple[str, ...] = ()
    """What earlier plans left undone; it comes first, in this order."""
    cancellation: Cancellation = field(default_factory=Cancellation)
    """What the plan says of being cancelled; `cancelled` of all file groups of the table."""


def is_clustering_due(
    timeline: Timeline, options: ClusteringOptions, last: RequestedAt | None
) -> bool:
    """Whether enough writes completed since the clustering at `last`, or ever if there was none."""
    since = [
        write
        for write in timeline.writes()
        if write.requested_at != last
        and (last is None or is_before(last, write.completed_at or write.requested_at))
    ]
    return len(since) >= options.trigger_commits


def plan_clustering(
    groups: Iterable[FileGroup], options: ClusteringOptions, asked: ClusteringQuestion
) -> ClusteringPlan:
    """A plan for the latest slices of `groups`; without groups if there is nothing to do.

    Named as missing are partitions of which something is left to the next plan: slices that another
    plan has, groups beyond the limit, what is better packed another time, and what the filter does
    not let pass yet.
    """
    by_partition: dict[str, list[FileSlice]] = {}
    for group in groups:
        by_partition.setdefault(group.id.partition, []).append(group.latest)
    chosen = choose_partitions(by_partition, options, asked)
    planned: list[ClusteringGroup] = []
    later = _not_yet(by_partition, chosen, options, asked)
    missing = {name for name in later if any(_take_on(by_partition[name], options, asked))}
    for partition in chosen:
        packed, is_left = _take_on(by_partition[partition], options, asked)
        planned += packed
        missing |= {partition} if is_left else set()
    chosen_groups, cancellation = _retry_smaller(planned, options.groups, asked.cancellation)
    missing |= {group.partition for group in planned[len(chosen_groups) :]}
    return ClusteringPlan(
        groups=chosen_groups,
        missing=tuple(sorted(missing)),
        sort_by=asked.sort_by,
        curve=asked.curve if asked.sort_by else None,
        target_bytes=options.target_bytes,
        removable=asked.removable,
        stays=asked.is_bucketed,
        cancellation=cancellation,
    )


def _retry_smaller(
    planned: Sequence[ClusteringGroup], groups_max: int, asked: Cancellation
) -> tuple[tuple[ClusteringGroup, ...], Cancellation]:
    """The groups of the plan, and how often each of its file groups was cancelled before.

    A plan is cancelled as a whole. Each time in a row that happened to one of its file groups the
    next plan is half as large, so that it is done before the next write comes.
    """
    chosen = tuple(planned[:groups_max])
    tries = max((_tries(group, asked) for group in chosen), default=0)
    chosen = chosen[: max(1, groups_max >> tries)]
    keys = {group_key(part.partition, part.file_id) for group in chosen for part in group.slices}
    counts = {key: count for key, count in asked.cancelled.items() if key in keys}
    return chosen, replace(asked, cancelled=counts)


def _tries(group: ClusteringGroup, asked: Cancellation) -> int:
    keys = (group_key(part.partition, part.file_id) for part in group.slices)
    return max((asked.cancelled.get(key, 0) for key in keys), default=0)


def choose_partitions(
    partitions: Iterable[str], options: ClusteringOptions, asked: ClusteringQuestion
) -> list[str]:
    """The partitions that are clustered, in the order in which they are taken on."""
    turns = {name: number for number, name in enumerate(asked.waiting)}
    names = sorted(set(partitions), key=lambda name: (turns.get(name, len(turns)), name))
    if asked.partitions is not None:
        return [name for name in names if name in asked.partitions]
    names = [name for name in names if may_be_clustered(name, options)]
    match options.filter:
        case PartitionFilter.NONE | PartitionFilter.SELECTED_PARTITIONS:
            return names
        case PartitionFilter.RECENT_DAYS:
            newest = newest_partitions(names, options, asked)[options.skip_partitions :]
            return [name for name in newest if name in names]
        case PartitionFilter.DAY_ROLLING:
            return [name for name in names if _hour_of(name) == int(asked.at[8:10])]


def _hour_of(partition: str) -> int:
    """The hour of the day at which it is a partition's turn. It goes by the name alone: what is
    looked at changes from plan to plan, and a partition must not move with it past its hour."""
    return zlib.crc32(partition.encode()) % _HOURS


def order_partitions(
    names: Iterable[str], options: ClusteringOptions, asked: ClusteringQuestion
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Partitions in the order in which they are taken on, and those whose turn comes later; for
    filters that go by nothing but names."""
    ahead = tuple(choose_partitions(names, options, asked))
    later = {name for name in names if may_be_clustered(name, options)} - {*ahead}
    return ahead, () if asked.partitions is not None else tuple(sorted(later))


def selection_options(options: ClusteringOptions, asked: ClusteringQuestion) -> dict[str, object]:
    """What decides whether a slice is worth clustering, apart from how much fits into one plan."""
    return {
        "small_bytes": options.small_bytes,
        "group_bytes": options.group_bytes,
        "takes_single": options.takes_single,
        "filter": options.filter,
        "last_partitions": options.last_partitions,
        "skip_partitions": options.skip_partitions,
        "begin": options.begin,
        "end": options.end,
        "selected": options.selected,
        "pattern": options.pattern,
        "sort_by": asked.sort_by,
        "curve": asked.curve,
        "is_bucketed": asked.is_bucketed,
    }


def may_be_clustered(name: str, options: ClusteringOptions) -> bool:
    """Whether a partition passes what no day and no other partition changes."""
    if options.selected and name not in options.selected:
        return False
    if options.pattern and not re.fullmatch(options.pattern, name):
        return False
    if options.filter is not PartitionFilter.SELECTED_PARTITIONS:
        return True
    low, high = options.begin, options.end
    return (not low or name >= low) and (not high or name <= high)


def newest_partitions(
    names: Iterable[str], options: ClusteringOptions, asked: ClusteringQuestion
) -> tuple[str, ...]:
    """Of all partitions that are known, as many of the newest as the filter for recent days goes
    by; none with another filter."""
    if options.filter is not PartitionFilter.RECENT_DAYS:
        return ()
    known = {name for name in (*names, *asked.recent) if may_be_clustered(name, options)}
    return tuple(sorted(known, reverse=True)[: options.skip_partitions + options.last_partitions])


def _not_yet(
    partitions: Iterable[str],
    chosen: Iterable[str],
    options: ClusteringOptions,
    asked: ClusteringQuestion,
) -> set[str]:
    """Partitions that are passed over now and will have their turn when it is their hour, or when
    newer ones have come."""
    if asked.partitions is not None:
        return set()
    waiting = {name for name in partitions if may_be_clustered(name, options)} - {*chosen}
    match options.filter:
        case PartitionFilter.DAY_ROLLING:
            return waiting
        case PartitionFilter.RECENT_DAYS:
            skipped = newest_partitions(partitions, options, asked)[: options.skip_partitions]
            return waiting & {*skipped}
        case _:
            return set()


def _take_on(
    slices: Iterable[FileSlice], options: ClusteringOptions, asked: ClusteringQuestion
) -> tuple[tuple[ClusteringGroup, ...], bool]:
    """The groups in which a partition is clustered, and whether something of it is left to the next
    plan; neither if there is nothing to do."""
    small = _small(slices, options, asked)
    free = [part for part in small if (part.group.partition, part.group.file_id) not in asked.busy]
    packed = tuple(_pack(free, options, asked))
    return packed, len(free) < len(small) or _is_partial(packed, free, options, asked)


def _small(
    slices: Iterable[FileSlice], options: ClusteringOptions, asked: ClusteringQuestion
) -> list[FileSlice]:
    """The slices that are small, largest first."""
    if asked.is_bucketed and not asked.sort_by:
        return []  # rows may not move, and need not
    small = [part for part in slices if part.size < options.small_bytes]
    return sorted(small, key=lambda part: (-part.size, part.group.file_id))


def _pack(
    slices: Sequence[FileSlice], options: ClusteringOptions, asked: ClusteringQuestion
) -> Iterator[ClusteringGroup]:
    takes_single = options.takes_single or bool(asked.sort_by)
    group_bytes = _group_bytes(slices, options, asked.cancellation)
    held: list[FileSlice] = []
    size = 0
    for part in slices:
        if held and size + part.size > group_bytes:
            if len(held) > 1 or takes_single:
                yield _group(held, options)
            held, size = [], 0
        held.append(part)
        size += part.size
    if len(held) > 1 or (held and takes_single):
        yield _group(held, options)


def _is_partial(
    packed: Sequence[ClusteringGroup],
    slices: Sequence[FileSlice],
    options: ClusteringOptions,
    asked: ClusteringQuestion,
) -> bool:
    """Whether the next plan may pack the partition better. What a clustering did itself is no
    change to it, so that it would not come back: neither to what was packed in small groups because
    it had been cancelled, nor to a slice that was left alone, and may go together with the fewer
    that the others become. In buckets slices never come together."""
    if not packed or asked.is_bucketed:
        return False
    uncancelled = replace(asked, cancellation=replace(asked.cancellation, cancelled={}))
    if packed != tuple(_pack(slices, options, uncancelled)):
        return True
    taken = sum(len(group.slices) for group in packed)
    made = sum(group.outputs for group in packed)
    return made < taken and taken < len(slices)


def _group_bytes(
    slices: Sequence[FileSlice], options: ClusteringOptions, asked: Cancellation
) -> int:
    """Half as much for each time in a row that a slice of the partition was cancelled, but enough
    for two slices where one alone is not worth it."""
    keys = (group_key(part.group.partition, part.group.file_id) for part in slices)
    tries = max((asked.cancelled.get(key, 0) for key in keys), default=0)
    two = sum(part.size for part in slices[:2])
    return options.group_bytes if not tries else max(options.group_bytes >> tries, two)


def _group(slices: Sequence[FileSlice], options: ClusteringOptions) -> ClusteringGroup:
    size = sum(part.size for part in slices)
    return ClusteringGroup(
        slices=tuple(map(_slice_plan, slices)),
        outputs=max(1, math.ceil(size / options.target_bytes)),
        metrics=slice_metrics(tuple(log.size for part in slices for log in part.logs), size),
    )


def _slice_plan(part: FileSlice) -> SlicePlan:
    return SlicePlan(
        partition=part.group.partition,
        file_id=part.group.file_id,
        base_file=part.base.path if part.base else None,
        log_files=tuple(log.path for log in part.logs),
    )
