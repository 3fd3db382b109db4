"""Files of the archived timeline, both ways: rows of instants (`lsm_names.py` has their names).

A row is a completed instant: its times, the action in the name of its completed file, that file's
bytes, and those of its plan where it had one. Rows lie in small row groups, so that who looks for
one instant of many reads a part of a large file; the footer has an index of them
(`lsm_index.py`). Replacements lie together at the end, for whoever looks an instant up may have to
read what came after it of these. Readers go by no order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import islice
from typing import IO, Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from lentic.errors import Corrupt, LenticError
from lentic.format.commit_metadata import decode_commit_metadata
from lentic.format.lsm_index import (
    INDEX_KEY,
    Ended,
    GroupSpan,
    HistoryIndex,
    decode_index,
    encode_index,
)
from lentic.format.lsm_names import HistoryName
from lentic.format.names import Action
from lentic.format.times import CompletedAt, RequestedAt

T = TypeVar("T")

_VERSION = 1
_GROUP_ROWS = 64
_GROUP_BYTES = 256 * 1024
"""Rows of one row group, and the content that they have together, unless it is one row's."""
_TIMES = ["instantTime", "completionTime", "action"]


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


def name_rows(rows: Sequence[ArchivedRow], level: int) -> HistoryName:
    """The name of a file with these rows, of which there is at least one."""
    times = [row.times.requested_at for row in rows]
    return HistoryName(min(times), max(times), level)


def encode_rows(rows: Iterable[ArchivedRow]) -> bytes:
    """A whole file with these rows."""
    groups = tuple(_row_groups(sorted(rows, key=_by_time)))
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        _schema(),
        compression="gzip",
        use_dictionary=False,  # hardly two values are alike
        write_statistics=_TIMES,  # of contents they tell nothing, and everybody reads the footer
        store_schema=False,
        write_page_checksum=True,
    ) as writer:
        for group in groups:
            writer.write_table(_encode_group(group), len(group))
        writer.add_key_value_metadata(_footer() | {INDEX_KEY: _encode_index(groups)})
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


def _encode_index(groups: Sequence[Sequence[ArchivedRow]]) -> str:
    spans = [_span_of([row.times for row in group]) for group in groups]
    return encode_index(spans, _list_ended(row for group in groups for row in group))


def _span_of(times: Sequence[ArchivedTimes]) -> GroupSpan:
    return GroupSpan(
        min(own.requested_at for own in times),
        max(own.requested_at for own in times),
        max(own.completed_at for own in times),
        frozenset(own.action for own in times),
    )


def _list_ended(rows: Iterable[ArchivedRow]) -> frozenset[Ended] | None:
    """The file groups that these replacements ended; None if one does not say which."""
    found: set[Ended] = set()
    for row in rows:
        if row.times.action is not Action.REPLACECOMMIT:
            continue
        try:
            metadata = decode_commit_metadata(row.metadata, str(row.times.requested_at))
        except LenticError:
            return None
        if not row.metadata:
            return None
        for partition, file_ids in metadata.replaced.items():
            found |= {(partition, file_id) for file_id in file_ids}
    return frozenset(found)


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
        groups = range(self._file.metadata.num_row_groups)
        found = [self._times_of(row) for row in self._read(groups, _TIMES)]
        times = [row.requested_at for row in found]
        if not times or (min(times), max(times)) != (self._name.first, self._name.last):
            raise Corrupt(
                "The file does not hold the instants that its name says.", where=self._where
            )
        return self._by_group(groups, found)

    def read_index(self) -> HistoryIndex | None:
        """What the footer says of the row groups; None if it says nothing that can be believed."""
        footer = self._file.metadata
        text = (footer.metadata or {}).get(INDEX_KEY.encode())
        index = decode_index(text) if text else None
        if index is None or len(index.spans) != footer.num_row_groups:
            return None
        is_mine = (index.first, index.last) == (self._name.first, self._name.last)
        return index if is_mine else None

    def read_times_of(
        self, groups: Sequence[int], index: HistoryIndex
    ) -> tuple[tuple[ArchivedTimes, ...], ...]:
        """The times of some row groups, one by one, of a file with that index."""
        found = self._by_group(groups, self._read(groups, _TIMES))
        times = tuple(tuple(map(self._times_of, rows)) for rows in found)
        for group, own in zip(groups, times, strict=True):
            if not own or _span_of(own) != index.spans[group]:
                raise Corrupt("A row group is not as its index says.", where=self._where)
        return times

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

    def read_metadata(self, groups: Sequence[int]) -> tuple[tuple[bytes, ...], ...]:
        """The content of the completed files of some row groups, one by one."""
        found = self._by_group(groups, self._read(groups, ["metadata"]))
        return tuple(tuple(self._bytes(row["metadata"]) or b"" for row in rows) for rows in found)

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

    def _by_group(self, groups: Sequence[int], rows: Sequence[T]) -> tuple[tuple[T, ...], ...]:
        """Rows that were read together, as they lie in these row groups."""
        counts = [self._file.metadata.row_group(group).num_rows for group in groups]
        if sum(counts) != len(rows) or min(counts, default=0) < 0:
            raise Corrupt("A row group does not have the rows that it says.", where=self._where)
        rest = iter(rows)
        return tuple(tuple(islice(rest, count)) for count in counts)

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
