"""What log blocks of records hold: Parquet or Avro. Deletes are in `log_deletes.py`.

    Parquet    a complete Parquet file
    Avro, CDC  4 version (3), 4 record count, then per record 4 length and Avro binary

Integers are big-endian; Avro binary carries no schema, the block's SCHEMA header does. All content
is decoded to its last byte or not at all: what does not decode is `Corrupt`.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from lentic.errors import Corrupt, SchemaMismatch
from lentic.format.avro_schema import arrow_schema

CONTENT_VERSION: Final = 3
PREFIX: Final = struct.Struct(">ii")
"""What all content but Parquet begins with: the version, and a count or length."""

_INT: Final = struct.Struct(">i")

_Content = bytes | memoryview


def encode_parquet_payload(table: pa.Table, *, compression: str = "zstd") -> bytes:
    """`table` as a complete Parquet file with three-level lists and page checksums.

    Nothing is coerced: a timestamp in another unit than microseconds, which other engines do not
    all read, raises `SchemaMismatch`.
    """
    for column in table.schema:
        _ensure_microseconds(column.type, column.name)
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression=compression,
        store_schema=False,
        write_page_checksum=True,
        use_compliant_nested_type=True,
    )
    return bytes(sink.getvalue())


def _ensure_microseconds(kind: pa.DataType, column: str) -> None:
    if pa.types.is_timestamp(kind) and kind.unit != "us":
        raise SchemaMismatch(
            f"Column {column} holds {kind}; timestamps are stored in microseconds.",
            safe="Nothing was written.",
            next_step=f"Cast {column} to timestamp('us').",
        )
    for index in range(kind.num_fields):
        _ensure_microseconds(kind.field(index).type, column)


def decode_parquet_payload(
    content: _Content, where: str, columns: Sequence[str] | None = None
) -> pa.Table:
    """The rows of a Parquet block, of all columns or of those asked for, in that order.

    Columns that the block lacks are left out; a table without any column has no rows.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
        names = file.schema_arrow.names
        wanted = None if columns is None else [name for name in columns if name in names]
        table = file.read(columns=wanted)
        return (table if wanted is None else table.select(wanted)).replace_schema_metadata(None)
    except Exception as error:  # pyarrow raises whatever the bytes happen to break
        raise Corrupt(f"A Parquet log block does not decode: {error!r}.", where=where) from error


def encode_avro_payload(records: Sequence[Mapping[str, Any]], schema_json: str) -> bytes:
    """The content of an Avro data block.

    Values as Arrow's `to_pylist` gives them, or as Avro stores them (dates and timestamps as
    numbers). A datetime without a zone is meant in UTC. A value that does not fit the schema
    raises `SchemaMismatch`.
    """
    schema = json.loads(schema_json)
    parsed = fastavro.parse_schema(schema)
    convert = _writing(schema, {}) or dict
    parts = [PREFIX.pack(CONTENT_VERSION, len(records))]
    for number, record in enumerate(records):
        stream = io.BytesIO()
        try:
            fastavro.schemaless_writer(stream, parsed, convert(record))
        except Exception as error:  # fastavro raises whatever the value happens to break
            raise SchemaMismatch(
                f"Record {number} (the first is 0) does not fit the schema: {error!r}.",
                safe="Nothing was written.",
                next_step="Make the rows fit the table's schema.",
            ) from error
        value = stream.getvalue()
        parts += [_INT.pack(len(value)), value]
    return b"".join(parts)


_Convert = Callable[[Any], Any]


def _writing(schema: Any, known: dict[str, _Convert | None]) -> _Convert | None:
    """What turns an Arrow value into one that fastavro takes; None if nothing needs turning.

    Maps come from Arrow as pairs; a datetime without a zone would be taken for local time.
    """
    if isinstance(schema, str):
        return known.get(schema)
    if isinstance(schema, list):
        found = [turn for turn in (_writing(branch, known) for branch in schema) if turn]
        return _optional(found[0]) if found else None
    kind = schema["type"]
    if kind == "record":
        fields = {field["name"]: _writing(field["type"], known) for field in schema["fields"]}
        turns = {name: turn for name, turn in fields.items() if turn}
        known[schema["name"]] = turn = _record(turns) if turns else None
        return turn
    if kind == "array":
        item = _writing(schema["items"], known)
        return (lambda values: [item(value) for value in values]) if item else None
    if kind == "map":
        value = _writing(schema["values"], known) or (lambda value: value)
        return lambda pairs: {key: value(inner) for key, inner in dict(pairs).items()}
    if schema.get("logicalType") in ("timestamp-micros", "timestamp-millis"):
        return _in_utc
    return None if isinstance(kind, str) else _writing(kind, known)


def _optional(turn: _Convert) -> _Convert:
    return lambda value: None if value is None else turn(value)


def _record(turns: Mapping[str, _Convert]) -> _Convert:
    return lambda record: {
        name: turns[name](value) if name in turns else value for name, value in record.items()
    }


def _in_utc(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value


def decode_avro_payload(content: _Content, schema_json: str, where: str) -> pa.Table:
    """The rows of an Avro data or CDC block, in the types its schema stands for."""
    schema = arrow_schema(schema_json, where)
    count = ensure_version(content, where)
    if not 0 <= count <= (len(content) - PREFIX.size) // _INT.size:
        raise Corrupt(f"A log block declares {count} records and cannot hold them.", where=where)
    records: list[Any] = []
    try:
        parsed = _reading_schema(schema_json)
        stream = io.BytesIO(content)
        stream.seek(PREFIX.size)
        for _ in range(count):
            (size,) = _INT.unpack(stream.read(_INT.size))
            end = stream.tell() + size
            records.append(fastavro.schemaless_reader(stream, parsed, None))
            if stream.tell() != end:
                raise ValueError(f"it declares {size} bytes and has {stream.tell() - end + size}")
        if stream.tell() != len(content):
            raise ValueError(f"{len(content) - stream.tell()} bytes are left after the last one")
        return pa.Table.from_pylist(records, schema=schema)
    except Exception as error:  # fastavro and pyarrow raise whatever the bytes happen to break
        raise Corrupt(
            f"An Avro log block does not decode at record {len(records)} of {count}: {error!r}.",
            where=where,
        ) from error


def ensure_version(content: _Content, where: str) -> int:
    """The number after the version; `Corrupt` if the version is another than ours."""
    if len(content) < PREFIX.size:
        raise Corrupt(f"A log block's content has {len(content)} bytes only.", where=where)
    version, number = PREFIX.unpack_from(content)
    if version != CONTENT_VERSION:
        raise Corrupt(f"Log block content version {version}, not {CONTENT_VERSION}.", where=where)
    return int(number)


@lru_cache(maxsize=64)
def _reading_schema(schema_json: str) -> Any:
    return fastavro.parse_schema(_without_times(json.loads(schema_json)))


def _without_times(schema: Any) -> Any:
    """`schema` with dates and times as plain numbers, which Python's types cannot all hold.

    Lists of nothing are refused: their length costs no bytes, so no file could bound it.
    """
    if isinstance(schema, list):
        return [_without_times(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    plain = dict(schema)
    if plain.get("logicalType") != "decimal":
        plain.pop("logicalType", None)
    for inner in ("items", "values", "type"):
        if inner in plain:
            plain[inner] = _without_times(plain[inner])
    if plain.get("type") == "record":
        if not plain["fields"]:
            raise ValueError("a record of no fields")
        plain["fields"] = [
            {"name": field["name"], "type": _without_times(field["type"])}
            for field in plain["fields"]
        ]
    return plain
