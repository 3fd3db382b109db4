"""What must hold of a table at any moment, whatever crashed. Each finding is one sentence.

Only what the active timeline and current rows rest on is looked at: files of older slices may have
been cleaned away, and instants archived.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set

from lentic.format import layout
from lentic.format.names import (
    Action,
    State,
    completed_action,
    parse_instant_file,
    requested_at_of,
)
from lentic.format.times import RequestedAt
from lentic.services.savepoint import load_savepoints
from lentic.storage.base import Storage
from lentic.timeline.reader import load_commit_metadata, load_timeline
from lentic.timeline.timeline import Timeline
from lentic.view.files import FileGroup
from lentic.view.listing import load_table_files
from lentic.view.table_view import TableFiles, gone_paths


def verify_table(storage: Storage) -> list[str]:
    """Findings against the invariants; an empty list is a sound table."""
    timeline = load_timeline(storage)
    files = load_table_files(storage, timeline)
    groups = files.groups()
    return [
        *_check_times(timeline),
        *_check_slices(groups),
        *(f"{path} holds current rows and is not there" for path in gone_paths(groups)),
        *_check_sizes(storage, timeline, {file.path: file.size for file in files.files}),
        *_check_savepoints(storage, timeline, {file.path for file in files.files}),
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
