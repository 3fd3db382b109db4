"""What it costs to plan reads of a table with many partitions: time and storage calls."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

import lentic
from lentic.engine import LocalEngine
from lentic.query.incremental import read_changed_rows
from lentic.query.snapshot import read_rows
from lentic.storage.base import Storage

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])


class CountingStorage:
    """A storage that counts what is asked of it."""

    def __init__(self, inner: Storage) -> None:
        self._inner = inner
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def counted(*arguments: Any, **options: Any) -> Any:
            self.calls[name] += 1
            return found(*arguments, **options)

        return counted


def rows(partitions: range, value: int) -> pa.Table:
    parts = [f"p{number:06d}" for number in partitions]
    return pa.table([[f"k-{p}" for p in parts], parts, [value] * len(parts)], schema=SCHEMA)


def measure_planning(path: Path, partitions: int) -> None:
    """A table with one file group in each of `partitions`, then one commit to the last of them."""
    table = lentic.create(
        str(path), SCHEMA, key="id", partition_by="part", table_type="COPY_ON_WRITE", buckets=1
    )
    first = table.upsert(rows(range(partitions), 1))
    table.upsert(rows(range(partitions - 1, partitions), 2))
    last = f"p{partitions - 1:06d}"
    print(f"{partitions} partitions, one commit in the last; seconds, rows, storage calls")
    _measure("snapshot, everything", table)
    _measure("snapshot, one partition", table, filter=f"part = '{last}'")
    _measure("changes of the last commit", table, after=str(first.completed_at))


def _measure(title: str, table: lentic.Table, **question: Any) -> None:
    opened = table._opened
    storage = CountingStorage(opened.storage)
    counted = type(opened)(
        **{name: getattr(opened, name) for name in opened.__slots__} | {"storage": storage}
    )
    begun = time.perf_counter()
    if "after" in question:
        found = read_changed_rows(
            counted, LocalEngine(), upto=None, columns=None, filter=None, meta=False, **question
        )
    else:
        found = read_rows(counted, LocalEngine(), **question)
    took = time.perf_counter() - begun
    calls = ", ".join(f"{name} {count}" for name, count in sorted(storage.calls.items()))
    print(f"{title:<32} {took:8.3f} s {found.num_rows:7d} rows  {calls}")
