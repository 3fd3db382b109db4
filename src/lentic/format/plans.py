"""Compaction plans, rollback plans and the record of a finished rollback.

A plan is data: whoever executes it does what it names and nothing else. Compaction plans name files
within a partition. Rollback plans hold absolute paths, as Hudi writes them; here they are values
relative to the table, so encoding and decoding need to know where the table lies, and a path
outside of it is `Corrupt`: a plan is a list of files to delete.
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

_COMPACTION_VERSION = 2
_METRICS = (
    "TOTAL_LOG_FILES",
    "TOTAL_LOG_FILES_SIZE",
    "TOTAL_IO_READ_MB",
    "TOTAL_IO_WRITE_MB",
    "TOTAL_IO_MB",
)
_ROLLBACK_VERSION = 1


@dataclass(frozen=True, slots=True)
class CompactionOperation:
    """One file slice to compact; files are named without their partition."""

    partition: str
    file_id: str
    base_instant: RequestedAt
    base_file: str | None
    log_files: tuple[str, ...]
    metrics: Mapping[str, float] = field(default_factory=dict, compare=False)
    """How much work it is, by Hudi's names; it says nothing about what to do."""


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """The slices that a compaction merges, each into a new base file, or that a log compaction
    folds, each into a log file."""

    operations: tuple[CompactionOperation, ...]
    extra: Mapping[str, str] = field(default_factory=dict)
    compactor: str = ""
    """The class with which Apache Hudi executes the plan; "" for that of compactions."""
    missing: tuple[str, ...] = ()
    """Partitions with slices that the planner found and left to the next plan."""
    edge: tuple[RequestedAt, Action] | None = None
    """The plan's own instant, up to which it has seen what changed."""

    def groups(self) -> frozenset[tuple[str, str]]:
        """Partition and file id of every file group it compacts."""
        return frozenset((op.partition, op.file_id) for op in self.operations)


def encode_compaction_plan(plan: CompactionPlan) -> bytes:
    """Content of `<requested_at>.compaction.requested`, or `.logcompaction.requested`."""
    strategy = {"compactorClassName": plan.compactor, "strategyParams": {}, "version": 1}
    record = {
        "operations": [_operation_record(operation) for operation in plan.operations],
        "extraMetadata": dict(plan.extra),
        "version": _COMPACTION_VERSION,
        "strategy": strategy if plan.compactor else None,
        "preserveHoodieMetadata": bool(plan.compactor),
        "missingSchedulePartitions": list(plan.missing),
        "earliestInstantToRetain": edge_record(plan.edge),
    }
    return encode_container("HoodieCompactionPlan", record)


def edge_record(edge: tuple[RequestedAt, Action] | None) -> dict[str, object] | None:
    """The instant up to which a plan has seen what changed, as RFC-83 asks for it. Other releases
    of Hudi do not know the field and pass over it."""
    if edge is None:
        return None
    at, action = edge
    return {"timestamp": at, "action": str(action), "state": "REQUESTED"}


def parse_edge(record: Fields) -> tuple[RequestedAt, Action] | None:
    """What `edge_record` made."""
    found = record.record("earliestInstantToRetain")
    if not found.values:
        return None
    try:
        return found.requested_at("timestamp"), Action(found.text("action"))
    except ValueError as error:
        raise Corrupt(
            f"A plan up to {found.text('action')!r}, no action there is.", where=record.where
        ) from error


def _operation_record(operation: CompactionOperation) -> dict[str, object]:
    return {
        "baseInstantTime": operation.base_instant,
        "deltaFilePaths": list(operation.log_files),
        "dataFilePath": operation.base_file,
        "fileId": operation.file_id,
        "partitionPath": operation.partition,
        # Hudi sorts operations by these numbers when it bounds the I/O of one run.
        "metrics": dict.fromkeys(_METRICS, 0.0) | dict(operation.metrics),
        "bootstrapFilePath": None,
    }


def decode_compaction_plan(data: bytes, where: str) -> CompactionPlan:
    """The plan in `<requested_at>.compaction.requested`, or `.logcompaction.requested`."""
    record = _decode_plan(data, where, "HoodieCompactionPlan")
    if record.number("version") != _COMPACTION_VERSION:
        raise UnsupportedFormat(
            f"The compaction plan has version {record.number('version')}; this release reads 2.",
            where=where,
            next_step="run or cancel this compaction with Apache Hudi",
        )
    operations = tuple(_parse_operation(found) for found in record.records("operations"))
    compactor = record.record("strategy").text("compactorClassName")
    return CompactionPlan(
        operations=operations,
        extra=record.text_map("extraMetadata"),
        compactor=compactor,
        missing=record.texts("missingSchedulePartitions"),
        edge=parse_edge(record),
    )


def _parse_operation(found: Fields) -> CompactionOperation:
    if found.text("bootstrapFilePath"):
        raise UnsupportedFormat("The plan compacts bootstrapped files.", where=found.where)
    operation = CompactionOperation(
        partition=found.text("partitionPath"),
        file_id=found.text("fileId"),
        base_instant=found.requested_at("baseInstantTime"),
        base_file=found.text("dataFilePath") or None,
        log_files=found.texts("deltaFilePaths"),
        metrics=found.float_map("metrics"),
    )
    for name in filter(None, (operation.base_file, *operation.log_files)):
        if "/" in name or not is_data_path(data_file(operation.partition, name)):
            raise Corrupt(f"The compaction plan names {name!r}, no plain file.", where=found.where)
    return operation


def _decode_plan(data: bytes, where: str, kind: SchemaName) -> Fields:
    record = decode_container(data, where, (kind,))
    if record is None:
        raise Corrupt("An empty file where a plan should be.", where=where)
    return Fields(record, where)


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """The instant to undo and the files to delete for it, relative to the table."""

    target: RequestedAt
    action: Action
    files: tuple[str, ...]


def encode_rollback_plan(plan: RollbackPlan, root: str) -> bytes:
    """Content of `<requested_at>.rollback.requested`, for the table at `root`."""
    requests = [
        {
            "partitionPath": partition,
            "fileId": "",
            "latestBaseInstant": "",
            "filesToBeDeleted": paths,
            "logBlocksToBeDeleted": {},
        }
        for partition, paths in _absolute_by_partition(plan.files, root).items()
    ]
    record = {
        "instantToRollback": {"commitTime": plan.target, "action": str(plan.action)},
        "RollbackRequests": requests,
        "version": _ROLLBACK_VERSION,
    }
    return encode_container("HoodieRollbackPlan", record)


def decode_rollback_plan(data: bytes, root: str, where: str) -> RollbackPlan:
    """The plan in `<requested_at>.rollback.requested`, for the table at `root`."""
    record = _decode_plan(data, where, "HoodieRollbackPlan")
    files: list[str] = []
    for request in record.records("RollbackRequests"):
        if request.record("logBlocksToBeDeleted").values:
            raise UnsupportedFormat(
                "The rollback appends to log files, as in table versions before 8.",
                where=where,
                next_step="finish this rollback with Apache Hudi",
            )
        files += _relative(request.texts("filesToBeDeleted"), root, where)
    target, action = parse_undone(record.record("instantToRollback"))
    for path in files:
        if requested_at_of(path.rpartition("/")[2]) != target:
            raise Corrupt(
                f"The rollback of {target} names {path!r}, a file of another instant.",
                where=where,
                safe="nothing was deleted",
                next_step="finish this rollback with the engine that planned it",
            )
    return RollbackPlan(target, action, tuple(files))


def decode_rollback_target(data: bytes, where: str) -> RequestedAt:
    """The instant that the plan undoes; readable wherever the table has been moved to since."""
    return decode_rollback_undone(data, where)[0]


def decode_rollback_undone(data: bytes, where: str) -> tuple[RequestedAt, Action]:
    """The same with the action it had when the plan was made."""
    plan = _decode_plan(data, where, "HoodieRollbackPlan")
    return parse_undone(plan.record("instantToRollback"))


@dataclass(frozen=True, slots=True)
class RollbackMetadata:
    """What a finished rollback did; files relative to the table."""

    requested_at: RequestedAt
    target: RequestedAt
    action: Action
    deleted: tuple[str, ...]
    failed: tuple[str, ...] = ()
    took_ms: int = 0


def encode_rollback_metadata(metadata: RollbackMetadata, root: str) -> bytes:
    """Content of `<requested_at>_<completed_at>.rollback`, for the table at `root`."""
    return encode_container("HoodieRollbackMetadata", rollback_record(metadata, root))


def rollback_record(metadata: RollbackMetadata, root: str) -> dict[str, object]:
    """The same as a record, which a restore holds many of."""
    deleted = _absolute_by_partition(metadata.deleted, root)
    failed = _absolute_by_partition(metadata.failed, root)
    partitions = {
        partition: {
            "partitionPath": partition,
            "successDeleteFiles": deleted.get(partition, []),
            "failedDeleteFiles": failed.get(partition, []),
            "rollbackLogFiles": {},
            "logFilesFromFailedCommit": {},
        }
        for partition in (*deleted, *failed)
    }
    return {
        "startRollbackTime": metadata.requested_at,
        "timeTakenInMillis": metadata.took_ms,
        "totalFilesDeleted": len(metadata.deleted),
        "commitsRollback": [metadata.target],
        "partitionMetadata": partitions,
        "version": _ROLLBACK_VERSION,
        "instantsRollback": [{"commitTime": metadata.target, "action": str(metadata.action)}],
    }


def decode_rollback_metadata(data: bytes, root: str, where: str) -> RollbackMetadata:
    """The record in `<requested_at>_<completed_at>.rollback`, for the table at `root`."""
    return parse_rollback_record(_decode_plan(data, where, "HoodieRollbackMetadata"), root)


def parse_rollback_record(record: Fields, root: str) -> RollbackMetadata:
    """What `rollback_record` made."""
    where = record.where
    deleted: list[str] = []
    failed: list[str] = []
    partitions = record.record("partitionMetadata")
    for partition in partitions.values:
        found = partitions.record(partition)
        deleted += _relative(found.texts("successDeleteFiles"), root, where)
        failed += _relative(found.texts("failedDeleteFiles"), root, where)
    targets = record.records("instantsRollback")
    if len(targets) != 1:
        raise Corrupt(f"A rollback of {len(targets)} instants, not one.", where=where)
    target, action = parse_undone(targets[0])
    return RollbackMetadata(
        requested_at=record.requested_at("startRollbackTime"),
        target=target,
        action=action,
        deleted=tuple(deleted),
        failed=tuple(failed),
        took_ms=record.number("timeTakenInMillis"),
    )


def parse_undone(found: Fields) -> tuple[RequestedAt, Action]:
    """An instant to undo, and its action at that time."""
    text = found.text("action")
    try:
        action = Action(text)
    except ValueError as error:
        raise Corrupt(f"A rollback of {text!r}, no action there is.", where=found.where) from error
    return found.requested_at("commitTime"), action


def _absolute_by_partition(files: Iterable[str], root: str) -> dict[str, list[str]]:
    by_partition: dict[str, list[str]] = {}
    for path in files:
        assert is_data_path(path), path
        by_partition.setdefault(path.rpartition("/")[0], []).append(absolute_path(path, root))
    return by_partition


def _relative(paths: Iterable[str], root: str, where: str) -> list[str]:
    relative = []
    for path in paths:
        inside = relative_path(path, root)
        if inside is None:
            raise Corrupt(
                f"The rollback names {path!r}, which is no data file of the table at {root!r}.",
                where=where,
                safe="nothing was deleted",
                next_step="if the table was moved, move it back until its rollbacks are finished",
            )
        relative.append(inside)
    return relative
