"""The archived timeline: instants that left the active one, in Parquet files under a manifest.

The newest `manifest_N` lists the files that count; anything else in the folder is ignored. What the
manifest names must be there and whole: a missing piece is an error, never "not archived" (P7).
`_version_` names the newest manifest too, for other engines; here it only shows that one is gone.

Files are merged and removed while readers read. One that finds the folder changed looks again.
Who needs the active timeline as well loads that first: an instant is in the history before it
leaves there, so that it is seen in one of the two. Only the parts of files that may hold a wanted
instant are read, and what was read is remembered (`history_cache.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import TypeVar

from lentic.errors import Corrupt, MissingFile
from lentic.format import layout
from lentic.format.lsm import ArchivedTimes
from lentic.format.lsm_index import Ended, GroupSpan
from lentic.format.lsm_names import (
    HistoryName,
    ListedFile,
    decode_manifest,
    format_manifest_name,
    parse_history_name,
    parse_manifest_name,
)
from lentic.format.names import Action, State
from lentic.format.times import CompletedAt, RequestedAt, is_before
from lentic.storage.base import FileInfo, Storage
from lentic.timeline.history_cache import CachedFile, MayHold
from lentic.timeline.instant import Instant

T = TypeVar("T")

_LOOKS_MAX = 10


@dataclass(frozen=True, slots=True)
class History:
    """Archived instants by requested time, oldest first, with the content of completed files."""

    instants: tuple[Instant, ...] = ()
    contents: Mapping[Instant, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The folder at one moment: the newest manifest, what it lists, and all that lies there."""

    number: int
    files: tuple[ListedFile, ...]
    listing: Mapping[str, FileInfo]

    def open(self, storage: Storage, file: ListedFile) -> CachedFile:
        """A listed file; `MissingFile` or `Corrupt` if it is not there as the manifest says."""
        info = self.listing.get(str(file.name))
        path = f"{layout.HISTORY}/{file.name}"
        if info is None:
            manifest = format_manifest_name(self.number)
            raise MissingFile(f"The manifest {manifest} names a file that is gone.", where=path)
        if info.size != file.length:
            raise Corrupt(
                f"The file has {info.size} bytes, its manifest says {file.length}.", where=path
            )
        return CachedFile(storage, file.name, info)

    def open_all(self, storage: Storage) -> tuple[CachedFile, ...]:
        return tuple(self.open(storage, file) for file in self.files)

    def open_covering(self, storage: Storage, wanted: Set[RequestedAt]) -> tuple[CachedFile, ...]:
        """The files that may have one of these instants."""
        return tuple(self.open(storage, f) for f in self.files if _covers(f.name, wanted))


def load_history(storage: Storage) -> History:
    """The whole archived timeline; empty if nothing was ever archived."""

    def load(now: Snapshot) -> History:
        return _load(now.open_all(storage), lambda _: True, lambda _: True)

    return look_at_history(storage, load)


def load_archived(storage: Storage, wanted: Set[RequestedAt]) -> History:
    """Those of `wanted` that are archived."""
    if not wanted:
        return History()
    ordered = sorted(map(str, wanted))

    def load(now: Snapshot) -> History:
        files = now.open_covering(storage, wanted)
        return _load(
            files, lambda times: times.requested_at in wanted, lambda span: span.covers(ordered)
        )

    return look_at_history(storage, load)


def load_archived_ends(
    storage: Storage, after: RequestedAt, groups: Set[Ended] | None = None
) -> History:
    """The archived replacements that completed after `after` and may have ended one of these file
    groups, or any: what was written to a group before it ended may be gone because of it."""

    def is_wanted(times: ArchivedTimes) -> bool:
        return times.action is Action.REPLACECOMMIT and is_before(after, times.completed_at)

    def may_hold(span: GroupSpan) -> bool:
        return Action.REPLACECOMMIT in span.actions and is_before(after, span.done)

    def load(now: Snapshot) -> History:
        files = now.open_all(storage)
        asked = (f for f in files if groups is None or f.may_have_ended(groups))
        return _load(asked, is_wanted, may_hold)

    return look_at_history(storage, load)


def load_archived_after(storage: Storage, after: str, *actions: Action) -> History:
    """The archived instants that completed after `after`, of the given actions if any are given."""

    def is_wanted(times: ArchivedTimes) -> bool:
        is_one_of = not actions or times.action in actions
        return is_one_of and str(times.completed_at) > after

    def may_hold(span: GroupSpan) -> bool:
        has_one = not actions or not span.actions.isdisjoint(actions)
        return has_one and str(span.done) > after

    def load(now: Snapshot) -> History:
        return _load(now.open_all(storage), is_wanted, may_hold)

    return look_at_history(storage, load)


def load_archived_last(storage: Storage, action: Action, count: int) -> History:
    """The last `count` instants of an action that were archived, by requested time."""

    def may_hold(span: GroupSpan) -> bool:
        return action in span.actions

    def load(now: Snapshot) -> History:
        files = now.open_all(storage)
        times = (own for file in files for group in file.times(may_hold).values() for own in group)
        newest = sorted((t.requested_at for t in times if t.action is action), reverse=True)
        wanted = {*newest[:count]}
        return _load(
            files, lambda own: own.action is action and own.requested_at in wanted, may_hold
        )

    return look_at_history(storage, load)


def load_archived_content(storage: Storage, instant: Instant) -> bytes | None:
    """The content of the completed file of an archived instant; None if it is not archived."""
    found = load_archived(storage, {instant.requested_at}).contents
    return next((c for i, c in found.items() if i.identity == instant.identity), None)


def find_archived(
    storage: Storage, identities: Set[tuple[RequestedAt, Action]]
) -> frozenset[tuple[RequestedAt, Action]]:
    """Which of these instants are archived."""
    wanted = {at for at, _ in identities}
    actions = {action for _, action in identities}
    ordered = sorted(map(str, wanted))

    def may_hold(span: GroupSpan) -> bool:
        return span.covers(ordered) and not span.actions.isdisjoint(actions)

    def find(now: Snapshot) -> frozenset[tuple[RequestedAt, Action]]:
        return frozenset(
            (times.requested_at, times.action)
            for file in now.open_covering(storage, wanted)
            for group in file.times(may_hold).values()
            for times in group
            if (times.requested_at, times.action) in identities
        )

    return look_at_history(storage, find)


def last_archived_completion(storage: Storage) -> CompletedAt:
    """The latest completion time of any archived instant; "" if there is none."""

    def find(now: Snapshot) -> CompletedAt:
        last = (file.last_completion() for file in now.open_all(storage))
        return max(last, default=CompletedAt(""))

    return look_at_history(storage, find)


def load_archived_edge(storage: Storage) -> RequestedAt:
    """The time up to which every instant has ended, because archiving has gone so far; "" if it
    never has. Takes one listing, and never goes back: a file whose manifest is not there yet holds
    instants that are completed too."""
    names = (parse_history_name(file.name) for file in storage.list_files(layout.HISTORY))
    return max((name.last for name in names if name), default=RequestedAt(""))


def load_archived_start(storage: Storage) -> RequestedAt | None:
    """The oldest requested time in the history, as the names of its files tell; None if nothing was
    ever archived."""

    def find(now: Snapshot) -> RequestedAt | None:
        return min((file.name.first for file in now.files), default=None)

    return look_at_history(storage, find)


def look_at_history(storage: Storage, look: Callable[[Snapshot], T]) -> T:
    """What `look` finds in the folder as it is, again if it changed under its hands."""
    for _ in range(_LOOKS_MAX - 1):
        number = _read_version(storage)
        listing = {file.name: file for file in storage.list_files(layout.HISTORY)}
        try:
            return look(_load_snapshot(storage, number, listing))
        except (MissingFile, Corrupt):
            if {file.name for file in storage.list_files(layout.HISTORY)} == listing.keys():
                raise
    number = _read_version(storage)
    listing = {file.name: file for file in storage.list_files(layout.HISTORY)}
    return look(_load_snapshot(storage, number, listing))


def _covers(name: HistoryName, wanted: Set[RequestedAt]) -> bool:
    return any(name.first <= at <= name.last for at in wanted)


def _load(
    files: Iterable[CachedFile], is_wanted: Callable[[ArchivedTimes], bool], may_hold: MayHold
) -> History:
    """The instants that are wanted; `may_hold` tells in which row groups they may be."""
    contents = {
        _instant_of(times): content
        for file in files
        for times, content in file.load(is_wanted, may_hold)
    }
    ordered = sorted(contents, key=lambda instant: (instant.requested_at, instant.action))
    return History(tuple(ordered), contents)


def _instant_of(times: ArchivedTimes) -> Instant:
    return Instant(times.requested_at, times.action, State.COMPLETED, times.completed_at)


def _read_version(storage: Storage) -> int:
    """What `_version_` says, 0 if it does not read. Read ahead of the listing, which then shows the
    manifest it names, or it is gone."""
    try:
        return int(storage.read(layout.HISTORY_VERSION))
    except (MissingFile, ValueError):
        return 0


def _load_snapshot(storage: Storage, version: int, listing: Mapping[str, FileInfo]) -> Snapshot:
    numbers = (parse_manifest_name(name) for name in listing)
    newest = max((number for number in numbers if number is not None), default=0)
    if newest < version:
        raise _manifest_gone(f"{layout.HISTORY}/{format_manifest_name(version)}")
    files: tuple[ListedFile, ...] = ()
    if any(parse_manifest_name(name) is not None for name in listing):
        path = f"{layout.HISTORY}/{format_manifest_name(newest)}"
        files = decode_manifest(storage.read(path), path)
    now = Snapshot(newest, files, listing)
    _ensure_none_forgotten(storage, now)
    return now


def _ensure_none_forgotten(storage: Storage, now: Snapshot) -> None:
    """A file that is newer than all that are listed was either written by an archival that died
    before its manifest, and its instants are still active, or its manifest is gone."""
    newest = max((file.name.last for file in now.files), default=RequestedAt(""))
    found = filter(None, map(parse_history_name, now.listing))
    later = [name for name in found if name.first > newest]
    if not later:
        return
    active = {
        file.name.partition(".")[0].partition("_")[0]
        for file in storage.list_files(layout.TIMELINE)
    }
    for name in later:
        if str(name.first) not in active:
            raise _manifest_gone(f"{layout.HISTORY}/{name}")


def _manifest_gone(where: str) -> Corrupt:
    return Corrupt(
        "The manifest of the archived timeline is gone.",
        where=where,
        safe="nothing was read; the current rows of a table do not need it as a rule",
        next_step="bring the file back from a copy of the table",
    )
