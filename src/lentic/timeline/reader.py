"""Storage -> timeline and the contents of its files. Reads only."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from lentic.errors import Corrupt, MissingFile
from lentic.format import layout
from lentic.format.avro import decode_container
from lentic.format.commit_metadata import CommitMetadata, decode_commit_metadata
from lentic.format.named_files import decode_named_files
from lentic.format.names import Action, State, requested_at_of
from lentic.format.plans import (
    CompactionPlan,
    RollbackPlan,
    decode_compaction_plan,
    decode_rollback_plan,
    decode_rollback_target,
    decode_rollback_undone,
)
from lentic.format.restore import RestorePlan, decode_restore_plan
from lentic.format.times import RequestedAt
from lentic.storage.base import Storage
from lentic.timeline.instant import Identity, Instant
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
    """The plan of a compaction, in whatever state it is."""
    path = _requested_file(Instant(instant.requested_at, Action.COMPACTION, State.REQUESTED))
    return decode_compaction_plan(storage.read(path), path)


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


def load_restore_plan(storage: Storage, instant: Instant) -> RestorePlan:
    """The plan of a restore, in whatever state it is."""
    path = _requested_file(instant)
    return decode_restore_plan(storage.read(path), path)


def load_restored(storage: Storage, restores: Iterable[Instant]) -> frozenset[Identity]:
    """The instants that these restores undo. One whose plan has been removed since names none."""
    found: set[Identity] = set()
    for restore in restores:
        with suppress(MissingFile):
            found |= {undone.identity for undone in load_restore_plan(storage, restore).undone}
    return frozenset(found)


def load_to_hide(storage: Storage, timeline: Timeline) -> tuple[Instant, ...]:
    """Completed writes that a pending rollback or restore undoes, the last that completed first.

    A rollback that was made while its target was pending names it by the action of that time, so
    that one of a compaction's attempt does not stand for the commit the plan became later. The
    restore of another engine is left to it.
    """
    found: set[Identity] = set()
    for rollback in timeline.pending(Action.ROLLBACK):
        path = _requested_file(rollback)
        with suppress(MissingFile):
            found.add(decode_rollback_undone(storage.read(path), path))
    for restore in timeline.pending(Action.RESTORE):
        with suppress(MissingFile):
            plan = load_restore_plan(storage, restore)
            found |= {undone.identity for undone in plan.undone if plan.files is not None}
    return tuple(i for i in reversed(timeline.writes()) if i.identity in found)


def load_named_files(storage: Storage, plan: Instant) -> frozenset[str]:
    """The names, without folders, of all data files that a plan of any kind names."""
    path = _requested_file(plan)
    return decode_named_files(storage.read(path), path)


def load_earliest_retained(storage: Storage, timeline: Timeline) -> RequestedAt | None:
    """The oldest instant that the latest clean kept readable, if a clean ever said so."""
    for clean in reversed(timeline.completed(Action.CLEAN)):
        path = layout.timeline_file(clean.file_name)
        record = decode_container(storage.read(path), path, ("HoodieCleanMetadata",)) or {}
        if kept := record.get("earliestCommitToRetain"):
            return RequestedAt(kept)
    return None


def _requested_file(instant: Instant) -> str:
    requested = Instant(instant.requested_at, instant.action, State.REQUESTED)
    return layout.timeline_file(requested.file_name)
