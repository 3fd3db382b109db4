"""Storage -> what the view is built from: files in partitions, and the writes that made them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lentic.errors import MissingFile
from lentic.format import layout
from lentic.format.names import Action
from lentic.format.times import RequestedAt
from lentic.storage.base import FileInfo, Storage
from lentic.timeline.reader import ensure_history_not_needed, load_commit_metadata
from lentic.timeline.timeline import Timeline
from lentic.view.files import FileGroup, requested_at_of
from lentic.view.table_view import Committed, build_view, committed_write, missing_paths


def load_table_view(storage: Storage, timeline: Timeline) -> tuple[FileGroup, ...]:
    """Every visible file group of the table at the state `timeline` shows."""
    files = [file for file in storage.walk("") if not _is_internal(file.path)]
    ensure_history_not_needed(storage, timeline, _makers(files))
    committed = load_committed(storage, timeline, (i.requested_at for i in timeline.writes()))
    if not timeline.completed(Action.CLEAN) and not storage.list_files(layout.HISTORY):
        _ensure_none_lost(files, committed)
    return build_view(files, committed)


def load_partition_view(
    storage: Storage, timeline: Timeline, partition: str
) -> tuple[FileGroup, ...]:
    """The visible file groups of one partition."""
    files = storage.list_files(partition)
    ensure_history_not_needed(storage, timeline, _makers(files))
    return build_view(files, load_committed(storage, timeline, _makers(files)))


def load_committed(
    storage: Storage, timeline: Timeline, wanted: Iterable[RequestedAt]
) -> dict[RequestedAt, Committed]:
    """The completed writes among `wanted`, and every replacement, with the files each names."""
    asked = set(wanted)
    committed = {}
    for instant in timeline.writes():
        if instant.requested_at in asked or instant.action is Action.REPLACECOMMIT:
            assert instant.completed_at is not None
            metadata = load_commit_metadata(storage, instant)
            committed[instant.requested_at] = committed_write(instant.completed_at, metadata)
    return committed


def _makers(files: Iterable[FileInfo]) -> set[RequestedAt]:
    return {at for file in files if (at := requested_at_of(file.name))}


def _ensure_none_lost(
    files: Iterable[FileInfo], committed: Mapping[RequestedAt, Committed]
) -> None:
    """Nothing was ever cleaned, so every file a commit names must be there."""
    if lost := sorted(missing_paths(files, committed)):
        raise MissingFile(
            f"{len(lost)} committed file(s) are gone, though the table was never cleaned.",
            where=lost[0],
            safe="nothing was read: rows would be missing without a word",
            next_step="bring the file back, or restore the table to an earlier state",
        )


def _is_internal(path: str) -> bool:
    return path.startswith(layout.HOODIE + "/")
