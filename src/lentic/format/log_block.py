"""Log files: a sequence of framed blocks, each complete in itself. All integers big-endian.

    6  magic "#HUDI#"
    8  block size: all bytes after this field, the trailing pointer included
    4  log format version, 1
    4  block kind
    .  headers: 4 count, then per entry 4 key, 4 length, UTF-8 bytes
    8  content length
    .  content
    4  footer count, always 0
    8  pointer: block size + 6, for reading backwards

Every length is said twice or more, and all must agree: a block that was torn, cut or overwritten
in its framing is `Corrupt` and nothing after it is guessed at. There is no checksum, so damage
inside a header's text or inside the content is for those who decode these to find.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from lentic.errors import Corrupt

MAGIC: Final = b"#HUDI#"
LOG_FORMAT_VERSION: Final = 1

_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_FRAME: Final = struct.Struct(">6sqii")
_ENTRY: Final = struct.Struct(">ii")
_AFTER_SIZE: Final = len(MAGIC) + _LONG.size
_TAIL: Final = _INT.size + _LONG.size


class BlockKind(IntEnum):
    """What a block holds. Corrupt is a reader's word for damage and is never written."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO = 3
    HFILE = 4
    PARQUET = 5
    CDC = 6


class Header(IntEnum):
    """The keys of a block's headers."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


_KINDS: Final = frozenset(BlockKind) - {BlockKind.CORRUPT}
_KEYS: Final = frozenset(Header)
_RECORD_KINDS: Final = frozenset({BlockKind.AVRO, BlockKind.PARQUET, BlockKind.CDC})


@dataclass(frozen=True, slots=True)
class Block:
    """One block; `offset` is where its magic begins in the file.

    Every block has INSTANT_TIME, every block of records has SCHEMA.
    """

    kind: BlockKind
    headers: Mapping[Header, str]
    content: bytes | memoryview
    offset: int


def encode_block(
    kind: BlockKind, headers: Mapping[Header, str], content: bytes | memoryview
) -> bytes:
    """The block's bytes. Blocks encoded one after the other make a log file."""
    assert kind in _KINDS, kind
    assert not (missing := _missing(kind, headers)), f"a {kind.name} block needs {missing}"
    entries = []
    for key, text in sorted(headers.items()):
        value = text.encode()
        entries += [_ENTRY.pack(key, len(value)), value]
    inner = b"".join(entries)
    size = _FRAME.size - _AFTER_SIZE + _INT.size + len(inner) + _LONG.size + len(content) + _TAIL
    return b"".join(
        (
            _FRAME.pack(MAGIC, size, LOG_FORMAT_VERSION, kind),
            _INT.pack(len(headers)),
            inner,
            _LONG.pack(len(content)),
            content,
            _INT.pack(0),
            _LONG.pack(size + len(MAGIC)),
        )
    )


def decode_blocks(data: bytes | memoryview, where: str) -> Iterator[Block]:
    """The blocks of a whole log file in file order; none if it is empty.

    Contents are views of `data`, not copies. Any damage raises `Corrupt` at its block, when the
    iteration gets there; blocks already yielded are sound.
    """
    view = memoryview(data).cast("B").toreadonly()
    offset = 0
    while offset < len(view):
        block, offset = _decode_block(view, offset, where)
        yield block


def _decode_block(view: memoryview, offset: int, where: str) -> tuple[Block, int]:
    """The block at `offset` and the offset after it."""

    def corrupt(what: str) -> Corrupt:
        return Corrupt(what, where=f"{where}@{offset}")

    if len(view) - offset < _FRAME.size:
        raise corrupt(f"A log block is torn: {len(view) - offset} bytes are no block.")
    magic, size, version, ordinal = _FRAME.unpack_from(view, offset)
    if magic != MAGIC:
        raise corrupt(f"No log block begins here: {magic!r} is not {MAGIC!r}.")
    end = offset + _AFTER_SIZE + size
    if size < 0 or end > len(view):
        left = len(view) - offset - _AFTER_SIZE
        raise corrupt(f"A log block is torn: it declares {size} bytes and {left} are left.")
    if version != LOG_FORMAT_VERSION:
        raise corrupt(f"Log format version {version} is unknown, {LOG_FORMAT_VERSION} is meant.")
    if ordinal not in _KINDS:
        raise corrupt(f"Log block kind {ordinal} is unknown.")
    kind = BlockKind(ordinal)
    # From here on nothing may reach beyond the tail, which every block has.
    tail = end - _TAIL
    try:
        headers, at = _decode_headers(view, offset + _FRAME.size, tail)
        content_size = _take(view, _LONG, at, tail)
        at += _LONG.size
    except ValueError as error:
        raise corrupt(f"A log block's header is damaged: {error}.") from error
    if content_size != tail - at:
        raise corrupt(f"A log block of {tail - at} content bytes declares {content_size}.")
    if _INT.unpack_from(view, tail)[0] != 0:
        raise corrupt("A log block has a footer; the format defines none.")
    pointer = _LONG.unpack_from(view, tail + _INT.size)[0]
    if pointer != size + len(MAGIC):
        raise corrupt(f"A log block's last length is {pointer}, not {size + len(MAGIC)}.")
    if missing := _missing(kind, headers):
        raise corrupt(f"A {kind.name} log block has no header {missing}.")
    return Block(kind, MappingProxyType(headers), view[at:tail], offset), end


def _decode_headers(view: memoryview, at: int, tail: int) -> tuple[dict[Header, str], int]:
    """The headers at `at` and the offset after them; `ValueError` if they are damaged."""
    count = _take(view, _INT, at, tail)
    at += _INT.size
    if not 0 <= count <= len(Header):
        raise ValueError(f"{count} entries")
    headers: dict[Header, str] = {}
    for _ in range(count):
        key = _take(view, _INT, at, tail)
        length = _take(view, _INT, at + _INT.size, tail)
        at += _ENTRY.size
        if key not in _KEYS:
            raise ValueError(f"key {key} is unknown")
        if key in headers:
            raise ValueError(f"key {key} occurs twice")
        if not 0 <= length <= tail - at:
            raise ValueError(f"an entry of {length} bytes")
        # A UnicodeDecodeError is a ValueError and says where the bytes break.
        headers[Header(key)] = str(view[at : at + length], "utf-8")
        at += length
    return headers, at


def _take(view: memoryview, number: struct.Struct, at: int, tail: int) -> int:
    if at + number.size > tail:
        raise ValueError("it runs past the end of the block")
    value: int = number.unpack_from(view, at)[0]
    return value


def _missing(kind: BlockKind, headers: Mapping[Header, str]) -> str:
    """The name of a header that a block of this kind cannot do without; "" if all are there."""
    if Header.INSTANT_TIME not in headers:
        return Header.INSTANT_TIME.name
    if kind in _RECORD_KINDS and Header.SCHEMA not in headers:
        return Header.SCHEMA.name
    return ""
