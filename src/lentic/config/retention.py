"""Options of what a table keeps: cleaning files, archiving instants, sweeping orphans."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from lentic.config.options import (
    Option,
    Settings,
    contradiction,
    parse_bool,
    parse_choice,
    parse_whole,
)

_FOREVER = 10**9


class CleanPolicy(StrEnum):
    KEEP_LATEST_COMMITS = "KEEP_LATEST_COMMITS"
    KEEP_LATEST_FILE_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"
    KEEP_LATEST_BY_HOURS = "KEEP_LATEST_BY_HOURS"


CLEAN_AUTOMATIC = Option(
    "hoodie.clean.automatic",
    parse_bool,
    False,
    "Clean after a commit when it is due. Hudi cleans unless told not to; lentic only when told.",
    aliases=("hoodie.clean.inline",),
)
CLEAN_POLICY = Option(
    "hoodie.clean.policy",
    parse_choice(CleanPolicy),
    CleanPolicy.KEEP_LATEST_COMMITS,
    "What stays readable: the state before each of the latest commits, of the latest hours, or a "
    "number of versions of every file.",
    aliases=("hoodie.cleaner.policy",),
)
CLEAN_COMMITS = Option(
    "hoodie.clean.commits.retained",
    parse_whole(1, _FOREVER),
    10,
    "With KEEP_LATEST_COMMITS, how many commits back the table can be read as it was.",
    aliases=("hoodie.cleaner.commits.retained",),
)
CLEAN_HOURS = Option(
    "hoodie.clean.hours.retained",
    parse_whole(1, _FOREVER),
    24,
    "With KEEP_LATEST_BY_HOURS, how many hours back.",
    aliases=("hoodie.cleaner.hours.retained",),
)
CLEAN_VERSIONS = Option(
    "hoodie.clean.fileversions.retained",
    parse_whole(1, _FOREVER),
    3,
    "With KEEP_LATEST_FILE_VERSIONS, how many slices of each file group.",
    aliases=("hoodie.cleaner.fileversions.retained",),
)
CLEAN_TRIGGER_COMMITS = Option(
    "hoodie.clean.trigger.max.commits",
    parse_whole(1, _FOREVER),
    1,
    "Commits since the last clean after which the next is due.",
    aliases=("hoodie.clean.max.commits",),
)
CLEAN_INCREMENTAL = Option(
    "hoodie.clean.incremental.enabled",
    parse_bool,
    True,
    "Whether a clean is planned by what changed since the last one. false: each looks at the whole "
    "table.",
    aliases=("hoodie.cleaner.incremental.mode",),
)
CLEAN_ORPHANS = Option(
    "lentic.clean.sweep_orphans",
    parse_bool,
    True,
    "Whether a clean also removes data files that no commit, plan or marker names any more and "
    "that are older than an hour and two heartbeats.",
)
CLEAN_SWEEP_MINUTES = Option(
    "lentic.clean.sweep_interval_minutes",
    parse_whole(0, _FOREVER),
    60,
    "Minutes between sweeps of a table, each of which lists all of it; the cleans in between leave "
    "orphans where they are. A clean that waits, or `lentic clean`, sweeps in any case.",
)
ARCHIVE_AUTOMATIC = Option(
    "hoodie.archive.automatic",
    parse_bool,
    False,
    "Archive instants after a commit when it is due. Hudi does unless told not to; lentic only "
    "when told.",
)
ARCHIVE_MIN = Option(
    "hoodie.keep.min.commits",
    parse_whole(1, _FOREVER),
    20,
    "Commits that stay on the active timeline when older ones are archived.",
)
ARCHIVE_MAX = Option(
    "hoodie.keep.max.commits",
    parse_whole(2, _FOREVER),
    30,
    "Commits on the active timeline beyond which archiving is due.",
)
ARCHIVE_BATCH = Option(
    "hoodie.timeline.compaction.batch.size",
    parse_whole(2, 10_000),
    10,
    "Files of one level of the archived timeline that are merged into one of the next.",
)


@dataclass(frozen=True, slots=True)
class CleanOptions:
    """What cleaning keeps, and when it is due."""

    automatic: bool
    policy: CleanPolicy
    commits: int
    hours: int
    versions: int
    trigger_commits: int
    incremental: bool
    sweeps_orphans: bool
    sweep_minutes: int

    @property
    def keeps_versions(self) -> bool:
        """Whether it counts versions of files, and does not look back in time."""
        return self.policy is CleanPolicy.KEEP_LATEST_FILE_VERSIONS

    @classmethod
    def parse(cls, settings: Settings) -> Self:
        return cls(
            automatic=CLEAN_AUTOMATIC.of(settings),
            policy=CLEAN_POLICY.of(settings),
            commits=CLEAN_COMMITS.of(settings),
            hours=CLEAN_HOURS.of(settings),
            versions=CLEAN_VERSIONS.of(settings),
            trigger_commits=CLEAN_TRIGGER_COMMITS.of(settings),
            incremental=CLEAN_INCREMENTAL.of(settings),
            sweeps_orphans=CLEAN_ORPHANS.of(settings),
            sweep_minutes=CLEAN_SWEEP_MINUTES.of(settings),
        )


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """How much of the timeline stays active."""

    automatic: bool
    commits_min: int
    commits_max: int
    batch: int

    @classmethod
    def parse(cls, settings: Settings) -> Self:
        """`ConfigError` where archiving would take what it must keep."""
        least, most = ARCHIVE_MIN.of(settings), ARCHIVE_MAX.of(settings)
        if least >= most:
            raise contradiction(ARCHIVE_MIN.key, least, ARCHIVE_MAX.key, most)
        return cls(
            automatic=ARCHIVE_AUTOMATIC.of(settings),
            commits_min=least,
            commits_max=most,
            batch=ARCHIVE_BATCH.of(settings),
        )


RETENTION: tuple[Option[Any], ...] = (
    CLEAN_AUTOMATIC,
    CLEAN_POLICY,
    CLEAN_COMMITS,
    CLEAN_HOURS,
    CLEAN_VERSIONS,
    CLEAN_TRIGGER_COMMITS,
    CLEAN_INCREMENTAL,
    CLEAN_ORPHANS,
    CLEAN_SWEEP_MINUTES,
    ARCHIVE_AUTOMATIC,
    ARCHIVE_MIN,
    ARCHIVE_MAX,
    ARCHIVE_BATCH,
)
