"""A table at one moment, as far as it was looked at. Every answer is a function of this value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lentic.config.groups import WriteOptions
from lentic.config.services import ServiceOptions
from lentic.format.table_config import TableConfig
from lentic.format.times import RequestedAt, format_time, next_time
from lentic.services.next_steps import NextStep
from lentic.timeline.instant import Instant
from lentic.timeline.timeline import Timeline
from lentic.txn.conflicts import Group
from lentic.view.files import FileGroup, FileGroupId
from lentic.view.table_view import TableFiles


@dataclass(frozen=True, slots=True)
class Facts:
    """What there is, and what the caller's options make of it."""

    root: str
    config: TableConfig
    services: ServiceOptions
    write_options: WriteOptions
    timeline: Timeline
    files: TableFiles
    groups: Mapping[FileGroupId, FileGroup]
    """The file groups that readers see, among the partitions that were listed."""
    holders: Mapping[str, tuple[Instant, ...]] = field(default_factory=dict)
    """By file: the pending plans and the savepoints that name it."""
    cleans: Mapping[str, Instant] = field(default_factory=dict)
    """By name of a file, which no other has: the clean on the active timeline that names it."""
    cancelled: frozenset[RequestedAt] = frozenset()
    """Pending plans that will never complete, because their cancellation was asked for."""
    executed: frozenset[RequestedAt] = frozenset()
    """Pending plans that somebody seems to be at."""
    planned: Mapping[Group, Instant] = field(default_factory=dict)
    """By file group: the pending plan that is for it."""
    undone: Mapping[RequestedAt, Instant] = field(default_factory=dict)
    """By requested time: the rollback or restore on the active timeline that undoes it."""
    cancels: Mapping[str, int] = field(default_factory=dict)
    """By `partition/file_id`: how many clusterings for the file group were cancelled in a row."""
    ended: frozenset[RequestedAt] = frozenset()
    """Those whose files no commit names and nobody waits for: what a sweep of orphans may take."""
    marked: frozenset[RequestedAt] = frozenset()
    """Instants whose markers are still there."""
    partitions: frozenset[str] = frozenset()
    """Partitions that are known by name, listed or not."""
    last_clustering: RequestedAt | None = None
    now_ms: int = 0
    orphan_age_ms: int = 0

    @property
    def now(self) -> RequestedAt:
        """The time that a plan made now would get: later than all there are."""
        clock, last = format_time(self.now_ms, self.config.zone), self.timeline.last_time()
        return RequestedAt(max(clock, next_time(last)) if last else clock)

    @property
    def pending(self) -> frozenset[RequestedAt]:
        return frozenset(instant.requested_at for instant in self.timeline.pending())


@dataclass(frozen=True, slots=True)
class Stop:
    """What archiving cannot go past, why, and what to do about it."""

    at: RequestedAt
    why: str
    step: NextStep


def say_moment(epoch_ms: int) -> str:
    """A moment as people write it."""
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def say_age(seconds: float) -> str:
    """A span of time in the unit that fits it."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
