"""Bytes that are nearly what a reader of the timeline expects.

`contents` never ends: each item says how it was made and is to stand for one file's content. The
most telling ones come first.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.fuzz import damage

_MAGIC = b"Obj\x01"
_SYNC = bytes(range(16))
_STATS = "partitionToWriteStats"
_HUGE = (1 << 16, 1 << 30, (1 << 31) - 1, 1 << 32, 1 << 40, (1 << 62) - 1)

EXCUSED = frozenset({"flip", "varint"})
"""Ways that can turn one legal content into another: no format without a checksum notices."""


@dataclass(frozen=True, slots=True)
class Content:
    """Some bytes, the way they were made, and by what exactly."""

    way: str
    note: str
    data: bytes


def varint(value: int) -> bytes:
    """An Avro number."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*out, rest))


def _sized(data: bytes) -> bytes:
    return varint(len(data)) + data


def container(schema: object, body: bytes, *, codec: bytes = b"null", count: int = 1) -> bytes:
    """An Avro container with whatever one likes in it."""
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    entries = {b"avro.schema": text, b"avro.codec": codec}
    header = b"".join(_sized(key) + _sized(value) for key, value in entries.items())
    blocks = varint(count) + _sized(body) + _SYNC
    return _MAGIC + varint(len(entries)) + header + b"\0" + _SYNC + blocks


def _record(*fields: object, name: str = "HoodieCommitMetadata") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def _field(name: str, kind: object) -> dict[str, object]:
    return {"name": name, "type": kind}


def _nested(depth: int, inner: object) -> object:
    kind: object = inner
    for _ in range(depth):
        kind = {"type": "array", "items": kind}
    return kind


def _deep_text(depth: int) -> bytes:
    return b'{"type":"record","name":"r","fields":' + b"[" * depth + b"]" * depth + b"}"


def _widening(levels: int) -> dict[str, Any]:
    """A short schema for 2**levels fields: each record holds the one before it twice."""
    kind: object = "int"
    for level in range(levels):
        kind = _record(_field("a", kind), _field("b", f"r{level - 1}" if level else "int"))
        kind["name"] = f"r{level}"
    return _record(_field(_STATS, kind))


def _holding(kind: object, body: bytes, name: str = _STATS) -> bytes:
    """A container whose record has one field of that type."""
    return container(_record(_field(name, kind)), body)


def _huge(size: int) -> dict[str, bytes]:
    """Little content that says it is big."""
    text = "operationType"
    return {
        f"array of {size} nulls": _holding(_nested(1, "null"), varint(size) + b"\0"),
        f"array of -{size}": _holding(_nested(1, "int"), varint(-size) + varint(size)),
        f"map of {size}": _holding({"type": "map", "values": "int"}, varint(size)),
        f"string of {size}": _holding("string", varint(size) + b"x", text),
        f"bytes of {size}": _holding("bytes", varint(size) + b"x", text),
        f"fixed of {size}": _holding({"type": "fixed", "name": "f", "size": size}, b"x"),
        f"{size} records": container(_record(_field("x", "int")), b"\0", count=size),
        f"{size} header entries": _MAGIC + varint(size) + _sized(b"a") * 4,
        f"{size} of schema": _MAGIC + varint(1) + _sized(b"avro.schema") + varint(size) + b"{",
    }


def _deep() -> dict[str, bytes]:
    """Schemas that lead far down, or far afield."""
    arrays = {f"{n} arrays": _holding(_nested(n, "int"), b"\2" * n) for n in (10, 31, 33, 100)}
    texts = {f"{n} brackets": container(_deep_text(n), b"") for n in (31, 100, 1_000, 20_000)}
    wide = {f"2**{n} fields": container(_widening(n), bytes(64)) for n in (4, 16, 30, 60)}
    fields = [_field(f"f{number}", "int") for number in range(20_000)]
    return {
        **arrays,
        **texts,
        **wide,
        "20000 fields": container(_record(*fields), bytes(20_000)),
        "recursion": _holding(["null", "HoodieCommitMetadata"], b"\2" * 5_000),
    }


def _odd() -> dict[str, bytes]:
    """What no timeline file is, though some of it is legal Avro."""
    number = _record(_field("x", "int"))
    other = _record(_field("timeTakenInMillis", "long"), name="HoodieCleanMetadata")
    kinds = _record(_field(_STATS, "string"), _field("compacted", "string"))
    deflated = zlib.compress(bytes(1 << 22))[2:-4]
    return {
        "deflated": container(_record(_field("x", "bytes")), deflated, codec=b"deflate"),
        "unknown codec": container(number, b"\0", codec=b"\xff\xfe"),
        "no fields": container(_record(), b""),
        "no record": container("string", _sized(b"x")),
        "null schema": container(b"null", b""),
        "schema of bytes": container(b"\xff\xfe\xfd", b""),
        "schema of numbers": container(b"1e999", b""),
        "bad names": container(_record(_field("", "int"), _field("a b", "int")), b"\0\0"),
        "one field twice": container(_record(_field("a", "int"), _field("a", "int")), b"\0\0"),
        "other record": container(other, b"\2"),
        "other fields": _holding("string", _sized(b"x"), "unknown"),
        "wrong kinds": container(kinds, _sized(b"x") * 2),
        "bad text": _holding("string", _sized(b"\xff\xfe"), "operationType"),
        "not a number": _holding("double", b"\0\0\0\0\0\0\xf8\x7f", "compacted"),
        "no blocks": container(number, b"\0")[: -len(_SYNC) - 3],
    }


def hostile_containers() -> list[Content]:
    """Containers with schemas that no timeline file has: huge, deep, wrong."""
    found = _deep() | _odd()
    for size in _HUGE:
        found |= _huge(size)
    return [Content("hostile schema", note, data) for note, data in found.items()]


def documents() -> list[Content]:
    """JSON where Avro should be: deep, old, strange."""
    texts = {
        "deep list": b"[" * 100_000,
        "deep map": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        "old commit": b'{"partitionToWriteStats":{},"compacted":false,"operationType":"UPSERT"}',
        "huge number": b'{"a":1' + b"0" * 5_000 + b"}",
        "infinity": b"1e999",
        "null": b"null",
        "text": b'"x"',
        "not UTF-8": b'{"\xff":1}',
    }
    return [Content("JSON", note, data) for note, data in texts.items()]


def contents(original: bytes, others: Sequence[bytes], chance: Random) -> Iterator[Content]:
    """Contents for a file that held `original`; `others` are what other files hold."""
    fixed = [*hostile_containers(), *documents()]
    chance.shuffle(fixed)
    fixed += [Content("other file", str(n), data) for n, data in enumerate(others)]
    fixed.append(Content("empty", "", b""))
    while True:
        for content in _random_contents(original, chance):
            yield content
            if fixed:
                yield fixed.pop()


def _random_contents(data: bytes, chance: Random) -> Iterator[Content]:
    at = chance.randrange(max(1, len(data)))
    yield Content("cut", f"to {at} bytes", data[:at])
    size = chance.choice((1, 4, 16, 100, 3_000))
    yield Content("random", f"{size} bytes", chance.randbytes(size))
    yield Content("random", f"magic and {size} bytes", _MAGIC + chance.randbytes(size))
    yield Content("torn", f"zeros from {at}", damage.torn(data, at))
    yield Content("grown", f"by {size} bytes", data + chance.randbytes(size))
    if data:
        bit = chance.randrange(len(data) * 8)
        yield Content("flip", f"bit {bit % 8} of byte {bit // 8}", damage.flip(data, bit))
        number = varint(chance.choice((-1, 1)) * chance.choice(_HUGE))
        yield Content(
            "varint", f"{number.hex()} at {at}", data[:at] + number + data[at + len(number) :]
        )
        yield Content("spliced", f"at {at}", data[:at] + data[at // 2 :])
