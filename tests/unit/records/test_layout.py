"""Rows in their new order, and cut into files: every row once."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from lentic.config.clustering import Curve
from lentic.records.layout import cut, lay_out

NESTED = pa.schema(
    [
        ("a", pa.int64()),
        ("b", pa.string()),
        ("l", pa.list_(pa.string())),
        ("s", pa.struct([("x", pa.int32())])),
        ("m", pa.map_(pa.string(), pa.int64())),
    ]
)


def table(rows: int) -> pa.Table:
    dice = random.Random(rows)
    given = [
        {
            "a": dice.choice([None, dice.randrange(9)]),
            "b": str(n),
            "l": [str(n), None] if n % 3 else None,
            "s": {"x": n},
            "m": [("k", n)],
        }
        for n in range(rows)
    ]
    parts = [pa.Table.from_pylist(given[n : n + 7], NESTED) for n in range(0, rows, 7)]
    return pa.concat_tables([NESTED.empty_table(), *parts])


@pytest.mark.parametrize("curve", list(Curve))
@pytest.mark.parametrize("rows", [0, 1, 50])
def test_laid_out_rows_are_the_same_rows(curve: Curve, rows: int) -> None:
    given = table(rows)
    laid = lay_out(given, ("a", "b"), curve)
    assert laid.schema == given.schema
    by_b = {row["b"]: row for row in laid.to_pylist()}
    assert by_b == {row["b"]: row for row in given.to_pylist()} and laid.num_rows == rows


@pytest.mark.parametrize("rows", [1, 3, 7, 50, 60])
def test_a_stream_is_cut_into_streams_of_so_many_rows(rows: int) -> None:
    given = table(50)
    pieces = [pa.Table.from_batches(piece, NESTED) for piece in cut(iter(given.to_batches()), rows)]
    assert [piece.num_rows for piece in pieces[:-1]] == [rows] * (len(pieces) - 1)
    assert 0 < pieces[-1].num_rows <= rows
    assert pa.concat_tables(pieces).to_pylist() == given.to_pylist()


def test_no_rows_are_no_file() -> None:
    assert list(cut(iter(NESTED.empty_table().to_batches()), 5)) == []
