"""Options of table services: when they run, what they take on, what they keep."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from lentic.config.cancellation import CANCELLATION, CancellationOptions
from lentic.config.clustering import CLUSTERING, ClusteringOptions
from lentic.config.options import (
    Option,
    Settings,
    parse_bool,
    parse_choice,
    parse_whole,
)
from lentic.config.retention import RETENTION, ArchiveOptions, CleanOptions

_FOREVER = 10**9


class Trigger(StrEnum):
    """What makes a compaction due."""

    NUM_COMMITS = "NUM_COMMITS"
    TIME_ELAPSED = "TIME_ELAPSED"
    NUM_AND_TIME = "NUM_AND_TIME"
    NUM_OR_TIME = "NUM_OR_TIME"


class CompactionStrategy(StrEnum):
    """Which slices a compaction takes first. Hudi's class names mean the same, with any package."""

    LOG_SIZE = "LogFileSizeBasedCompactionStrategy"
    BOUNDED_IO = "BoundedIOCompactionStrategy"
    ALL = "UnBoundedCompactionStrategy"
    DAY_BASED = "DayBasedCompactionStrategy"


def _parse_strategy(text: str) -> CompactionStrategy:
    return parse_choice(CompactionStrategy)(text.rpartition(".")[2])


# --- who executes a plan ------------------------------------------------------------------------

GUARD = Option(
    "lentic.services.guard.enabled",
    parse_bool,
    True,
    "A plan is executed by one job at a time: others are refused while its heartbeat lives. false: "
    "whoever comes takes a plan over at once; still only the last one may complete it.",
    aliases=("hoodie.table.services.execution.guard.enabled",),
)
ROLLBACK_DELAY_MIN = Option(
    "lentic.services.rollback_delay_minutes",
    parse_whole(0, _FOREVER),
    60,
    "How old a removable plan must be before a clean may roll it back. A large number: never.",
    aliases=("hoodie.table.services.rollback.delay.mins", "table_service_rollback_delay"),
)
REMOVABLE = Option(
    "lentic.plan.removable",
    parse_bool,
    False,
    "Whether new log compaction and clustering plans go when their execution fails, as writes do, "
    "instead of staying until one succeeds. Kept in each plan.",
    aliases=("hoodie.plan.removable",),
)
SERVICES_ENABLED = Option(
    "hoodie.table.services.enabled",
    parse_bool,
    True,
    "false: no service runs after a commit, whatever the other options say.",
)
INCREMENTAL = Option(
    "hoodie.table.services.incremental.enabled",
    parse_bool,
    True,
    "Whether compaction, log compaction and clustering are planned by what changed since their "
    "last plan (RFC-83). false: each plan looks at the whole table.",
)
FAIL_WRITES = Option(
    "hoodie.fail.writes.on.inline.table.service.exception",
    parse_bool,
    False,
    "Whether a service that fails after a commit makes the call raise. The commit has landed "
    "either way, so unless told the failure is logged.",
)

# --- compaction ---------------------------------------------------------------------------------

COMPACT_INLINE = Option(
    "hoodie.compact.inline", parse_bool, False, "Compact after a commit when it is due."
)
COMPACT_SCHEDULE_INLINE = Option(
    "hoodie.compact.schedule.inline",
    parse_bool,
    False,
    "Only plan a compaction after a commit when it is due; another job executes it.",
)
COMPACT_TRIGGER = Option(
    "hoodie.compact.inline.trigger.strategy",
    parse_choice(Trigger),
    Trigger.NUM_COMMITS,
    "What makes a compaction due: NUM_COMMITS, TIME_ELAPSED, NUM_AND_TIME or NUM_OR_TIME.",
)
COMPACT_COMMITS = Option(
    "hoodie.compact.inline.max.delta.commits",
    parse_whole(1, _FOREVER),
    5,
    "Commits since the last compaction after which the next is due.",
)
COMPACT_SECONDS = Option(
    "hoodie.compact.inline.max.delta.seconds",
    parse_whole(1, _FOREVER),
    3_600,
    "Seconds since the last compaction after which the next is due.",
)
COMPACT_STRATEGY = Option(
    "hoodie.compaction.strategy",
    _parse_strategy,
    CompactionStrategy.LOG_SIZE,
    "Which slices come first: those with the largest logs, within the I/O limit "
    "(LogFileSizeBasedCompactionStrategy); any within the limit (BoundedIOCompactionStrategy); all "
    "(UnBoundedCompactionStrategy); newest days first within the limit "
    "(DayBasedCompactionStrategy).",
)
COMPACT_IO_MB = Option(
    "hoodie.compaction.target.io",
    parse_whole(1, _FOREVER),
    500 * 1024,
    "MiB that one compaction may read and write at most; at least one slice is always taken.",
)
COMPACT_LOG_BYTES = Option(
    "hoodie.compaction.logfile.size.threshold",
    parse_whole(0, 2**50),
    0,
    "Slices whose logs are smaller than this many bytes are left alone.",
)
COMPACT_LOG_FILES = Option(
    "hoodie.compaction.logfile.num.threshold",
    parse_whole(0, _FOREVER),
    0,
    "Slices with fewer logs are left alone.",
)
COMPACT_DAYS = Option(
    "hoodie.compaction.daybased.target.partitions",
    parse_whole(1, _FOREVER),
    10,
    "With DayBasedCompactionStrategy, how many of the newest partitions are taken.",
)
LOG_COMPACT_INLINE = Option(
    "hoodie.log.compaction.inline",
    parse_bool,
    False,
    "Log-compact after a commit when there is something to fold.",
)
LOG_COMPACT_BLOCKS = Option(
    "hoodie.log.compaction.blocks.threshold",
    parse_whole(2, _FOREVER),
    5,
    "Log blocks that a slice must have before a log compaction folds them.",
)


@dataclass(frozen=True, slots=True)
class CompactionOptions:
    """When compaction is due and what it takes on."""

    inline: bool
    schedule_inline: bool
    trigger: Trigger
    trigger_commits: int
    trigger_seconds: int
    strategy: CompactionStrategy
    io_mb: int
    log_bytes: int
    log_files: int
    days: int

    @classmethod
    def parse(cls, settings: Settings) -> Self:
        return cls(
            inline=COMPACT_INLINE.of(settings),
            schedule_inline=COMPACT_SCHEDULE_INLINE.of(settings),
            trigger=COMPACT_TRIGGER.of(settings),
            trigger_commits=COMPACT_COMMITS.of(settings),
            trigger_seconds=COMPACT_SECONDS.of(settings),
            strategy=COMPACT_STRATEGY.of(settings),
            io_mb=COMPACT_IO_MB.of(settings),
            log_bytes=COMPACT_LOG_BYTES.of(settings),
            log_files=COMPACT_LOG_FILES.of(settings),
            days=COMPACT_DAYS.of(settings),
        )


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """All that table services are told."""

    enabled: bool
    guarded: bool
    rollback_delay_min: int
    removable: bool
    incremental: bool
    fails_writes: bool
    log_compact_inline: bool
    log_compact_blocks: int
    compaction: CompactionOptions
    clustering: ClusteringOptions
    cancellation: CancellationOptions
    clean: CleanOptions
    archive: ArchiveOptions

    @classmethod
    def parse(cls, settings: Settings) -> Self:
        return cls(
            enabled=SERVICES_ENABLED.of(settings),
            guarded=GUARD.of(settings),
            rollback_delay_min=ROLLBACK_DELAY_MIN.of(settings),
            removable=REMOVABLE.of(settings),
            incremental=INCREMENTAL.of(settings),
            fails_writes=FAIL_WRITES.of(settings),
            log_compact_inline=LOG_COMPACT_INLINE.of(settings),
            log_compact_blocks=LOG_COMPACT_BLOCKS.of(settings),
            compaction=CompactionOptions.parse(settings),
            clustering=ClusteringOptions.parse(settings),
            cancellation=CancellationOptions.parse(settings),
            clean=CleanOptions.parse(settings),
            archive=ArchiveOptions.parse(settings),
        )


SERVICES: tuple[Option[Any], ...] = (
    SERVICES_ENABLED,
    GUARD,
    ROLLBACK_DELAY_MIN,
    REMOVABLE,
    INCREMENTAL,
    FAIL_WRITES,
    COMPACT_INLINE,
    COMPACT_SCHEDULE_INLINE,
    COMPACT_TRIGGER,
    COMPACT_COMMITS,
    COMPACT_SECONDS,
    COMPACT_STRATEGY,
    COMPACT_IO_MB,
    COMPACT_LOG_BYTES,
    COMPACT_LOG_FILES,
    COMPACT_DAYS,
    LOG_COMPACT_INLINE,
    LOG_COMPACT_BLOCKS,
    *CLUSTERING,
    *CANCELLATION,
    *RETENTION,
)
