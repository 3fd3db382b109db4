"""Expressions on Spark: their SQL comes to what `evaluate` comes to, in type and in value."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from lentic.errors import InvalidRecord, SchemaMismatch
from lentic.query.expression import Expression, ensure_resolves, evaluate, parse_expression, to_sql
from tests.unit.query.expression_model import SCHEMA, Wishes, rows

pytestmark = pytest.mark.spark

ROWS = rows(80, seed=7)
EXPRESSIONS = 480
PER_JOB = 60


# Texts that mean the same to Spark as they stand, so that operators bind alike.
SHARED = [
    "1 + 2 * 3 - 4 % 3 / 2",
    "i - 1 - 2 + tiny * -3",
    "-i * 2 - -small",
    "- 2 * 3 + -tiny % 2",
    "name || 'x' || 'y'",
    "not flag and gone or flag",
    "not i = 1 or i < 2 and flag",
    "flag = gone and not gone",
    "i + 1 between tiny and tiny * 2 and flag",
    "i not between 1 and 2 or gone",
    "not i + 1 in (1, 2) and name not like 'a%' or name || 'b' is null",
    "case when flag then 1 else 2 end + case when gone then 1.5 end",
    "i is null and name is not null or flag is null",
    "coalesce(i, 0) + 1 = 1 or price / 2 > 1",
    "if(flag, 1, 2) * 2 >= nullif(tiny, 3)",
    "place.x + 1 <=> i",
    "day > '2025-12-31' and day in ('2026-01-01', '9999-12-31')",
    "cast(i as decimal(12, 2)) + 1.5 * price",
    "2147483647 + 1e0 + 1BD + .5",
]
# For the one row that they are computed for.
FAILING = [
    "1 / zero",
    "1 % zero",
    "1.5 / zero",
    "1e0 / (zero * 1e0)",
    "tiny + tiny",
    "-low",
    "abs(low)",
    "big + 1",
    "big * big",
    "cast(big as int)",
    "cast(tiny * 2 as tinyint)",
    "cast('1.0' as int)",
    "cast('' as bigint)",
    "cast(text as int)",
    "cast(nan as bigint)",
    "cast(9.3e18 as bigint)",
    "cast(2147483648e0 as int)",
    "cast(price as decimal(4, 2))",
    "long * 10000000000 * 10000000000",
    "long + long - zero / zero",
    "known + 1 / zero",
    "case when 1 / zero > 1 then 1 end",
    "coalesce(unknown, 1 / zero)",
    "greatest(known, 1 / zero)",
    "unknown <=> 1 / zero",
    "known in (2, 1 / zero)",
]
NOT_FAILING = [
    "unknown + 1 / zero",
    "unknown / zero",
    "(1 / zero) / unknown",
    "unknown = 1 / zero",
    "unknown in (1 / zero)",
    "known in (1, 1 / zero)",
    "zero != 0 and 1 / zero > 1",
    "zero = 0 or 1 / zero > 1",
    "coalesce(known, 1 / zero)",
    "if(zero = 0, 0, 1 / zero)",
    "low % cast(-1 as tinyint)",
    "cast(9223372036854775808e0 as bigint)",
]

CALM = pa.Table.from_pylist(
    [
        {
            "n": n,
            "tiny": [1, -2, 3, None][n % 4],
            "small": n,
            "i": [0, 1, 2, 3, None][n % 5],
            "price": [Decimal("1.25"), Decimal("-3.50"), None][n % 3],
            "name": ["a", "ab", None, "b"][n % 4],
            "flag": [True, False, None][n % 3],
            "gone": [None, False, True, True][n // 3 % 4],
            "day": [date(2026, 1, 1), None, date(2025, 12, 31)][n % 3],
            "place": [{"x": n}, None][n % 2],
        }
        for n in range(24)
    ],
    SCHEMA,
)
ONE_ROW = pa.table(
    {
        "zero": pa.array([0], pa.int32()),
        "known": pa.array([1], pa.int32()),
        "unknown": pa.array([None], pa.int32()),
        "tiny": pa.array([127], pa.int8()),
        "low": pa.array([-128], pa.int8()),
        "big": pa.array([2**63 - 1], pa.int64()),
        "text": ["x1"],
        "nan": [math.nan],
        "price": pa.array([Decimal("123.45")], pa.decimal128(10, 2)),
        "long": pa.array([Decimal(10**20 - 1)], pa.decimal128(38, 18)),
    }
)


def _resolve(qualifier: str | None, name: str) -> str:
    return name


def _failing(expression: Expression, table: pa.Table) -> Iterator[int]:
    """The numbers of the rows for which there is no value."""
    try:
        evaluate(expression, table, _resolve)
    except InvalidRecord:
        if table.num_rows == 1:
            yield table["n"][0].as_py()
            return
        middle = table.num_rows // 2
        yield from _failing(expression, table.slice(0, middle))
        yield from _failing(expression, table.slice(middle))


def _known(texts: list[str]) -> dict[str, Expression]:
    """Those of the texts whose types go together."""
    found = {}
    for text in texts:
        expression = parse_expression(text)
        try:
            ensure_resolves(expression, SCHEMA, _resolve)
        except SchemaMismatch:
            continue
        found[text] = expression
    return found


def _plain(values: pa.ChunkedArray) -> list[object]:
    """Values of which equal ones look the same, also NaN, and no others, also -0.0."""
    return [repr(value) for value in values.to_pylist()]


def _frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """The rows, cached so that Spark does not compute with them while it plans."""
    made = spark.createDataFrame(table)
    if "clock" in table.column_names:  # it comes with the zone of the session, which is UTC
        made = made.withColumn("clock", sql.expr("cast(clock as timestamp_ntz)"))
    return made.repartition(2).cache()


def _ensure_same(frame: DataFrame, expressions: dict[str, Expression]) -> None:
    texts = list(expressions)
    failing = {text: [*_failing(expressions[text], ROWS)] for text in texts}
    chosen = []
    for number, text in enumerate(texts):
        value = to_sql(expressions[text], _resolve)
        without = ", ".join(map(str, failing[text])) or "-1"
        chosen.append(
            sql.expr(f"CASE WHEN n NOT IN ({without}) THEN {value} END").alias(f"e{number}")
        )
    answer = frame.select("n", *chosen).toArrow().sort_by("n")
    for number, text in enumerate(texts):
        kept = pa.array([n not in failing[text] for n in range(ROWS.num_rows)])
        found = evaluate(expressions[text], ROWS.filter(kept), _resolve)
        column = answer.column(f"e{number}").filter(kept)
        assert found.type == column.type, text
        assert _plain(found) == _plain(column), text


@pytest.mark.parametrize("seed", range(EXPRESSIONS // PER_JOB))
def test_spark_and_arrow_come_to_the_same(frame: DataFrame, seed: int) -> None:
    wishes = Wishes(seed)
    expressions = _known([wishes.any(number % 4) for number in range(PER_JOB)])
    assert len(expressions) > PER_JOB * 0.8
    _ensure_same(frame, expressions)


def test_spark_reads_what_users_type_alike(spark: SparkSession) -> None:
    chosen = [sql.expr(text).alias(f"e{number}") for number, text in enumerate(SHARED)]
    answer = _frame(spark, CALM).select("n", *chosen).toArrow().sort_by("n")
    for number, text in enumerate(SHARED):
        found = evaluate(parse_expression(text), CALM, _resolve)
        column = answer.column(f"e{number}")
        assert found.type == column.type, text
        assert _plain(found) == _plain(column), text


def test_spark_fails_where_arrow_fails_and_only_there(spark: SparkSession) -> None:
    frame = _frame(spark, ONE_ROW)
    for text in FAILING:
        expression = parse_expression(text)
        with pytest.raises(InvalidRecord):
            evaluate(expression, ONE_ROW, _resolve)
        with pytest.raises(PySparkException):
            frame.select(sql.expr(to_sql(expression, _resolve))).collect()
    for text in NOT_FAILING:  # one by one: what occurs in two of them, Spark computes beforehand
        expression = parse_expression(text)
        expected = evaluate(expression, ONE_ROW, _resolve)[0].as_py()
        found = frame.select(sql.expr(to_sql(expression, _resolve))).collect()
        assert found[0][0] == expected, text


def test_the_zone_of_the_session_changes_nothing(spark: SparkSession, frame: DataFrame) -> None:
    texts = [
        "at >= timestamp '2026-01-02 12:30:00'",
        "clock < timestamp_ntz '2026-01-02 03:04:05.000001'",
        "cast(clock as date) = date '2026-01-02'",
        "cast(day as timestamp_ntz) < clock",
        "cast(at as timestamp) = at",
    ]
    zone = spark.conf.get("spark.sql.session.timeZone", "UTC") or "UTC"
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        _ensure_same(frame, _known(texts))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return _frame(spark, ROWS)
