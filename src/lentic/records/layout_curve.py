"""In which order rows are laid out, so that a filter on any sort column skips most of them. Pure.

LINEAR sorts by the first column, then the next. ZORDER and HILBERT treat the columns alike: each
row becomes a point of a grid, and rows follow a curve that fills it. A column's coordinate is the
rank of its value among the rows at hand, so that skewed values spread over the whole grid and any
type that has an order has a place in it. Nulls come last, equal rows keep their order: the same
rows in the same order give the same layout, wherever this runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lentic.config.clustering import Curve

COLUMNS_MAX = 8
"""Columns that a curve can treat alike; with more, each would decide too little."""

_KEY_BITS = 64
_BITS_MAX = 20
"""Bits of one coordinate: a million cells a side, more than a group has row groups by far."""

Key = npt.NDArray[np.uint64]


def layout_order(columns: Sequence[pa.ChunkedArray], curve: Curve) -> npt.NDArray[np.int64]:
    """The numbers of the rows, in the order in which they are to lie; each of them once."""
    assert columns, "rows are laid out by at least one column"
    comparable = [_comparable(column) for column in columns]
    if curve is Curve.LINEAR or len(comparable) == 1:
        return _linear_order(comparable)
    assert len(comparable) <= COLUMNS_MAX, len(comparable)
    bits = min(_BITS_MAX, _KEY_BITS // len(comparable))
    points = [coordinates(column, bits) for column in comparable]
    keys = z_values(points, bits) if curve is Curve.ZORDER else hilbert_values(points, bits)
    return np.argsort(keys, kind="stable").astype(np.int64)


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column in a type that Arrow has an order for."""
    if pa.types.is_boolean(column.type):
        return column.cast(pa.uint8())
    if pa.types.is_fixed_size_binary(column.type):
        return column.cast(pa.binary())
    return column


def _linear_order(columns: Sequence[pa.ChunkedArray]) -> npt.NDArray[np.int64]:
    names = [str(number) for number in range(len(columns))]
    keys = [(name, "ascending") for name in names]
    order = pc.sort_indices(pa.table(list(columns), names), keys)
    return np.asarray(order.to_numpy(), dtype=np.int64)


def coordinates(column: pa.ChunkedArray, bits: int) -> Key:
    """Where each value lies among the others, from 0 to 2**bits - 1. Equal values lie together;
    nulls lie after all others."""
    count = len(column)
    ranks = pc.rank(column, sort_keys="ascending", tiebreaker="min")
    below = np.asarray(ranks.to_numpy(), dtype=np.uint64) - np.uint64(1)
    return (below << np.uint64(bits)) // np.uint64(max(1, count))


def z_values(points: Sequence[Key], bits: int) -> Key:
    """The place of each point on the Z curve: the bits of its coordinates in turn, highest first,
    the first coordinate's before the others'."""
    keys = np.zeros(len(points[0]), np.uint64)
    for bit in reversed(range(bits)):
        for point in points:
            keys <<= np.uint64(1)
            keys |= (point >> np.uint64(bit)) & np.uint64(1)
    return keys


def hilbert_values(points: Sequence[Key], bits: int) -> Key:
    """The place of each point on the Hilbert curve, on which neighbours are one step apart.

    After J. Skilling, "Programming the Hilbert curve" (2004): undo the turns of the curve from the
    coarsest cells to the finest, then read the bits in turn as on the Z curve.
    """
    turned = [point.copy() for point in points]
    first = turned[0]
    for bit in reversed(range(1, bits)):
        side, low = np.uint64(1 << bit), np.uint64((1 << bit) - 1)
        for axis in turned:
            is_set = (axis & side) != 0
            swapped = np.where(is_set, np.uint64(0), (first ^ axis) & low)
            first ^= np.where(is_set, low, swapped)
            if axis is not first:
                axis ^= swapped
    for number in range(1, len(turned)):
        turned[number] ^= turned[number - 1]
    flips = np.zeros(len(first), np.uint64)
    for bit in reversed(range(1, bits)):
        side, low = np.uint64(1 << bit), np.uint64((1 << bit) - 1)
        flips ^= np.where((turned[-1] & side) != 0, low, np.uint64(0))
    return z_values([axis ^ flips for axis in turned], bits)
