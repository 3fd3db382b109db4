"""Rows of every type a table can hold, made by the column, the same for the same seed."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("seq", pa.int64()),
        ("ts", pa.int64()),
        ("part", pa.string()),
        ("name", pa.string()),
        ("day", pa.date32()),
        ("small", pa.int32()),
        ("flag", pa.bool_()),
        ("ratio", pa.float32()),
        ("score", pa.float64()),
        ("price", pa.decimal128(12, 3)),
        ("total", pa.decimal128(30, 6)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("raw", pa.binary()),
        (
            "place",
            pa.struct(
                [
                    ("x", pa.int32()),
                    ("label", pa.string()),
                    ("deep", pa.struct([("d", pa.float64())])),
                ]
            ),
        ),
        ("tags", pa.list_(pa.field("element", pa.string()))),
        (
            "items",
            pa.list_(pa.field("element", pa.struct([("n", pa.int32()), ("w", pa.string())]))),
        ),
        ("counts", pa.map_(pa.string(), pa.int64())),
    ]
)
"""All types that lentic, Apache Hudi and hudi-rs read alike."""

PARTITIONS = ("p0", "p1", "p2", "p3")
_NULL_SHARE = 0.15


def make_rows(first: int, last: int, ts: int, seed: int) -> pa.Table:
    """Rows with keys `first` up to `last` (exclusive), a seventh of the values null."""
    rng = np.random.default_rng(seed)
    size = last - first
    numbers = np.arange(first, last)

    def nulls() -> Any:
        return rng.random(size) < _NULL_SHARE

    def text(prefix: str, below: int, count: int) -> list[str]:
        return [f"{prefix}{number}" for number in rng.integers(0, below, count)]

    def maybe_text(prefix: str, below: int, count: int) -> pa.Array:
        return pa.array(text(prefix, below, count), mask=rng.random(count) < _NULL_SHARE)

    def offsets(longest: int) -> pa.Array:
        ends = np.concatenate([[0], np.cumsum(rng.integers(0, longest, size))])
        return pa.array(ends, pa.int32(), mask=np.append(nulls(), False))

    def total(array: pa.Array) -> int:
        return int(array[-1].as_py())

    tag_ends, item_ends, count_ends = offsets(4), offsets(3), offsets(3)
    items = total(item_ends)
    item = pa.StructArray.from_arrays(
        [pa.array(rng.integers(0, 9, items), pa.int32()), maybe_text("w", 9, items)], ["n", "w"]
    )
    counted = total(count_ends)
    keys = pa.array([f"m{number}" for number in range(counted)])
    counts = pa.array(rng.integers(0, 10**6, counted), mask=rng.random(counted) < _NULL_SHARE)
    deep = pa.StructArray.from_arrays([pa.array(rng.random(size))], ["d"], mask=pa.array(nulls()))
    place = pa.StructArray.from_arrays(
        [pa.array(rng.integers(0, 100, size), pa.int32()), maybe_text("s", 9, size), deep],
        ["x", "label", "deep"],
        mask=pa.array(nulls()),
    )
    cents = rng.integers(-(10**8), 10**8, size)
    micros = 1_704_067_200_000_000 + rng.integers(0, 300 * 86_400_000_000, size)
    columns: dict[str, Any] = {
        "id": [f"k{number:06d}" for number in numbers],
        "seq": numbers,
        "ts": np.full(size, ts),
        "part": [PARTITIONS[number % len(PARTITIONS)] for number in numbers],
        "name": pa.array(text("name ", 1000, size), mask=nulls()),
        "day": pa.array(19_723 + rng.integers(0, 300, size), pa.int32(), mask=nulls()).cast(
            "date32"
        ),
        "small": pa.array(rng.integers(-(2**31), 2**31, size), pa.int32(), mask=nulls()),
        "flag": pa.array(rng.random(size) < 0.5, mask=nulls()),
        "ratio": pa.array(rng.integers(-1000, 1000, size) / 8, pa.float32(), mask=nulls()),
        "score": pa.array(rng.random(size) * 1e6, mask=nulls()),
        "price": pa.array([Decimal(int(c)).scaleb(-3) for c in cents], mask=nulls()),
        "total": pa.array([Decimal(int(c) * 10**15).scaleb(-6) for c in cents], mask=nulls()),
        "at": pa.array(micros, pa.timestamp("us", tz="UTC"), mask=nulls()),
        "raw": pa.array([rng.bytes(6) for _ in range(size)], mask=nulls()),
        "place": place,
        "tags": pa.ListArray.from_arrays(tag_ends, maybe_text("e", 9, total(tag_ends))),
        "items": pa.ListArray.from_arrays(item_ends, item),
        "counts": pa.MapArray.from_arrays(count_ends, keys, counts),
    }
    return pa.table([_as(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)


def latest(*batches: pa.Table) -> pa.Table:
    """What a table holds after these upserts, if later batches are never older: each key's last."""
    everything = pa.concat_tables(batches)
    last = {key: row for row, key in enumerate(everything.column("id").to_pylist())}
    return everything.take(pa.array(sorted(last.values())))


def _as(values: Any, kind: pa.DataType) -> pa.Array:
    array = values if isinstance(values, pa.Array) else pa.array(values)
    return array.cast(kind)
