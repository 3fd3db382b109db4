"""Arrow batches -> one Parquet base file."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lentic.config.groups import Codec
from lentic.engine import ensure_not_stopped
from lentic.errors import Unavailable
from lentic.format.record_fields import COMMIT_TIME, FILE_NAME, META_FIELDS, PARTITION_PATH
from lentic.storage.base import Storage

_SAMPLE_ROWS = 10_000
_DISTINCT_SHARE_MAX = 0.1


@dataclass(frozen=True, slots=True)
class ParquetStyle:
    """How Parquet is written."""

    codec: Codec
    row_group_rows: int


@dataclass(frozen=True, slots=True)
class Written:
    """What came of a file: its exact length and its rows."""

    size: int
    rows: int


def write_base(
    storage: Storage,
    path: str,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    style: ParquetStyle,
) -> Written:
    """Stream `batches` into a new base file; durable when this returns.

    Every row's `_hoodie_file_name` becomes the new file's name, as readers expect. `Unavailable`,
    and no file, if the work it is part of is stopped.
    """
    name = path.rpartition("/")[2]
    with storage.open_output(path) as sink:
        rows = _write(_UnlessStopped(sink), _renamed(batches, name), schema, style)
        ensure_not_stopped()
        size = sink.tell()
    return Written(size, rows)


class _UnlessStopped(io.RawIOBase):
    """A sink that refuses what comes after the work was stopped. A row group of wide rows takes
    seconds to encode and compress; Arrow hands it over page by page."""

    def __init__(self, sink: IO[bytes]) -> None:
        self._sink = sink
        self._is_over = False

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._sink.tell()

    def write(self, data: Any, /) -> int:
        if self._is_over:  # the footer that Arrow writes to whatever it has begun
            return len(data)
        try:
            ensure_not_stopped()
        except Unavailable:
            self._is_over = True
            raise
        return self._sink.write(data)


def _write(
    sink: _UnlessStopped,
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
    style: ParquetStyle,
) -> int:
    rows = 0
    writer: pq.ParquetWriter | None = None
    for group in _row_groups(batches, schema, style.row_group_rows):
        if writer is None:
            writer = _open_writer(sink, schema, style, dictionary_columns(group))
        writer.write_table(group, row_group_size=style.row_group_rows)
        rows += group.num_rows
    if writer is None:
        writer = _open_writer(sink, schema, style, [])
    writer.close()
    return rows


def _open_writer(
    sink: _UnlessStopped, schema: pa.Schema, style: ParquetStyle, dictionaries: list[str]
) -> pq.ParquetWriter:
    codec = "none" if style.codec is Codec.UNCOMPRESSED else style.codec.value
    return pq.ParquetWriter(
        sink,
        schema,
        compression=codec,
        compression_level=1 if style.codec is Codec.ZSTD else None,
        use_dictionary=dictionaries,
        store_schema=False,
        write_page_checksum=True,
    )


def dictionary_columns(sample: pa.Table) -> list[str]:
    """Columns worth a dictionary: few distinct values. The rest is smaller and faster without."""
    head = sample.slice(0, _SAMPLE_ROWS)
    chosen = [COMMIT_TIME, PARTITION_PATH, FILE_NAME]
    for column in head.schema:
        if column.name in META_FIELDS or pa.types.is_nested(column.type):
            continue
        distinct = pc.count_distinct(head.column(column.name)).as_py()
        if distinct <= max(1, head.num_rows * _DISTINCT_SHARE_MAX):
            chosen.append(column.name)
    return chosen


def _row_groups(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, rows: int
) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        if count >= rows:
            yield pa.Table.from_batches(held, schema)
            held, count = [], 0
    if count:
        yield pa.Table.from_batches(held, schema)


def _renamed(batches: Iterable[pa.RecordBatch], name: str) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            index = batch.schema.get_field_index(FILE_NAME)
            names = pa.repeat(pa.scalar(name), batch.num_rows)
            yield batch.set_column(index, batch.schema.field(index), names)
