"""Files, slices and groups as values. Two are equal when every field is."""

from __future__ import annotations

from dataclasses import dataclass

from lentic.format.names import BaseFileName, LogFileName
from lentic.format.times import CompletedAt, RequestedAt


@dataclass(frozen=True, slots=True)
class FileGroupId:
    """One file group of the table."""

    partition: str
    file_id: str

    def __str__(self) -> str:
        return f"{self.partition}/{self.file_id}" if self.partition else self.file_id


@dataclass(frozen=True, slots=True)
class BaseFile:
    """One Parquet file with whole records."""

    path: str
    name: BaseFileName
    size: int
    completed_at: CompletedAt
    written: int | None = None
    """Its length by the commit that made it; `size` is what the storage says now."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of changes; all its blocks belong to one instant."""

    path: str
    name: LogFileName
    size: int
    completed_at: CompletedAt
    written: int | None = None
    folds: bool = False
    """A log compaction made it: it stands for the logs that were there when that was planned."""


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A base file (or none yet) and the logs on top of it, in merge order."""

    group: FileGroupId
    barrier: RequestedAt
    base: BaseFile | None
    logs: tuple[LogFile, ...]

    @property
    def size(self) -> int:
        return (self.base.size if self.base else 0) + sum(log.size for log in self.logs)

    @property
    def is_as_written(self) -> bool:
        """Whether every file has the length that its commit says it has."""
        files = (file for file in (self.base, *self.logs) if file)
        return all(file.written in (None, file.size) for file in files)

    @property
    def paths(self) -> tuple[str, ...]:
        return ((self.base.path,) if self.base else ()) + tuple(log.path for log in self.logs)


@dataclass(frozen=True, slots=True)
class FileGroup:
    """All slices of one group, newest first."""

    id: FileGroupId
    slices: tuple[FileSlice, ...]

    @property
    def latest(self) -> FileSlice:
        return self.slices[0]
