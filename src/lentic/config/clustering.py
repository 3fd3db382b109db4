"""Options of clustering: when it is due, what it takes on, how it lays rows out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from lentic.config.options import (
    Option,
    Settings,
    parse_bool,
    parse_choice,
    parse_names,
    parse_whole,
)

_MIB = 1024 * 1024
_FOREVER = 10**9
_NO_NAMES: tuple[str, ...] = ()


class PartitionFilter(StrEnum):
    """Which partitions a clustering looks at."""

    NONE = "NONE"
    RECENT_DAYS = "RECENT_DAYS"
    SELECTED_PARTITIONS = "SELECTED_PARTITIONS"
    DAY_ROLLING = "DAY_ROLLING"


class Curve(StrEnum):
    """How clustering lays rows out by several columns."""

    LINEAR = "LINEAR"
    ZORDER = "ZORDER"
    HILBERT = "HILBERT"


def _parse_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"it is no regular expression: {error}") from None
    return text


CLUSTER_INLINE = Option(
    "hoodie.clustering.inline", parse_bool, False, "Cluster after a commit when it is due."
)
CLUSTER_SCHEDULE_INLINE = Option(
    "hoodie.clustering.schedule.inline",
    parse_bool,
    False,
    "Only plan a clustering after a commit when it is due; another job executes it.",
)
CLUSTER_COMMITS = Option(
    "hoodie.clustering.inline.max.commits",
    parse_whole(1, _FOREVER),
    4,
    "Commits since the last clustering after which the next is due.",
)
CLUSTER_SMALL_BYTES = Option(
    "hoodie.clustering.plan.strategy.small.file.limit",
    parse_whole(0, 2**50),
    300 * _MIB,
    "Slices below this many bytes are clustered.",
)
CLUSTER_TARGET_BYTES = Option(
    "hoodie.clustering.plan.strategy.target.file.max.bytes",
    parse_whole(1_024, 2**50),
    1024 * _MIB,
    "Bytes that clustered files grow to.",
)
CLUSTER_GROUP_BYTES = Option(
    "hoodie.clustering.plan.strategy.max.bytes.per.group",
    parse_whole(1_024, 2**50),
    2048 * _MIB,
    "Bytes of slices that are clustered together at most.",
)
CLUSTER_GROUPS = Option(
    "hoodie.clustering.plan.strategy.max.num.groups",
    parse_whole(1, 1_000_000),
    30,
    "Groups of slices in one clustering plan at most.",
)
CLUSTER_SINGLE = Option(
    "hoodie.clustering.plan.strategy.single.group.clustering.enabled",
    parse_bool,
    True,
    "Whether a group of one slice is worth clustering, which sorts its rows.",
)
CLUSTER_SORT = Option(
    "hoodie.clustering.plan.strategy.sort.columns",
    parse_names,
    _NO_NAMES,
    "Columns that clustering sorts rows by; the argument sort_by says the same.",
)
CLUSTER_CURVE = Option(
    "hoodie.layout.optimize.strategy",
    parse_choice(Curve),
    Curve.LINEAR,
    "How rows are laid out by the sort columns: LINEAR, ZORDER or HILBERT; the argument curve says "
    "the same.",
)
CLUSTER_FILTER = Option(
    "hoodie.clustering.plan.partition.filter.mode",
    parse_choice(PartitionFilter),
    PartitionFilter.NONE,
    "Which partitions are clustered: all (NONE), the newest (RECENT_DAYS), those between two names "
    "(SELECTED_PARTITIONS), or another share each hour (DAY_ROLLING).",
)
CLUSTER_LAST_PARTITIONS = Option(
    "hoodie.clustering.plan.strategy.daybased.lookback.partitions",
    parse_whole(1, _FOREVER),
    2,
    "With RECENT_DAYS, how many of the newest partitions are clustered.",
)
CLUSTER_SKIP_PARTITIONS = Option(
    "hoodie.clustering.plan.strategy.daybased.skipfromlatest.partitions",
    parse_whole(0, _FOREVER),
    0,
    "With RECENT_DAYS, how many of the newest are left alone before that.",
)
CLUSTER_BEGIN = Option(
    "hoodie.clustering.plan.strategy.cluster.begin.partition",
    str,
    "",
    "With SELECTED_PARTITIONS, the first partition by name.",
)
CLUSTER_END = Option(
    "hoodie.clustering.plan.strategy.cluster.end.partition",
    str,
    "",
    "With SELECTED_PARTITIONS, the last partition by name.",
)
CLUSTER_SELECTED = Option(
    "hoodie.clustering.plan.strategy.partition.selected",
    parse_names,
    _NO_NAMES,
    "Only these partitions are clustered.",
)
CLUSTER_PATTERN = Option(
    "hoodie.clustering.plan.strategy.partition.regex.pattern",
    _parse_pattern,
    "",
    "Only partitions whose whole name matches this regular expression are clustered.",
)


@dataclass(frozen=True, slots=True)
class ClusteringOptions:
    """When clustering is due, what it takes on, and how it lays rows out."""

    inline: bool
    schedule_inline: bool
    trigger_commits: int
    small_bytes: int
    target_bytes: int
    group_bytes: int
    groups: int
    takes_single: bool
    sort_by: tuple[str, ...]
    curve: Curve
    filter: PartitionFilter
    last_partitions: int
    skip_partitions: int
    begin: str
    end: str
    selected: tuple[str, ...]
    pattern: str

    @classmethod
    def parse(cls, settings: Settings) -> Self:
        return cls(
            inline=CLUSTER_INLINE.of(settings),
            schedule_inline=CLUSTER_SCHEDULE_INLINE.of(settings),
            trigger_commits=CLUSTER_COMMITS.of(settings),
            small_bytes=CLUSTER_SMALL_BYTES.of(settings),
            target_bytes=CLUSTER_TARGET_BYTES.of(settings),
            group_bytes=CLUSTER_GROUP_BYTES.of(settings),
            groups=CLUSTER_GROUPS.of(settings),
            takes_single=CLUSTER_SINGLE.of(settings),
            sort_by=CLUSTER_SORT.of(settings),
            curve=CLUSTER_CURVE.of(settings),
            filter=CLUSTER_FILTER.of(settings),
            last_partitions=CLUSTER_LAST_PARTITIONS.of(settings),
            skip_partitions=CLUSTER_SKIP_PARTITIONS.of(settings),
            begin=CLUSTER_BEGIN.of(settings),
            end=CLUSTER_END.of(settings),
            selected=CLUSTER_SELECTED.of(settings),
            pattern=CLUSTER_PATTERN.of(settings),
        )


CLUSTERING: tuple[Option[Any], ...] = (
    CLUSTER_INLINE,
    CLUSTER_SCHEDULE_INLINE,
    CLUSTER_COMMITS,
    CLUSTER_SMALL_BYTES,
    CLUSTER_TARGET_BYTES,
    CLUSTER_GROUP_BYTES,
    CLUSTER_GROUPS,
    CLUSTER_SINGLE,
    CLUSTER_SORT,
    CLUSTER_CURVE,
    CLUSTER_FILTER,
    CLUSTER_LAST_PARTITIONS,
    CLUSTER_SKIP_PARTITIONS,
    CLUSTER_BEGIN,
    CLUSTER_END,
    CLUSTER_SELECTED,
    CLUSTER_PATTERN,
)
