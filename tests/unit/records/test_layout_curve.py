"""Laying rows out along a curve: a permutation, the same each time, with neighbours together."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from itertools import pairwise, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lentic.config.clustering import Curve
from lentic.records.layout_curve import coordinates, hilbert_values, layout_order, z_values

CURVES = pytest.mark.parametrize("curve", list(Curve))


def values_of(kind: pa.DataType, dice: random.Random) -> Any:
    if pa.types.is_boolean(kind):
        return dice.random() < 0.5
    if pa.types.is_string(kind):
        return "".join(dice.choice("abäz ") for _ in range(dice.randrange(5)))
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return dice.randbytes(4)
    if pa.types.is_decimal(kind):
        return Decimal(dice.randrange(-999, 999)) / 100
    if pa.types.is_date(kind):
        return datetime.date(2026, 1, 1) + datetime.timedelta(days=dice.randrange(400))
    if pa.types.is_timestamp(kind):
        return datetime.datetime(2026, 1, 1) + datetime.timedelta(seconds=dice.randrange(10**6))
    if pa.types.is_floating(kind):
        return dice.choice([float("nan"), float("inf"), -0.0, dice.gauss(0, 1e6)])
    return dice.randrange(-100, 100)


KINDS = [
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
    pa.binary(),
    pa.binary(4),
    pa.decimal128(12, 2),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
]


def random_column(kind: pa.DataType, rows: int, dice: random.Random) -> pa.ChunkedArray:
    given = [None if dice.random() < 0.2 else values_of(kind, dice) for _ in range(rows)]
    cut = dice.randrange(rows + 1)
    return pa.chunked_array([pa.array(part, kind) for part in (given[:cut], given[cut:])])


@CURVES
def test_every_row_has_one_place_whatever_the_types(curve: Curve) -> None:
    dice = random.Random(7)
    for trial in range(60):
        rows = dice.choice([0, 1, 2, 17, 300])
        kinds = dice.sample(KINDS, dice.randrange(1, 9))
        columns = [random_column(kind, rows, dice) for kind in kinds]
        order = layout_order(columns, curve)
        assert sorted(order.tolist()) == list(range(rows)), (trial, kinds)
        assert order.tolist() == layout_order(columns, curve).tolist()
        together = [pa.chunked_array([c.combine_chunks()]) for c in columns]
        assert order.tolist() == layout_order(together, curve).tolist(), "chunks do not matter"


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_linear_order_sorts_by_each_column_in_turn_with_nulls_last(kind: pa.DataType) -> None:
    dice = random.Random(3)
    first = pa.chunked_array([pa.array([dice.choice([1, 2, None]) for _ in range(200)])])
    second = random_column(kind, 200, dice)
    order = layout_order([first, second], Curve.LINEAR)
    ones, twos = ([column.to_pylist()[row] for row in order] for column in (first, second))
    assert ones == sorted(ones, key=lambda value: (value is None, value or 0))
    for one in (1, 2, None):
        tail = [value for value, of in zip(twos, ones, strict=True) if of == one]
        given = [value for value in tail if value is not None and value == value]
        assert given == sorted(given)
        assert all(value is None for value in tail[len(tail) - tail.count(None) :])


def slow_z(point: tuple[int, ...], bits: int) -> int:
    text = "".join(f"{axis >> bit & 1}" for bit in reversed(range(bits)) for axis in point)
    return int(text, 2)


@pytest.mark.parametrize("dimensions", range(1, 9))
def test_z_values_interleave_bits(dimensions: int) -> None:
    dice = random.Random(dimensions)
    bits = min(20, 64 // dimensions)
    points = [tuple(dice.randrange(2**bits) for _ in range(dimensions)) for _ in range(100)]
    axes = [np.array(axis, np.uint64) for axis in zip(*points, strict=True)]
    assert z_values(axes, bits).tolist() == [slow_z(point, bits) for point in points]


@pytest.mark.parametrize(
    ("dimensions", "bits"), [(1, 5), (2, 1), (2, 5), (3, 3), (4, 2), (5, 2), (8, 1)]
)
def test_hilbert_visits_every_cell_once_in_steps_of_one(dimensions: int, bits: int) -> None:
    cells = list(product(range(2**bits), repeat=dimensions))
    axes = [np.array(axis, np.uint64) for axis in zip(*cells, strict=True)]
    places = hilbert_values(axes, bits).tolist()
    assert sorted(places) == list(range(len(cells)))
    walk = [cell for _, cell in sorted(zip(places, cells, strict=True))]
    for here, there in pairwise(walk):
        assert sum(abs(a - b) for a, b in zip(here, there, strict=True)) == 1


def test_coordinates_spread_skewed_values_and_put_nulls_last() -> None:
    column = pa.chunked_array([pa.array([1, 2, 3, 10**12, None, 2])])
    assert coordinates(column, 4).tolist() == [0, 2, 8, 10, 13, 2]


@pytest.mark.parametrize("curve", [Curve.ZORDER, Curve.HILBERT])
def test_a_curve_keeps_the_ranges_of_all_columns_small(curve: Curve) -> None:
    """Sixteenths of the rows span much less of each of two columns than sorted ones would."""
    dice = random.Random(1)
    columns = [[dice.random() ** 3 for _ in range(4096)] for _ in range(2)]
    order = layout_order([pa.chunked_array([pa.array(c)]) for c in columns], curve)
    for column in columns:
        ranks = {value: rank for rank, value in enumerate(sorted(column))}
        parts = ([ranks[column[row]] for row in order[i : i + 256]] for i in range(0, 4096, 256))
        spans = [(max(part) - min(part)) / 4096 for part in parts]
        assert sum(spans) / len(spans) < 0.4
