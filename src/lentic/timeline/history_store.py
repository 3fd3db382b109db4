"""The only writer of the archived timeline. Whatever it does asks for the proof of the lock.

Order of an archival, so that an instant is always in one of both timelines:

1. The rows are durable in a file of their own.
2. A manifest lists the file. It is decided as a file of the timeline is (R2): numbers are never
   used twice, and whoever lost the lock decides nothing.
3. `_version_` names the manifest.
4. The active files go, those of the completed state last.

A crash in between leaves a file that no manifest lists, which the next archival of the same
instants takes over, or active files of archived instants, which the next transaction removes. Who
wakes up after it lost the lock can do no harm: what it deletes is archived (4), or covered by a
file that took its place for good (`_superseded`); what it creates has been created before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lentic.coordination.lock import Held
from lentic.errors import Conflict, Corrupt, MissingFile
from lentic.format import layout
from lentic.format.lsm import ArchivedRow, ArchivedTimes, HistoryReader, encode_rows, name_rows
from lentic.format.lsm_names import (
    HistoryName,
    ListedFile,
    decode_manifest,
    encode_manifest,
    format_manifest_name,
    parse_history_name,
    parse_manifest_name,
)
from lentic.format.names import Action, State, completed_action, parse_instant_file
from lentic.storage.base import FileInfo, Storage
from lentic.timeline.aborted_history import add_aborted
from lentic.timeline.history import find_archived, look_at_history
from lentic.timeline.instant import Instant
from lentic.timeline.store import decide, revise

_MANIFESTS_KEPT = 3
"""For readers that hold on to one while the next are made."""
_PLANNED = frozenset(
    {
        Action.COMPACTION,
        Action.LOGCOMPACTION,
        Action.CLUSTERING,
        Action.REPLACECOMMIT,
        Action.CLEAN,
    }
)
"""Actions whose requested file is a plan that the history keeps."""


def archive(storage: Storage, held: Held, instants: Sequence[Instant], batch: int) -> None:
    """Move completed instants to the history, and merge files there if `batch` lie on a level.

    `Conflict` if the lock was lost and the next holder was faster.
    """
    try:
        _archive(storage, held, instants, batch)
    except MissingFile as error:
        raise Conflict(
            "Files of the timeline went while this call archived them.",
            where=error.where,
            safe="nothing was lost: whoever holds the lock now has archived them, or will",
            next_step="nothing; the next archival goes on",
        ) from error


def _archive(storage: Storage, held: Held, instants: Sequence[Instant], batch: int) -> None:
    now = look_at_history(storage, lambda snapshot: snapshot)
    active = _active_files(storage, instants)
    known = find_archived(storage, {instant.identity for instant in instants})
    fresh = [instant for instant in instants if instant.identity not in known]
    if fresh:
        rows = [_row_of(storage, instant, active[instant]) for instant in fresh]
        listed = (*now.files, _put_rows(storage, held, rows, level=0))
        manifest = encode_manifest(_merge_levels(storage, held, listed, batch))
        name = format_manifest_name(now.number + 1)
        decide(storage, held, layout.history_file(name), manifest)
    number = _newest(storage)
    held.ensure_held()
    storage.replace(layout.HISTORY_VERSION, str(number).encode())
    remove_gone(storage, held, [f.path for i in instants for f in active[i]])
    _sweep(storage, held, number)


def archive_aborted(storage: Storage, held: Held, instants: Sequence[Instant]) -> None:
    """Take aborted plans off the active timeline, after the list of such plans names them."""
    revise(storage, held, layout.ABORTED, lambda before: add_aborted(before, instants, held.epoch))
    remove_gone(storage, held, [layout.timeline_file(i.file_name) for i in instants])


def _newest(storage: Storage) -> int:
    """The number of the newest manifest, whoever made it: a sleeper must not name an older one."""
    names = (file.name for file in storage.list_files(layout.HISTORY))
    return max(filter(None, map(parse_manifest_name, names)), default=0)


def remove_gone(storage: Storage, held: Held, paths: Iterable[str]) -> None:
    """Delete files of the active timeline whose instants are gone, completed ones last."""
    for path in sorted(paths, key=_is_completed):
        held.ensure_held()
        storage.delete(path)


def _is_completed(path: str) -> bool:
    file = parse_instant_file(path.rpartition("/")[2])
    return file is not None and file.state is State.COMPLETED


def _active_files(
    storage: Storage, instants: Sequence[Instant]
) -> dict[Instant, tuple[FileInfo, ...]]:
    files: dict[object, list[FileInfo]] = {}
    for file in storage.list_files(layout.TIMELINE):
        if parsed := parse_instant_file(file.name):
            identity = parsed.requested_at, completed_action(parsed.action)
            files.setdefault(identity, []).append(file)
    return {instant: tuple(files.get(instant.identity, ())) for instant in instants}


def _row_of(storage: Storage, instant: Instant, files: tuple[FileInfo, ...]) -> ArchivedRow:
    assert instant.completed_at is not None, instant
    times = ArchivedTimes(instant.requested_at, instant.action, instant.completed_at)
    plan = None
    for file in files:
        parsed = parse_instant_file(file.name)
        if parsed and parsed.state is State.REQUESTED and parsed.action in _PLANNED and file.size:
            plan = storage.read(file.path)
    return ArchivedRow(times, storage.read(layout.timeline_file(instant.file_name)), plan)


def _put_rows(storage: Storage, held: Held, rows: Sequence[ArchivedRow], level: int) -> ListedFile:
    """Make the file with these rows. One of that name which is not listed is left of an archival
    that died: of the same rows it is taken over, else it goes."""
    held.ensure_held()
    name, data = name_rows(rows, level), encode_rows(rows)
    path = layout.history_file(str(name))
    if storage.put_if_absent(path, data) or _holds(storage, name, rows):
        info = storage.info(path)
        return ListedFile(name, info.size if info else len(data))
    listed = look_at_history(storage, lambda now: {file.name for file in now.files})
    if name not in listed:
        storage.delete(path)
    if not storage.put_if_absent(path, data):
        raise Conflict(
            "Somebody who does not hold the table's lock archives instants too.",
            where=path,
            safe="nothing was archived by this call",
            next_step="let all writers use the same lock, then repeat the call",
        )
    return ListedFile(name, len(data))


def _holds(storage: Storage, name: HistoryName, rows: Sequence[ArchivedRow]) -> bool:
    path = layout.history_file(str(name))
    try:
        with storage.open_input(path) as source:
            found = HistoryReader(source, name, path).read_rows()
    except Corrupt:
        return False
    return sorted(found, key=str) == sorted(rows, key=str)


def _merge_levels(
    storage: Storage, held: Held, listed: tuple[ListedFile, ...], batch: int
) -> tuple[ListedFile, ...]:
    """Where `batch` files lie on a level, the oldest become one of the next."""
    level = 0
    while any(file.name.level >= level for file in listed):
        on_level = sorted((f for f in listed if f.name.level == level), key=lambda f: f.name.first)
        if len(on_level) >= batch:
            oldest = on_level[:batch]
            rows = [row for file in oldest for row in _read_rows(storage, file)]
            merged = _put_rows(storage, held, rows, level + 1)
            listed = (*(f for f in listed if f not in oldest), merged)
        level += 1
    return tuple(sorted(listed, key=lambda f: (f.name.first, f.name.level)))


def _read_rows(storage: Storage, file: ListedFile) -> tuple[ArchivedRow, ...]:
    path = layout.history_file(str(file.name))
    with storage.open_input(path) as source:
        return HistoryReader(source, file.name, path).read_rows()


def _sweep(storage: Storage, held: Held, newest: int) -> None:
    """Remove manifests but the latest, and files that those do not list and none ever will."""
    names = [file.name for file in storage.list_files(layout.HISTORY)]
    kept: set[HistoryName] = set()
    current: tuple[ListedFile, ...] = ()
    for name in names:
        number = parse_manifest_name(name)
        if number is not None and number > newest - _MANIFESTS_KEPT:
            path = layout.history_file(name)
            listed = decode_manifest(storage.read(path), path)
            kept |= {file.name for file in listed}
            current = listed if number == newest else current
    for name in names:
        number, found = parse_manifest_name(name), parse_history_name(name)
        is_old = number is not None and number <= newest - _MANIFESTS_KEPT
        if is_old or (found and found not in kept and _superseded(found, current)):
            held.ensure_held()
            storage.delete(layout.history_file(name))


def _superseded(name: HistoryName, listed: Iterable[ListedFile]) -> bool:
    """Whether instants of the file lie in one of its level or above, so that no archival will ever
    make or list a file of its name again."""
    return any(f.name.level >= name.level and f.name.overlaps(name) for f in listed)
