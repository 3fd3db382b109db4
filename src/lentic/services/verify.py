"""What must hold of a table at any moment, whatever crashed. Each finding is one sentence.

Only what the active timeline and current rows rest on is looked at: files of older slices may have
been cleaned away, and instants archived. A file that does not read is a finding, too: what rests on
it cannot be told, and everything else is looked at all the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set

from lentic.errors import Corrupt, LenticError, MissingFile
from lentic.format import layout
from lentic.format.names import (
    Action,
    State,
    completed_action,
    parse_instant_file,
    requested_at_of,
)
from lentic.format.times import RequestedAt
from lentic.services.plans import is_planned, load_plan_files
from lentic.services.savepoint import load_savepoints
from lentic.storage.base import Storage
from lentic.timeline.instant import WRITES, Instant
from lentic.timeline.reader import load_commit_metadata, load_timeline
from lentic.timeline.timeline import Timeline
from lentic.view.files import FileGroup
from lentic.view.listing import load_table_files
from lentic.view.table_view import TableFiles, gone_paths


def verify_table(storage: Storage) -> list[str]:
    """Findings against the invariants; an empty list is a sound table."""
    try:
        timeline = load_timeline(storage)
    except (Corrupt, MissingFile) as error:
        return [_say_unread(error), *_check_ends(storage)]
    unread = dict(_list_unread(storage, timeline))
    files, lacks = _load_files(storage, timeline)
    present = {f.path: f.size for f in (files.files if files else storage.walk(""))}
    groups = files.groups() if files else ()
    readable = Timeline(tuple(i for i in timeline.instants if i not in unread))
    return [
        *_check_times(timeline),
        *dict.fromkeys((*unread.values(), *lacks)),
        *_check_slices(groups),
        *(f"{path} holds current rows and is not there" for path in gone_paths(groups)),
        *_check_sizes(storage, readable, present),
        *_check_savepoints(storage, readable, present.keys()),
        *_check_ends(storage),
        *_check_promises(storage, timeline),
    ]


def verify_listed(storage: Storage, timeline: Timeline, files: TableFiles) -> list[str]:
    """The same, as far as some partitions show it: those of which `files` were listed."""
    groups = files.groups()
    present = {file.path for file in files.files}
    return [
        *_check_times(timeline),
        *_check_slices(groups),
        *(f"{path} holds current rows and is not there" for path in gone_paths(groups)),
        *_check_written(files),
        *_check_savepoints(storage, timeline, present, files.partitions),
        *_check_ends(storage),
        *_check_promises(storage, timeline),
    ]


def _list_unread(storage: Storage, timeline: Timeline) -> Iterator[tuple[Instant, str]]:
    """The instants that do not say what they did or what they are going to do."""
    for instant in timeline.instants:
        try:
            _load_content(storage, instant)
        except (Corrupt, MissingFile) as error:
            if isinstance(error, Corrupt) or instant in load_timeline(storage).instants:
                yield instant, _say_unread(error)


def _load_content(storage: Storage, instant: Instant) -> None:
    if instant.is_pending and is_planned(instant):
        load_plan_files(storage, instant)
    elif instant.is_completed and instant.action in WRITES:
        load_commit_metadata(storage, instant)
    elif instant.is_completed and instant.action is Action.SAVEPOINT:
        load_savepoints(storage, Timeline((instant,)))


def _say_unread(error: LenticError) -> str:
    what = error.what.rstrip(".")
    return f"{error.where} does not read: {what}" if error.where else what


def _load_files(storage: Storage, timeline: Timeline) -> tuple[TableFiles | None, list[str]]:
    """What the view is built from. None, and why, while a write does not read: what it replaced,
    and which slice is the latest of its file groups, nobody knows."""
    try:
        return load_table_files(storage, timeline), []
    except (Corrupt, MissingFile) as error:
        blind = "which files hold current rows cannot be told until that is mended"
        return None, [_say_unread(error), blind]


def _check_times(timeline: Timeline) -> Iterator[str]:
    """P1. A savepoint is requested at the time of what it protects."""
    own = [i for i in timeline.instants if i.action is not Action.SAVEPOINT]
    times = Counter(str(t) for i in own for t in (i.requested_at, i.completed_at) if t)
    yield from (f"time {time} was issued twice" for time, count in times.items() if count > 1)
    for instant in timeline.completed():
        if str(instant.completed_at) <= str(instant.requested_at):
            yield f"{instant} completed before it was requested"


def _check_slices(groups: Iterable[FileGroup]) -> Iterator[str]:
    shown = Counter(path for group in groups for part in group.slices for path in part.paths)
    yield from (f"{path} is in two slices" for path, count in shown.items() if count > 1)


def _check_sizes(storage: Storage, timeline: Timeline, present: Mapping[str, int]) -> Iterator[str]:
    """Files that are there are as long as their commits say."""
    for instant in timeline.writes():
        for stat in load_commit_metadata(storage, instant).stats:
            size = present.get(stat.path, stat.size)
            if size != stat.size:
                yield f"{stat.path} has {size} bytes, {instant} says {stat.size}"


def _check_written(files: TableFiles) -> Iterator[str]:
    """The same from the writes that were loaded with the files."""
    for file in files.files:
        at = requested_at_of(file.name)
        write = files.writes.get(at) if at else None
        size = write.sizes.get(file.path, file.size) if write else file.size
        if size != file.size:
            yield f"{file.path} has {file.size} bytes, {at} says {size}"


def _check_savepoints(
    storage: Storage,
    timeline: Timeline,
    present: Set[str],
    partitions: Set[str] | None = None,
) -> Iterator[str]:
    """P17. What a savepoint protects is there, in these partitions or in all."""
    for savepoint in load_savepoints(storage, timeline):
        for path in sorted(savepoint.files - present):
            if partitions is None or path.rpartition("/")[0] in partitions:
                yield f"{path} is protected by {savepoint.instant} and is not there"


def _check_promises(storage: Storage, timeline: Timeline) -> Iterator[str]:
    """R3: what was asked to end never completes. That of an aborted plan goes with a clean."""
    completed = {str(instant.requested_at) for instant in timeline.completed()}
    for file in storage.list_files(layout.CANCEL):
        if file.name in completed:
            yield f"{file.name} is completed, and its cancellation is still asked for"


def _check_ends(storage: Storage) -> Iterator[str]:
    """An instant ends once: completed, or aborted."""
    files = filter(None, (parse_instant_file(f.name) for f in storage.list_files(layout.TIMELINE)))
    ends: dict[RequestedAt, set[State]] = {}
    for file in files:
        if file.state is State.ABORTED or file.action is completed_action(Action.CLUSTERING):
            ends.setdefault(file.requested_at, set()).add(file.state)
    for at, states in sorted(ends.items()):
        if {State.ABORTED, State.COMPLETED} <= states:
            yield f"{at} is both completed and aborted"
