"""Storage -> the facts that answers are made of. Reads only: an answer changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Set
from contextlib import suppress

from lentic.config.clustering import PartitionFilter
from lentic.errors import MissingFile
from lentic.format.names import Action, requested_at_of
from lentic.format.times import RequestedAt
from lentic.insight.facts import Facts, Stop
from lentic.services import next_steps
from lentic.services.archive import Barrier, list_barriers, load_first_needed
from lentic.services.cancel_policy import load_cancel_counts
from lentic.services.next_steps import NextStep
from lentic.services.orphans import load_ended, orphan_age_ms
from lentic.services.plans import list_executed
from lentic.services.protected import load_holders
from lentic.services.schedule import planned_groups
from lentic.services.situation import find_last_clustering
from lentic.storage.base import Storage
from lentic.timeline.cancel_requests import list_cancelled
from lentic.timeline.history import load_archived_start
from lentic.timeline.instant import PLANS, Instant
from lentic.timeline.reader import (
    load_commit_metadata,
    load_named_files,
    load_restore_plan,
    load_rollback_target,
    load_timeline,
)
from lentic.timeline.timeline import Timeline
from lentic.txn.conflicts import Group
from lentic.txn.transaction import OpenTable
from lentic.view.listing import load_partition_files, load_table_files
from lentic.view.table_view import TableFiles
from lentic.write import markers

WRITES_MAX = 200
"""How many of the newest writes are read for the partitions that they wrote to."""


def load_facts(
    table: OpenTable,
    partitions: Collection[str] | None = None,
    also: Set[RequestedAt] = frozenset(),
) -> Facts:
    """The table as it stands now; of its data files those in `partitions`, or all.

    What a write made shows even where all of it is gone, if the write is one of `also`.
    """
    storage, timeline = table.storage, load_timeline(table.storage)
    if partitions is None:
        files = load_table_files(storage, timeline)
    else:
        files = load_partition_files(storage, timeline, partitions, also=also)
    return Facts(
        root=storage.root,
        config=table.config,
        services=table.services,
        write_options=table.write_options,
        timeline=timeline,
        files=files,
        groups={group.id: group for group in files.groups()},
        holders=load_holders(storage, timeline),
        cleans=_load_cleaned(storage, timeline),
        cancelled=frozenset(list_cancelled(storage)),
        executed=list_executed(table, timeline),
        planned=_load_planned(storage, timeline),
        undone=load_undone(storage, timeline),
        cancels=load_cancel_counts(storage, timeline),
        partitions=_known_partitions(table, timeline),
        ended=_load_ended(storage, timeline, files),
        marked=markers.list_marked(storage),
        last_clustering=find_last_clustering(table.storage, timeline),
        now_ms=table.world.clock.now_ms(),
        orphan_age_ms=orphan_age_ms(table.pulse),
    )


def load_written_partitions(
    storage: Storage, writes: Iterable[Instant]
) -> dict[Instant, frozenset[str]]:
    """By write, the partitions in which it wrote or ended file groups."""
    return {
        write: frozenset(
            partition for partition, _ in load_commit_metadata(storage, write).groups()
        )
        for write in writes
    }


def load_stops(storage: Storage, timeline: Timeline) -> tuple[Stop, ...]:
    """What archiving cannot go past, the oldest first."""
    found = list_barriers(timeline, load_first_needed(storage, timeline))
    return tuple(Stop(barrier.at, barrier.why, _step(storage.root, barrier)) for barrier in found)


def _step(root: str, barrier: Barrier) -> NextStep:
    match barrier.kind:
        case "pending":
            return next_steps.ask_why(root, str(barrier.at))
        case "savepoint":
            return next_steps.remove_savepoint(root, str(barrier.at))
        case "hides":  # until its files are cleaned
            return next_steps.clean(root)


def load_undone(storage: Storage, timeline: Timeline) -> dict[RequestedAt, Instant]:
    """What the rollbacks and restores of the timeline undo."""
    found: dict[RequestedAt, Instant] = {}
    for instant in timeline.instants:
        if instant.action is Action.ROLLBACK:
            if target := load_rollback_target(storage, instant):
                found[target] = instant
        elif instant.action is Action.RESTORE:
            with suppress(MissingFile):
                plan = load_restore_plan(storage, instant)
                found |= {undone.requested_at: instant for undone in plan.undone}
    return found


def _load_cleaned(storage: Storage, timeline: Timeline) -> dict[str, Instant]:
    """By name: a plan that was made before the table was moved names paths that are none now."""
    cleans = (*timeline.completed(Action.CLEAN), *timeline.pending(Action.CLEAN))
    return {name: clean for clean in cleans for name in load_named_files(storage, clean)}


def _load_ended(storage: Storage, timeline: Timeline, files: TableFiles) -> frozenset[RequestedAt]:
    """What the sweep of orphans says of the makers of files that no commit names."""
    named = {path for write in files.writes.values() for path in write.paths}
    unnamed = (file for file in files.files if file.path not in named)
    makers = frozenset(at for file in unnamed if (at := requested_at_of(file.name)))
    if not makers:
        return makers
    known = {instant.requested_at for instant in timeline.instants}
    start = load_archived_start(storage) if makers - known else None
    return load_ended(storage, timeline, makers, start)


def _known_partitions(table: OpenTable, timeline: Timeline) -> frozenset[str]:
    """What a filter of clustering that compares partitions needs to know; nothing for others."""
    if table.services.clustering.filter is not PartitionFilter.RECENT_DAYS:
        return frozenset()
    newest = timeline.writes()[-WRITES_MAX:]
    return frozenset().union(*load_written_partitions(table.storage, newest).values())


def _load_planned(storage: Storage, timeline: Timeline) -> dict[Group, Instant]:
    plans = timeline.pending(*PLANS)
    return {group: plan for plan in plans for group in planned_groups(storage, Timeline((plan,)))}
