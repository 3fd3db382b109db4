"""Which slices a clustering takes on, and which of them are written together. Pure.

As in Apache Hudi: partitions by a filter, of these the slices that are small, and in each partition
groups of them, largest first, each as large as one task may read. In buckets a row's key decides
where it lies, so that there nothing moves between files: each slice is sorted by itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lentic.config.clustering import ClusteringOptions, Curve, PartitionFilter
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
    """A plan for the latest slices of `groups`; without groups if there is nothing to do."""
    by_partition: dict[str, list[FileSlice]] = {}
    for group in groups:
        by_partition.setdefault(group.id.partition, []).append(group.latest)
    chosen = choose_partitions(by_partition, options, asked)
    planned: list[ClusteringGroup] = []
    for partition in chosen:
        small = _eligible(by_partition[partition], options, asked)
        planned += _pack(small, options, asked)
    return ClusteringPlan(
        groups=tuple(planned[: options.groups]),
        sort_by=asked.sort_by,
        curve=asked.curve if asked.sort_by else None,
        target_bytes=options.target_bytes,
        removable=asked.removable,
        stays=asked.is_bucketed,
    )


def choose_partitions(
    partitions: Iterable[str], options: ClusteringOptions, asked: ClusteringQuestion
) -> list[str]:
    """The partitions that are clustered, in the order in which they are taken on."""
    names = sorted(set(partitions))
    if asked.partitions is not None:
        return [name for name in names if name in asked.partitions]
    if options.selected:
        names = [name for name in names if name in options.selected]
    if options.pattern:
        names = [name for name in names if re.fullmatch(options.pattern, name)]
    match options.filter:
        case PartitionFilter.NONE:
            return names
        case PartitionFilter.RECENT_DAYS:
            first = options.skip_partitions
            return names[::-1][first : first + options.last_partitions]
        case PartitionFilter.SELECTED_PARTITIONS:
            low, high = options.begin, options.end
            return [n for n in names if (not low or n >= low) and (not high or n <= high)]
        case PartitionFilter.DAY_ROLLING:
            hour = int(asked.at[8:10])
            return [name for number, name in enumerate(names) if number % _HOURS == hour]


def _eligible(
    slices: Iterable[FileSlice], options: ClusteringOptions, asked: ClusteringQuestion
) -> list[FileSlice]:
    """The slices that are small and free, largest first."""
    if asked.is_bucketed and not asked.sort_by:
        return []  # rows may not move, and need not
    small = [
        part
        for part in slices
        if part.size < options.small_bytes
        and (part.group.partition, part.group.file_id) not in asked.busy
    ]
    return sorted(small, key=lambda part: (-part.size, part.group.file_id))


def _pack(
    slices: Sequence[FileSlice], options: ClusteringOptions, asked: ClusteringQuestion
) -> Iterator[ClusteringGroup]:
    takes_single = options.takes_single or bool(asked.sort_by)
    held: list[FileSlice] = []
    size = 0
    for part in slices:
        if held and size + part.size > options.group_bytes:
            if len(held) > 1 or takes_single:
                yield _group(held, options)
            held, size = [], 0
        held.append(part)
        size += part.size
    if len(held) > 1 or (held and takes_single):
        yield _group(held, options)


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
