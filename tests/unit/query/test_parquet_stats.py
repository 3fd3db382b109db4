"""Row groups by Parquet statistics: what is left out, and what is never trusted."""

from __future__ import annotations

import io
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lentic.query.parquet_stats import row_groups_that_may_match
from lentic.query.predicate_text import parse_predicate


def _chosen(
    column: pa.Array, text: str, *, wanted: pa.DataType | None = None, **options: Any
) -> list[int]:
    """The row groups, of two rows each, of a file with the column c, for a table with `wanted`."""
    data = io.BytesIO()
    pq.write_table(pa.table({"c": column}), data, row_group_size=2, **options)
    schema = pa.schema([("c", wanted or column.type)])
    metadata = pq.read_metadata(data)
    return row_groups_that_may_match(metadata, schema, parse_predicate(text, schema))


ALL = [0, 1]
NUMBERS = pa.array([1, 2, 3, 4], pa.int32())
CLOCKS = pa.array([1, 2, 3, 4], pa.timestamp("us"))


@pytest.mark.parametrize(
    ("column", "text", "expected"),
    [
        (NUMBERS, "c = 3", [1]),
        (NUMBERS, "c < 3", [0]),
        (NUMBERS, "c > 100", []),
        (NUMBERS, "c >= 2", ALL),
        (NUMBERS, "c is null", []),
        (pa.array([None, None, 3, None], pa.int64()), "c is not null", [1]),
        (pa.array([None, None, 3, None], pa.int64()), "c != 0", [1]),
        (pa.array([None, None, 3, 4], pa.int64()), "c is null", [0]),
        (pa.array([True, True, False, False]), "not c", [1]),
        (pa.array(["a", "b", "ü", "z"]), "c like 'a%'", [0]),
        (pa.array(["a", "b", "ü", "z"]), "c > 'b'", [1]),
        (pa.array(["a", "b", "ü", "z"]).dictionary_encode(), "c > 'b'", [1]),
        (pa.array(["a", "b", "c", "d"], pa.large_string()), "c > 'b'", [1]),
        (pa.array([1.0, math.nan, 3.0, 4.0]), "c < 3", [0]),
        (pa.array([1.0, math.nan, 3.0, 4.0]), "c > 100", ALL),
        (pa.array([1.0, math.nan, 3.0, 4.0], pa.float32()), "c = 3", [1]),
        (pa.array([0, 1, 2, 3], pa.date32()), "c >= '1970-01-03'", [1]),
        (pa.array([0, 1, 2, 3], pa.timestamp("us", tz="UTC")), "c = '1970-01-01'", [0]),
        (pa.array([0, 1, 2, 3], pa.timestamp("ms")), "c = '1970-01-01'", [0]),
        (pa.array([Decimal(n) for n in (-2, -1, 1, 2)], pa.decimal128(5, 2)), "c < 0", [0]),
        (pa.array([Decimal(n) for n in (-2, -1, 1, 2)], pa.decimal128(38, 9)), "c < 0", [0]),
    ],
)
def test_groups_without_a_matching_row_are_left_out(
    column: pa.Array, text: str, expected: list[int]
) -> None:
    assert _chosen(column, text) == expected


def test_decimals_stored_as_integers_are_understood() -> None:
    column = pa.array([Decimal(n) for n in (-2, -1, 1, 2)], pa.decimal128(5, 2))
    assert _chosen(column, "c < -0.5", store_decimal_as_integer=True) == [0]


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array([1, 2, 3, 2**63], pa.uint64()), "c > 9223372036854775808"),
        (pa.array([0, 1, 2, 3], pa.timestamp("ns")), "c > '2030-01-01'"),
        (pa.array([2**30] * 4, pa.date32()), "c < '2030-01-01'"),
        (pa.array([2**50] * 4, pa.timestamp("ms")), "c < '2030-01-01'"),
        (pa.array([1.0, 2.0, 3.0, 4.0], pa.float16()), "c < 0"),
        (pa.array([{"x": 1}] * 4), "c.x = 5"),
        (pa.array([{"x": 1}] * 4), "c is null"),
        (pa.array([[1]] * 4), "c is null"),
        (pa.array(["a" * 5000] * 4), "c = 'b'"),
    ],
)
def test_what_is_odd_or_nested_is_read(column: pa.Array, text: str) -> None:
    assert _chosen(column, text) == ALL


@pytest.mark.parametrize(
    "options", [{"write_statistics": False}, {"use_deprecated_int96_timestamps": True}]
)
def test_files_that_say_nothing_are_read(options: dict[str, bool]) -> None:
    column = pa.array([0, 1, 2, 3], pa.timestamp("us", tz="UTC"))
    assert _chosen(column, "c > '2030-01-01' or c is null", **options) == ALL


@pytest.mark.parametrize(
    ("column", "wanted", "text", "expected"),
    [
        (NUMBERS, pa.int64(), "c > 2", [1]),
        (
            pa.array([Decimal(n) for n in (1, 2, 3, 4)], pa.decimal128(5, 2)),
            pa.decimal128(9, 4),
            "c > 2.0001",
            [1],
        ),
        (pa.array([0, 1, 2, 3], pa.timestamp("ms")), pa.timestamp("us"), "c = '1970-01-01'", [0]),
        (pa.array(["a", "b", "c", "d"]), pa.large_string(), "c > 'b'", [1]),
    ],
)
def test_older_files_with_narrower_types_are_still_pruned(
    column: pa.Array, wanted: pa.DataType, text: str, expected: list[int]
) -> None:
    assert _chosen(column, text, wanted=wanted) == expected


def test_a_float_that_became_a_double_is_read_for_its_bounds_are_not_its_value() -> None:
    column = pa.array([0.1, 0.1, 0.1, 0.1], pa.float32())
    assert _chosen(column, "c = 0.1", wanted=pa.float64()) == ALL


@pytest.mark.parametrize(
    ("column", "wanted", "text"),
    [
        (NUMBERS, pa.float32(), "c < 0"),
        (NUMBERS, pa.float64(), "c < 0"),
        (NUMBERS, pa.string(), "c = '9'"),
        (pa.array([0.1, 0.2, 0.3, 0.4]), pa.float32(), "c < 0"),
        (pa.array([1, 2, 3, 4], pa.timestamp("us")), pa.timestamp("ms"), "c <= '1970-01-01'"),
        (
            pa.array([1, 2, 3, 4], pa.timestamp("us")),
            pa.timestamp("us", tz="UTC"),
            "c < '1960-01-01'",
        ),
        (pa.array([1, 2, 3, 4], pa.date32()), pa.timestamp("us"), "c < '1960-01-01'"),
        (pa.array([b"a", b"b", b"c", b"d"]), pa.string(), "c = 'z'"),
    ],
)
def test_bounds_of_other_types_are_not_trusted_but_null_counts_are(
    column: pa.Array, wanted: pa.DataType, text: str
) -> None:
    assert _chosen(column, text, wanted=wanted) == ALL
    assert _chosen(column, "c is null", wanted=wanted) == []


def test_a_name_with_a_dot_is_not_taken_for_a_field() -> None:
    struct = pa.struct([("b", pa.int64())])
    schema = pa.schema([("a", struct), ("a.b", pa.int64())])
    data = io.BytesIO()
    pq.write_table(pa.table([pa.array([{"b": 5}], struct)], ["a"]), data)
    metadata = pq.read_metadata(data)
    for text in ("`a.b` is null", "a.b = 9"):
        assert row_groups_that_may_match(metadata, schema, parse_predicate(text, schema)) == [0]


def test_a_column_that_the_file_lacks_could_hold_anything() -> None:
    data = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), data)
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    metadata = pq.read_metadata(data)
    for text, expected in (("b = 1", [0]), ("b is null", [0]), ("b = 1 and a = 2", [])):
        predicate = parse_predicate(text, schema)
        assert row_groups_that_may_match(metadata, schema, predicate) == expected


def test_a_file_without_rows_has_no_group_to_read() -> None:
    assert _chosen(pa.array([], pa.int64()), "c = 1 or c is null") == []
