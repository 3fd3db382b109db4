"""Value expressions over rows: values, types, what fails and for which rows, what is refused."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lentic.errors import InvalidRecord, SchemaMismatch
from lentic.query.expression import ensure_resolves, evaluate, parse_expression, to_sql
from lentic.query.expression_text import HEIGHT_MAX
from lentic.query.predicate_tokens import DEPTH_MAX
from tests.unit.query.expression_model import SCHEMA, Wishes, rows

NAN, INF = math.nan, math.inf


def _resolve(qualifier: str | None, name: str) -> str:
    return name


def _table(**columns: tuple[pa.DataType, list[Any]]) -> pa.Table:
    return pa.table({name: pa.array(values, kind) for name, (kind, values) in columns.items()})


TABLE = _table(
    tiny=(pa.int8(), [127, -128, None, 3]),
    i=(pa.int32(), [7, -7, None, 0]),
    big=(pa.int64(), [2**63 - 1, -(2**63), None, 2**53 + 1]),
    ratio=(pa.float32(), [0.5, 0.1, None, 3.0]),
    score=(pa.float64(), [2.5, NAN, None, -0.0]),
    price=(pa.decimal128(10, 2), [Decimal("1.25"), Decimal("-9.99"), None, Decimal(0)]),
    total=(pa.decimal128(38, 18), [Decimal("1.5"), Decimal("-2"), None, Decimal(0)]),
    name=(pa.string(), ["abc", "Straße", None, ""]),
    digits=(pa.string(), [" 12", "-7", None, "+0"]),
    flag=(pa.bool_(), [True, False, None, True]),
    day=(pa.date32(), [date(2026, 1, 1), date(1, 1, 1), None, date(9999, 12, 31)]),
    at=(pa.timestamp("us", tz="UTC"), [datetime(2026, 1, 1, tzinfo=UTC), None, None, None]),
    clock=(pa.timestamp("us"), [datetime(2026, 1, 1, 1), datetime(1969, 12, 31, 23), None, None]),
    place=(pa.struct([("x", pa.int32())]), [{"x": 1}, None, {"x": None}, {"x": 4}]),
    tags=(pa.list_(pa.string()), [["a"], None, None, []]),
    raw=(pa.binary(), [b"a", None, None, b""]),
    count=(pa.uint8(), [1, 2, None, 4]),
)


def _values(text: str, table: pa.Table = TABLE) -> list[Any]:
    expression = parse_expression(text)
    found = evaluate(expression, table, _resolve)
    assert found.type == ensure_resolves(expression, table.schema, _resolve)
    assert len(found) == table.num_rows
    held: list[Any] = found.to_pylist()
    return held


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i + 1", [8, -6, None, 1]),
        ("i - tiny", [-120, 121, None, -3]),
        ("i * i", [49, 49, None, 0]),
        ("i / 2", [3.5, -3.5, None, 0.0]),
        ("i % 3", [1, -1, None, 0]),
        ("big % -1", [0, 0, None, 0]),
        ("-i", [-7, 7, None, 0]),
        ("abs(i)", [7, 7, None, 0]),
        ("big / 1", [2.0**63, -(2.0**63), None, 2.0**53]),
        ("score % 2", [0.5, NAN, None, -0.0]),
        ("ratio + ratio", [1.0, 0.20000000298023224, None, 6.0]),
        ("round(score)", [3.0, NAN, None, 0.0]),
        ("round(1.005D, 2)", [1.01] * 4),
        ("round(-2.675D, 2)", [-2.68] * 4),
        ("round(price, 1)", [Decimal("1.3"), Decimal("-10.0"), None, Decimal("0.0")]),
        ("price * 2", [Decimal("2.50"), Decimal("-19.98"), None, Decimal("0.00")]),
        ("price / 3", [Decimal("0.416667"), Decimal("-3.330000"), None, Decimal("0.000000")]),
        ("greatest(score, i)", [7.0, NAN, None, -0.0]),
        ("least(score, i)", [2.5, -7.0, None, -0.0]),
        ("greatest(i, null, 1)", [7, 1, 1, 1]),
        ("score = score", [True, True, None, True]),
        ("score > 1e300", [False, True, None, False]),
        ("score = 0", [False, False, None, True]),
        ("i <=> null", [False, False, True, False]),
        ("name < 'b'", [True, True, None, True]),
        ("'\U0001f600' > '\uffff'", [True] * 4),
        ("day > '2025-12-31'", [True, False, None, True]),
        ("day in ('2026-01-01', date '0001-01-01')", [True, True, None, False]),
        ("at = timestamp '2026-01-01 01:00:00+01:00'", [True, None, None, None]),
        ("flag and null", [None, False, None, None]),
        ("flag or null", [True, None, None, True]),
        ("not flag", [False, True, None, False]),
        ("flag < true", [False, True, None, False]),
        ("i in (7, 0)", [True, False, None, True]),
        ("i in (7, null)", [True, None, None, None]),
        ("i in (tiny, 0)", [False, False, None, True]),
        ("score in (0.0, 2.5)", [True, False, None, True]),
        ("null in (1)", [None] * 4),
        ("i between -7 and 0", [False, True, None, True]),
        ("name like '%a_'", [False, False, None, False]),
        ("name not like '%a%'", [False, False, None, True]),
        ("name || '!'", ["abc!", "Straße!", None, "!"]),
        ("upper(name)", ["ABC", "STRASSE", None, ""]),
        ("lower('ΑΣ') || lower('İ')", ["αςi̇"] * 4),
        ("length(name)", [3, 6, None, 0]),
        ("trim('  a\t ')", ["a\t"] * 4),
        ("substring(name, 2, 2)", ["bc", "tr", None, ""]),
        ("substring(name, 0, 2)", ["ab", "St", None, ""]),
        ("substring(name, -5, 3)", ["a", "tra", None, ""]),
        ("substring(name, -2)", ["bc", "ße", None, ""]),
        ("substring(name, 2, -1)", ["", "", None, ""]),
        ("coalesce(name, digits, 'x')", ["abc", "Straße", "x", ""]),
        ("coalesce(i, 1.5)", [Decimal("7.0"), Decimal("-7.0"), Decimal("1.5"), Decimal("0.0")]),
        ("nullif(i, 7)", [None, -7, None, 0]),
        ("if(flag, i, -1)", [7, -1, -1, 0]),
        ("case when i > 0 then 'up' when i < 0 then 'down' end", ["up", "down", None, None]),
        ("case when flag then tags else null end", [["a"], None, None, []]),
        ("coalesce(place.x, 0)", [1, 0, 0, 4]),
        ("place is null", [False, True, False, False]),
        ("coalesce(tags, tags) is null", [False, True, True, False]),
        ("raw", [b"a", None, None, b""]),
        ("count", [1, 2, None, 4]),
        ("'new'", ["new"] * 4),
        ("null", [None] * 4),
        ("date '2026-01-31'", [date(2026, 1, 31)] * 4),
        ("cast(i as string)", ["7", "-7", None, "0"]),
        ("cast(price as string)", ["1.25", "-9.99", None, "0.00"]),
        ("cast(flag as string)", ["true", "false", None, "true"]),
        ("cast(flag as int)", [1, 0, None, 1]),
        ("cast(i as boolean)", [True, True, None, False]),
        ("cast(digits as int)", [12, -7, None, 0]),
        ("cast(price as int)", [1, -9, None, 0]),
        ("cast(-0.9 as tinyint)", [0] * 4),
        ("cast(price as decimal(10, 1))", [*map(Decimal, ("1.3", "-10.0")), None, Decimal("0.0")]),
        ("cast(price as double)", [1.25, -9.99, None, 0.0]),
        ("cast(1e10 as bigint)", [10**10] * 4),
        ("cast(9223372036854775807D as bigint)", [2**63 - 1] * 4),
        ("cast(-1.9D as int)", [-1] * 4),
        ("cast(1e300 as float)", [INF] * 4),
        ("cast(day as timestamp_ntz) < clock", [True, True, None, None]),
        ("cast(clock as date)", [date(2026, 1, 1), date(1969, 12, 31), None, None]),
        ("cast(null as date)", [None] * 4),
    ],
)
def test_each_operator_and_function_as_spark_has_it(text: str, expected: list[Any]) -> None:
    assert repr(_values(text)) == repr(expected)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("tiny + tiny", pa.int8()),
        ("tiny + i", pa.int32()),
        ("tiny / tiny", pa.float64()),
        ("ratio * ratio", pa.float32()),
        ("ratio + tiny", pa.float64()),
        ("ratio + price", pa.float64()),
        ("price + i", pa.decimal128(13, 2)),
        ("price + 1", pa.decimal128(11, 2)),
        ("price * (1 + 1)", pa.decimal128(21, 2)),
        ("price / price", pa.decimal128(23, 13)),
        ("total + total", pa.decimal128(38, 17)),
        ("total * 2", pa.decimal128(38, 16)),
        ("total / 2", pa.decimal128(38, 18)),
        ("coalesce(price, 0)", pa.decimal128(12, 2)),
        ("if(flag, 1, 1.5)", pa.decimal128(11, 1)),
        ("round(price)", pa.decimal128(9, 0)),
        ("round(price, 5)", pa.decimal128(11, 2)),
        ("0.05", pa.decimal128(2, 2)),
        ("2147483648", pa.int64()),
        ("99999999999999999999", pa.decimal128(20, 0)),
        ("null + null", pa.float64()),
        ("if(flag, null, null)", pa.null()),
        ("at", pa.timestamp("us", tz="UTC")),
    ],
)
def test_types_are_those_of_spark(text: str, kind: pa.DataType) -> None:
    assert ensure_resolves(parse_expression(text), TABLE.schema, _resolve) == kind


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1 / i", "division by zero"),
        ("1 % i", "division by zero"),
        ("1e0 / score", "division by zero"),
        ("price / 0", "division by zero"),
        ("tiny + tiny", "too large"),
        ("big - 1", "too large"),
        ("big * 2", "too large"),
        ("-tiny", "too large for TINYINT"),
        ("abs(big)", "too large for BIGINT"),
        ("cast(i as tinyint) + cast(i as tinyint) * cast(100 as tinyint)", "too large"),
        ("cast(big as int)", "fit in INT"),
        ("cast(name as int)", "no whole number"),
        ("cast('9223372036854775808' as bigint)", "fit in BIGINT"),
        ("cast(score as int)", "fit in INT"),
        ("cast(1e19 as bigint)", "fit in BIGINT"),
        ("cast(0e0 / 1 + score as bigint)", "fit in BIGINT"),
        ("cast(price as decimal(2, 2))", "fit in DECIMAL(2, 2)"),
        ("cast(i as decimal(1, 1))", "fit in DECIMAL(1, 1)"),
    ],
)
def test_what_has_no_value_is_an_error_that_names_it(text: str, reason: str) -> None:
    with pytest.raises(InvalidRecord) as failed:
        _values(text)
    assert reason in failed.value.what
    assert "CASE WHEN" in failed.value.next_step


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("case when i != 0 then 14 / i else 0 end", [2.0, -2.0, 0.0, 0.0]),
        ("case when i = 0 then 0 when 14 / i > 0 then 1 end", [1, None, None, 0]),
        ("if(i = 0, null, 14 / i)", [2.0, -2.0, None, None]),
        ("14 / nullif(i, 0)", [2.0, -2.0, None, None]),
        ("i != 0 and 14 / i > 0", [True, False, None, False]),
        ("i = 0 or 14 / i > 0", [True, False, None, True]),
        ("coalesce(i, 1 / 0)", None),
        ("coalesce(if(i = 0, 1, null), 14 / i)", [2.0, -2.0, None, 1.0]),
        ("null + 1 / i", [None] * 4),
        ("1 / i + null", [None] * 4),
        ("null / 0", [None] * 4),
        ("case when i < 100 then null else 1 end + 1 / 0", None),
        ("7 in (i, 14 / (i - 7))", [True, False, None, False]),
        ("i in (0, 14 / i)", [False, False, None, True]),
    ],
)
def test_only_what_a_row_needs_is_computed_for_it(text: str, expected: list[Any] | None) -> None:
    if expected is not None:
        assert _values(text) == expected
        return
    with pytest.raises(InvalidRecord, match="division by zero"):
        _values(text)


def test_an_operator_does_not_look_at_its_right_side_where_the_left_is_null() -> None:
    table = _table(a=(pa.int32(), [None, 1]), b=(pa.int32(), [0, 1]))
    assert _values("a + 1 / b", table) == [None, 2.0]
    assert _values("a = 1 / b", table) == [None, True]
    with pytest.raises(InvalidRecord):
        _values("1 / b + a", table)
    assert _values("(1 / b) / a", table) == [None, 1.0]  # a division looks at its divisor first


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name + 1", ["+ takes numbers, not STRING and INT", "cast("]),
        ("day + 1", ["+ takes numbers"]),
        ("i = name", ["INT and STRING have no type in common"]),
        ("at = clock", ["no type in common"]),
        ("at > '2026-01-01'", ["no type in common"]),
        ("at > day", ["no type in common"]),
        ("day > '1.1.2026'", ["'1.1.2026' is no day such as '2026-01-31'"]),
        ("tags = tags", ["is not compared here"]),
        ("greatest(raw, raw)", ["is not compared here"]),
        ("count + 1", ["+ takes numbers, not uint8"]),
        ("i and flag", ["AND takes a condition, not INT"]),
        ("not i", ["NOT takes a condition"]),
        ("case when i then 1 end", ["WHEN takes a condition"]),
        ("coalesce(i, name)", ["no type in common"]),
        ("if(flag, tags, place)", ["no type in common"]),
        ("i || 'a'", ["concat takes text, not INT; cast it to string"]),
        ("lower(i)", ["lower takes text"]),
        ("i like '1%'", ["LIKE takes text"]),
        ("abs(name)", ["abs takes a number, not STRING"]),
        ("round(day)", ["round takes a number"]),
        ("-total", ["at most 34 digits, not DECIMAL(38, 18)"]),
        ("price % 2", ["% takes no decimals here"]),
        ("total * total", ["more digits than are computed exactly", "cast"]),
        ("total / total", ["more digits than are computed exactly"]),
        ("cast(score as string)", ["DOUBLE is not cast to STRING here"]),
        ("cast(name as double)", ["STRING is not cast to DOUBLE here"]),
        ("cast(i as float)", ["INT is not cast to FLOAT here"]),
        ("cast(at as date)", ["TIMESTAMP_LTZ is not cast to DATE here"]),
        ("cast(total as int)", ["DECIMAL(38, 18) is not cast to INT here"]),
        ("name.x", ["name is no struct, so there is no name.x"]),
        ("place.y", ["no column place.y", "choose among x"]),
        ("nmae", ["no column nmae", "did you mean name?"]),
        ("source.scor", ["no column source.scor", "did you mean score?"]),
        ("1 + (2 * nome)", ["no column nome", "name?"]),
    ],
)
def test_what_no_row_could_have_a_value_for_is_refused_before_any_row(
    text: str, words: list[str]
) -> None:
    expression = parse_expression(text)
    for table in (TABLE, TABLE.slice(0, 0)):
        with pytest.raises(SchemaMismatch) as refused:
            evaluate(expression, table, _resolve)
        assert all(word in str(refused.value) for word in words), str(refused.value)


def test_branches_that_no_row_takes_are_checked_too() -> None:
    for text in ("if(true, 1, name + 1)", "coalesce(1, name + 1)", "false and (name + 1) is null"):
        with pytest.raises(SchemaMismatch):
            _values(text)


def test_products_of_long_decimals_round_once_and_overflow_is_an_error() -> None:
    kind = pa.decimal128(38, 18)
    long = Decimal("99999999999999999999.000000000000000024")
    table = _table(q=(kind, [long]))
    assert _values("q * 2", table) == [Decimal("199999999999999999998.0000000000000000")]
    assert _values("q + q", table) == [Decimal("199999999999999999998.00000000000000005")]
    with pytest.raises(InvalidRecord, match="too large"):
        _values("q * 9223372036854775807 * 100", table)


def test_types_that_are_alike_to_spark_are_one_type() -> None:
    table = _table(
        large=(pa.large_string(), ["a", None]),
        coded=(pa.dictionary(pa.int8(), pa.string()), ["b", "a"]),
        view=(pa.string_view(), ["a", "b"]),
        milli=(pa.timestamp("ms", tz="Europe/Zurich"), [0, 1]),
        micro=(pa.timestamp("us", tz="UTC"), [0, 1]),
        day=(pa.date64(), [date(2026, 1, 1), None]),
    )
    assert _values("coalesce(large, coded) || view", table) == ["aa", "ab"]
    assert _values("milli = micro", table) == [True, False]
    assert _values("day <=> date '2026-01-01'", table) == [True, False]
    assert _values("milli", table)[1] == datetime(1970, 1, 1, 0, 0, 0, 1000, UTC)


def test_many_rows_in_many_chunks_and_tables_without_columns() -> None:
    numbers = pa.chunked_array([range(50_000), [], range(50_000, 150_000)], pa.int64())
    table = pa.table({"a": numbers})
    found = evaluate(parse_expression("case when a % 2 = 0 then a else -a end"), table, _resolve)
    assert found.to_pylist() == [n if n % 2 == 0 else -n for n in range(150_000)]
    assert evaluate(parse_expression("'x'"), table, _resolve).to_pylist() == ["x"] * 150_000
    with pytest.raises(InvalidRecord):
        evaluate(parse_expression("1 / (a - 149999)"), table, _resolve)


def test_the_highest_and_the_deepest_expressions_are_computed() -> None:
    table = _table(a=(pa.int64(), [1, None]))
    high = " + ".join(["a"] * HEIGHT_MAX)
    assert _values(high, table) == [HEIGHT_MAX, None]
    deep = "coalesce(" * DEPTH_MAX + "a" + ", 0)" * DEPTH_MAX
    assert _values(deep, table) == [1, 0]
    assert to_sql(parse_expression(high), _resolve).count("`a`") == HEIGHT_MAX


def test_a_column_that_occurs_twice_is_refused() -> None:
    twice = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(SchemaMismatch, match="more than one column a"):
        evaluate(parse_expression("a"), twice, _resolve)


@pytest.mark.parametrize("seed", range(3))
def test_a_row_has_the_same_value_alone_and_among_others(seed: int) -> None:
    wishes, table = Wishes(seed), rows(12, seed)
    for number in range(40):
        expression = parse_expression(wishes.any(number % 4))
        try:
            ensure_resolves(expression, SCHEMA, _resolve)
        except SchemaMismatch:
            continue
        alone = []
        for row in range(table.num_rows):
            try:
                alone += evaluate(expression, table.slice(row, 1), _resolve).to_pylist()
            except InvalidRecord:
                alone = []
                break
        try:
            together = evaluate(expression, table, _resolve).to_pylist()
        except InvalidRecord:
            together = []
        assert repr(together) == repr(alone)
