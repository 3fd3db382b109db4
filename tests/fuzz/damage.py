"""Ways to damage bytes, and where to. Chance comes from a `Random` that the caller seeds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from random import Random

from tests.fuzz.thrift import Span


def flip(data: bytes, bit: int) -> bytes:
    """`data` with one bit turned over."""
    damaged = bytearray(data)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def choose_bits(spans: Sequence[Span], count: int, chance: Random) -> Iterator[tuple[int, Span]]:
    """That many different bits of the spans, or all if there are fewer, in no order."""
    starts = [0]
    for span in spans:
        starts.append(starts[-1] + (span.end - span.start) * 8)
    for number in chance.sample(range(starts[-1]), min(count, starts[-1])):
        index = bisect_right(starts, number) - 1
        yield spans[index].start * 8 + number - starts[index], spans[index]


def zero(data: bytes, start: int, size: int) -> bytes:
    """`data` with a stretch that was never written to the disk."""
    hole = data[start : start + size]
    return data[:start] + bytes(len(hole)) + data[start + len(hole) :]


def torn(data: bytes, size: int) -> bytes:
    """`data` at its full length, with nothing but zeros after `size` bytes."""
    return zero(data, size, len(data) - size)
