"""Filters on Spark: the SQL of a predicate picks the rows that `matches` picks, NaN and all."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from lentic.query.predicate import matches
from lentic.query.predicate_text import parse_predicate, to_sql

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [
        ("n", pa.int32()),
        ("flag", pa.bool_()),
        ("tiny", pa.int8()),
        ("big", pa.int64()),
        ("ratio", pa.float32()),
        ("score", pa.float64()),
        ("name", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("clock", pa.timestamp("us")),
        ("price", pa.decimal128(6, 2)),
        ("total", pa.decimal128(38, 10)),
        ("place", pa.struct([("x", pa.int32()), ("the label", pa.string())])),
    ]
)
NAMES = ["Bern", "it's", "50%", "5_%", "x\\y", "x\\'y", "", "zürich", "z\nk", "${spark.app.name}"]
SCORES = [0.5, -0.0, 0.0, 1.5, math.nan, math.inf, -math.inf, 0.1, -2.5, 1e300]
TOTALS = ["0.1", "1.505", "-1000", "9" * 28 + ".9999999999", "-" + "9" * 28 + ".9999999999"]

# Texts that mean the same to Spark as they stand.
SHARED = [
    "flag",
    "not flag",
    "flag < true or flag is null",
    "tiny = 127 or tiny <= -128",
    "tiny in (1, 2, 3, null)",
    "tiny not in (1, 2, null)",
    "tiny not in (1, 2)",
    "not (tiny > 0 and score > 0)",
    "tiny = null or big is not null",
    "big > 10.5 and big < 9223372036854775807",
    "big between -9223372036854775808 and 0.5",
    "big = 3.5 or not (tiny != 1.5)",
    "score > 1.5",
    "score >= 0 and not score < 0.5",
    "score = 0",
    "score in (0.0, 0.5, 0.1)",
    "score != 0.5",
    "score <= 1e300",
    "ratio = 0.5 or ratio > 1000000",
    "ratio = 0.1",
    "name = 'it''s' or name >= 'x'",
    "name like '5%' and name not like '_0_'",
    "name like '%r_ch' or name like 'z%k'",
    "day = '2026-01-01' or day > date '2026-01-02'",
    "day in ('2026-01-01', '2026-01-02')",
    "at >= timestamp '2026-01-01 00:00:00' and at < '2026-01-03'",
    "at = timestamp '2026-01-01 02:00:00+02:00'",
    "clock > timestamp_ntz '2026-01-01 00:00:00.5'",
    "price = 1.5 or price < -10",
    "price between 0.005 and 2.505",
    "total = 1.505 or total <= -1000",
    "place.x > 2 or place.`the label` is null",
    "place is null",
    "(tiny > 1 or flag) and (name is null or not day is null)",
]
# Texts that Spark takes only in the form that `to_sql` gives them.
TRANSLATED = [
    r"name = 'x\y'",
    r"name = 'x\''y' or name like '%\\''%'",
    r"name like '5\_\%' or name = '50%'",
    "name in ('${spark.app.name}', '')",
    "total > 0.12345678901234567890123456789 and total < 1e50",
    "tiny < 1000 and big != 99999999999999999999",
    "price = 1.505 or price != 1.505",
    "score < 0.1D and price > 1.5BD",
    "2 <= tiny",
]
# A null in the list, a double that no float equals, fractions that no whole number equals.
NEVER_TRUE = {"tiny not in (1, 2, null)", "ratio = 0.1", "big = 3.5 or not (tiny != 1.5)"}


def _rows() -> pa.RecordBatch:
    rows = [
        {
            "n": n,
            "flag": n % 3 == 0,
            "tiny": [1, 2, 127, -128, 0][n % 5],
            "big": [3, 11, -(2**63), 2**63 - 1, 0, 10][n % 6],
            "ratio": [0.5, 0.1, math.nan, math.inf, -1.0, 0.0][n % 6],
            "score": SCORES[n % 10],
            "name": NAMES[n % 10],
            "day": date(2026, 1, 1 + n % 4),
            "at": datetime(2026, 1, 1 + n % 4, 0, 0, n % 2, tzinfo=UTC),
            "clock": datetime(2026, 1, 1, 0, 0, 0, 100_000 * (n % 10)),
            "price": [Decimal(text) for text in ("1.50", "-10.01", "0.00", "2.50")][n % 4],
            "total": Decimal(TOTALS[n % 5]),
            "place": {"x": n % 5, "the label": NAMES[n % 10]},
        }
        for n in range(60)
    ]
    names = SCHEMA.names[1:]
    for n, row in enumerate(rows):
        row.update(dict.fromkeys(names[n % 12 :: 5]) if n % 2 else {})
    rows.append({**dict.fromkeys(names), "n": 60, "place": {"x": None, "the label": None}})
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def test_spark_and_arrow_pick_the_same_rows(spark: SparkSession) -> None:
    batch = _rows()
    frame = spark.createDataFrame(pa.Table.from_batches([batch]))
    predicates = {text: parse_predicate(text, SCHEMA) for text in (*SHARED, *TRANSLATED)}
    conditions = [*map(to_sql, predicates.values()), *SHARED]
    answers = [sql.expr(text).alias(f"c{n}") for n, text in enumerate(conditions)]
    found = sorted(frame.select("n", *answers).collect())
    by_arrow = [matches(predicate, batch).to_pylist() for predicate in predicates.values()]
    expected = [*by_arrow, *by_arrow[: len(SHARED)]]
    for n, (condition, answer) in enumerate(zip(conditions, expected, strict=True), start=1):
        assert [row[n] is True for row in found] == answer, condition
    empty = {text for text, answer in zip(predicates, by_arrow, strict=True) if not any(answer)}
    assert empty == NEVER_TRUE


def test_a_condition_filters_a_frame_whatever_the_zone_of_the_session(spark: SparkSession) -> None:
    batch = _rows()
    frame = spark.createDataFrame(pa.Table.from_batches([batch]))
    predicate = parse_predicate("at > '2026-01-02' and clock < '2026-01-02'", SCHEMA)
    zone = spark.conf.get("spark.sql.session.timeZone", "UTC") or "UTC"
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        found = {row.n for row in frame.filter(to_sql(predicate)).select("n").collect()}
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert found == set(batch.filter(matches(predicate, batch)).column("n").to_pylist())
    assert found
