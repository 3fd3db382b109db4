"""Commit metadata: which files an instant wrote, and which file groups it replaced.

It is the content of completed (and inflight) commits, deltacommits and replacecommits. Every file
an instant made is named here; what is not named does not belong to the table. Paths are relative to
the table and are checked when they are read: none leaves the table or reaches into `.hoodie`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from lentic.errors import Corrupt, UnsupportedFormat
from lentic.format.avro import (
    Fields,
    SchemaName,
    damaged,
    decode_container,
    encode_container,
)
from lentic.format.layout import data_file, is_data_path
from lentic.format.names import parse_log_file
from lentic.format.times import RequestedAt

SCHEMA_KEY = "schema"
"""Where the extra map keeps the Avro schema of the table's rows."""

COMPACT, LOG_COMPACT, CLUSTER = "COMPACT", "LOG_COMPACT", "CLUSTER"
REARRANGING = frozenset({COMPACT, LOG_COMPACT, CLUSTER})
"""Operations that change no row."""

_KINDS: tuple[SchemaName, ...] = ("HoodieCommitMetadata", "HoodieReplaceCommitMetadata")
_NEW_GROUP = "null"  # how Hudi writes "no previous commit"


@dataclass(frozen=True, slots=True)
class WriteStat:
    """One file that an instant wrote.

    `prev_commit` is None for the first file of a file group. `size` is the exact length in bytes.
    `base_file` is the base file the write started from, by name: the one a new base file replaces
    (None if there is none), or the one a log file stands beside ("" if there is none).
    In the profile an inflight file may hold, `path` is "" because nothing is written yet.
    """

    file_id: str
    path: str
    partition: str
    prev_commit: RequestedAt | None
    writes: int
    updates: int
    inserts: int
    deletes: int
    size: int
    base_file: str | None = None
    log_files: tuple[str, ...] = ()
    log_version: int | None = None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def is_log(self) -> bool:
        return parse_log_file(self.name) is not None

    def to_json(self) -> dict[str, Any]:
        """The stat as JSON values; `from_json` is the way back."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return values | {"log_files": list(self.log_files)}

    @classmethod
    def from_json(cls, value: object, where: str = "") -> WriteStat:
        """The stat that `to_json` described; `Corrupt` for anything else."""
        if not isinstance(value, dict) or value.keys() != {item.name for item in fields(cls)}:
            raise Corrupt("Not a write stat: other fields than expected.", where=where)
        found = Fields(value, where)
        nullable = ("prev_commit", "base_file", "log_version")
        if any(value[name] is None for name in value if name not in nullable):
            raise Corrupt("Not a write stat: a field is null.", where=where)
        stat = cls(
            file_id=found.text("file_id"),
            path=found.text("path"),
            partition=found.text("partition"),
            prev_commit=_parse_prev_commit(found, "prev_commit"),
            writes=found.number("writes"),
            updates=found.number("updates"),
            inserts=found.number("inserts"),
            deletes=found.number("deletes"),
            size=found.number("size"),
            base_file=None if value["base_file"] is None else found.text("base_file"),
            log_files=found.texts("log_files"),
            log_version=None if value["log_version"] is None else found.number("log_version"),
        )
        _ensure_inside(stat, where)
        return stat


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """All that an instant did. `replaced` maps partitions to the file groups that ended with it."""

    operation: str
    compacted: bool
    stats: tuple[WriteStat, ...]
    extra: Mapping[str, str] = field(default_factory=dict)
    replaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cdc_files: tuple[str, ...] = ()

    def paths(self) -> frozenset[str]:
        """Every file the metadata names, relative to the table."""
        return frozenset(self._named())

    def groups(self) -> frozenset[tuple[str, str]]:
        """Partition and file id of every file group it wrote to or ended."""
        ended = {(p, file_id) for p, file_ids in self.replaced.items() for file_id in file_ids}
        return frozenset(ended | {(stat.partition, stat.file_id) for stat in self.stats})

    def _named(self) -> Iterator[str]:
        yield from self.cdc_files
        for stat in self.stats:
            if stat.path:
                yield stat.path
            yield from (data_file(stat.partition, name) for name in stat.log_files)


def encode_commit_metadata(metadata: CommitMetadata, *, replaces: bool = False) -> bytes:
    """Content of a completed commit or deltacommit or, if it `replaces`, of a replacecommit."""
    assert replaces or not metadata.replaced, "only a replacecommit ends file groups"
    if metadata.cdc_files:
        raise UnsupportedFormat(
            "Commit metadata with change logs can be read but not written.",
            safe="nothing was written",
        )
    stats: dict[str, list[dict[str, object]]] = {}
    for stat in metadata.stats:
        stats.setdefault(stat.partition, []).append(_stat_record(stat))
    record: dict[str, object] = {
        "partitionToWriteStats": stats,
        "compacted": metadata.compacted,
        "extraMetadata": dict(metadata.extra),
        "version": None,
        "operationType": metadata.operation,
    }
    if not replaces:
        return encode_container("HoodieCommitMetadata", record)
    record["partitionToReplaceFileIds"] = {
        partition: list(file_ids) for partition, file_ids in metadata.replaced.items()
    }
    return encode_container("HoodieReplaceCommitMetadata", record)


_ALWAYS_ZERO = (
    "totalWriteErrors",
    "totalLogRecords",
    "totalUpdatedRecordsCompacted",
    "totalLogBlocks",
    "totalCorruptLogBlock",
    "totalRollbackBlocks",
    "totalLogFilesCompacted",
    "totalLogReadTimeMs",
    "totalLogSizeCompacted",
    "numUpdates",
)


def _stat_record(stat: WriteStat) -> dict[str, object]:
    record: dict[str, object] = dict.fromkeys(_ALWAYS_ZERO, 0)
    record |= {
        "fileId": stat.file_id,
        "path": stat.path,
        "prevCommit": stat.prev_commit or _NEW_GROUP,
        "partitionPath": stat.partition,
        "numWrites": stat.writes,
        "numUpdateWrites": stat.updates,
        "numInserts": stat.inserts,
        "numDeletes": stat.deletes,
        "totalWriteBytes": stat.size,
        "fileSizeInBytes": stat.size,
    }
    if not stat.is_log:
        return record | {"prevBaseFile": stat.base_file}
    return record | {
        "logVersion": stat.log_version,
        "logOffset": 0,
        "baseFile": stat.base_file or "",
        "logFiles": list(stat.log_files),
    }


def decode_commit_metadata(data: bytes, where: str) -> CommitMetadata:
    """The metadata in a completed or inflight file; an empty file is empty metadata."""
    record = Fields(decode_container(data, where, _KINDS) or {}, where)
    if data and "partitionToWriteStats" not in record.values:
        raise damaged("The metadata of a write does not say which files it wrote.", where=where)
    stats: list[WriteStat] = []
    cdc_files: list[str] = []
    by_partition = record.record("partitionToWriteStats")
    for partition in by_partition.values:
        for found in by_partition.records(partition):
            stats.append(_parse_stat(found, partition))
            cdc_files += found.record("cdcStats").values
    for path in cdc_files:
        _ensure_data_path(path, where)
    replaced = record.record("partitionToReplaceFileIds")
    return CommitMetadata(
        operation=record.text("operationType"),
        compacted=record.flag("compacted"),
        stats=tuple(stats),
        extra=record.text_map("extraMetadata"),
        replaced={partition: replaced.texts(partition) for partition in replaced.values},
        cdc_files=tuple(cdc_files),
    )


def _parse_stat(found: Fields, partition: str) -> WriteStat:
    path = found.text("path")
    is_log = parse_log_file(path.rpartition("/")[2]) is not None
    stat = WriteStat(
        file_id=found.text("fileId"),
        path=path,
        partition=partition,
        prev_commit=_parse_prev_commit(found, "prevCommit"),
        writes=found.number("numWrites"),
        updates=found.number("numUpdateWrites"),
        inserts=found.number("numInserts"),
        deletes=found.number("numDeletes"),
        size=found.number("fileSizeInBytes"),
        base_file=found.text("baseFile") if is_log else found.text("prevBaseFile") or None,
        log_files=found.texts("logFiles"),
        log_version=found.number("logVersion") if is_log else None,
    )
    _ensure_inside(stat, found.where)
    return stat


def _parse_prev_commit(found: Fields, name: str) -> RequestedAt | None:
    return None if found.text(name) in ("", _NEW_GROUP) else found.requested_at(name)


def _ensure_inside(stat: WriteStat, where: str) -> None:
    if stat.path:
        _ensure_data_path(stat.path, where)
    names = [*stat.log_files, *filter(None, [stat.base_file])]
    if stat.path and stat.path != data_file(stat.partition, stat.name):
        raise damaged(f"{stat.path!r} does not lie in partition {stat.partition!r}.", where=where)
    if any("/" in name or not is_data_path(name) for name in names):
        raise damaged(f"The write stat of {stat.path!r} names no plain file.", where=where)


def _ensure_data_path(path: str, where: str) -> None:
    if not is_data_path(path):
        raise damaged(f"{path!r} is not the path of a data file of the table.", where=where)
