"""Restore plans and the record of a finished restore.

A plan names the instants to undo, in the order in which they go, and in a field of its own
(`lenticFiles`, which other engines skip) the exact files of each: once an instant's completed file
is gone nothing else says which files were its. A plan of another engine has no such field; that
engine alone can finish it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lentic.errors import Corrupt
from lentic.format.avro import Fields, decode_container, encode_container
from lentic.format.layout import is_data_path
from lentic.format.names import Action, completed_action, requested_at_of
from lentic.format.plans import (
    RollbackMetadata,
    parse_rollback_record,
    parse_undone,
    rollback_record,
)
from lentic.format.times import RequestedAt

_PLAN_VERSION = 2
_METADATA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Undone:
    """An instant that is undone, with the action it had when that was decided."""

    requested_at: RequestedAt
    action: Action

    @property
    def identity(self) -> tuple[RequestedAt, Action]:
        """That of the instant (`timeline.instant`)."""
        return self.requested_at, completed_action(self.action)


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """Back to the state right after the write requested at `point`."""

    point: RequestedAt
    undone: tuple[Undone, ...]
    files: Mapping[RequestedAt, tuple[str, ...]] | None
    """What to delete for each, relative to the table; None in another engine's plan."""


def encode_restore_plan(plan: RestorePlan) -> bytes:
    """Content of `<requested_at>.restore.requested`."""
    assert plan.files is not None, "this plan is another engine's"
    for at, paths in plan.files.items():
        assert all(_is_file_of(path, at) for path in paths), (at, paths)
    record = {
        "instantsToRollback": list(map(_info, plan.undone)),
        "version": _PLAN_VERSION,
        "savepointToRestoreTimestamp": plan.point,
        "lenticFiles": {str(at): list(paths) for at, paths in plan.files.items()},
    }
    return encode_container("HoodieRestorePlan", record)


def decode_restore_plan(data: bytes, where: str) -> RestorePlan:
    """The plan in `<requested_at>.restore.requested`; `Corrupt` if it names a file for an instant
    that has not made it: a plan is a list of files to delete."""
    record = decode_container(data, where, ("HoodieRestorePlan",))
    if record is None:
        raise Corrupt("An empty file where a plan should be.", where=where)
    found = Fields(record, where)
    undone = tuple(Undone(*parse_undone(info)) for info in found.records("instantsToRollback"))
    files = None if record.get("lenticFiles") is None else _parse_files(found, undone)
    return RestorePlan(found.requested_at("savepointToRestoreTimestamp"), undone, files)


def _parse_files(found: Fields, undone: tuple[Undone, ...]) -> dict[RequestedAt, tuple[str, ...]]:
    named = found.record("lenticFiles")
    files = {one.requested_at: named.texts(str(one.requested_at)) for one in undone}
    for at, paths in files.items():
        for path in paths:
            if not _is_file_of(path, at):
                raise Corrupt(
                    f"The restore undoes {at} and names {path!r}, which is no file of it.",
                    where=found.where,
                    safe="nothing was deleted",
                    next_step="bring the plan back from a copy of the table",
                )
    return files


@dataclass(frozen=True, slots=True)
class RestoreMetadata:
    """What a finished restore did: one rollback for each instant it undid."""

    requested_at: RequestedAt
    rollbacks: tuple[RollbackMetadata, ...]
    took_ms: int = 0


def encode_restore_metadata(metadata: RestoreMetadata, root: str) -> bytes:
    """Content of `<requested_at>_<completed_at>.restore`, for the table at `root`."""
    record = {
        "startRestoreTime": metadata.requested_at,
        "timeTakenInMillis": metadata.took_ms,
        "instantsToRollback": [str(one.target) for one in metadata.rollbacks],
        "hoodieRestoreMetadata": {
            str(one.target): [rollback_record(one, root)] for one in metadata.rollbacks
        },
        "version": _METADATA_VERSION,
        "restoreInstantInfo": [_info(Undone(o.target, o.action)) for o in metadata.rollbacks],
    }
    return encode_container("HoodieRestoreMetadata", record)


def decode_restore_metadata(data: bytes, root: str, where: str) -> RestoreMetadata:
    """The record in `<requested_at>_<completed_at>.restore`, for the table at `root`."""
    record = decode_container(data, where, ("HoodieRestoreMetadata",))
    if record is None:
        raise Corrupt("An empty file where the record of a restore should be.", where=where)
    found = Fields(record, where)
    by_time = found.record("hoodieRestoreMetadata")
    rollbacks = tuple(
        parse_rollback_record(one, root)
        for time in found.texts("instantsToRollback")
        for one in by_time.records(time)
    )
    return RestoreMetadata(
        requested_at=found.requested_at("startRestoreTime"),
        rollbacks=rollbacks,
        took_ms=found.number("timeTakenInMillis"),
    )


def decode_undone(data: bytes, where: str) -> tuple[Undone, ...]:
    """What a finished rollback or restore undid; readable wherever the table has been moved to
    since."""
    record = decode_container(data, where, ("HoodieRollbackMetadata", "HoodieRestoreMetadata"))
    found = Fields(record or {}, where)
    named = "restoreInstantInfo" if "restoreInstantInfo" in found.values else "instantsRollback"
    return tuple(Undone(*parse_undone(info)) for info in found.records(named)) if record else ()


def _info(undone: Undone) -> dict[str, object]:
    return {"commitTime": undone.requested_at, "action": str(undone.action)}


def _is_file_of(path: str, at: RequestedAt) -> bool:
    return is_data_path(path) and requested_at_of(path.rpartition("/")[2]) == at
