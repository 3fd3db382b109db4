"""Rows for the benchmarks: eighteen columns, twenty partitions, made by the column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

PARTITIONS = 20
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("day", pa.string()),
        ("city", pa.string()),
        ("status", pa.string()),
        ("price", pa.float64()),
        ("amount", pa.float64()),
        ("rate", pa.float32()),
        ("count", pa.int32()),
        ("big", pa.int64()),
        ("flag", pa.bool_()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("date", pa.date32()),
        ("code", pa.string()),
        ("note", pa.string()),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("z", pa.int64()),
    ]
)


def make_rows(numbers: np.ndarray[Any, np.dtype[np.int64]], ts: int, seed: int) -> pa.Table:
    """One row per number; a number's partition never changes."""
    rng = np.random.default_rng(seed)
    size = len(numbers)
    cities = pa.array([f"city {n}" for n in range(50)])
    statuses = pa.array(["new", "open", "paid", "sent", "closed"])
    days = pa.array([f"2026-01-{n + 1:02d}" for n in range(PARTITIONS)])
    codes = np.char.add("c", rng.integers(0, 10**6, size).astype(str))
    columns = {
        "id": np.char.add("k", np.char.zfill(numbers.astype(str), 9)),
        "ts": np.full(size, ts),
        "day": days.take(pa.array(numbers % PARTITIONS)),
        "city": cities.take(pa.array(rng.integers(0, 50, size))),
        "status": statuses.take(pa.array(rng.integers(0, 5, size))),
        "price": rng.random(size) * 1000,
        "amount": rng.random(size) * 10,
        "rate": rng.random(size).astype(np.float32),
        "count": rng.integers(0, 1000, size).astype(np.int32),
        "big": rng.integers(0, 2**40, size),
        "flag": rng.random(size) < 0.5,
        "at": 1_767_225_600_000_000 + rng.integers(0, 86_400_000_000, size),
        "date": (20_454 + rng.integers(0, 30, size)).astype(np.int32),
        "code": codes,
        "note": np.char.add("note ", codes),
        "x": rng.random(size),
        "y": rng.random(size),
        "z": rng.integers(0, 10**9, size),
    }
    arrays = [
        (c if isinstance(c, pa.Array) else pa.array(c)).cast(field.type)
        for c, field in zip(columns.values(), SCHEMA, strict=True)
    ]
    return pa.table(arrays, schema=SCHEMA)
