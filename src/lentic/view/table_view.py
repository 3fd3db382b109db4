"""(timeline, metadata, listed files) -> the file groups readers see. Pure.

A file counts only if its instant completed and that instant's metadata names the file (R5): what a
crashed or repeated task left behind is invisible even while it lies beside the real files. Groups
that a completed replacement names are hidden.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lentic.format.commit_metadata import CommitMetadata
from lentic.format.names import parse_base_file, parse_log_file
from lentic.format.times import CompletedAt, RequestedAt
from lentic.storage.base import FileInfo
from lentic.view.files import BaseFile, FileGroup, FileGroupId, LogFile, requested_at_of
from lentic.view.slicing import slice_file_group


@dataclass(frozen=True, slots=True)
class Committed:
    """One completed write: when, and which files it stands for."""

    completed_at: CompletedAt
    paths: frozenset[str]
    replaced: frozenset[FileGroupId] = frozenset()


def committed_write(completed_at: CompletedAt, metadata: CommitMetadata) -> Committed:
    """What readers need to know of one completed write."""
    replaced = frozenset(
        FileGroupId(partition, file_id)
        for partition, file_ids in metadata.replaced.items()
        for file_id in file_ids
    )
    return Committed(completed_at, metadata.paths(), replaced)


def build_view(
    files: Iterable[FileInfo], committed: Mapping[RequestedAt, Committed]
) -> tuple[FileGroup, ...]:
    """The visible file groups among `files`, ordered by partition and file id."""
    hidden = {group for write in committed.values() for group in write.replaced}
    bases: dict[FileGroupId, list[BaseFile]] = defaultdict(list)
    logs: dict[FileGroupId, list[LogFile]] = defaultdict(list)
    for file in files:
        at = requested_at_of(file.name)
        write = committed.get(at) if at else None
        if write is None or file.path not in write.paths:
            continue
        if base := parse_base_file(file.name):
            group = FileGroupId(file.directory, base.file_id)
            bases[group].append(BaseFile(file.path, base, file.size, write.completed_at))
        elif (log := parse_log_file(file.name)) and not log.suffix:
            group = FileGroupId(file.directory, log.file_id)
            logs[group].append(LogFile(file.path, log, file.size, write.completed_at))
    groups = sorted((bases.keys() | logs.keys()) - hidden, key=lambda g: (g.partition, g.file_id))
    return tuple(slice_file_group(g, bases.get(g, ()), logs.get(g, ())) for g in groups)


def missing_paths(
    files: Iterable[FileInfo], committed: Mapping[RequestedAt, Committed]
) -> frozenset[str]:
    """Paths that completed writes name and the listing lacks (cleaned, or lost)."""
    present = {file.path for file in files}
    return frozenset(p for write in committed.values() for p in write.paths if p not in present)
