"""Filters as text: what parses, what it is bound to, and what is refused and why."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lentic.errors import ConfigError, SchemaMismatch
from lentic.query.predicate_text import DEPTH_MAX, TEXT_MAX, parse_predicate, to_sql
from lentic.query.predicate_values import And, Comparison, In, IsNull, Like, Not, Or, Predicate

SCHEMA = pa.schema(
    [
        ("city", pa.string()),
        ("amount", pa.float64()),
        ("count", pa.int32()),
        ("small", pa.uint8()),
        ("price", pa.decimal128(6, 2)),
        ("day", pa.date32()),
        ("name", pa.string()),
        ("flag", pa.bool_()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("clock", pa.timestamp("ms")),
        ("date", pa.date32()),
        ("odd `name`", pa.int64()),
        ("place", pa.struct([("x", pa.int32()), ("deep", pa.struct([("y", pa.string())]))])),
        ("tags", pa.list_(pa.string())),
        ("raw", pa.binary()),
    ]
)


def _parse(text: str) -> Predicate:
    return parse_predicate(text, SCHEMA)


def _value(text: str) -> Any:
    found = _parse(text)
    assert isinstance(found, Comparison)
    return found.value


def test_the_whole_language_in_one_filter() -> None:
    text = (
        "city = 'Bern' and (amount > 10.5 or day in ('2026-01-01','2026-01-02'))"
        " and name is not null and not flag and at >= timestamp '2026-01-01 00:00:00'"
    )
    days = (date(2026, 1, 1), date(2026, 1, 2))
    assert _parse(text) == And(
        (
            Comparison(("city",), "=", "Bern"),
            Or((Comparison(("amount",), ">", 10.5), In(("day",), days))),
            Not(IsNull(("name",))),
            Not(Comparison(("flag",), "=", True)),
            Comparison(("at",), ">=", datetime(2026, 1, 1, tzinfo=UTC)),
        )
    )


def test_and_binds_closer_than_or_and_not_closer_than_both() -> None:
    a, b, c = (Comparison(("count",), "=", n) for n in (1, 2, 3))
    assert _parse("count = 1 or count = 2 and count = 3") == Or((a, And((b, c))))
    assert _parse("not count = 1 and count = 2") == And((Not(a), b))
    assert _parse("NOT NOT count = 1") == Not(Not(a))
    assert _parse("(count = 1 or (count = 2)) AND ((count = 3))") == And((Or((a, b)), c))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("count == 1", Comparison(("count",), "=", 1)),
        ("count<>1", Comparison(("count",), "!=", 1)),
        ("1 < count", Comparison(("count",), ">", 1)),
        ("date '2026-01-31' >= day", Comparison(("day",), "<=", date(2026, 1, 31))),
        ("date = '2026-01-31'", Comparison(("date",), "=", date(2026, 1, 31))),
        ("flag", Comparison(("flag",), "=", True)),
        ("`flag` != FALSE", Comparison(("flag",), "!=", False)),
        ("count is null", IsNull(("count",))),
        ("tags is null", IsNull(("tags",))),
        ("Count in (1)".lower(), In(("count",), (1,))),
        ("count NOT IN (1, null)", Not(In(("count",), (1, None)))),
        ("count = null", Comparison(("count",), "=", None)),
        ("name like 'a%'", Like(("name",), "a%")),
        (r"name not like 'a\%\\'", Not(Like(("name",), r"a\%\\"))),
        ("place.x > -5", Comparison(("place", "x"), ">", -5)),
        ("`place`.deep.`y` = ''", Comparison(("place", "deep", "y"), "=", "")),
        ("`odd ``name``` = 1", Comparison(("odd `name`",), "=", 1)),
        (
            "count not between 1 and 2",
            Not(And((Comparison(("count",), ">=", 1), Comparison(("count",), "<=", 2)))),
        ),
    ],
)
def test_each_form_parses(text: str, expected: Predicate) -> None:
    assert _parse(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name = 'it''s'", "it's"),
        (r"name = 'a\n'", r"a\n"),
        (r"name = r'\' 'b' ''''", r"\b'"),
        ("name = '-- ; drop'", "-- ; drop"),
        ("amount = 1", 1.0),
        ("amount = 0.1", 0.1),
        ("amount = -0.0", -0.0),
        ("amount = 1.5e-3", 0.0015),
        ("count = 10.0", 10),
        ("count = 1e3", 1000),
        ("price = 10.5", Decimal("10.50")),
        ("price = - 3", Decimal("-3.00")),
        ("day = '2026-01-31'", date(2026, 1, 31)),
        ("at = '2026-01-31'", datetime(2026, 1, 31, tzinfo=UTC)),
        ("at = date '2026-01-31'", datetime(2026, 1, 31, tzinfo=UTC)),
        ("at = '2026-01-31T01:00+02:00'", datetime(2026, 1, 30, 23, tzinfo=UTC)),
        ("at = '2026-01-31 23:00:00-0230'", datetime(2026, 2, 1, 1, 30, tzinfo=UTC)),
        ("at = timestamp '2026-01-31 01:02:03.45Z'", datetime(2026, 1, 31, 1, 2, 3, 450000, UTC)),
        ("clock = timestamp '2026-01-31 01:02'", datetime(2026, 1, 31, 1, 2)),
        ("clock = timestamp_ntz '2026-01-31 00:00:00'", datetime(2026, 1, 31)),
    ],
)
def test_literals_take_the_type_of_their_column(text: str, expected: Any) -> None:
    found = _value(text)
    assert (found, type(found), repr(found)[:4]) == (expected, type(expected), repr(expected)[:4])


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("count > 10.5", "count > 10"),
        ("count >= 10.5", "count > 10"),
        ("count < -0.5", "count <= -1"),
        ("count = 10.5", "count < -2147483648"),
        ("count != 10.5", "count >= -2147483648"),
        ("count < 1e10", "count >= -2147483648"),
        ("count > 99999999999999999999999999999999999999", "count < -2147483648"),
        ("small > -1", "small >= 0"),
        ("small <= -0.5", "small < 0"),
        ("price <= 1.505", "price <= 1.50"),
        ("price >= 1.505", "price > 1.50"),
        ("price < 10000", "price >= -9999.99"),
        ("count in (1, 2.5, 9999999999)", "count in (1)"),
        ("count in (2.5, 9999999999)", "count < -2147483648"),
    ],
)
def test_a_number_that_the_column_cannot_hold_becomes_one_that_it_can(
    text: str, same_as: str
) -> None:
    assert repr(_parse(text)) == repr(_parse(same_as))


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [
        ("", 0, "a column name"),
        ("city", 4, "an operator"),
        ("city = ", 7, "a literal"),
        ("city = name", 7, "not another column"),
        ("city = 'Bern", 7, "closed"),
        ("city = `Bern", 7, "closed"),
        ('city = "Bern"', 7, "single quotes"),
        ("city = 'Bern' name", 14, "AND, OR or the end"),
        ("(city = 'Bern'", 14, "AND, OR or ')'"),
        ("city = 'Bern')", 13, "AND, OR or the end"),
        ("city = 'Bern' and", 17, "a column name"),
        ("flag and or flag", 9, "a column name"),
        ("city is 5", 8, "NULL"),
        ("city not 5", 9, "IN, BETWEEN or LIKE"),
        ("city in 'a'", 8, "'('"),
        ("city in ()", 9, "a literal"),
        ("city in ('a' 5)", 13, "',' or ')'"),
        ("count between 1 or 2", 16, "AND"),
        ("city like 5", 10, "a pattern in single quotes"),
        ("city like null", 10, "a pattern in single quotes"),
        (r"city like 'a\b'", 10, "backslashes"),
        ("city like '100\\'", 10, "backslashes"),
        (f"city like '{'a' * 1001}'", 10, "at most 1000"),
        ("lower(city) = 'a'", 0, "no functions"),
        ("count = abs(1)", 8, "a literal"),
        ("count = 1 + 1", 10, "a column, a literal, an operator"),
        ("count = 5L", 8, "a column, a literal"),
        ("count = 1e9999", 8, "a column, a literal"),
        ("count = 0x10", 8, "a column, a literal"),
        ("count = - flag", 10, "a number"),
        (f"count = {'1' * 77}", 8, "at most 76 digits"),
        ("1 = 1", 4, "a column name"),
        ("true", 4, "a comparison with a column"),
        ("count = 1; drop table t", 9, "a column, a literal"),
        ("count = 1 -- and more", 10, "AND, OR or the end"),
        ("day = date '2026-02-30'", 11, "a day"),
        ("at = timestamp '2026-01-01 25:00:00'", 15, "a time"),
        ("at = timestamp '2026-01-01 00:00:00.1234567'", 15, "a time"),
        ("at = timestamp '0001-01-01 00:00:00+02:00'", 15, "a time"),
        ("day = date '２０２６-01-01'", 11, "a day"),
        ("city.x = 1", 0, "no struct"),
        ("place. = 1", 7, "a column name"),
        ("city = '\ud800'", 8, "UTF-8"),
        ("in = 1", 0, "a column name"),
    ],
)
def test_what_does_not_parse_names_position_and_expectation(
    text: str, at: int, expected: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        _parse(text)
    assert f"at position {at}: expected" in refused.value.what
    assert expected in refused.value.what
    assert "<HERE>" in refused.value.next_step
    str(refused.value).encode()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("citty = 'a'", ["citty", "did you mean city?"]),
        ("CITY = 'a'", ["CITY", "did you mean city?"]),
        ("place.z = 1", ["place.z", "choose among x, deep"]),
        ("qqq = 1", ["qqq", "choose among city, amount"]),
        ("`city name` = 1", ["city name"]),
    ],
)
def test_an_unknown_column_is_refused_with_those_that_are_near(text: str, words: list[str]) -> None:
    with pytest.raises(SchemaMismatch) as refused:
        _parse(text)
    assert all(word in str(refused.value) for word in words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("city = 5", ["city", "string", "5", "single quotes"]),
        ("city > date '2026-01-01'", ["city", "string", "date '2026-01-01'"]),
        ("amount = 'abc'", ["amount", "double", "'abc'", "a number"]),
        ("amount < 1e400", ["amount", "double", "1e400", "range"]),
        ("count = true", ["count", "int32", "true", "a number"]),
        ("count in (1, 'x')", ["count", "int32", "'x'"]),
        ("count between 1 and '2'", ["count", "int32", "'2'"]),
        ("flag = 1", ["flag", "bool", "1", "true or false"]),
        ("price = '1.5'", ["price", "decimal128(6, 2)", "'1.5'"]),
        ("day = '31.01.2026'", ["day", "date32[day]", "'31.01.2026'", "date '2026-01-31'"]),
        ("day > timestamp '2026-01-01 00:00:00'", ["day", "date32", "timestamp '"]),
        ("at = 'yesterday'", ["at", "timestamp[us, tz=UTC]", "'yesterday'", "UTC"]),
        ("at = timestamp_ntz '2026-01-01'", ["at", "timestamp[us, tz=UTC]"]),
        ("clock = '2026-01-01 00:00:00Z'", ["clock", "timestamp[ms]", "without an offset"]),
        ("count like '1%'", ["count", "int32", "'1%'"]),
        ("tags = 'a'", ["tags", "list", "'a'", "IS NULL"]),
        ("raw = null", ["raw", "binary", "null", "IS NULL"]),
        ("place = 1", ["place", "struct", "place.name"]),
    ],
)
def test_a_literal_of_another_type_is_refused_with_column_type_and_literal(
    text: str, words: list[str]
) -> None:
    with pytest.raises(SchemaMismatch) as refused:
        _parse(text)
    assert all(word in str(refused.value) for word in words), str(refused.value)


def test_a_column_that_occurs_twice_is_refused() -> None:
    twice = pa.schema([("a", pa.int32()), ("a", pa.int32())])
    with pytest.raises(SchemaMismatch, match="more than one column a"):
        parse_predicate("a = 1", twice)


def test_nesting_and_length_are_limited() -> None:
    deep = "not (" * (DEPTH_MAX // 2) + "flag" + ")" * (DEPTH_MAX // 2)
    assert _parse(to_sql(_parse(deep))) == _parse(deep)
    for text in (f"not {deep}", f"({deep})", "(" * 100_000, "not " * 10_000):
        with pytest.raises(ConfigError, match=f"at most {DEPTH_MAX} deep"):
            _parse(text[:TEXT_MAX])
    with pytest.raises(ConfigError, match=f"at most {TEXT_MAX} characters"):
        _parse("flag" + " " * TEXT_MAX)
    long = " or ".join(["flag"] * 5_000)
    assert len(to_sql(_parse(long))) > len(long)


@pytest.mark.parametrize("between", ["count between 1 and 2", "count not between 1 and 2"])
def test_a_filter_at_the_limit_of_nesting_is_written_within_it(between: str) -> None:
    for depth in range(DEPTH_MAX - 4, DEPTH_MAX + 1):
        text = "not " * depth + f"{between}"
        try:
            found = _parse(text)
        except ConfigError:
            continue
        assert _parse(to_sql(found)) == found


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("city = 'it''s'", "`city` = 'it''s'"),
        ("`odd ``name``` = 5", "`odd ``name``` = 5"),
        ("place.deep.y is not null", "`place`.`deep`.`y` IS NOT NULL"),
        ("amount in (1, 1e300)", "`amount` IN (1.0D, 1e+300D)"),
        ("price > -1.5", "`price` > -1.50BD"),
        (
            "flag and not flag or flag = null",
            "`flag` = TRUE AND NOT `flag` = TRUE OR `flag` = NULL",
        ),
        ("day = '2026-01-31'", "`day` = DATE '2026-01-31'"),
        ("at = '2026-01-31'", "`at` = TIMESTAMP_LTZ '2026-01-31 00:00:00+00:00'"),
        ("clock = '2026-01-31'", "`clock` = TIMESTAMP_NTZ '2026-01-31 00:00:00'"),
        (r"name = 'a\b'", r"`name` = 'a' r'\' 'b'"),
        (r"name not like '\\%'", r"`name` NOT LIKE r'\\' '%'"),
        ("name = '${x}'", "`name` = '$' '{x}'"),
        ("name in ('', null)", "`name` IN ('', NULL)"),
        ("(flag or flag) and (flag and flag)", None),
    ],
)
def test_sql_is_quoted_and_typed(text: str, sql: str | None) -> None:
    found = to_sql(_parse(text))
    assert sql is None or found == sql
    assert repr(_parse(found)) == repr(_parse(text))


@pytest.mark.parametrize(
    "value",
    ["'", "''", "' or 1=1 --", "\\'", "\\' or true --", "`", "\\", "\\\\'", "'; drop table t; --"],
)
def test_no_string_escapes_its_quotes(value: str) -> None:
    quoted = "'" + value.replace("'", "''") + "'"
    found = _parse(f"name = {quoted}")
    assert found == Comparison(("name",), "=", value)
    assert _parse(to_sql(found)) == found
