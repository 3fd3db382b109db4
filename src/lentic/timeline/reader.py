"""Storage -> timeline and the contents of its files. Reads only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

from lentic.errors import Corrupt, MissingFile
from lentic.format import layout
from lentic.format.avro import decode_container
from lentic.format.clean import CleanPlan, decode_clean_plan
from lentic.format.clustering_plan import (
    ClusteringClaim,
    ClusteringPlan,
    decode_clustering_claim,
    decode_clustering_plan,
)
from lentic.format.commit_metadata import CommitMetadata, decode_commit_metadata
from lentic.format.named_files import decode_named_files
from lentic.format.names import (
    Action,
    State,
    completed_action,
    parse_instant_file,
    requested_at_of,
)
from lentic.format.plans import (
    CompactionPlan,
    RollbackPlan,
    decode_compaction_plan,
    decode_rollback_plan,
    decode_rollback_target,
    decode_rollback_undone,
)
from lentic.format.removable import decode_is_removable
from lentic.format.restore import RestorePlan, decode_restore_plan, decode_undone
from lentic.format.times import RequestedAt, is_before
from lentic.storage.base import Storage
from lentic.timeline.aborted_history import load_aborted
from lentic.timeline.bounded_cache import BoundedCache
from lentic.timeline.history import (
    find_archived,
    load_archived_after,
    load_archived_content,
    load_archived_edge,
)
from lentic.timeline.instant import PLANS, WRITES, Identity, Instant
from lentic.timeline.timeline import Timeline, parse_timeline

_DECODED_PER_BYTE = 4
_decoded = BoundedCache(64 << 20)
"""Metadata of writes; with its bytes each takes about four times as much as these. That is room for
thousands of small commits, or for a few that name tens of thousands of files."""


def load_timeline(storage: Storage) -> Timeline:
    """The active timeline as it stands now."""
    return load_active(storage)[0]


def load_active(storage: Storage) -> tuple[Timeline, tuple[str, ...]]:
    """The active timeline, and the paths of files there that are not part of it any more (R13).

    These are earlier states of aborted plans, left where an abort died; files of instants that are
    archived, left where an archival died or is at it; and what comes back where somebody who lost
    the lock wakes and creates what another has created for it long before. With some of its files
    gone an instant that completed would look pending, a plan of which nobody knows what it says
    could be neither executed nor undone, and a write that was undone would name files that went.
    """
    names = [file.name for file in storage.list_files(layout.TIMELINE)]
    timeline = parse_timeline(names, where=layout.TIMELINE)
    left = _without_plan(timeline, frozenset(names))
    doubtful, alone = _incomplete(timeline, names)
    if doubtful or alone:
        edge = load_archived_edge(storage)
        ended = _find_ended(storage, frozenset(one for one in doubtful if one[0] <= edge))
        ended |= _find_undone(storage, timeline, alone - ended, edge)
        left |= {name for name in names if _identity(name) in ended}
    left |= _left_of_aborted(timeline, names)
    if not left:
        return timeline, ()
    rest = (name for name in names if name not in left)
    paths = tuple(layout.timeline_file(name) for name in sorted(left))
    return parse_timeline(rest, where=layout.TIMELINE), paths


def _without_plan(timeline: Timeline, names: frozenset[str]) -> frozenset[str]:
    """Inflight files of plans whose requested file, the plan itself, is gone: it goes last."""
    inflight = (i for i in timeline.pending(*PLANS) if i.state is State.INFLIGHT)
    plans = ((i, Instant(i.requested_at, i.action, State.REQUESTED)) for i in inflight)
    return frozenset(i.file_name for i, plan in plans if plan.file_name not in names)


def _find_ended(storage: Storage, doubtful: frozenset[Identity]) -> frozenset[Identity]:
    if not doubtful:
        return frozenset()
    aborted = {i.identity for i in load_aborted(storage)} if _may_be_aborted(doubtful) else set()
    return find_archived(storage, doubtful) | (doubtful & aborted)


def _may_be_aborted(identities: frozenset[Identity]) -> bool:
    return any(action is completed_action(Action.CLUSTERING) for _, action in identities)


def _left_of_aborted(timeline: Timeline, names: list[str]) -> set[str]:
    aborted = {instant.identity: instant.file_name for instant in timeline.aborted()}
    if not aborted:
        return set()
    found = ((name, _identity(name)) for name in names)
    return {name for name, of in found if of in aborted and aborted[of] != name}


def _incomplete(
    timeline: Timeline, names: list[str]
) -> tuple[frozenset[Identity], frozenset[Identity]]:
    """Instants with a later completed one that lack files of their own, and completed writes that
    do. All that are archived and still seen are among the former but for those that were seen
    whole, which are as good as active; all that were undone and came back among the latter."""
    counts = Counter(name.partition(".")[0].partition("_")[0] for name in names)
    last = max((i.requested_at for i in timeline.completed()), default=RequestedAt(""))
    partial = [
        i
        for i in timeline.instants
        if not i.is_aborted
        and i.action is not Action.SAVEPOINT
        and not (i.is_completed and counts[str(i.requested_at)] > 2)
    ]
    return (
        frozenset(i.identity for i in partial if i.requested_at < last),
        frozenset(i.identity for i in partial if i.is_completed and i.action in WRITES),
    )


def _find_undone(
    storage: Storage, timeline: Timeline, alone: frozenset[Identity], edge: RequestedAt
) -> frozenset[Identity]:
    """Which of these writes a rollback or restore has undone, as the timeline or its history tells:
    somebody decided to complete the write, slept, and made its file anew when all was over (R2)."""
    if not alone:
        return frozenset()
    undone = set(load_restored(storage, timeline.completed(Action.RESTORE)))
    for rollback in timeline.completed(Action.ROLLBACK):
        with suppress(MissingFile):
            undone.add(load_rollback_undone(storage, rollback))
    if (first := min(at for at, _ in alone)) <= edge:
        history = load_archived_after(storage, str(first), Action.ROLLBACK, Action.RESTORE)
        for instant, content in history.contents.items():
            found = decode_undone(content, f"{layout.HISTORY} {instant}")
            if instant.action is Action.RESTORE:
                undone |= {one.identity for one in found}
            else:  # an execution of a plan that was rolled back is not what the plan became later
                undone |= {(one.requested_at, one.action) for one in found}
    return alone & undone


def _identity(name: str) -> Identity | None:
    file = parse_instant_file(name)
    return (file.requested_at, completed_action(file.action)) if file else None


def load_commit_metadata(storage: Storage, instant: Instant) -> CommitMetadata:
    """What a completed write did, also if it was archived since it was seen."""
    path = layout.timeline_file(instant.file_name)
    try:
        content = storage.read(path)
    except MissingFile:
        found = load_archived_content(storage, instant)
        if found is None:
            raise
        content = found
    return decode_write(content, instant, path)


def decode_write(content: bytes, instant: Instant, where: str) -> CommitMetadata:
    """The metadata of a completed write; `Corrupt` if it is empty or another instant's."""
    if not content:
        raise Corrupt(
            "The completed file of a write is empty.",
            where=where,
            safe="nothing was read: rows would be missing without a word",
            next_step="bring the file back from a copy of the table",
        )
    # Each step of a flow asks again what the last commits did; the same bytes say the same.
    return _decoded.get(
        (content, instant, where),
        lambda: _decode_write(content, instant, where),
        lambda _: _DECODED_PER_BYTE * len(content),
    )


def _decode_write(content: bytes, instant: Instant, where: str) -> CommitMetadata:
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
    content, path = load_clustering_content(storage, instant)
    return decode_clustering_plan(content, root=storage.root, where=path)


def load_clustering_content(storage: Storage, instant: Instant) -> tuple[bytes, str]:
    """The plan of a clustering as it is stored, and where."""
    state = State.ABORTED if instant.is_aborted else State.REQUESTED
    path = layout.timeline_file(Instant(instant.requested_at, Action.CLUSTERING, state).file_name)
    return storage.read(path), path


def load_clustered_groups(storage: Storage, instant: Instant) -> frozenset[tuple[str, str]]:
    """Partition and file id of the groups that a pending clustering is for; none if it was rolled
    back since the timeline was loaded."""
    try:
        return load_clustering_claim(storage, instant).groups
    except MissingFile:
        return frozenset()


def load_clustering_claim(storage: Storage, instant: Instant) -> ClusteringClaim:
    """What a clustering is for and whether it gives way, in whatever state it is."""
    return decode_clustering_claim(*load_clustering_content(storage, instant))


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


def load_rollback_undone(storage: Storage, rollback: Instant) -> Identity:
    """What a rollback undoes, by the action that had when the rollback was planned."""
    path = _requested_file(rollback)
    return decode_rollback_undone(storage.read(path), path)


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
        with suppress(MissingFile):
            found.add(load_rollback_undone(storage, rollback))
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
        try:
            data = storage.read(path)
        except MissingFile:  # archived meanwhile
            data = load_archived_content(storage, clean) or b""
        record = decode_container(data, path, ("HoodieCleanMetadata",)) or {}
        if kept := record.get("earliestCommitToRetain"):
            return RequestedAt(kept)
    return None


def _requested_file(instant: Instant) -> str:
    requested = Instant(instant.requested_at, instant.action, State.REQUESTED)
    return layout.timeline_file(requested.file_name)
