"""What a savepoint holds: every file of the state right after one commit.

The savepoint's instant has that commit's own requested time. Files are values relative to the
table, on storage names within a partition; a name that is no plain file is `Corrupt`, because what
a savepoint protects is compared with what is deleted.
"""

from __future__ import annotations

from dataclasses import dataclass

from lentic.errors import Corrupt
from lentic.format.avro import Fields, decode_container, encode_container
from lentic.format.layout import data_file, is_data_path

_VERSION = 1


@dataclass(frozen=True, slots=True)
class SavepointMetadata:
    """The files to keep, by whom, why, and since when (epoch ms)."""

    files: tuple[str, ...]
    by: str = ""
    comment: str = ""
    made_ms: int = 0


def encode_savepoint(metadata: SavepointMetadata) -> bytes:
    """Content of `<requested_at>_<completed_at>.savepoint`."""
    by_partition: dict[str, list[str]] = {}
    for path in metadata.files:
        assert is_data_path(path), path
        partition, _, name = path.rpartition("/")
        by_partition.setdefault(partition, []).append(name)
    record = {
        "savepointedBy": metadata.by,
        "savepointedAt": metadata.made_ms,
        "comments": metadata.comment,
        "partitionMetadata": {
            partition: {"partitionPath": partition, "savepointDataFile": names}
            for partition, names in by_partition.items()
        },
        "version": _VERSION,
    }
    return encode_container("HoodieSavepointMetadata", record)


def decode_savepoint(data: bytes, where: str) -> SavepointMetadata:
    """The record in `<requested_at>_<completed_at>.savepoint`."""
    record = decode_container(data, where, ("HoodieSavepointMetadata",))
    if record is None:
        raise Corrupt(
            "An empty file where a savepoint should be.",
            where=where,
            safe="nothing was deleted: it does not say which files it protects",
            next_step="remove the savepoint and make it anew",
        )
    found = Fields(record, where)
    partitions = found.record("partitionMetadata")
    files: list[str] = []
    for partition in partitions.values:
        names = partitions.record(partition).texts("savepointDataFile")
        files += (_path(partition, name, where) for name in names)
    return SavepointMetadata(
        files=tuple(files),
        by=found.text("savepointedBy"),
        comment=found.text("comments"),
        made_ms=found.number("savepointedAt"),
    )


def _path(partition: str, name: str, where: str) -> str:
    path = data_file(partition, name)
    if "/" in name or not is_data_path(path):
        raise Corrupt(f"The savepoint names {name!r}, no plain file.", where=where)
    return path
