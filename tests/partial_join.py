"""A join of three sources by partial updates, with late and out-of-order data, and the same join as
Spark SQL computes it from all that the sources ever sent."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

KEY = ("id", "region")
DDL = (
    "id string, region string, "
    "price_at timestamp, price double, currency string, "
    "stock_seq bigint, stock int, "
    "review_at bigint, review string, stars int"
)
GROUPS = "price_at:price,currency;stock_seq:stock;review_at:review,stars"
SOURCES = {
    "prices": ("price_at", "price", "currency"),
    "stocks": ("stock_seq", "stock"),
    "reviews": ("review_at", "review", "stars"),
}
_TYPES = {
    "id": pa.string(),
    "region": pa.string(),
    "price_at": pa.timestamp("us", tz="UTC"),
    "price": pa.float64(),
    "currency": pa.string(),
    "stock_seq": pa.int64(),
    "stock": pa.int32(),
    "review_at": pa.int64(),
    "review": pa.string(),
    "stars": pa.int32(),
}
_BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


def batches(seed: int, rounds: int = 5, keys: int = 40) -> Iterator[tuple[str, pa.Table]]:
    """What the sources send, in the order in which it arrives. Times are drawn anew for every row,
    so that about half of all that comes for a known key is late; values may be null."""
    chance = random.Random(seed)
    for _ in range(rounds):
        sources = list(SOURCES)
        chance.shuffle(sources)
        for source in sources:
            chosen = chance.sample(range(keys), chance.randint(5, keys // 2))
            rows = [_row(source, key, chance) for key in chosen]
            names = ("id", "region", *SOURCES[source])
            schema = pa.schema([(name, _TYPES[name]) for name in names])
            yield source, pa.Table.from_pylist(rows, schema)


def _row(source: str, key: int, chance: random.Random) -> dict[str, Any]:
    row: dict[str, Any] = {"id": f"k{key:03d}", "region": ("north", "south")[key % 2]}
    moment = chance.randint(0, 50)
    number = chance.choice([None, *range(100)])
    match source:
        case "prices":
            price = None if number is None else number / 4
            at = _BEGINNING + timedelta(hours=moment)
            return row | {"price_at": at, "price": price, "currency": chance.choice(["EUR", None])}
        case "stocks":
            return row | {"stock_seq": moment, "stock": number}
        case _:
            review = None if number is None else f"review {number}"
            return row | {"review_at": moment, "review": review, "stars": chance.randint(1, 5)}


def reference(spark: SparkSession, sent: list[tuple[str, pa.Table]]) -> pa.Table:
    """The newest of every source by its own ordering, a tie to what was sent later, joined."""
    for source in SOURCES:
        parts = [
            rows.append_column("sent", pa.array([number] * rows.num_rows))
            for number, (name, rows) in enumerate(sent)
            if name == source
        ]
        spark.createDataFrame(pa.concat_tables(parts)).createOrReplaceTempView(source)
    newest = ", ".join(
        f"n_{source} as (select * from (select *, row_number() over (partition by id, region "
        f"order by {columns[0]} desc nulls last, sent desc) as place from {source}) "
        "where place = 1)"
        for source, columns in SOURCES.items()
    )
    chosen = ", ".join(name for columns in SOURCES.values() for name in columns)
    joined = " full outer join ".join(
        f"n_{source}" + (" using (id, region)" if number else "")
        for number, source in enumerate(SOURCES)
    )
    return spark.sql(f"with {newest} select id, region, {chosen} from {joined}").toArrow()
