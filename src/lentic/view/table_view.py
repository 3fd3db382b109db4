"""(completed writes, listed files, a moment) -> the file groups readers see. Pure.

A file counts only if its instant completed and that instant's metadata names the file (R5): what a
crashed or repeated task left behind is invisible even while it lies beside the real files. Groups
that a completed replacement names are hidden, whatever is written to them, while it is on the
active timeline; once it is archived its groups' files are gone, and a group that was begun anew
under the same id is another one. Other engines see it so too. A moment is a completion time: writes
that completed later do not exist for it, and neither do the base files and replacements they made.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lentic.format.commit_metadata import LOG_COMPACT, SCHEMA_KEY, CommitMetadata
from lentic.format.names import parse_base_file, parse_log_file, requested_at_of
from lentic.format.times import CompletedAt, RequestedAt, is_upto
from lentic.storage.base import FileInfo
from lentic.view.files import (
    BaseFile,
    FileGroup,
    FileGroupId,
    FileSlice,
    LogFile,
)
from lentic.view.slicing import slice_file_group

GONE = -1
"""Size of a file that a write names and the storage no longer has."""

_FOREVER = CompletedAt("9" * 17)


@dataclass(frozen=True, slots=True)
class Committed:
    """One completed write: when, which files it stands for, and which groups it ended."""

    completed_at: CompletedAt
    paths: frozenset[str]
    replaced: frozenset[FileGroupId] = frozenset()
    schema: str = ""
    """Avro schema its files were written with, if its metadata says so."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """How long each file was when it was written, as far as the metadata says so."""
    archived: bool = False
    folds: bool = False
    """A log compaction, whose logs stand for others."""


Writes = Mapping[RequestedAt, Committed]
"""Completed writes by requested time."""


def committed_write(
    completed_at: CompletedAt, metadata: CommitMetadata, *, archived: bool = False
) -> Committed:
    """What readers need to know of one completed write."""
    replaced = frozenset(
        FileGroupId(partition, file_id)
        for partition, file_ids in metadata.replaced.items()
        for file_id in file_ids
    )
    schema = sys.intern(metadata.extra.get(SCHEMA_KEY, ""))  # thousands of writes, few schemas
    sizes = {stat.path: stat.size for stat in metadata.stats if stat.path and stat.size}
    folds = metadata.operation == LOG_COMPACT
    return Committed(completed_at, metadata.paths(), replaced, schema, sizes, archived, folds)


@dataclass(frozen=True, slots=True)
class TableFiles:
    """What lies in the table, or in some partitions of it, and the writes that made it.

    `partitions` is None when all of the table was listed.
    """

    files: tuple[FileInfo, ...]
    writes: Writes
    partitions: frozenset[str] | None = None

    def groups(self, upto: CompletedAt | None = None) -> tuple[FileGroup, ...]:
        """The visible file groups as of `upto` (now if None), by partition and file id.

        A file that should be in a group but is gone has size `GONE`.
        """
        writes = {
            at: write
            for at, write in self.writes.items()
            if upto is None or write.completed_at <= upto
        }
        return build_view((*self.files, *self._gone(writes)), writes)

    def ended(self, partition: str) -> frozenset[str]:
        """The file ids of a partition under which nothing that is written will be seen."""
        ends = ended_groups(self.writes).items()
        return frozenset(
            group.file_id for group, at in ends if group.partition == partition and at == _FOREVER
        )

    def _gone(self, writes: Writes) -> list[FileInfo]:
        present = {file.path for file in self.files}
        named = {path for write in writes.values() for path in write.paths} - present
        wanted = self.partitions
        missing = [FileInfo(path, GONE, 0) for path in sorted(named)]
        return [file for file in missing if wanted is None or file.directory in wanted]


def build_view(files: Iterable[FileInfo], writes: Writes) -> tuple[FileGroup, ...]:
    """The visible file groups among `files`, ordered by partition and file id."""
    ended = ended_groups(writes)
    bases: dict[FileGroupId, list[BaseFile]] = defaultdict(list)
    logs: dict[FileGroupId, list[LogFile]] = defaultdict(list)
    for file in files:
        at = requested_at_of(file.name)
        write = writes.get(at) if at else None
        if at is None or write is None or file.path not in write.paths:
            continue
        if base := parse_base_file(file.name):
            group = FileGroupId(file.directory, base.file_id)
            if group in ended and is_upto(at, ended[group]):
                continue
            written = write.sizes.get(file.path)
            bases[group].append(BaseFile(file.path, base, file.size, write.completed_at, written))
        elif (log := parse_log_file(file.name)) and not log.suffix:
            group = FileGroupId(file.directory, log.file_id)
            if group in ended and is_upto(at, ended[group]):
                continue
            written = write.sizes.get(file.path)
            logs[group].append(
                LogFile(file.path, log, file.size, write.completed_at, written, write.folds)
            )
    groups = sorted(bases.keys() | logs.keys(), key=lambda g: (g.partition, g.file_id))
    return tuple(slice_file_group(g, bases.get(g, ()), logs.get(g, ())) for g in groups)


def ended_groups(writes: Writes) -> dict[FileGroupId, CompletedAt]:
    """The groups that replacements ended, each with the time up to which what is requested for it
    is hidden."""
    ended: dict[FileGroupId, CompletedAt] = {}
    for write in writes.values():
        at = write.completed_at if write.archived else _FOREVER
        for group in write.replaced:
            ended[group] = max(at, ended.get(group, at))
    return ended


def without_gone(group: FileGroup) -> FileGroup:
    """`group` with only those slices of which every file is there."""
    return FileGroup(group.id, tuple(part for part in group.slices if not _gone(part)))


def gone_paths(groups: Iterable[FileGroup]) -> tuple[str, ...]:
    """Files that a reader of the latest slices would need and that are gone."""
    return tuple(path for group in groups for path in _gone(group.latest))


def _gone(part: FileSlice) -> list[str]:
    files = (file for file in (part.base, *part.logs) if file)
    return [file.path for file in files if file.size == GONE]
