"""`lentic demo`: the main job in small. Orders arrive in commits, are compacted, and are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from rich.console import Console

import lentic
from lentic.cli.facts import instant_facts
from lentic.cli.given import print_json
from lentic.cli.render import grid, render_timeline, size
from lentic.errors import shell_command
from lentic.progress import Stage, bars, watching
from lentic.world import real_world

T = TypeVar("T")

SCHEMA = "order_id string not null, customer string, amount decimal(10,2), day string, at timestamp"
ORDERS = 20_000
DAYS = ("2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04")


@dataclass(frozen=True, slots=True)
class Batch:
    """One delivery: which orders, and how many hours after the first."""

    title: str
    first: int
    last: int
    hours: int


BATCHES = (
    Batch("load orders", 0, ORDERS, 0),
    Batch("change some, add some", ORDERS // 2, ORDERS + 4_000, 6),
    Batch("late data changes nothing", 0, 2_000, -6),
    Batch("one more after compaction", ORDERS, ORDERS + 6_000, 12),
)
COMPACT_AFTER = 2
"""The batch after which the table is compacted."""


def make_orders(batch: Batch) -> pa.Table:
    """The rows of a delivery; the same numbers give the same rows."""
    numbers = np.arange(batch.first, batch.last)
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=batch.hours)
    cents = (numbers * 7919 + batch.hours * 100) % 100_000
    return pa.table(
        {
            "order_id": [f"o{number:06d}" for number in numbers],
            "customer": [f"customer {number % 500}" for number in numbers],
            "amount": pa.array(cents / 100).cast(pa.decimal128(10, 2)),
            "day": [DAYS[number % len(DAYS)] for number in numbers],
            "at": pa.array([at] * len(numbers), pa.timestamp("us", tz="UTC")),
        }
    )


def run_demo(path: str, *, as_json: bool) -> None:
    """Run the whole job and print what happened."""
    target = path or f"lentic-demo/orders-{real_world().entropy.uuid()[:8]}"
    screen = Console(stderr=as_json)
    spark = _step("start Spark", lambda: lentic.spark.session("lentic-demo"))
    table = lentic.create(
        target,
        SCHEMA,
        key="order_id",
        partition_by="day",
        ordering="at",
        buckets=2,
        spark=spark,
    )
    commits = []
    for number, batch in enumerate(BATCHES):
        frame = spark.createDataFrame(make_orders(batch))
        commits.append(_step(batch.title, partial(table.upsert, frame)))
        if number == COMPACT_AFTER:
            _step("compact", table.compact)
    rows = _step("read", lambda: table.read().orderBy("order_id").toArrow())
    _print(screen, table, commits, rows)
    if as_json:
        print_json(_summary(table, commits, rows))
    spark.stop()


def _step(title: str, work: Callable[[], T]) -> T:
    """Do a step, with a bar above those of its writes."""
    with watching(bars(), Stage(title), 1):
        return work()


def _print(screen: Console, table: Any, commits: list[Any], rows: pa.Table) -> None:
    written = [
        (b.title, c.inserted, c.updated, c.files, size(c.bytes))
        for b, c in zip(BATCHES, commits, strict=True)
    ]
    screen.print(grid("commits", ("batch", "inserted", "updated", "files", "written"), written))
    screen.print(render_timeline(table.timeline()))
    head = rows.slice(0, 8).to_pylist()
    values = [[str(row[name]) for name in rows.column_names] for row in head]
    screen.print(grid(f"{rows.num_rows} rows, the first eight", rows.column_names, values))
    screen.print(
        f"Look at the table: {shell_command('show', table.path)}", soft_wrap=True, markup=False
    )


def _summary(table: Any, commits: list[Any], rows: pa.Table) -> dict[str, Any]:
    return {
        "path": table.path,
        "rows": rows.num_rows,
        "commits": [commit.requested_at for commit in commits],
        "timeline": [instant_facts(instant) for instant in table.timeline()],
    }
