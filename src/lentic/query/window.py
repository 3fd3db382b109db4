"""A window of changes: the writes that completed after one moment and up to another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lentic.errors import ConfigError
from lentic.format import layout
from lentic.format.commit_metadata import REARRANGING, CommitMetadata
from lentic.format.times import CompletedAt, RequestedAt
from lentic.query.points import parse_bound
from lentic.query.source import Source
from lentic.timeline.history import History, last_archived_completion, load_history
from lentic.timeline.instant import WRITES, Instant
from lentic.timeline.reader import decode_write, load_commit_metadata
from lentic.view.files import FileGroupId
from lentic.view.listing import load_partition_files
from lentic.view.table_view import TableFiles


@dataclass(frozen=True, slots=True)
class Window:
    """Writes with `after` < completion <= `upto`, in the order in which they completed."""

    writes: Mapping[Instant, CommitMetadata]
    after: CompletedAt
    upto: CompletedAt
    history: History

    @property
    def is_from_beginning(self) -> bool:
        return not self.after.strip("0")

    @property
    def requested(self) -> frozenset[RequestedAt]:
        return frozenset(instant.requested_at for instant in self.writes)

    @property
    def has_changes(self) -> bool:
        """Whether some write changed rows; a log compaction, for one, only puts them together."""
        return any(m.operation not in REARRANGING for m in self.writes.values())

    @property
    def groups(self) -> frozenset[FileGroupId]:
        """The file groups that the writes touched."""
        return frozenset(
            FileGroupId(stat.partition, stat.file_id)
            for metadata in self.writes.values()
            for stat in metadata.stats
        )

    def load_files(self, source: Source, *, replaced: bool = False) -> TableFiles:
        """The files of the partitions that the window touched, and of no others."""
        partitions = {group.partition for group in self.groups}
        if replaced:
            partitions |= {p for metadata in self.writes.values() for p in metadata.replaced}
        # A window of the active timeline alone did not load the history, but the files that its
        # writes built upon may be older.
        history = self.history if self.history.instants else None
        return load_partition_files(
            source.table.storage, source.timeline, partitions, history, self.requested
        )


def load_window(source: Source, after: str, upto: str | None) -> Window:
    """The window, reaching into archived history only if something there completed in it."""
    storage, first = source.table.storage, parse_bound(after)
    archived_upto = last_archived_completion(storage)
    last = _now(source, first, archived_upto) if upto is None else parse_bound(upto)
    if first > last:
        raise ConfigError(
            f"The window ends before it begins: after={first} upto={last}.",
            safe="nothing was read",
            next_step="swap the bounds",
        )
    active = source.timeline.writes()
    history = load_history(storage) if first < archived_upto else History()
    writes: dict[Instant, CommitMetadata] = {}
    for instant, content in history.contents.items():
        if instant.action in WRITES and _is_within(instant, first, last):
            writes[instant] = decode_write(content, instant, f"{layout.HISTORY} {instant}")
    for instant in active:
        if _is_within(instant, first, last):
            writes[instant] = load_commit_metadata(storage, instant)
    ordered = dict(sorted(writes.items(), key=lambda item: str(item[0].completed_at)))
    return Window(ordered, first, last, history)


def _now(source: Source, after: CompletedAt, archived_upto: CompletedAt) -> CompletedAt:
    """The end of all that has completed. A slow write may be archived before those that completed
    earlier, and what completed at `after` may have been undone since: then nothing came later."""
    return max((*source.timeline.completions().values(), archived_upto, after))


def _is_within(instant: Instant, after: CompletedAt, upto: CompletedAt) -> bool:
    assert instant.completed_at is not None
    return after < instant.completed_at <= upto
