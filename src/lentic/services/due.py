"""When a service is due, as the options say. Pure.

Two ask: writers after each commit (`inline`) and whoever looks after many tables (`runner`). What a
service then finds to do is for its planner to say: due means worth a look.
"""

from __future__ import annotations

from dataclasses import dataclass

from lentic.config.retention import ArchiveOptions
from lentic.config.services import ServiceOptions
from lentic.format.names import Action
from lentic.format.times import RequestedAt, Zone
from lentic.services.clean_plan import is_clean_due
from lentic.services.clustering_plan import is_clustering_due
from lentic.services.compaction_plan import is_compaction_due
from lentic.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Situation:
    """All that it takes to say what is due. `last_clustering` is the newest that completed; only
    clustering asks for it."""

    timeline: Timeline
    options: ServiceOptions
    is_merge_on_read: bool
    now_ms: int
    zone: Zone
    last_clustering: RequestedAt | None = None


def is_due(service: str, now: Situation) -> bool:
    """Whether `service`, by its name in the catalog or "archive", is due."""
    match service:
        case "compaction":
            options = now.options.compaction
            return now.is_merge_on_read and is_compaction_due(
                now.timeline, options, now.now_ms, now.zone
            )
        case "log_compaction":
            return now.is_merge_on_read and bool(now.timeline.completed(Action.DELTACOMMIT))
        case "clustering":
            return is_clustering_due(now.timeline, now.options.clustering, now.last_clustering)
        case "clean":
            return is_clean_due(now.timeline, now.options.clean)
        case "archive":
            return is_archive_due(now.timeline, now.options.archive)
        case _:
            raise AssertionError(f"there is no service {service!r}")


def is_archive_due(timeline: Timeline, options: ArchiveOptions) -> bool:
    """Whether more completed writes are active than may be."""
    return len(timeline.writes()) > options.commits_max
