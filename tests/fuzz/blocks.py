"""Which part of a log file each byte belongs to. Only for files that are known to be whole."""

from __future__ import annotations

from collections.abc import Iterator

from lentic.format.log_block import Block, BlockKind, Header, decode_blocks
from tests.fuzz.thrift import Span, map_parquet

_FIRST = (("magic", 6), ("size", 8), ("version", 4), ("kind", 4), ("header count", 4))
_LAST = (("footer", 4), ("pointer", 8))


def map_log(data: bytes) -> list[Span]:
    """Every byte of a log file by what it is."""
    return [span for block in decode_blocks(data, "whole") for span in _block_spans(data, block)]


def block_bounds(data: bytes) -> list[int]:
    """Where blocks begin, and the end of the file."""
    return [*(block.offset for block in decode_blocks(data, "whole")), len(data)]


def _block_spans(data: bytes, block: Block) -> Iterator[Span]:
    at = block.offset
    for name, size in _FIRST:
        yield Span(at, at + size, name)
        at += size
    for _ in block.headers:
        key = Header(int.from_bytes(data[at : at + 4], "big"))
        length = int.from_bytes(data[at + 4 : at + 8], "big")
        yield Span(at, at + 4, "header key")
        yield Span(at + 4, at + 8, "header length")
        yield Span(at + 8, at + 8 + length, f"header {key.name}")
        at += 8 + length
    yield Span(at, at + 8, "content length")
    at += 8
    yield from _content_spans(bytes(block.content), block.kind, at)
    at += len(block.content)
    for name, size in _LAST:
        yield Span(at, at + size, name)
        at += size


def _content_spans(content: bytes, kind: BlockKind, at: int) -> Iterator[Span]:
    if kind is BlockKind.PARQUET:
        yield from map_parquet(content, at)
    elif kind in (BlockKind.AVRO, BlockKind.CDC):
        yield Span(at, at + 4, "content version")
        yield Span(at + 4, at + 8, "record count")
        inner = 8
        while inner < len(content):
            size = int.from_bytes(content[inner : inner + 4], "big")
            yield Span(at + inner, at + inner + 4, "record length")
            yield Span(at + inner + 4, at + inner + 4 + size, f"{kind.name} record")
            inner += 4 + size
    elif kind is BlockKind.DELETE:
        yield Span(at, at + 4, "content version")
        yield Span(at + 4, at + 8, "deletes length")
        yield Span(at + 8, at + len(content), "deletes")
