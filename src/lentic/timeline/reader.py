"""Storage -> timeline and the contents of its files. Reads only."""

from __future__ import annotations

from lentic.errors import Corrupt, MissingFile
from lentic.format import layout
from lentic.format.clean import CleanPlan, decode_clean_metadata, decode_clean_plan
from lentic.format.clustering_plan import (
    ClusteringPlan,
    decode_clustered_groups,
    decode_clustering_plan,
)
from lentic.format.commit_metadata import CommitMetadata, decode_commit_metadata
from lentic.format.names import Action, State, completed_action, requested_at_of
from lentic.format.plans import (
    CompactionPlan,
    RollbackPlan,
    decode_compaction_plan,
    decode_rollback_plan,
    decode_rollback_target,
)
from lentic.format.removable import decode_is_removable
from lentic.format.times import RequestedAt, is_before
from lentic.storage.base import Storage
from lentic.timeline.instant import Instant
from lentic.timeline.timeline import Timeline, parse_timeline


def load_timeline(storage: Storage) -> Timeline:
    """The active timeline as it stands now."""
    files = storage.list_files(layout.TIMELINE)
    return parse_timeline((file.name for file in files), where=layout.TIMELINE)


def load_commit_metadata(storage: Storage, instant: Instant) -> CommitMetadata:
    """What a completed write did."""
    path = layout.timeline_file(instant.file_name)
    return decode_write(storage.read(path), instant, path)


def decode_write(content: bytes, instant: Instant, where: str) -> CommitMetadata:
    """The metadata of a completed write; `Corrupt` if it is empty or another instant's."""
    if not content:
        raise Corrupt(
            "The completed file of a write is empty.",
            where=where,
            safe="nothing was read: rows would be missing without a word",
            next_step="bring the file back from a copy of the table",
        )
    metadata = decode_commit_metadata(content, where)
    for stat in metadata.stats:
        if requested_at_of(stat.name) != instant.requested_at:
            raise Corrupt(
                f"The metadata of {instant} names {stat.path!r}, which is no file of that instant.",
                where=where,
            )
    return metadata


def load_compaction_plan(storage: Storage, instant: Instant) -> CompactionPlan:
    """The plan of a compaction or a log compaction, in whatever state it is."""
    folds = completed_action(instant.action) is Action.DELTACOMMIT
    action = Action.LOGCOMPACTION if folds else Action.COMPACTION
    path = _requested_file(Instant(instant.requested_at, action, State.REQUESTED))
    return decode_compaction_plan(storage.read(path), path)


def load_clustering_plan(storage: Storage, instant: Instant) -> ClusteringPlan:
    """The plan of a clustering, in whatever state it is."""
    path = _requested_file(Instant(instant.requested_at, Action.CLUSTERING, State.REQUESTED))
    return decode_clustering_plan(storage.read(path), root=storage.root, where=path)


def load_clustered_groups(storage: Storage, instant: Instant) -> frozenset[tuple[str, str]]:
    """Partition and file id of the groups that a pending clustering is for; none if it was rolled
    back since the timeline was loaded."""
    path = _requested_file(instant)
    try:
        return decode_clustered_groups(storage.read(path), path)
    except MissingFile:
        return frozenset()


def load_rollback_plan(storage: Storage, instant: Instant) -> RollbackPlan:
    """The plan of a pending rollback."""
    path = _requested_file(instant)
    return decode_rollback_plan(storage.read(path), root=storage.root, where=path)


def load_rollback_target(storage: Storage, instant: Instant) -> RequestedAt | None:
    """The instant that a rollback undoes, or None if its plan has been removed since."""
    path = _requested_file(instant)
    try:
        return decode_rollback_target(storage.read(path), path)
    except MissingFile:
        return None


def list_rollbacks_of(
    storage: Storage, timeline: Timeline, instant: Instant
) -> tuple[Instant, ...]:
    """The rollbacks, pending or completed, that target `instant`."""
    later = (
        rollback
        for rollback in timeline.instants
        if rollback.action is Action.ROLLBACK
        and is_before(instant.requested_at, rollback.requested_at)
    )
    return tuple(r for r in later if load_rollback_target(storage, r) == instant.requested_at)


def load_is_removable(storage: Storage, plan: Instant) -> bool:
    """Whether the plan says of itself that it is removable. One that does not read says nothing:
    it stays, and whoever executes it is told that it is damaged."""
    path = _requested_file(plan)
    try:
        return decode_is_removable(storage.read(path), plan.action, path)
    except (Corrupt, MissingFile):
        return False


def load_clean_plan(storage: Storage, instant: Instant) -> CleanPlan:
    """The plan of a clean, in whatever state it is."""
    path = _requested_file(instant)
    return decode_clean_plan(storage.read(path), root=storage.root, where=path)


def load_earliest_retained(storage: Storage, timeline: Timeline) -> RequestedAt | None:
    """The oldest instant that the latest clean kept readable, if a clean ever said so."""
    for clean in reversed(timeline.completed(Action.CLEAN)):
        path = layout.timeline_file(clean.file_name)
        data = storage.read(path)
        if data and (kept := decode_clean_metadata(data, path).retained):
            return kept
    return None


def _requested_file(instant: Instant) -> str:
    requested = Instant(instant.requested_at, instant.action, State.REQUESTED)
    return layout.timeline_file(requested.file_name)
