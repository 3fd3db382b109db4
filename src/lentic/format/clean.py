"""Clean plans and the record of a finished clean.

A plan is a list of files to delete. On storage it holds absolute locations; here they are paths
relative to the table, and a location outside of it, or one that is no data file's, is `Corrupt`.
The record of a finished clean names files within their partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lentic.errors import Corrupt, UnsupportedFormat
from lentic.format.avro import Fields, SchemaName, decode_container, encode_container
from lentic.format.layout import data_file, is_data_path
from lentic.format.locations import absolute_path, relative_path
from lentic.format.names import Action, requested_at_of
from lentic.format.times import RequestedAt

SAVEPOINTS_KEY = "savepointed_timestamps"
"""Where the extra map names the savepoints that the clean had to respect, with commas between."""

_VERSION = 2
_COMPLETED = "COMPLETED"


@dataclass(frozen=True, slots=True)
class CleanPlan:
    """The files to delete, and the write as of which and after which the table stays readable.

    `retained` is None where a number of versions is kept, whenever they were written.
    `partitions` are those of which nothing should be left.
    """

    policy: str
    files: tuple[str, ...]
    retained: tuple[RequestedAt, Action] | None = None
    last_completed: RequestedAt | None = None
    partitions: tuple[str, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)


def encode_clean_plan(plan: CleanPlan, root: str) -> bytes:
    """Content of `<requested_at>.clean.requested`, for the table at `root`."""
    by_partition: dict[str, list[dict[str, object]]] = {}
    for path in plan.files:
        info = {"filePath": absolute_path(path, root), "isBootstrapBaseFile": False}
        by_partition.setdefault(path.rpartition("/")[0], []).append(info)
    retained = None
    if plan.retained:
        at, action = plan.retained
        retained = {"timestamp": at, "action": str(action), "state": _COMPLETED}
    record = {
        "earliestInstantToRetain": retained,
        "lastCompletedCommitTimestamp": plan.last_completed or "",
        "policy": plan.policy,
        "filesToBeDeletedPerPartition": {},
        "version": _VERSION,
        "filePathsToBeDeletedPerPartition": by_partition,
        "partitionsToBeDeleted": list(plan.partitions),
        "extraMetadata": dict(plan.extra),
    }
    return encode_container("HoodieCleanerPlan", record)


def decode_clean_plan(data: bytes, root: str, where: str) -> CleanPlan:
    """The plan in `<requested_at>.clean.requested`, for the table at `root`."""
    record = _decode(data, where, "HoodieCleanerPlan")
    if record.number("version") != _VERSION:
        raise UnsupportedFormat(
            f"The clean plan has version {record.number('version')}; this release reads 2.",
            where=where,
            safe="nothing was deleted",
            next_step="finish this clean with Apache Hudi",
        )
    files: list[str] = []
    per_partition = record.record("filePathsToBeDeletedPerPartition")
    for partition in per_partition.values:
        for info in per_partition.records(partition):
            files.append(_planned_file(info, root, where))
    partitions = record.texts("partitionsToBeDeleted")
    for partition in partitions:
        _ensure_partition(partition, where)
    return CleanPlan(
        policy=record.text("policy"),
        files=tuple(files),
        retained=_parse_retained(record),
        last_completed=_time_or_none(record, "lastCompletedCommitTimestamp"),
        partitions=partitions,
        extra=record.text_map("extraMetadata"),
    )


def _planned_file(info: Fields, root: str, where: str) -> str:
    if info.flag("isBootstrapBaseFile"):
        raise UnsupportedFormat(
            "The plan cleans bootstrapped files, which lie outside of the table.",
            where=where,
            safe="nothing was deleted",
            next_step="finish this clean with Apache Hudi",
        )
    location = info.text("filePath")
    path = relative_path(location, root)
    if path is None or requested_at_of(path.rpartition("/")[2]) is None:
        raise Corrupt(
            f"The clean names {location!r}, which is no data file of the table at {root!r}.",
            where=where,
            safe="nothing was deleted",
            next_step="if the table was moved, move it back until its cleans are finished",
        )
    return path


def _parse_retained(record: Fields) -> tuple[RequestedAt, Action] | None:
    if record.values.get("earliestInstantToRetain") is None:
        return None
    found = record.record("earliestInstantToRetain")
    try:
        action = Action(found.text("action"))
    except ValueError as error:
        raise Corrupt(
            f"A clean up to {found.text('action')!r}, no action there is.", where=record.where
        ) from error
    return found.requested_at("timestamp"), action


@dataclass(frozen=True, slots=True)
class CleanMetadata:
    """What a finished clean did; files relative to the table."""

    requested_at: RequestedAt
    policy: str
    deleted: tuple[str, ...]
    failed: tuple[str, ...] = ()
    retained: RequestedAt | None = None
    last_completed: RequestedAt | None = None
    partitions: tuple[str, ...] = ()
    """Partitions that are none any more."""
    took_ms: int = 0
    extra: Mapping[str, str] = field(default_factory=dict)


def encode_clean_metadata(metadata: CleanMetadata) -> bytes:
    """Content of `<requested_at>_<completed_at>.clean`."""
    deleted, failed = _names(metadata.deleted), _names(metadata.failed)
    partitions = {
        partition: {
            "partitionPath": partition,
            "policy": metadata.policy,
            "deletePathPatterns": [*deleted.get(partition, ()), *failed.get(partition, ())],
            "successDeleteFiles": deleted.get(partition, []),
            "failedDeleteFiles": failed.get(partition, []),
            "isPartitionDeleted": partition in metadata.partitions,
        }
        for partition in dict.fromkeys((*deleted, *failed, *metadata.partitions))
    }
    record = {
        "startCleanTime": metadata.requested_at,
        "timeTakenInMillis": metadata.took_ms,
        "totalFilesDeleted": len(metadata.deleted),
        "earliestCommitToRetain": metadata.retained or "",
        "lastCompletedCommitTimestamp": metadata.last_completed or "",
        "partitionMetadata": partitions,
        "version": _VERSION,
        "bootstrapPartitionMetadata": {},
        "extraMetadata": dict(metadata.extra),
    }
    return encode_container("HoodieCleanMetadata", record)


def decode_clean_metadata(data: bytes, where: str) -> CleanMetadata:
    """The record in `<requested_at>_<completed_at>.clean`."""
    record = _decode(data, where, "HoodieCleanMetadata")
    deleted: list[str] = []
    failed: list[str] = []
    gone: list[str] = []
    policy = ""
    partitions = record.record("partitionMetadata")
    for partition in partitions.values:
        _ensure_partition(partition, where)
        found = partitions.record(partition)
        deleted += _paths(partition, found.texts("successDeleteFiles"), where)
        failed += _paths(partition, found.texts("failedDeleteFiles"), where)
        gone += [partition] if found.flag("isPartitionDeleted") else []
        policy = found.text("policy")
    return CleanMetadata(
        requested_at=record.requested_at("startCleanTime"),
        policy=policy,
        deleted=tuple(deleted),
        failed=tuple(failed),
        retained=_time_or_none(record, "earliestCommitToRetain"),
        last_completed=_time_or_none(record, "lastCompletedCommitTimestamp"),
        partitions=tuple(gone),
        took_ms=record.number("timeTakenInMillis"),
        extra=record.text_map("extraMetadata"),
    )


def _names(paths: Iterable[str]) -> dict[str, list[str]]:
    by_partition: dict[str, list[str]] = {}
    for path in paths:
        partition, _, name = path.rpartition("/")
        by_partition.setdefault(partition, []).append(name)
    return by_partition


def _paths(partition: str, names: Iterable[str], where: str) -> list[str]:
    paths = []
    for name in names:
        path = data_file(partition, name)
        if "/" in name or not is_data_path(path):
            raise Corrupt(f"The clean names {name!r}, no plain file.", where=where)
        paths.append(path)
    return paths


def _ensure_partition(partition: str, where: str) -> None:
    if partition and not is_data_path(partition):
        raise Corrupt(f"The clean names {partition!r}, no partition.", where=where)


def _time_or_none(record: Fields, name: str) -> RequestedAt | None:
    return record.requested_at(name) if record.text(name) else None


def _decode(data: bytes, where: str, kind: SchemaName) -> Fields:
    record = decode_container(data, where, (kind,))
    if record is None:
        raise Corrupt("An empty file where a clean should be described.", where=where)
    return Fields(record, where)
