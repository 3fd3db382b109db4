"""What filters mean for rows and for bounds, case by case; the properties are tested apart."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lentic.errors import SchemaMismatch
from lentic.query.predicate import Bounds, columns_of, keys_equal, matches, may_match
from lentic.query.predicate_text import parse_predicate
from lentic.query.predicate_values import And, Comparison, In, IsNull, Like, Not, Or, Predicate

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("m", pa.int64()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("p", pa.decimal128(6, 2)),
        ("st", pa.struct([("n", pa.int32())])),
    ]
)
MOMENT = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
CLOCK = datetime(1970, 1, 1, 0, 0, 1)


def _parse(text: str) -> Predicate:
    return parse_predicate(text, SCHEMA)


def _kept(predicate: Predicate, column: pa.Array, name: str = "c") -> list[bool]:
    found: list[bool] = matches(predicate, pa.record_batch([column], [name])).to_pylist()
    return found


def test_matches_serves_to_filter_a_batch() -> None:
    batch = pa.record_batch({"n": [1, None, 3], "other": ["a", "b", "c"]})
    kept = batch.filter(matches(_parse("n > 1"), batch))
    assert kept.to_pylist() == [{"n": 3, "other": "c"}]
    assert matches(_parse("n > 1"), batch.slice(0, 0)).to_pylist() == []
    assert matches(_parse("n > 1"), batch.slice(2)).to_pylist() == [True]


def test_nan_is_greater_than_every_number_and_differs_from_it() -> None:
    column = pa.array([math.nan, 1.0, math.inf, None])
    kept = {op: _kept(Comparison(("c",), op, 1.0), column) for op in ("=", "!=", "<", "<=")}
    assert kept["="] == [False, True, False, False]
    assert kept["!="] == [True, False, True, False]
    assert kept["<"] == [False, False, False, False]
    assert kept["<="] == [False, True, False, False]
    assert _kept(Comparison(("c",), ">", 1.0), column) == [True, False, True, False]
    assert _kept(Comparison(("c",), ">=", 1e300), column) == [True, False, True, False]
    assert _kept(Not(In(("c",), (1.0,))), column) == [True, False, True, False]


def test_a_null_in_a_list_leaves_open_what_is_not_in_it() -> None:
    column = pa.array([1, 2, None])
    assert _kept(In(("c",), (1, None)), column) == [True, False, False]
    assert _kept(Not(In(("c",), (1, None))), column) == [False, False, False]
    assert _kept(Not(In(("c",), (1,))), column) == [False, True, False]


def test_minus_zero_is_zero() -> None:
    column = pa.array([0.0, -0.0])
    for zero in (0.0, -0.0):
        assert _kept(Comparison(("c",), "=", zero), column) == [True, True]
        assert _kept(In(("c",), (zero,)), column) == [True, True]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (pa.array([1, 2], pa.int8()), 2),
        (pa.array([1, 2], pa.uint64()), 2),
        (pa.array([1, 2**63 + 1], pa.uint64()), 2**63 + 1),
        (pa.array([1.0, 2.0], pa.float32()), 2),
        (pa.array([1.0, 2.0], pa.float16()), 2.0),
        (pa.array([1, 2], pa.int32()), 2.0),
        (pa.array([1, 2], pa.int32()), Decimal("2.00")),
        (pa.array([Decimal(1), Decimal(2)], pa.decimal128(3, 1)), 2),
        (pa.array([Decimal(1), Decimal(2)], pa.decimal256(50, 10)), Decimal("2.00")),
        (pa.array(["a", "b"], pa.large_string()), "b"),
        (pa.array(["a", "b"], pa.string_view()), "b"),
        (pa.array(["a", "b"]).dictionary_encode(), "b"),
        (pa.array([0, 86_400_000], pa.date64()), date(1970, 1, 2)),
        (
            pa.array([0, 1], pa.timestamp("s", tz="Asia/Tokyo")),
            datetime(1970, 1, 1, 0, 0, 1, 0, UTC),
        ),
        (pa.array([0, 1000], pa.timestamp("ns")), datetime(1970, 1, 1, 0, 0, 0, 1)),
    ],
)
def test_batches_may_have_other_types_that_compare(column: pa.Array, value: Any) -> None:
    assert _kept(Comparison(("c",), "=", value), column) == [False, True]
    assert _kept(Comparison(("c",), "<", value), column) == [True, False]
    assert _kept(In(("c",), (value,)), column) == [False, True]


@pytest.mark.parametrize(
    ("predicate", "column"),
    [
        (Comparison(("c",), "=", 1), pa.array(["1"])),
        (In(("c",), ("1",)), pa.array([1])),
        (Like(("c",), "1"), pa.array([1])),
        (
            Comparison(("c",), "=", datetime(2026, 1, 1)),
            pa.array([0], pa.timestamp("us", tz="UTC")),
        ),
        (Comparison(("c",), "=", date(2026, 1, 1)), pa.array([0], pa.timestamp("us"))),
        (Comparison(("c",), "=", True), pa.array([1])),
        (Comparison(("c",), "=", 1), pa.array([[1]])),
        (Comparison(("c", "x"), "=", 1), pa.array([{"y": 1}])),
        (Comparison(("c", "x"), "=", 1), pa.array([1])),
        (IsNull(("other",)), pa.array([1])),
    ],
)
def test_batches_that_do_not_compare_are_refused(predicate: Predicate, column: pa.Array) -> None:
    with pytest.raises(SchemaMismatch):
        _kept(predicate, column)


def test_a_column_of_the_null_type_is_null_to_every_test() -> None:
    column = pa.nulls(2)
    assert _kept(IsNull(("c",)), column) == [True, True]
    tests = (Comparison(("c",), "=", 1), In(("c",), (1,)), Like(("c",), "%"))
    assert all(_kept(test, column) == [False, False] for test in tests)
    assert all(_kept(Not(test), column) == [False, False] for test in tests)


def test_days_and_times_beyond_pythons_calendar_are_compared_too() -> None:
    days = pa.array([-(2**30), 0, 2**30], pa.date32())
    assert _kept(Comparison(("c",), ">", date(9999, 12, 31)), days) == [False, False, True]
    moments = pa.array([-(2**62), 0, 2**62], pa.timestamp("s"))
    assert _kept(Comparison(("c",), "<", datetime(1, 1, 1)), moments) == [True, False, False]


def test_a_time_between_the_ticks_of_a_column_equals_none_of_them() -> None:
    between = datetime(1970, 1, 1, 0, 0, 0, 1500)
    column = pa.array([1, 2], pa.timestamp("ms"))
    assert _kept(Comparison(("c",), "=", between), column) == [False, False]
    assert _kept(Comparison(("c",), "!=", between), column) == [True, True]
    assert _kept(Comparison(("c",), "<=", between), column) == [True, False]
    assert _kept(In(("c",), (between,)), column) == [False, False]
    assert _kept(Not(In(("c",), (between,))), column) == [True, True]


def test_a_field_of_a_null_struct_is_null() -> None:
    # The child holds 7 below the null, as Arrow allows.
    column = pa.StructArray.from_arrays(
        [pa.array([7, 7, None])], ["x"], mask=pa.array([False, True, False])
    )
    assert _kept(Comparison(("c", "x"), "=", 7), column) == [True, False, False]
    assert _kept(IsNull(("c", "x")), column) == [False, True, True]
    assert _kept(IsNull(("c",)), column) == [False, True, False]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("", [""]),
        ("%", ["", "abc", "a.c", "a%c", "a\nc", "\U0001f600"]),
        ("_", ["\U0001f600"]),
        ("a_c", ["abc", "a.c", "a%c", "a\nc"]),
        (r"a\%c", ["a%c"]),
        ("a.c", ["a.c"]),
        ("a%", ["abc", "a.c", "a%c", "a\nc"]),
        ("%c", ["abc", "a.c", "a%c", "a\nc"]),
        ("b", []),
    ],
)
def test_like_matches_the_whole_text(pattern: str, expected: list[str]) -> None:
    texts = ["", "abc", "a.c", "a%c", "a\nc", "\U0001f600", None]
    kept = _kept(Like(("c",), pattern), pa.array(texts))
    assert [text for text, is_kept in zip(texts, kept, strict=True) if is_kept] == expected


NUMBERS = Bounds(10, 20, 0, 5)
SOME_NULL = Bounds(10, 20, 1, 5)
ALL_NULL = Bounds(None, None, 5, 5)
ONE_VALUE = Bounds(10, 10, 0, 5)


@pytest.mark.parametrize(
    ("text", "known", "expected"),
    [
        ("n = 9", NUMBERS, False),
        ("n = 10", NUMBERS, True),
        ("n < 10", NUMBERS, False),
        ("n <= 10", NUMBERS, True),
        ("n > 20", NUMBERS, False),
        ("n >= 20", NUMBERS, True),
        ("n in (1, 2, 30)", NUMBERS, False),
        ("n in (1, 15)", NUMBERS, True),
        ("n not in (1, null)", NUMBERS, False),
        ("n != 10", ONE_VALUE, False),
        ("not n = 10", ONE_VALUE, False),
        ("not n in (9, 10)", ONE_VALUE, False),
        ("not n != 11", ONE_VALUE, False),
        ("n is null", NUMBERS, False),
        ("n is null", SOME_NULL, True),
        ("n is not null", ALL_NULL, False),
        ("n = 10", ALL_NULL, False),
        ("not n = 10", ALL_NULL, False),
        ("n = null", NUMBERS, False),
        ("not n = null", NUMBERS, False),
        ("not (n >= 10 and n <= 20)", NUMBERS, False),
        ("n < 10 or n > 20", NUMBERS, False),
        ("n < 10 or n = 15", NUMBERS, True),
        ("n = 15 and m = 1", NUMBERS, True),
        ("n = 9 and m = 1", NUMBERS, False),
        ("n = 9 or m = 1", NUMBERS, True),
        ("st.n = 9", NUMBERS, True),
        ("n = 9", Bounds(None, 20), True),
        ("n = 21", Bounds(None, 20), False),
        ("n = 9", Bounds(10, None), False),
        ("n = 9", Bounds("a", "b"), True),
        ("n = 9", Bounds(True, True), True),
        ("n = 9", Bounds(10.0, 20.0), True),
        ("n = 9", Bounds(Decimal(10), Decimal(20)), False),
        ("n is null", Bounds(rows=0), False),
    ],
)
def test_bounds_rule_out_what_they_can(text: str, known: Bounds, expected: bool) -> None:
    assert may_match(_parse(text), {"n": known}) is expected


@pytest.mark.parametrize(
    ("text", "known", "expected"),
    [
        ("f > 100", Bounds(1.0, 2.0, 0, 5), True),
        ("f != 1", Bounds(1.0, 1.0, 0, 5), True),
        ("not f <= 100", Bounds(1.0, 2.0, 0, 5), True),
        ("not f in (1)", Bounds(1.0, 1.0, 0, 5), True),
        ("f = 100", Bounds(1.0, 2.0, 0, 5), False),
        ("f < 1", Bounds(1.0, 2.0, 0, 5), False),
        ("not f > 0.5", Bounds(1.0, 2.0, 0, 5), False),
        ("f < 1", Bounds(math.nan, math.nan, 0, 5), True),
        ("f = 5", Bounds(1, 2, 0, 5), True),
    ],
)
def test_bounds_say_nothing_of_nan(text: str, known: Bounds, expected: bool) -> None:
    assert may_match(_parse(text), {"f": known}) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s like 'b%'", True),
        ("s like 'bern%'", True),
        ("s like 'a%'", False),
        ("s like 'd%'", False),
        ("s like 'c%'", True),
        ("s like 'ca%z'", True),
        ("s like 'cz_'", False),
        ("s like '%x'", True),
        ("s like 'zz'", False),
        ("s not like 'b%'", True),
        ("s not like '%'", False),
    ],
)
def test_bounds_rule_out_prefixes(text: str, expected: bool) -> None:
    assert may_match(_parse(text), {"s": Bounds("b", "cc", 0, 5)}) is expected


def test_a_prefix_that_both_bounds_have_is_that_of_all() -> None:
    known = {"s": Bounds("abc", "abd", 0, 5)}
    assert not may_match(_parse("s not like 'ab%'"), known)
    assert may_match(_parse("s not like 'ab%c'"), known)
    assert may_match(_parse("s not like 'abc%'"), known)


def test_days_and_moments_are_not_taken_for_each_other() -> None:
    assert may_match(_parse("t = '2020-01-01'"), {"t": Bounds(date(2026, 1, 1), date(2026, 1, 1))})
    naive = Bounds(datetime(2026, 1, 1), datetime(2026, 1, 1))
    assert may_match(_parse("t = '2020-01-01'"), {"t": naive})
    zoned = Bounds(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC))
    assert not may_match(_parse("t = '2020-01-01'"), {"t": zoned})
    assert may_match(_parse("d = '2020-01-01'"), {"d": zoned})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n = 1", {1}),
        ("n in (1, 2, null)", {1, 2}),
        ("n = null", set()),
        ("n = 1 and m = 2", {1}),
        ("n in (1, 2) and n in (2, 3)", {2}),
        ("n = 1 and n = 2", set()),
        ("n = 1 or n in (3, 4)", {1, 3, 4}),
        ("(n = 1 and m = 2) or (n = 3 and s = 'x')", {1, 3}),
        ("not (n != 1 or m = 2)", {1}),
        ("not not n = 1", {1}),
        ("not (n != 1 and n != 2)", {1, 2}),
        ("n = 1 or m = 2", None),
        ("n > 1", None),
        ("not n = 1", None),
        ("not n in (1, 2)", None),
        ("n is null or n = 1", None),
        ("m = 1", None),
        ("st.n = 1", None),
        ("n = 1 and f = 0", {1}),
    ],
)
def test_equal_keys_are_those_without_which_nothing_matches(
    text: str, expected: set[int] | None
) -> None:
    assert keys_equal(_parse(text), "n") == expected


def test_floats_have_no_equal_keys() -> None:
    # -0.0 equals 0.0 but hashes and prints differently.
    assert keys_equal(_parse("f = 0"), "f") is None
    assert keys_equal(_parse("st.n = 0"), "st") is None


def test_columns_are_the_top_level_ones() -> None:
    found = columns_of(_parse("n = 1 and (not st.n in (1) or s like 'a%') and f is null"))
    assert found == {"n", "st", "s", "f"}


def test_values_that_mean_nothing_cannot_be_built() -> None:
    for build in (
        lambda: Comparison(("f",), "=", math.nan),
        lambda: In(("f",), (math.inf,)),
        lambda: In(("f",), ()),
        lambda: And((IsNull(("f",)),)),
        lambda: Or(()),
    ):
        with pytest.raises(AssertionError):
            build()
