"""Storage -> what the view is built from: files in partitions, and the writes that made them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Set

from lentic.errors import MissingFile
from lentic.format import layout
from lentic.format.avro import holds_any
from lentic.format.names import Action, parse_base_file, parse_log_file, requested_at_of
from lentic.format.times import RequestedAt
from lentic.storage.base import FileInfo, Storage
from lentic.timeline.history import History, load_archived, load_archived_ends
from lentic.timeline.instant import WRITES, Instant
from lentic.timeline.reader import decode_write, load_commit_metadata
from lentic.timeline.timeline import Timeline
from lentic.view.files import FileGroup, FileGroupId
from lentic.view.table_view import (
    Committed,
    TableFiles,
    Writes,
    committed_write,
    gone_paths,
    without_gone,
)

_SEARCHED_MAX = 64
"""Groups that are searched for in metadata; to decode it is faster with many."""


def load_table_view(storage: Storage, timeline: Timeline) -> tuple[FileGroup, ...]:
    """Every visible file group of the table at the state `timeline` shows."""
    return ensure_none_gone(load_table_files(storage, timeline).groups())


def load_partition_view(
    storage: Storage, timeline: Timeline, partition: str
) -> tuple[FileGroup, ...]:
    """The visible file groups of one partition."""
    return ensure_none_gone(load_partition_files(storage, timeline, [partition]).groups())


def load_table_files(
    storage: Storage, timeline: Timeline, history: History | None = None
) -> TableFiles:
    """All data files of the table and all writes of the active timeline; archived ones as far as
    files of theirs are still there, or all of `history` if that is given."""
    files = tuple(file for file in storage.walk("") if not _is_internal(file.path))
    asked = {instant.requested_at for instant in timeline.writes()}
    writes = load_writes(storage, timeline, asked | _makers(files), history)
    return TableFiles(files, writes)


def load_partition_files(
    storage: Storage,
    timeline: Timeline,
    partitions: Collection[str],
    history: History | None = None,
    also: Set[RequestedAt] = frozenset(),
) -> TableFiles:
    """The same for some partitions, listing nothing else. The writes are those that made their
    files, replacements, and `also`; of archived replacements those that may have ended a group
    which one of these writes wrote to there."""
    files = tuple(file for p in sorted(partitions) for file in storage.list_files(p))
    within = frozenset(partitions)
    writes = load_writes(storage, timeline, _makers(files) | also, history, within)
    return TableFiles(files, writes, within)


def load_writes(
    storage: Storage,
    timeline: Timeline,
    wanted: Set[RequestedAt],
    history: History | None = None,
    within: frozenset[str] | None = None,
) -> Writes:
    """The completed writes among `wanted`, and every replacement, with the files each names.

    Of archived replacements, which may be very many, only those are decoded that may name a group
    which one of `wanted` wrote to in the partitions `within`, if these are given. If history is not
    given, what the active timeline does not know of `wanted` is looked up there. What neither knows
    was undone, or is an orphan: archived does not mean completed (R13).
    """
    # A savepoint has the requested time of a write that may have been archived.
    known = {i.requested_at for i in timeline.instants if i.action is not Action.SAVEPOINT}
    found = load_archived(storage, wanted - known) if history is None else history
    writes: dict[RequestedAt, Committed] = {}
    for instant in timeline.writes():
        if instant.requested_at in wanted or instant.action is Action.REPLACECOMMIT:
            assert instant.completed_at is not None
            metadata = load_commit_metadata(storage, instant)
            writes[instant.requested_at] = committed_write(instant.completed_at, metadata)
    made = [i for i in found.contents if i.action in WRITES and i.requested_at in wanted]
    writes |= {i.requested_at: _archived(found, i, known) for i in made}
    # Other engines archive what came after a savepoint, and leave the write that it is of.
    saved = {i.requested_at for i in timeline.completed(Action.SAVEPOINT)} & wanted
    since = min({i.requested_at for i in made} | saved, default=None)
    touched = _touched(writes, within)
    while True:
        if history is None:
            found = _load_ends(storage, since, touched)
        rest = [i for i in found.contents if i.action in WRITES and i.requested_at not in writes]
        if touched is not None:
            rest = [i for i in rest if _may_name(found.contents[i], i, touched)]
        writes |= {i.requested_at: _archived(found, i, known) for i in rest}
        before, touched = touched, _touched(writes, within)
        if touched == before:
            return writes
        # A clustering ends groups and makes others, which the next replacement may have ended.


def _load_ends(
    storage: Storage, since: RequestedAt | None, touched: Set[FileGroupId] | None
) -> History:
    """The archived replacements that may have ended one of these groups, which were written to at
    `since` at the earliest; none if that is None."""
    if since is None:
        return History()
    groups = None if touched is None else {(one.partition, one.file_id) for one in touched}
    return load_archived_ends(storage, since, groups)


def _archived(history: History, instant: Instant, known: Set[RequestedAt]) -> Committed:
    assert instant.completed_at is not None
    metadata = decode_write(history.contents[instant], instant, f"{layout.HISTORY} {instant}")
    archived = instant.requested_at not in known
    return committed_write(instant.completed_at, metadata, archived=archived)


def _may_name(content: bytes, instant: Instant, groups: Set[FileGroupId]) -> bool:
    if instant.action is not Action.REPLACECOMMIT or len(groups) > _SEARCHED_MAX:
        return True
    return holds_any(content, (group.file_id for group in groups))


def _touched(writes: Writes, within: frozenset[str] | None) -> frozenset[FileGroupId] | None:
    """All groups in some partitions that writes name files of, be they there or not; None if no
    partitions are given."""
    if within is None:
        return None
    places = (path.rpartition("/") for write in writes.values() for path in write.paths)
    names = ((partition, name) for partition, _, name in places if partition in within)
    parsed = ((place, parse_base_file(name) or parse_log_file(name)) for place, name in names)
    return frozenset(FileGroupId(place, one.file_id) for place, one in parsed if one)


def ensure_none_gone(groups: tuple[FileGroup, ...]) -> tuple[FileGroup, ...]:
    """`groups` without the slices that were cleaned; `MissingFile` if a latest slice lacks a file.

    Cleaning never takes files of a latest slice, so one that is gone was lost.
    """
    if gone := gone_paths(groups):
        raise MissingFile(
            f"{len(gone)} file(s) that hold current rows are gone.",
            where=gone[0],
            safe="nothing was read: rows would be missing without a word",
            next_step="bring the file back, or restore the table to an earlier state",
        )
    return tuple(without_gone(group) for group in groups)


def _makers(files: Iterable[FileInfo]) -> frozenset[RequestedAt]:
    return frozenset(at for file in files if (at := requested_at_of(file.name)))


def _is_internal(path: str) -> bool:
    return path.startswith(layout.HOODIE + "/")
