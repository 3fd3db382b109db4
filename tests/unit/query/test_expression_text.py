"""Value expressions as text: what parses, what it is, what is refused and why, and the SQL."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lentic.errors import ConfigError
from lentic.query.expression import columns_of, format_expression, parse_expression, to_sql
from lentic.query.expression_text import HEIGHT_MAX
from lentic.query.expression_values import (
    AllOf,
    AnyOf,
    Arithmetic,
    Call,
    Case,
    Cast,
    Column,
    Compare,
    Constant,
    Expression,
    IsIn,
    IsLike,
    IsNull,
    Not,
)
from lentic.query.predicate_tokens import DEPTH_MAX, TEXT_MAX
from tests.unit.query.expression_model import Wishes

A, B, C = (Column(None, (name,)) for name in "abc")
ONE, TWO, NULL = Constant(1), Constant(2), Constant(None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", A),
        ("source.a", Column("source", ("a",))),
        ("Target.`a b`.c", Column("target", ("a b", "c"))),
        ("`source`.a", Column("source", ("a",))),
        ("source", Column(None, ("source",))),
        ("target.source.x", Column("target", ("source", "x"))),
        ("a.b.c", Column(None, ("a", "b", "c"))),
        ("date", Column(None, ("date",))),
        ("case", Column(None, ("case",))),
        ("length", Column(None, ("length",))),
        ("a + b", Arithmetic("+", A, B)),
        ("a - b - c", Arithmetic("-", Arithmetic("-", A, B), C)),
        ("a + b * c", Arithmetic("+", A, Arithmetic("*", B, C))),
        ("(a + b) % c", Arithmetic("%", Arithmetic("+", A, B), C)),
        ("-a * b", Arithmetic("*", Call("negate", (A,)), B)),
        ("a -1", Arithmetic("-", A, ONE)),
        ("a - -1", Arithmetic("-", A, Constant(-1))),
        ("-(1)", Constant(-1)),
        ("- - a", Call("negate", (Call("negate", (A,)),))),
        ("a || b || c", Call("concat", (A, B, C))),
        ("a || b + c", Arithmetic("+", Call("concat", (A, B)), C)),
        ("a = b", Compare("=", A, B)),
        ("a == b", Compare("=", A, B)),
        ("a <> b", Compare("!=", A, B)),
        ("a<=>b", Compare("<=>", A, B)),
        ("a + 1 >= b", Compare(">=", Arithmetic("+", A, ONE), B)),
        ("a or b and not c", AnyOf((A, AllOf((B, Not(C)))))),
        ("not a = b", Not(Compare("=", A, B))),
        ("(a = b) = c", Compare("=", Compare("=", A, B), C)),
        ("a is null", IsNull(A)),
        ("a + b is not null", Not(IsNull(Arithmetic("+", A, B)))),
        ("a in (1, b, null)", IsIn(A, (ONE, B, NULL))),
        ("a not in (1)", Not(IsIn(A, (ONE,)))),
        (
            "a between 1 and 2 and b",
            AllOf((AllOf((Compare(">=", A, ONE), Compare("<=", A, TWO))), B)),
        ),
        (r"a not like 'x\%'", Not(IsLike(A, r"x\%"))),
        ("case when a then 1 end", Case(((A, ONE),), NULL)),
        ("CASE WHEN a THEN 1 WHEN b THEN 2 ELSE c END", Case(((A, ONE), (B, TWO)), C)),
        ("case when end then end else end end", None),
        ("if(a, 1, 2)", Case(((A, ONE),), TWO)),
        ("nullif(a, 1)", Case(((Compare("=", A, ONE), NULL),), A)),
        ("coalesce(a, b)", Call("coalesce", (A, B))),
        ("round(a)", Call("round", (A, Constant(0)))),
        ("SUBSTRING(a, -2, 1)", Call("substring", (A, Constant(-2), ONE))),
        ("lower(upper(lower(a)))", Call("lower", (A,))),
        ("cast(a as bigint)", Cast(A, pa.int64())),
        ("cast(a AS Decimal(10, 2))", Cast(A, pa.decimal128(10, 2))),
        ("cast(a as dec)", Cast(A, pa.decimal128(10, 0))),
        ("cast(a as timestamp)", Cast(A, pa.timestamp("us", tz="UTC"))),
        ("cast(a as timestamp_ntz) = b", Compare("=", Cast(A, pa.timestamp("us")), B)),
    ],
)
def test_each_form_parses_and_what_is_written_parses_to_the_same(
    text: str, expected: Expression | None
) -> None:
    found = parse_expression(text)
    assert expected is None or found == expected
    assert parse_expression(format_expression(found)) == found
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("null", None),
        ("TRUE", True),
        ("12", 12),
        ("-2147483648", -2147483648),
        ("1.50", Decimal("1.50")),
        ("-.5", Decimal("-0.5")),
        ("7BD", Decimal("7")),
        ("1e2BD", Decimal("100")),
        ("1e2", 100.0),
        ("1D", 1.0),
        ("-1.5e-3", -0.0015),
        ("'it''s'", "it's"),
        (r"'a\n' r'\'", r"a\n" + "\\"),
        ("date '2026-01-31'", date(2026, 1, 31)),
        ("timestamp '2026-01-31 01:00:00+02:00'", datetime(2026, 1, 30, 23, tzinfo=UTC)),
        ("timestamp '2026-01-31'", datetime(2026, 1, 31, tzinfo=UTC)),
        ("timestamp_ltz '2026-01-31'", datetime(2026, 1, 31, tzinfo=UTC)),
        ("timestamp_ntz '2026-01-31'", datetime(2026, 1, 31)),
    ],
)
def test_literals_have_the_types_that_spark_gives_them(text: str, expected: Any) -> None:
    found = parse_expression(text)
    assert isinstance(found, Constant)
    assert (repr(found.value), type(found.value)) == (repr(expected), type(expected))
    assert repr(parse_expression(format_expression(found))) == repr(found)


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [
        ("", 0, "a value"),
        ("a +", 3, "a value"),
        ("a b", 2, "an operator or the end"),
        ("a = b = c", 6, "an operator or the end"),
        ("a = b is null", 6, "an operator or the end"),
        ("a ! b", 2, "an operator or a parenthesis"),
        ("a -- b", 2, "an operator or the end"),
        ("(a", 2, "an operator or ')'"),
        ("a. + 1", 3, "a column name"),
        ("a.in", 2, "a column name"),
        ("+a", 0, "a value"),
        ("not", 3, "a value"),
        ("a is 1", 5, "NULL"),
        ("a not 1", 6, "IN, BETWEEN or LIKE"),
        ("a in 1", 5, "'('"),
        ("a in ()", 6, "a value"),
        ("a in (1 2)", 8, "',' or ')'"),
        ("a between 1 or 2", 12, "AND"),
        ("a like b", 7, "a pattern in single quotes"),
        (r"a like 'x\y'", 7, "backslashes"),
        ("case when a then 1", 18, "END"),
        ("case when a 1 end", 12, "THEN"),
        ("median(a)", 0, "choose among abs"),
        ("substr(a, 1)", 0, "did you mean substring"),
        ("coalesce()", 9, "a value"),
        ("abs(a, b)", 0, "1 argument of abs"),
        ("if(a, b)", 0, "3 arguments of if"),
        ("greatest(a)", 0, "2 or more arguments"),
        ("round(a, 1, 2)", 0, "1 or 2 arguments"),
        ("round(a, b)", 0, "whole numbers from 0 to 18"),
        ("round(a, -1)", 0, "whole numbers"),
        ("round(a, true)", 0, "whole numbers"),
        ("substring(a, 1.5)", 0, "whole numbers"),
        ("substring(a, 1, b)", 0, "whole numbers"),
        ("cast(a as text)", 10, "a type: boolean"),
        ("cast(a as varchar(3))", 10, "a type: boolean"),
        ("cast(a as array<int>)", 10, "a type: boolean"),
        ("cast(a as decimal(39, 2))", 10, "a type: boolean"),
        ("cast(a as int", 13, "')'"),
        ("cast(a int)", 7, "AS"),
        ("1e999", 0, "range of a double"),
        ("1e9999", 0, "a column, a literal"),
        ("5L", 0, "a column, a literal"),
        ("1" * 39, 0, "at most 38 digits"),
        ("0." + "0" * 38 + "1", 0, "at most 38 digits"),
        ("1e50BD", 0, "at most 38 digits"),
        ("timestamp_ntz '2026-01-01 00:00:00Z'", 0, "without an offset"),
        ("date '2026-02-30'", 5, "a day"),
        ("'open", 0, "closed"),
        ("a + '\ud800'", 5, "UTF-8"),
    ],
)
def test_what_does_not_parse_names_position_and_expectation(
    text: str, at: int, expected: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_expression(text)
    assert f"The expression does not parse at position {at}: expected" in refused.value.what
    assert expected in refused.value.what
    assert "<HERE>" in refused.value.next_step


def test_nesting_chains_and_length_are_limited() -> None:
    parse_expression("(" * DEPTH_MAX + "a" + ")" * DEPTH_MAX)
    for opening in ("(", "not ", "- ", "abs(", "case when ", "a in (", "cast("):
        with pytest.raises(ConfigError, match=f"at most {DEPTH_MAX} deep"):
            parse_expression(opening * (DEPTH_MAX + 1) + "a")
    parse_expression(" + ".join(["a"] * HEIGHT_MAX))
    for sign in ("+", "*"):
        with pytest.raises(ConfigError, match=f"at most {HEIGHT_MAX} operators"):
            parse_expression(f" {sign} ".join(["a"] * 20_000))
    for sign in ("||", " and ", " or "):
        parse_expression(sign.join(["a"] * 10_000))
    with pytest.raises(ConfigError, match=f"at most {TEXT_MAX} characters"):
        parse_expression("a" + " " * TEXT_MAX)


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("target.amount + source.amount", "(`t_amount` + `s_amount`)"),
        ("source.`odd ``name```.x", "`s_odd ``name```.`x`"),
        ("note", "`x_note`"),
        ("- source.a", "(- `s_a`)"),
        ("'it''s'", "'it''s'"),
        (r"source.a || '\'", r"concat(`s_a`, r'\')"),
        ("1.5 - -2", "(1.5BD - -2)"),
        ("1e0 <=> null", "(1.0D <=> NULL)"),
        ("a not in (1, 2)", "(NOT (`x_a` IN (1, 2)))"),
        ("a between 1 and 2", "((`x_a` >= 1) AND (`x_a` <= 2))"),
        ("a like '${x}%'", "(`x_a` LIKE '$' '{x}%')"),
        ("cast(a as decimal(10,2))", "CAST(`x_a` AS DECIMAL(10, 2))"),
        ("cast(a as timestamp)", "CAST(`x_a` AS TIMESTAMP_LTZ)"),
        ("if(a, date '2026-01-31', null)", "CASE WHEN `x_a` THEN DATE '2026-01-31' ELSE NULL END"),
        ("timestamp '2026-01-31'", "TIMESTAMP_LTZ '2026-01-31 00:00:00+00:00'"),
        ("round(a)", "round(`x_a`, 0)"),
    ],
)
def test_sql_is_quoted_and_names_are_resolved(text: str, sql: str) -> None:
    def resolve(qualifier: str | None, name: str) -> str:
        return f"{(qualifier or 'x')[0]}_{name}"

    assert to_sql(parse_expression(text), resolve) == sql


def test_the_columns_that_an_expression_reads() -> None:
    text = "case when source.a > b.c then target.a else source.a + 1 end"
    assert columns_of(parse_expression(text)) == {("source", "a"), (None, "b"), ("target", "a")}
    assert columns_of(parse_expression("1 + 1")) == set()


@pytest.mark.parametrize("seed", range(5))
def test_any_expression_survives_its_text_and_pickling(seed: int) -> None:
    wishes = Wishes(seed)
    for number in range(100):
        found = parse_expression(wishes.any(number % 5))
        assert repr(parse_expression(format_expression(found))) == repr(found)
        assert repr(pickle.loads(pickle.dumps(found))) == repr(found)
