"""Bytes that are nearly what a reader of the timeline expects.

`contents` never ends: each item says how it was made and is to stand for one file's content.
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
    return _record(_field("partitionToWriteStats", kind))


def hostile_containers() -> list[Content]:
    """Containers with schemas that no timeline file has: wrong, endless, deep, huge."""
    stats = "partitionToWriteStats"
    found: list[tuple[str, bytes]] = []
    for huge in _HUGE:
        found += [
            (
                f"array of {huge} nulls",
                container(_record(_field(stats, _nested(1, "null"))), varint(huge) + b"\0"),
            ),
            (
                f"map of {huge}",
                container(_record(_field(stats, {"type": "map", "values": "int"})), varint(huge)),
            ),
            (
                f"string of {huge}",
                container(_record(_field("operationType", "string")), varint(huge) + b"x"),
            ),
            (
                f"bytes of {huge}",
                container(_record(_field("operationType", "bytes")), varint(huge) + b"x"),
            ),
            (
                f"fixed of {huge}",
                container(_record(_field("x", {"type": "fixed", "name": "f", "size": huge})), b"x"),
            ),
            (f"{huge} records", container(_record(_field("x", "int")), b"\0", count=huge)),
            (
                f"{huge} negative",
                container(_record(_field(stats, _nested(1, "int"))), varint(-huge) + varint(huge)),
            ),
            (f"{huge} header entries", _MAGIC + varint(huge) + _sized(b"a") * 4),
            (
                f"{huge} bytes of schema",
                _MAGIC + varint(1) + _sized(b"avro.schema") + varint(huge) + b"{",
            ),
        ]
    for depth in (10, 31, 33, 100, 1_000, 20_000):
        if depth <= 100:
            found.append(
                (
                    f"{depth} arrays",
                    container(_record(_field(stats, _nested(depth, "int"))), b"\2" * depth),
                )
            )
        found.append((f"schema of {depth} brackets", container(_deep_text(depth), b"")))
    for levels in (4, 16, 30, 60):
        found.append((f"2**{levels} fields", container(_widening(levels), b"\0" * 64)))
    bomb = zlib.compress(bytes(1 << 22))[2:-4]
    found += [
        ("deflated", container(_record(_field("x", "bytes")), bomb, codec=b"deflate")),
        ("unknown codec", container(_record(_field("x", "int")), b"\0", codec=b"\xff\xfe")),
        (
            "recursion",
            container(_record(_field("x", ["null", "HoodieCommitMetadata"])), b"\2" * 5000),
        ),
        ("no fields", container(_record(), b"")),
        ("no record", container("string", _sized(b"x"))),
        ("null schema", container(b"null", b"")),
        ("schema of bytes", container(b"\xff\xfe\xfd", b"")),
        ("schema of numbers", container(b"1e999", b"")),
        ("bad names", container(_record(_field("", "int"), _field("a b", "int")), b"\0\0")),
        ("one field twice", container(_record(_field("a", "int"), _field("a", "int")), b"\0\0")),
        (
            "wide",
            container(_record(*(_field(f"f{n}", "int") for n in range(20_000))), bytes(20_000)),
        ),
        (
            "other record",
            container(
                _record(_field("timeTakenInMillis", "long"), name="HoodieCleanMetadata"), b"\2"
            ),
        ),
        ("same name, other fields", container(_record(_field("unknown", "string")), _sized(b"x"))),
        (
            "wrong kinds",
            container(
                _record(_field(stats, "string"), _field("compacted", "string")), _sized(b"x") * 2
            ),
        ),
        ("bad text", container(_record(_field("operationType", "string")), _sized(b"\xff\xfe"))),
        (
            "not a number",
            container(_record(_field("compacted", "double")), b"\0\0\0\0\0\0\xf8\x7f"),
        ),
        ("no blocks", container(_record(_field("x", "int")), b"\0")[: -len(_SYNC) - 3]),
    ]
    return [Content("hostile schema", note, data) for note, data in found]


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
    fixed = [*hostile_containers(), *documents(), Content("empty", "", b"")]
    fixed += [Content("other file", str(n), data) for n, data in enumerate(others)]
    chance.shuffle(fixed)
    while True:
        yield from _random_contents(original, chance)
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
