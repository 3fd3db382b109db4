"""Avro object containers, the form of all timeline content: one record, codec null.

    "Obj\\x01" | map { avro.schema, avro.codec } | 16 sync bytes | blocks
    block = record count | byte length | records | the sync bytes again

A container brings its own schema, which whoever wrote the file chose. It is therefore read as data:
it is reduced to the plain shape (no logical types, no unknown attributes), and shapes that could
make a small file decode without end are refused: recursion, values of zero bytes, deep nesting.
Then every value costs at least one byte, and no declared count can outrun the file.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Literal, TypeVar, get_args

import fastavro

from lentic.errors import Corrupt
from lentic.format.times import RequestedAt

T = TypeVar("T")
SchemaName = Literal[
    "HoodieCleanMetadata",
    "HoodieCleanerPlan",
    "HoodieCommitMetadata",
    "HoodieCompactionPlan",
    "HoodieDeleteRecordList",
    "HoodieReplaceCommitMetadata",
    "HoodieRequestedReplaceMetadata",
    "HoodieRestoreMetadata",
    "HoodieRestorePlan",
    "HoodieRollbackMetadata",
    "HoodieRollbackPlan",
    "HoodieSavepointMetadata",
]
SCHEMA_NAMES: tuple[SchemaName, ...] = get_args(SchemaName)

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_HEADER_ENTRIES_MAX = 64
_SCHEMA_BYTES_MAX = 1 << 20
_DEPTH_MAX = 32
_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


@cache
def _schema_text(name: SchemaName) -> str:
    schemas = resources.files("lentic.format") / "schemas"
    schema = json.loads((schemas / f"{name}.avsc").read_text("utf-8"))
    return json.dumps(schema, separators=(",", ":"))


@cache
def parsed_schema(name: SchemaName) -> Any:
    """The schema in the form that fastavro reads and writes with."""
    return fastavro.parse_schema(json.loads(_schema_text(name)))


def encode_container(schema_name: SchemaName, record: Mapping[str, object]) -> bytes:
    """A container with that record. Equal records give equal bytes.

    Fields without a default must all be given, and no others: a bug in the caller otherwise.
    """
    body = io.BytesIO()
    fastavro.schemaless_writer(
        body, parsed_schema(schema_name), dict(record), strict_allow_default=True
    )
    data = body.getvalue()
    schema = _schema_text(schema_name).encode()
    sync = hashlib.blake2b(schema + data, digest_size=_SYNC_BYTES).digest()
    entries = {b"avro.schema": schema, b"avro.codec": b"null"}
    header = b"".join(_bytes(key) + _bytes(value) for key, value in entries.items())
    return b"".join(
        (_MAGIC, _long(len(entries)), header, _long(0), sync, _long(1), _bytes(data), sync)
    )


def _long(value: int) -> bytes:
    """A count or length, as Avro writes integers (zigzag, seven bits a byte)."""
    assert value >= 0
    rest = value << 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _bytes(value: bytes) -> bytes:
    return _long(len(value)) + value


def damaged(what: str, *, where: str) -> Corrupt:
    """The error for content of the timeline that does not decode."""
    return Corrupt(
        what,
        where=where,
        safe="nothing that the file says was used",
        next_step="bring the file back from a copy of the table",
    )


def decode_container(
    data: bytes, where: str, expected: tuple[SchemaName, ...] = ()
) -> dict[str, Any] | None:
    """The one record of a container, or None if there are no bytes at all.

    `Corrupt` if the record is of another kind than one of `expected`: every field may be absent, so
    that the content of another file would else read as an empty one.
    """
    if not data:
        return None
    reader = _Reader(data, where)
    if reader.take(len(_MAGIC)) != _MAGIC:
        raise damaged("Not an Avro container: the magic bytes are missing.", where=f"{where}@0")
    header = reader.header()
    if header.get("avro.codec", b"null") != b"null":
        raise damaged(f"Avro codec {header['avro.codec']!r}; the timeline uses none.", where=where)
    schema = _writer_schema(header.get("avro.schema", b""), where)
    name = str(schema.get("name", "") if isinstance(schema, dict) else "").rpartition(".")[2]
    if expected and name not in expected:
        raise damaged(f"The file holds a {name or 'value'}, not a {expected[0]}.", where=where)
    sync = reader.take(_SYNC_BYTES)
    records: list[tuple[int, bytes]] = []  # each with its offset in the file
    while not reader.is_at_end:
        at = reader.offset
        count = reader.length()
        size = reader.length()
        block = reader.offset, reader.take(size)
        if reader.take(_SYNC_BYTES) != sync:
            raise damaged("An Avro block does not end in the sync bytes.", where=f"{where}@{at}")
        records += [block] * min(count, 2)
    if len(records) != 1:
        raise damaged("An Avro container that does not hold exactly one record.", where=where)
    return _decode_record(*records[0], schema, where)


def holds_any(data: bytes, texts: Iterable[str]) -> bool:
    """Whether one of these texts may stand in a container, told without decoding it; true for one
    that does not read. A text lies in it as it is: the timeline compresses nothing."""
    reader = _Reader(data, "")
    try:
        is_plain = (
            reader.take(len(_MAGIC)) == _MAGIC
            and reader.header().get("avro.codec", b"null") == b"null"
        )
    except Corrupt:
        return True
    return not is_plain or any(text.encode() in data for text in texts)


def _decode_record(offset: int, block: bytes, schema: Any, where: str) -> dict[str, Any]:
    stream = io.BytesIO(block)
    try:
        record = fastavro.schemaless_reader(stream, schema, None)
    except Exception as error:  # fastavro raises whatever the bytes happen to break
        at = f"{where}@{offset + stream.tell()}"
        raise damaged(f"An Avro record does not decode: {error!r}.", where=at) from error
    if stream.tell() != len(block):
        at = f"{where}@{offset + stream.tell()}"
        raise damaged("Bytes are left after the Avro record.", where=at)
    if not isinstance(record, dict):
        raise damaged("The Avro container holds a value that is no record.", where=where)
    return record


@dataclass(frozen=True, slots=True)
class Fields:
    """Typed reading of a decoded record: `Corrupt` where a field is not of the kind asked for.

    Hudi's schemas make nearly every field nullable and add fields from release to release, so an
    absent or null field reads as the empty value of its kind.
    """

    values: Mapping[str, Any]
    where: str

    def text(self, name: str) -> str:
        return self._get(name, str, "")

    def number(self, name: str) -> int:
        """A count or size; `Corrupt` if it is negative."""
        value = self._get(name, int, 0)
        if value < 0:
            raise self._corrupt(name)
        return value

    def requested_at(self, name: str) -> RequestedAt:
        """An instant's requested time, which must be there."""
        try:
            return RequestedAt.parse(self.text(name))
        except Corrupt as error:
            raise self._corrupt(name) from error

    def flag(self, name: str) -> bool:
        return self._get(name, bool, False)

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(self._each(name, self._get(name, list, []), str))

    def text_map(self, name: str) -> dict[str, str]:
        values = self._get(name, dict, {})
        return dict(zip(values, self._each(name, list(values.values()), str), strict=True))

    def float_map(self, name: str) -> dict[str, float]:
        values = self._get(name, dict, {})
        return dict(zip(values, self._each(name, list(values.values()), float), strict=True))

    def record(self, name: str) -> Fields:
        return Fields(self._get(name, dict, {}), self.where)

    def records(self, name: str) -> tuple[Fields, ...]:
        values = self._each(name, self._get(name, list, []), dict)
        return tuple(Fields(value, self.where) for value in values)

    def _get(self, name: str, kind: type[T], default: T) -> T:
        value = self.values.get(name)
        return default if value is None else self._each(name, [value], kind)[0]

    def _each(self, name: str, values: list[Any], kind: type[T]) -> list[T]:
        if not all(type(value) is kind for value in values):
            raise self._corrupt(name)
        return values

    def _corrupt(self, name: str) -> Corrupt:
        return damaged(f"Field {name} holds a value it must not.", where=self.where)


class _Reader:
    """A walk over bytes that never takes more than there are."""

    def __init__(self, data: bytes, where: str) -> None:
        self._data = data
        self._where = where
        self.offset = 0

    @property
    def is_at_end(self) -> bool:
        return self.offset == len(self._data)

    def take(self, count: int) -> bytes:
        end = self.offset + count
        if end > len(self._data):
            raise damaged(
                f"The Avro container ends after {len(self._data)} bytes where {end} were declared.",
                where=f"{self._where}@{self.offset}",
            )
        taken = self._data[self.offset : end]
        self.offset = end
        return taken

    def long(self) -> int:
        at = self.offset
        value = shift = 0
        while shift < 64:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise damaged("An Avro integer of over 64 bits.", where=f"{self._where}@{at}")

    def length(self) -> int:
        at = self.offset
        value = self.long()
        if value < 0:
            raise damaged("A negative length in an Avro container.", where=f"{self._where}@{at}")
        return value

    def header(self) -> dict[str, bytes]:
        entries: dict[str, bytes] = {}
        while count := self.long():
            if count < 0:
                count, _ = -count, self.length()
            if count + len(entries) > _HEADER_ENTRIES_MAX:
                raise damaged("An Avro header of too many entries.", where=f"{self._where}@4")
            for _ in range(count):
                key = self.take(self.length()).decode("utf-8", "replace")
                entries[key] = self.take(self.length())
        return entries


def _writer_schema(text: bytes, where: str) -> Any:
    if len(text) > _SCHEMA_BYTES_MAX:
        raise damaged(f"An Avro schema of {len(text)} bytes.", where=where)
    try:
        return _parse_writer_schema(text)
    except _Unreadable as error:
        raise damaged(f"The Avro schema is refused: {error}.", where=where) from error
    except Exception as error:  # as for records: bad schemas fail in many ways
        raise damaged(f"The Avro schema does not parse: {error!r}.", where=where) from error


class _Unreadable(Exception):
    """A schema that is legal but that no timeline file needs."""


@lru_cache(maxsize=64)
def _parse_writer_schema(text: bytes) -> Any:
    return fastavro.parse_schema(_PlainSchema().reduce(json.loads(text), 0)[0])


class _PlainSchema:
    """Reduces a schema to its shape, and says how high it is with names spelled out.

    A name may be used only once its type is complete, so no type can contain itself; a name is
    defined only once, whatever its namespace, so that a use cannot mean another type than we think.
    """

    def __init__(self) -> None:
        self._heights: dict[str, int | None] = {}  # None while the type is being defined

    def reduce(self, schema: Any, depth: int) -> tuple[Any, int]:
        if depth > _DEPTH_MAX:
            raise _Unreadable(f"nested deeper than {_DEPTH_MAX}")
        if isinstance(schema, str):
            return schema, self._height_of_name(schema, depth)
        if isinstance(schema, list):
            kept = [
                ("null", 0) if part == "null" else self.reduce(part, depth + 1) for part in schema
            ]
            return [part for part, _ in kept], 1 + max(height for _, height in kept)
        kind = schema["type"]
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            part, height = self.reduce(schema[inner], depth + 1)
            return {"type": kind, inner: part}, height + 1
        if kind in ("record", "enum", "fixed"):
            return self._reduce_named(schema, depth)
        return self.reduce(kind, depth + 1)

    def _height_of_name(self, name: str, depth: int) -> int:
        if name in _PRIMITIVES:
            if name == "null":
                raise _Unreadable("null outside a union")
            return 0
        height = self._heights.get(_last_part(name))
        if height is None:
            raise _Unreadable(f"type {name[:60]!r} is unknown or contains itself")
        if depth + height > _DEPTH_MAX:
            raise _Unreadable(f"nested deeper than {_DEPTH_MAX}")
        return height

    def _reduce_named(self, schema: Any, depth: int) -> tuple[Any, int]:
        name = _last_part(schema["name"])
        if name in self._heights:
            raise _Unreadable(f"type {name[:60]!r} is defined twice")
        self._heights[name] = None
        plain = {key: schema[key] for key in ("type", "name", "namespace") if key in schema}
        height = 0
        if plain["type"] == "enum":
            plain["symbols"] = schema["symbols"]
        elif plain["type"] == "fixed":
            plain["size"] = schema["size"]
            if not isinstance(schema["size"], int) or schema["size"] < 1:
                raise _Unreadable("a fixed type of no bytes")
        else:
            plain["fields"] = []
            for field in schema["fields"]:
                part, inner = self.reduce(field["type"], depth + 1)
                plain["fields"].append({"name": field["name"], "type": part})
                height = max(height, inner + 1)
            if not plain["fields"]:
                raise _Unreadable("a record of no fields")
        self._heights[name] = height
        return plain, height


def _last_part(name: str) -> str:
    return name.rpartition(".")[2]
