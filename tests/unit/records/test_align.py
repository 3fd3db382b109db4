"""Columns brought to the table's schema keep every value, or the read fails."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lentic.errors import Corrupt
from lentic.records.align import align, align_table


def _batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _aligned(column: pa.Array, kind: pa.DataType) -> list[Any]:
    result = align(_batch(c=column), pa.schema([("c", kind)]), "file")
    assert result.schema.field("c").type == kind
    values: list[Any] = result.column(0).to_pylist()
    return values


def test_columns_are_found_by_name_and_the_rest_is_left_out() -> None:
    rows = _batch(b=pa.array([1, 2]), x=pa.array([9, 9]), a=pa.array(["p", "q"]))
    schema = pa.schema([("a", pa.string()), ("b", pa.int64())])
    result = align(rows, schema, "file")
    assert result.schema == schema
    assert result.to_pylist() == [{"a": "p", "b": 1}, {"a": "q", "b": 2}]


def test_an_absent_column_is_null_in_every_row() -> None:
    result = align(_batch(a=pa.array([1, 2])), pa.schema([("n", pa.decimal128(5, 2))]), "file")
    assert result.to_pylist() == [{"n": None}, {"n": None}]
    assert result.num_rows == 2


def test_an_absent_column_that_may_not_be_null_is_corrupt_and_named() -> None:
    schema = pa.schema([pa.field("must", pa.int64(), nullable=False)])
    with pytest.raises(Corrupt, match="must") as caught:
        align(_batch(a=pa.array([1])), schema, "p/file@3")
    assert caught.value.where == "p/file@3"


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([1, None], pa.int32()), pa.int64()),
        (pa.array([1.5, None], pa.float32()), pa.float64()),
        (pa.array(["a", None], pa.large_string()), pa.string()),
        (pa.array([b"a", None], pa.large_binary()), pa.binary()),
        (pa.array(["a", None, "a"]).dictionary_encode(), pa.string()),
        (pa.array([[1], None], pa.list_(pa.int32())), pa.list_(pa.field("element", pa.int64()))),
        (pa.array([{"x": 1}], pa.struct([("x", pa.int32())])), pa.struct([("x", pa.int64())])),
        (pa.array([Decimal("1.25")], pa.decimal128(5, 2)), pa.decimal128(12, 2)),
        (
            pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
            pa.map_(pa.string(), pa.int64()),
        ),
    ],
)
def test_a_wider_type_holds_the_same_values(column: pa.Array, kind: pa.DataType) -> None:
    assert _aligned(column, kind) == column.to_pylist()


def test_a_coarser_timestamp_becomes_finer() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    column = pa.array([moment, None], pa.timestamp("ms", "UTC"))
    assert _aligned(column, pa.timestamp("us", "UTC")) == [moment, None]


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([2**40], pa.int64()), pa.int32()),
        (pa.array([1.5]), pa.int64()),
        (pa.array(["x"]), pa.int64()),
        (pa.array([1]), pa.list_(pa.int64())),
        (pa.array([1], pa.timestamp("us")), pa.timestamp("ms")),
        (pa.array([Decimal("1.25")], pa.decimal128(5, 2)), pa.decimal128(5, 1)),
        (pa.array([2**53 + 1]), pa.float64()),
        (pa.array([{"x": 1}]), pa.int64()),
        (
            pa.array([{"x": None}], pa.struct([("x", pa.int64())])),
            pa.struct([pa.field("x", pa.int64(), nullable=False)]),
        ),
    ],
)
def test_a_value_that_does_not_fit_is_corrupt_and_both_types_are_named(
    column: pa.Array, kind: pa.DataType
) -> None:
    with pytest.raises(Corrupt) as caught:
        _aligned(column, kind)
    assert "Column c" in caught.value.what
    assert str(column.type) in caught.value.what
    assert str(kind) in caught.value.what
    assert caught.value.where == "file"


def test_tables_are_aligned_chunk_by_chunk() -> None:
    schema = pa.schema([("a", pa.int64())])
    chunks = [pa.table({"a": pa.array([n], pa.int32()), "x": [n]}) for n in range(3)]
    result = align_table(pa.concat_tables(chunks), schema, "file")
    assert result.schema == schema
    assert result.column("a").to_pylist() == [0, 1, 2]
    assert align_table(chunks[0].slice(0, 0), schema, "file").num_rows == 0


def test_a_float_reads_as_the_double_with_the_same_text() -> None:
    stored = pa.RecordBatch.from_pydict({"x": pa.array([0.1, None, -2.5e-3, 3.4e38], pa.float32())})
    read = align(stored, pa.schema([("x", pa.float64())]), "a file")
    assert read.column("x").to_pylist() == [0.1, None, -2.5e-3, 3.4e38]
