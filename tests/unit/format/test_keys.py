"""Keys come out letter for letter as Java's `toString` forms them, a whole column at a time."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lentic.errors import InvalidRecord, SchemaMismatch
from lentic.format.keys import is_composite, record_keys, string_form


def keys(values: pa.Array) -> list[str]:
    table = pa.table({"id": values})
    return list(record_keys(table, ("id",), composite=False).to_pylist())


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array(["k0001", "ünï", "a b"]), ["k0001", "ünï", "a b"]),
        (pa.array(["x"], pa.large_string()), ["x"]),
        (pa.array(["x", "y", "x"]).dictionary_encode(), ["x", "y", "x"]),
        (pa.array([0, -7, 127], pa.int8()), ["0", "-7", "127"]),
        (pa.array([-(2**63), 2**63 - 1], pa.int64()), ["-9223372036854775808", str(2**63 - 1)]),
        (pa.array([2**64 - 1], pa.uint64()), ["18446744073709551615"]),
        (pa.array([True, False]), ["true", "false"]),
        (pa.array([date(2024, 2, 3), date(1, 1, 1)]), ["2024-02-03", "0001-01-01"]),
        (pa.array([3_000_000, 2_932_896], pa.date32()), ["+10183-09-21", "9999-12-31"]),
        (pa.array([86_400_000], pa.date64()), ["1970-01-02"]),
        (pa.array([Decimal("12.5"), Decimal(0)], pa.decimal128(10, 2)), ["12.50", "0.00"]),
        (pa.array([Decimal("0.00000012"), Decimal(0)], pa.decimal128(12, 8)), ["1.2E-7", "0E-8"]),
        (pa.array([1706933106789000], pa.timestamp("us", "UTC")), ["1706933106789000"]),
        (pa.array([1706933106789000], pa.timestamp("us")), ["1706933106789000"]),
        (pa.array([1706933106789], pa.timestamp("ms")), ["1706933106789000"]),
        (pa.array([-1], pa.timestamp("us")), ["-1"]),
    ],
    ids=str,
)
def test_each_type_has_one_text_form(values: pa.Array, expected: list[str]) -> None:
    assert keys(values) == expected


# Printed by Java's Double.toString and Float.toString.
JAVA_DOUBLES = {
    1.5: "1.5",
    2.25: "2.25",
    1.0: "1.0",
    -1.0: "-1.0",
    0.0: "0.0",
    0.001: "0.001",
    0.0001: "1.0E-4",
    0.00123: "0.00123",
    9999999.0: "9999999.0",
    9999999.5: "9999999.5",
    1e7: "1.0E7",
    1e10: "1.0E10",
    1.234567e9: "1.234567E9",
    -1.5e-7: "-1.5E-7",
    1e22: "1.0E22",
    123456789.125: "1.23456789125E8",
    1.7976931348623157e308: "1.7976931348623157E308",
    5e-324: "4.9E-324",
    float("inf"): "Infinity",
    float("-inf"): "-Infinity",
}


def test_doubles_have_javas_form() -> None:
    assert keys(pa.array(list(JAVA_DOUBLES), pa.float64())) == list(JAVA_DOUBLES.values())
    assert keys(pa.array([float("nan"), -0.0])) == ["NaN", "-0.0"]


def test_floats_have_javas_form_in_single_precision() -> None:
    values = pa.array([0.1, 3.3e6, 16777216.0, 1e-3, 1.17e-38, 3.4028235e38, 1e-45], pa.float32())
    assert keys(values) == [
        "0.1",
        "3300000.0",
        "1.6777216E7",
        "0.001",
        "1.17E-38",
        "3.4028235E38",
        "1.4E-45",
    ]


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_the_form_of_a_double_reads_back_as_the_same_double(values: list[float]) -> None:
    for value, text in zip(values, keys(pa.array(values, pa.float64())), strict=True):
        assert float(text) == value
        mantissa, _, power = text.partition("E")
        assert "." in mantissa or "Infinity" in mantissa
        plain = value == 0 or 1e-3 <= abs(value) < 1e7 or abs(value) == float("inf")
        assert (power == "") == plain


def test_nulls_stay_null_in_every_form() -> None:
    for kind in (pa.string(), pa.int32(), pa.float64(), pa.date32(), pa.timestamp("us"), pa.null()):
        column = pa.array([None, None], kind)
        assert string_form(column, "c").to_pylist() == [None, None]
    mixed = pa.array([1e10, None, 1.0])
    assert string_form(mixed, "c").to_pylist() == ["1.0E10", None, "1.0"]


@pytest.mark.parametrize("missing", [None, ""])
def test_a_missing_key_is_refused_naming_column_and_first_row(missing: str | None) -> None:
    table = pa.table({"id": pa.chunked_array([["a", "b"], [missing], ["c", missing]])})
    with pytest.raises(InvalidRecord, match=r"Row 2 .*column id is null or empty") as caught:
        record_keys(table, ("id",), composite=False)
    assert caught.value.safe == "Nothing was written."


@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"x"]),
        pa.array([[1]]),
        pa.array([{"a": 1}]),
        pa.array([1], pa.time64("us")),
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
    ],
    ids=lambda column: str(column.type),
)
def test_types_without_a_text_form_are_refused(column: pa.Array) -> None:
    with pytest.raises(SchemaMismatch, match="Column id of type"):
        keys(column)


def test_nanoseconds_that_do_not_fit_microseconds_are_refused() -> None:
    assert keys(pa.array([5000], pa.timestamp("ns"))) == ["5"]
    with pytest.raises(SchemaMismatch, match="whole microseconds"):
        keys(pa.array([5001], pa.timestamp("ns")))


def test_a_key_field_the_rows_lack_is_refused_naming_those_they_have() -> None:
    with pytest.raises(SchemaMismatch, match=r"Column id(.|\n)*they have: a, b"):
        record_keys(pa.table({"a": [1], "b": [2]}), ("id",), composite=False)


def test_a_column_given_twice_is_refused() -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"])
    with pytest.raises(SchemaMismatch, match="2 columns of that name"):
        record_keys(twice, ("id",), composite=False)


def test_a_composite_key_names_fields_and_marks_missing_values() -> None:
    table = pa.table(
        {"id": ["a", "", None, "a,b"], "seq": pa.array([1, 2, 3, None], pa.int32()), "x": [0] * 4}
    )
    assert record_keys(table, ("id", "seq"), composite=True).to_pylist() == [
        "id:a,seq:1",
        "id:__empty__,seq:2",
        "id:__null__,seq:3",
        "id:a,b,seq:__null__",
    ]


def test_a_composite_key_of_one_field_still_names_it() -> None:
    batch = pa.record_batch({"id": ["k0001"]})
    assert record_keys(batch, ("id",), composite=True).to_pylist() == ["id:k0001"]


def test_a_composite_key_with_every_value_missing_is_refused() -> None:
    table = pa.table({"a": ["x", "", None], "b": pa.array([1, None, None], pa.int64())})
    with pytest.raises(InvalidRecord, match=r"Row 1 .*columns a, b are all null or empty"):
        record_keys(table, ("a", "b"), composite=True)


def test_no_rows_give_no_keys() -> None:
    empty = pa.table({"a": pa.array([], pa.float64()), "b": pa.array([], pa.date32())})
    assert record_keys(empty, ("a", "b"), composite=True).to_pylist() == []
    assert record_keys(empty, ("a",), composite=False).type == pa.string()


@pytest.mark.parametrize(
    ("keygen", "fields", "expected"),
    [
        ("SIMPLE", ("id",), False),
        ("NON_PARTITION", ("id",), False),
        ("TIMESTAMP", ("id",), False),
        ("NON_PARTITION", ("id", "seq"), True),
        ("SIMPLE", ("id", "seq"), True),
        ("COMPLEX", ("id",), True),
        ("COMPLEX", ("id", "seq"), True),
        ("complex_avro", ("id",), True),
    ],
)
def test_which_keys_are_composite(keygen: str, fields: tuple[str, ...], expected: bool) -> None:
    assert is_composite(keygen, fields) is expected
