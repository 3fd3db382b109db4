"""Table -> what says which services are due. Reads only."""

from __future__ import annotations

from collections.abc import Callable

from lentic.format import layout
from lentic.format.names import Action, State
from lentic.format.table_config import TableType
from lentic.format.times import RequestedAt
from lentic.services.due import Situation
from lentic.storage.base import Storage
from lentic.timeline.instant import Instant
from lentic.timeline.timeline import Timeline
from lentic.txn.transaction import OpenTable


def load_situation(table: OpenTable, timeline: Timeline, *, clusters: bool) -> Situation:
    """The situation of the table at a state of its timeline; what only clustering asks for is
    looked up if it `clusters`."""
    return Situation(
        timeline=timeline,
        options=table.services,
        is_merge_on_read=table.config.table_type is TableType.MERGE_ON_READ,
        now_ms=table.world.clock.now_ms(),
        zone=table.config.zone,
        last_clustering=find_last_clustering(table.storage, timeline) if clusters else None,
    )


def find_last_clustering(storage: Storage, timeline: Timeline) -> RequestedAt | None:
    """The newest replacement that was planned as a clustering."""
    return pick_last_clustering(
        timeline, lambda name: storage.info(layout.timeline_file(name)) is not None
    )


def pick_last_clustering(timeline: Timeline, has_file: Callable[[str], bool]) -> RequestedAt | None:
    """The same where it is known which files the timeline has, by name."""
    for done in reversed(timeline.completed(Action.REPLACECOMMIT)):
        plan = Instant(done.requested_at, Action.CLUSTERING, State.REQUESTED)
        if has_file(plan.file_name):
            return done.requested_at
    return None
