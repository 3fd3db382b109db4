"""Files of the archived timeline, both ways: rows of instants, their names, the manifest.

    <min>_<max>_<level>.parquet  instants requested from `min` to `max`, both inclusive
    manifest_<N>                 JSON: the files that count as of change N, each with its length
    _version_                    N of the newest manifest

A row is a completed instant: its times, the action in the name of its completed file, that file's
bytes, and those of its plan where it had one. Rows lie in small row groups, so that who looks for
one instant of many reads a part of a large file. Replacements lie together at the end, for whoever
looks an instant up has to read what came after it of these. Readers go by no order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import islice
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from lentic.errors import Corrupt
from lentic.format.names import Action
from lentic.format.times import CompletedAt, RequestedAt

_NAME = re.compile(r"([0-9]{1,32})_([0-9]{1,32})_([0-9]{1,4})\.parquet")
_MANIFEST = re.compile(r"manifest_([0-9]{1,9})")
_VERSION = 1
_GROUP_ROWS = 64
_GROUP_BYTES = 256 * 1024
"""Rows of one row group, and the content that they have together, unless it is one row's."""
_TIMES = ["instantTime", "completionTime", "action"]


@dataclass(frozen=True, slots=True)
class HistoryName:
    """The name of a file of archived instants."""

    first: RequestedAt
    last: RequestedAt
    level: int

    def __str__(self) -> str:
        return f"{self.first}_{self.last}_{self.level}.parquet"

    def overlaps(self, other: HistoryName) -> bool:
        """Whether an instant could be in both."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file that a manifest lists, and the length it says it has."""

    name: HistoryName
    length: int


@dataclass(frozen=True, slots=True)
class ArchivedTimes:
    """What identifies a completed instant, and when it completed."""

    requested_at: RequestedAt
    action: Action
    completed_at: CompletedAt


@dataclass(frozen=True, slots=True)
class ArchivedRow:
    """One completed instant with the content of its files. `plan` is None if it had none."""

    times: ArchivedTimes
    metadata: bytes
    plan: bytes | None = None


def parse_history_name(name: str) -> HistoryName | None:
    """The name of a file of archived instants, or None for another file."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    return HistoryName(RequestedAt(found[1]), RequestedAt(found[2]), int(found[3]))


def parse_manifest_name(name: str) -> int | None:
    """The number of the manifest of that name, or None for another file."""
    found = _MANIFEST.fullmatch(name)
    return int(found[1]) if found else None


def format_manifest_name(number: int) -> str:
    return f"manifest_{number}"


def encode_manifest(files: Iterable[ListedFile]) -> bytes:
    """The manifest as JSON, laid out as Apache Hudi does."""
    entries = [{"fileName": str(file.name), "fileLen": file.length} for file in files]
    return json.dumps({"files": entries}, indent=2, separators=(",", " : ")).encode()


def decode_manifest(data: bytes, where: str) -> tuple[ListedFile, ...]:
    """The files that a manifest lists; `Corrupt` if it names anything that is none."""
    try:
        files = json.loads(data)["files"]
        listed = [(str(file["fileName"]), int(file["fileLen"])) for file in files]
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise Corrupt(f"The manifest does not decode: {error!r}", where=where) from error
    found = []
    for text, length in listed:
        name = parse_history_name(text)
        if name is None:
            raise Corrupt(
                f"The manifest names {text!r}, which is no file of a history.", where=where
            )
        found.append(ListedFile(name, length))
    return tuple(found)


def name_rows(rows: Sequence[ArchivedRow], level: int) -> HistoryName:
    """The name of a file with these rows, of which there is at least one."""
    times = [row.times.requested_at for row in rows]
    return HistoryName(min(times), max(times), level)


def encode_rows(rows: Iterable[ArchivedRow]) -> bytes:
    """A whole file with these rows."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        _schema(),
        compression="gzip",
        use_dictionary=False,  # hardly two values are alike
        store_schema=False,
        write_page_checksum=True,
    ) as writer:
        for group in _row_groups(sorted(rows, key=_by_time)):
            writer.write_table(_encode_group(group), len(group))
        writer.add_key_value_metadata(_footer())
    return bytes(memoryview(sink.getvalue()))


def _by_time(row: ArchivedRow) -> tuple[RequestedAt, Action]:
    return row.times.requested_at, row.times.action


def _row_groups(ordered: Sequence[ArchivedRow]) -> Iterator[list[ArchivedRow]]:
    """The rows as they lie together in the file: each group is read as a whole."""
    for is_replacement in (False, True):
        group: list[ArchivedRow] = []
        size = 0
        for row in ordered:
            if (row.times.action is Action.REPLACECOMMIT) is not is_replacement:
                continue
            length = len(row.metadata) + len(row.plan or b"")
            if group and (len(group) == _GROUP_ROWS or size + length > _GROUP_BYTES):
                yield group
                group, size = [], 0
            group.append(row)
            size += length
        if group:
            yield group


def _encode_group(rows: Sequence[ArchivedRow]) -> pa.Table:
    columns = [
        [str(row.times.requested_at) for row in rows],
        [str(row.times.completed_at) for row in rows],
        [str(row.times.action) for row in rows],
        [row.metadata for row in rows],
        [row.plan for row in rows],
        [_VERSION] * len(rows),
    ]
    schema = _schema()
    arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


class HistoryReader:
    """Reads parts of one file; `Corrupt` for whatever does not read."""

    def __init__(self, source: IO[bytes], name: HistoryName, where: str) -> None:
        self._where = where
        self._name = name
        try:
            self._file = pq.ParquetFile(source, page_checksum_verification=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._corrupt(error) from error

    def read_times(self) -> tuple[tuple[ArchivedTimes, ...], ...]:
        """The times of all rows, by row group."""
        counts = [self._count(at) for at in range(self._file.metadata.num_row_groups)]
        found = [self._times_of(row) for row in self._read(range(len(counts)), _TIMES)]
        times = [row.requested_at for row in found]
        if not times or (min(times), max(times)) != (self._name.first, self._name.last):
            raise Corrupt(
                "The file does not hold the instants that its name says.", where=self._where
            )
        if sum(counts) != len(found) or min(counts) < 0:
            raise self._miscounted()
        rest = iter(found)
        return tuple(tuple(islice(rest, count)) for count in counts)

    def read_last_completion(self) -> CompletedAt:
        """The latest completion time: the footer says it, else all times are read."""
        footer = self._file.metadata
        at = _TIMES.index("completionTime")
        found: list[Any] = []
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            column = group.column(at) if at < group.num_columns else None
            if column is None or column.path_in_schema != "completionTime":
                break
            stats = column.statistics
            if stats is None or not stats.has_min_max:
                break
            found.append(stats.max)
        if not found or len(found) < footer.num_row_groups:
            return max(own.completed_at for group in self.read_times() for own in group)
        try:
            return max(map(CompletedAt.parse, found))
        except (ValueError, AttributeError, TypeError, Corrupt) as error:
            raise self._corrupt(error) from error

    def read_metadata(self, group: int) -> tuple[bytes, ...]:
        """The content of the completed files of one row group."""
        rows = self._read([group], ["metadata"])
        if len(rows) != self._count(group):
            raise self._miscounted()
        return tuple(self._bytes(row["metadata"]) or b"" for row in rows)

    def read_rows(self) -> tuple[ArchivedRow, ...]:
        """Everything, by requested time."""
        found = []
        for at, times in enumerate(self.read_times()):
            for row, own in zip(self._read([at], ["metadata", "plan"]), times, strict=True):
                plan = self._bytes(row.get("plan"))
                found.append(ArchivedRow(own, self._bytes(row["metadata"]) or b"", plan))
        return tuple(sorted(found, key=_by_time))

    def _read(self, groups: Sequence[int], columns: list[str]) -> list[dict[str, Any]]:
        try:
            rows = self._file.read_row_groups([*groups], columns=columns, use_threads=False)
            missing = {*columns} - {*rows.column_names, "plan"}
            if missing:
                raise ValueError(f"there is no column {', '.join(sorted(missing))}")
            found: list[dict[str, Any]] = rows.to_pylist()
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
            raise self._corrupt(error) from error
        return found

    def _times_of(self, row: dict[str, Any]) -> ArchivedTimes:
        try:
            times = ArchivedTimes(
                RequestedAt.parse(row["instantTime"]),
                Action(row["action"]),
                CompletedAt.parse(row["completionTime"]),
            )
            if str(times.completed_at) <= str(times.requested_at):
                raise ValueError(f"{times.requested_at} completed before it was requested")
        except (ValueError, AttributeError, TypeError, Corrupt) as error:
            raise self._corrupt(error) from error
        return times

    def _bytes(self, value: Any) -> bytes | None:
        try:
            return None if value is None else bytes(memoryview(value))
        except TypeError as error:
            raise self._corrupt(error) from error

    def _count(self, group: int) -> int:
        count: int = self._file.metadata.row_group(group).num_rows
        return count

    def _miscounted(self) -> Corrupt:
        return Corrupt("A row group does not have the rows that it says.", where=self._where)

    def _corrupt(self, error: Exception) -> Corrupt:
        return Corrupt(f"Archived instants do not decode: {error}", where=self._where)


@cache
def _footer() -> dict[str, str]:
    """What readers that go by Avro, as Apache Hudi's do, find the schema in."""
    text = resources.files("lentic.format") / "schemas" / "HoodieLSMTimelineInstant.avsc"
    avro = json.dumps(json.loads(text.read_text("utf-8")), separators=(",", ":"))
    return {"parquet.avro.schema": avro, "writer.model.name": "avro"}


@cache
def _schema() -> pa.Schema:
    return pa.schema(
        [
            pa.field("instantTime", pa.string()),
            pa.field("completionTime", pa.string()),
            pa.field("action", pa.string()),
            pa.field("metadata", pa.binary()),
            pa.field("plan", pa.binary()),
            pa.field("version", pa.int32(), nullable=False),
        ]
    )
