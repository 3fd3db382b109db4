"""What must hold of a table at any moment, whatever crashed. Each finding is one sentence.

Only what the active timeline and current rows rest on is looked at: files of older slices may have
been cleaned away, and instants archived.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set

from lentic.format import layout
from lentic.format.names import Action
from lentic.services.savepoint import load_savepoints
from lentic.storage.base import Storage
from lentic.timeline.reader import load_commit_metadata, load_timeline
from lentic.timeline.timeline import Timeline
from lentic.view.files import FileGroup
from lentic.view.listing import load_table_files
from lentic.view.table_view import gone_paths


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
        *_check_leftovers(storage, timeline),
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


def _check_savepoints(storage: Storage, timeline: Timeline, present: Set[str]) -> Iterator[str]:
    """P17. What a savepoint protects is there."""
    for savepoint in load_savepoints(storage, timeline):
        for path in sorted(savepoint.files - present):
            yield f"{path} is protected by {savepoint.instant} and is not there"


def _check_leftovers(storage: Storage, timeline: Timeline) -> Iterator[str]:
    """What a protocol keeps for an instant goes when the instant has ended."""
    ended = {str(instant.requested_at) for instant in timeline.completed()}
    for file in storage.list_files(layout.CANCEL):
        if file.name in ended:
            yield f"{file.name} is completed, and its cancellation is still asked for"
