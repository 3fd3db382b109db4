"""What log blocks hold: records as Parquet or Avro, and deletes.

    Parquet    a complete Parquet file
    Avro, CDC  4 version (3), 4 record count, then per record 4 length and Avro binary
    delete     4 version (3), 4 length, then Avro binary of the list of deletes

Integers are big-endian; Avro binary carries no schema, the block's SCHEMA header does. All content
is decoded to its last byte or not at all: what does not decode is `Corrupt`.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from lentic.errors import Corrupt, SchemaMismatch
from lentic.format.avro import parsed_schema
from lentic.format.avro_schema import arrow_schema

_VERSION: Final = 3
_INT: Final = struct.Struct(">i")
_PAIR: Final = struct.Struct(">ii")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
_ORDERING_DECIMAL: Final = pa.decimal128(30, 15)
_WRAPPERS: Final = "org.apache.hudi.avro.model."

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
    parts = [_PAIR.pack(_VERSION, len(records))]
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
    count = _ensure_version(content, where)
    if not 0 <= count <= (len(content) - _PAIR.size) // _INT.size:
        raise Corrupt(f"A log block declares {count} records and cannot hold them.", where=where)
    records: list[Any] = []
    try:
        parsed = _reading_schema(schema_json)
        stream = io.BytesIO(content)
        stream.seek(_PAIR.size)
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


def _ensure_version(content: _Content, where: str) -> int:
    """The number after the version; `Corrupt` if the version is another than ours."""
    if len(content) < _PAIR.size:
        raise Corrupt(f"A log block's content has {len(content)} bytes only.", where=where)
    version, number = _PAIR.unpack_from(content)
    if version != _VERSION:
        raise Corrupt(f"Log block content version {version}, not {_VERSION}.", where=where)
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


@dataclass(frozen=True, slots=True)
class DeleteRecord:
    """A deleted key. `ordering` None: the delete counts by commit time, not by event time."""

    key: str
    partition: str
    ordering: object | None


def decode_delete_payload(content: _Content, where: str) -> list[DeleteRecord]:
    """The deletes of a delete block, in order.

    The format marks a delete by commit time with null or with the int (not long) 0; both come out
    as None. Other orderings are plain values, several ordering fields a tuple. A timestamp or date
    may come as the number that the column stores: whoever compares knows the column's type.
    """
    size = _ensure_version(content, where)
    if size != len(content) - _PAIR.size:
        raise Corrupt(
            f"A delete block of {len(content) - _PAIR.size} bytes declares {size}.", where=where
        )
    stream = io.BytesIO(content[_PAIR.size :])
    try:
        schema = parsed_schema("HoodieDeleteRecordList")
        read: Any = fastavro.schemaless_reader(stream, schema, None, return_record_name=True)
        if stream.tell() != size:
            raise ValueError(f"{size - stream.tell()} bytes are left after the last delete")
        return [_delete_record(record) for record in read["deleteRecordList"]]
    except Exception as error:  # fastavro raises whatever the bytes happen to break
        raise Corrupt(f"A delete block does not decode: {error!r}.", where=where) from error


def _delete_record(read: Mapping[str, Any]) -> DeleteRecord:
    if read["recordKey"] is None:
        raise ValueError("a delete without a key")
    ordering = _unwrap(read["orderingVal"])
    if read["orderingVal"] == (f"{_WRAPPERS}IntWrapper", {"value": 0}):
        ordering = None
    return DeleteRecord(read["recordKey"], read["partitionPath"] or "", ordering)


def _unwrap(wrapped: tuple[str, Mapping[str, Any]] | None) -> object | None:
    if wrapped is None:
        return None
    name = wrapped[0].removeprefix(_WRAPPERS)
    if name == "ArrayWrapper":
        if not wrapped[1]["wrappedValues"]:
            raise ValueError("an ordering of no values")
        return tuple(_unwrap(inner) for inner in wrapped[1]["wrappedValues"])
    value: object = wrapped[1]["value"]
    if name in ("DateWrapper", "LocalDateWrapper"):
        return _EPOCH_DAY + timedelta(days=wrapped[1]["value"])
    if name == "TimestampMicrosWrapper":
        return _EPOCH + timedelta(microseconds=wrapped[1]["value"])
    return value


def encode_delete_payload(
    records: Sequence[DeleteRecord], *, ordering_types: Sequence[pa.DataType] = ()
) -> bytes:
    """The content of a delete block.

    `ordering_types` are the types of the ordering fields. Give them for event-time tables: other
    engines compare a delete with a row only if both are of one width, and take timestamps and
    dates as the numbers that are stored. Without, integers are written as long.
    """
    name = "?"
    try:
        wrapped = []
        for record in records:
            name = record.key
            wrapped.append(
                {
                    "recordKey": record.key,
                    "partitionPath": record.partition,
                    "orderingVal": _wrap_ordering(record.ordering, ordering_types),
                }
            )
        stream = io.BytesIO()
        schema = parsed_schema("HoodieDeleteRecordList")
        fastavro.schemaless_writer(stream, schema, {"deleteRecordList": wrapped})
    except Exception as error:  # fastavro raises whatever the value happens to break
        raise SchemaMismatch(
            f"A delete (at or near key {name!r}) cannot be stored: {error!r}.",
            safe="Nothing was written.",
            next_step="Use an ordering column of integers, strings, dates or timestamps.",
        ) from error
    value = stream.getvalue()
    return _PAIR.pack(_VERSION, len(value)) + value


def _wrap_ordering(ordering: object | None, types: Sequence[pa.DataType]) -> object:
    if ordering is None:
        # What Spark writes for a delete by commit time.
        return (f"{_WRAPPERS}IntWrapper", {"value": 0})
    if isinstance(ordering, tuple):
        kinds = list(types) or [None] * len(ordering)
        inner = [_wrap(value, kind) for value, kind in zip(ordering, kinds, strict=True)]
        return (f"{_WRAPPERS}ArrayWrapper", {"wrappedValues": inner})
    return _wrap(ordering, types[0] if types else None)


def _wrap(value: object | None, kind: pa.DataType | None) -> object:
    if value is None:
        return None
    if kind is not None:
        value = _stored(value, kind)
    return (f"{_WRAPPERS}{_wrapper(value, kind)}", {"value": _plain(value)})


def _stored(value: object, kind: pa.DataType) -> object:
    """A timestamp or date as the number a column of type `kind` stores; others as they are."""
    if pa.types.is_temporal(kind) and not isinstance(value, int):
        scalar = pa.scalar(value, kind)
        return scalar.cast(pa.int32() if kind == pa.date32() else pa.int64()).as_py()
    return value


def _wrapper(value: object, kind: pa.DataType | None) -> str:
    if isinstance(value, bool):
        return "BooleanWrapper"
    if isinstance(value, int):
        is_int = kind is not None and kind.bit_width <= 32
        return "IntWrapper" if is_int else "LongWrapper"
    if isinstance(value, float):
        return "FloatWrapper" if kind == pa.float32() else "DoubleWrapper"
    for python, name in (
        (str, "StringWrapper"),
        (bytes, "BytesWrapper"),
        (Decimal, "DecimalWrapper"),
        (datetime, "TimestampMicrosWrapper"),
        (date, "DateWrapper"),
    ):
        if isinstance(value, python):
            return name
    raise TypeError(f"an ordering value of type {type(value).__name__}")


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return (_in_utc(value) - _EPOCH) // _MICROSECOND
    if isinstance(value, date):
        return (value - _EPOCH_DAY).days
    if isinstance(value, Decimal):
        # Raises if the digits do not fit; fastavro would write them.
        return pa.scalar(value, _ORDERING_DECIMAL).as_py()
    return value
