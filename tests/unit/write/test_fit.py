"""Rows fit a table when nothing is lost; else column and both types are named."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lentic.errors import InvalidRecord, Refused, SchemaMismatch
from lentic.format.record_fields import META_FIELDS
from lentic.write.fit import conform, ensure_fits, reads_as

TABLE = pa.schema([("id", pa.string()), ("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))])

ELEMENT64 = pa.list_(pa.field("element", pa.int64()))
STRUCT64 = pa.struct([("x", pa.int64()), ("y", pa.string())])
NOON = datetime(2026, 1, 1, 12)

WIDENINGS: list[tuple[pa.DataType, pa.DataType, Any]] = [
    (pa.int8(), pa.int32(), 127),
    (pa.int8(), pa.int64(), -128),
    (pa.int16(), pa.int32(), 32_767),
    (pa.int32(), pa.int64(), -(2**31)),
    (pa.float32(), pa.float64(), 1.5),
    (pa.large_string(), pa.string(), "ä"),
    (pa.string_view(), pa.string(), "ä"),
    (pa.large_binary(), pa.binary(), b"\xff"),
    (pa.binary_view(), pa.binary(), b"\xff"),
    (pa.decimal128(5, 2), pa.decimal128(12, 2), Decimal("123.45")),
    (pa.decimal64(5, 2), pa.decimal128(12, 2), Decimal("123.45")),
    (pa.decimal256(5, 2), pa.decimal128(5, 2), Decimal("123.45")),
    (pa.timestamp("s"), pa.timestamp("us"), NOON),
    (pa.timestamp("ms"), pa.timestamp("us"), NOON),
    (pa.timestamp("us", "Europe/Berlin"), pa.timestamp("us", "UTC"), NOON),
    (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"), NOON),
    (pa.dictionary(pa.int8(), pa.string()), pa.string(), "few"),
    (pa.dictionary(pa.int32(), pa.int32()), pa.int64(), 7),
    (pa.list_(pa.int32()), ELEMENT64, [1, None]),
    (pa.large_list(pa.int64()), ELEMENT64, [1]),
    (pa.struct([("x", pa.int32()), ("y", pa.large_string())]), STRUCT64, {"x": 1, "y": "a"}),
    (pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int64()), [("k", 1)]),
    (
        pa.list_(pa.struct([("x", pa.int32())])),
        pa.list_(pa.field("element", pa.struct([("x", pa.int64())]))),
        [{"x": 3}],
    ),
]


@pytest.mark.parametrize(("given", "wanted", "value"), WIDENINGS, ids=str)
def test_a_type_that_loses_nothing_fits_and_its_values_come_through(
    given: pa.DataType, wanted: pa.DataType, value: Any
) -> None:
    assert reads_as(given, wanted)
    ensure_fits(pa.schema([("c", given)]), pa.schema([("c", wanted)]))
    if pa.types.is_dictionary(given):
        column = pa.array([value, None], given.value_type).dictionary_encode()
    else:
        column = pa.array([value, None], given)
    rows = pa.RecordBatch.from_arrays([column], names=["c"])
    conformed = conform(rows, pa.schema([("c", wanted)])).column(0)
    assert conformed.type == wanted
    back = given.value_type if pa.types.is_dictionary(given) else given
    assert conformed.cast(back).to_pylist() == column.to_pylist()


@pytest.mark.parametrize("kind", [wanted for _, wanted, _ in WIDENINGS], ids=str)
def test_every_type_fits_itself(kind: pa.DataType) -> None:
    assert reads_as(kind, kind)


REFUSALS: list[tuple[pa.DataType, pa.DataType]] = [
    (pa.int64(), pa.int32()),
    (pa.uint32(), pa.int32()),
    (pa.uint64(), pa.int64()),
    (pa.float64(), pa.int64()),
    (pa.int64(), pa.float64()),
    (pa.int64(), pa.string()),
    (pa.string(), pa.int64()),
    (pa.binary(), pa.string()),
    (pa.string(), pa.binary()),
    (pa.float64(), pa.float32()),
    (pa.bool_(), pa.int32()),
    (pa.int32(), pa.bool_()),
    (pa.string(), pa.date32()),
    (pa.date32(), pa.timestamp("us")),
    (pa.timestamp("us"), pa.date32()),
    (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    (pa.timestamp("us", "UTC"), pa.timestamp("us")),
    (pa.timestamp("ns"), pa.timestamp("us")),
    (pa.timestamp("us"), pa.timestamp("ms")),
    (pa.decimal128(12, 2), pa.decimal128(5, 2)),
    (pa.decimal128(5, 3), pa.decimal128(12, 2)),
    (pa.decimal128(5, 1), pa.decimal128(12, 2)),
    (pa.int64(), pa.decimal128(38, 2)),
    (pa.float64(), pa.decimal128(38, 2)),
    (pa.list_(pa.int64()), pa.list_(pa.int32())),
    (pa.int64(), ELEMENT64),
    (ELEMENT64, pa.int64()),
    (pa.struct([("x", pa.int64())]), STRUCT64),
    (pa.struct([("y", pa.string()), ("x", pa.int64())]), STRUCT64),
    (pa.struct([("x", pa.string()), ("y", pa.string())]), STRUCT64),
    (pa.string(), STRUCT64),
    (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int32())),
    (pa.map_(pa.int64(), pa.int64()), pa.map_(pa.string(), pa.int64())),
    (STRUCT64, pa.map_(pa.string(), pa.int64())),
    (pa.dictionary(pa.int32(), pa.int64()), pa.int32()),
]


@pytest.mark.parametrize(("given", "wanted"), REFUSALS, ids=str)
def test_a_type_that_could_lose_something_is_refused_and_both_are_named(
    given: pa.DataType, wanted: pa.DataType
) -> None:
    assert not reads_as(given, wanted)
    with pytest.raises(SchemaMismatch) as caught:
        ensure_fits(pa.schema([("amount", given)]), pa.schema([("amount", wanted)]))
    assert "amount" in caught.value.what
    assert str(given) in caught.value.what
    assert str(wanted) in caught.value.what
    assert caught.value.safe == "nothing was written"
    assert caught.value.next_step == f"cast amount to {wanted} and write again"


def test_columns_may_come_in_any_order_and_with_meta_columns() -> None:
    reordered = pa.schema([TABLE.field("at"), TABLE.field("id"), TABLE.field("n")])
    ensure_fits(reordered, TABLE)
    ensure_fits(pa.schema([*((name, pa.int64()) for name in META_FIELDS), *TABLE]), TABLE)


def test_a_lacking_column_is_named_before_anything_else() -> None:
    with pytest.raises(SchemaMismatch) as caught:
        ensure_fits(pa.schema([("id", pa.int64()), ("x", pa.int64())]), TABLE)
    assert caught.value.what == "The rows lack column n, at of the table."
    assert caught.value.next_step == "add n and write again"


def test_a_column_the_table_does_not_have_is_named() -> None:
    with pytest.raises(SchemaMismatch) as caught:
        ensure_fits(TABLE.append(pa.field("more", pa.int64())), TABLE)
    assert caught.value.what == "The table has no column more."
    assert caught.value.next_step == "drop more and write again"


def test_a_column_that_comes_twice_is_named() -> None:
    with pytest.raises(SchemaMismatch) as caught:
        ensure_fits(TABLE.append(pa.field("n", pa.int64())), TABLE)
    assert caught.value.what == "The rows have column n twice."


def test_nullability_is_not_a_matter_of_types() -> None:
    ensure_fits(
        pa.schema([("n", pa.int64())]), pa.schema([pa.field("n", pa.int64(), nullable=False)])
    )


# Conforming


def _conformed(column: pa.Array, wanted: pa.Field) -> list[Any]:
    rows = pa.RecordBatch.from_arrays([column], names=[wanted.name])
    values: list[Any] = conform(rows, pa.schema([wanted])).column(0).to_pylist()
    return values


def _never_null(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


STRICT_STRUCT = pa.struct([_never_null("x", pa.int64()), ("y", pa.int64())])
STRICT_LIST = pa.list_(_never_null("element", pa.int64()))
STRICT_MAP = pa.map_(pa.string(), _never_null("value", pa.int64()))
LOOSE_STRUCT = pa.struct([("x", pa.int64()), ("y", pa.int64())])

NULLS: list[tuple[pa.Field, pa.DataType, list[Any], str]] = [
    (_never_null("c", pa.int64()), pa.int64(), [1, None], "c"),
    (pa.field("c", STRICT_STRUCT), LOOSE_STRUCT, [{"x": None, "y": 1}], "c.x"),
    (pa.field("c", STRICT_LIST), pa.list_(pa.int64()), [[1, None]], "c.element"),
    (pa.field("c", STRICT_LIST), pa.large_list(pa.int64()), [[], [None]], "c.element"),
    (pa.field("c", STRICT_MAP), pa.map_(pa.string(), pa.int64()), [[("k", None)]], "c.value"),
    (
        pa.field("c", pa.list_(pa.field("element", STRICT_STRUCT))),
        pa.list_(LOOSE_STRUCT),
        [[{"x": 1, "y": 1}, {"x": None, "y": 1}]],
        "c.element.x",
    ),
]


@pytest.mark.parametrize(("wanted", "given", "values", "name"), NULLS, ids=lambda value: str(value))
def test_a_null_where_none_may_be_is_found_at_any_depth_and_named(
    wanted: pa.Field, given: pa.DataType, values: list[Any], name: str
) -> None:
    with pytest.raises(InvalidRecord) as caught:
        _conformed(pa.array(values, given), wanted)
    assert f"Column {name} holds a null" in caught.value.what
    assert caught.value.next_step


@pytest.mark.parametrize(
    ("kind", "given", "values"),
    [
        (STRICT_STRUCT, LOOSE_STRUCT, [None, {"x": 1, "y": None}]),
        (STRICT_LIST, pa.list_(pa.int64()), [None, [], [1]]),
        (STRICT_MAP, pa.map_(pa.string(), pa.int64()), [None, [], [("k", 1)]]),
    ],
)
def test_what_is_absent_as_a_whole_has_no_nulls_within(
    kind: pa.DataType, given: pa.DataType, values: list[Any]
) -> None:
    assert _conformed(pa.array(values, given), pa.field("c", kind)) == values


@pytest.mark.parametrize(("wanted", "given", "values", "name"), NULLS, ids=lambda value: str(value))
def test_nulls_of_rows_that_were_sliced_away_do_not_count(
    wanted: pa.Field, given: pa.DataType, values: list[Any], name: str
) -> None:
    del name
    good = {"x": 5, "y": 5}
    fine: Any = 5
    if pa.types.is_struct(given):
        fine = good
    elif pa.types.is_map(given):
        fine = [("k", 5)]
    elif pa.types.is_list(given) or pa.types.is_large_list(given):
        fine = [good] if pa.types.is_struct(given.value_type) else [5]
    column = pa.array([*values, fine, *values], given).slice(len(values), 1)
    assert _conformed(column, wanted) == [fine]


def test_columns_come_in_the_tables_order_without_meta_columns() -> None:
    rows = pa.record_batch({"b": ["x"], "_hoodie_file_name": ["f"], "a": pa.array([1], pa.int8())})
    table = pa.schema([_never_null("a", pa.int64()), ("b", pa.string())])
    assert conform(rows, table) == pa.record_batch([pa.array([1]), pa.array(["x"])], schema=table)


def test_a_moment_too_far_away_for_the_tables_unit_is_refused_in_words_of_ours() -> None:
    column = pa.array([2**62], pa.timestamp("s"))
    with pytest.raises(Refused, match="Column at"):
        _conformed(column, pa.field("at", pa.timestamp("us")))


def test_a_null_is_found_where_the_rows_too_say_there_is_none() -> None:
    null = pa.array([None], pa.int64())
    struct = pa.StructArray.from_arrays([null, null], fields=list(STRICT_STRUCT))
    with pytest.raises(InvalidRecord, match=r"Column c\.x holds a null"):
        _conformed(struct, pa.field("c", STRICT_STRUCT))
    offsets = pa.array([0, 1], pa.int32())
    with pytest.raises(InvalidRecord, match=r"Column c\.element holds a null"):
        _conformed(
            pa.ListArray.from_arrays(offsets, null, type=STRICT_LIST), pa.field("c", STRICT_LIST)
        )
    mapped = pa.MapArray.from_arrays(offsets, pa.array(["k"]), null, type=STRICT_MAP)
    with pytest.raises(InvalidRecord, match=r"Column c\.value holds a null"):
        _conformed(mapped, pa.field("c", STRICT_MAP))


# What the rows lack

GROWN_STRUCT = pa.struct([("x", pa.int64()), ("y", pa.int64()), ("z", pa.list_(pa.int32()))])
NARROW_STRUCT = pa.struct([("y", pa.int32()), ("x", pa.int8())])


def test_columns_that_the_rows_lack_are_null() -> None:
    table = pa.schema([("a", pa.int64()), ("s", STRICT_STRUCT), ("b", pa.string())])
    conformed = conform(pa.record_batch({"b": ["x", "y"]}), table)
    conformed.validate(full=True)
    assert conformed.schema == table
    assert conformed.to_pydict() == {"a": [None, None], "s": [None, None], "b": ["x", "y"]}


@pytest.mark.parametrize(
    ("given", "wanted", "values", "expected"),
    [
        (
            NARROW_STRUCT,
            GROWN_STRUCT,
            [{"y": 2, "x": 1}, None, {"y": None, "x": 3}],
            [{"x": 1, "y": 2, "z": None}, None, {"x": 3, "y": None, "z": None}],
        ),
        (
            pa.list_(NARROW_STRUCT),
            pa.list_(pa.field("element", GROWN_STRUCT)),
            [[{"y": 2, "x": 1}, None], None, [], [{"y": 4, "x": 3}]],
            [[{"x": 1, "y": 2, "z": None}, None], None, [], [{"x": 3, "y": 4, "z": None}]],
        ),
        (
            pa.map_(pa.large_string(), NARROW_STRUCT),
            pa.map_(pa.string(), pa.field("value", GROWN_STRUCT)),
            [[("k", {"y": 2, "x": 1}), ("l", None)], None, [], [("m", {"y": 4, "x": 3})]],
            [
                [("k", {"x": 1, "y": 2, "z": None}), ("l", None)],
                None,
                [],
                [("m", {"x": 3, "y": 4, "z": None})],
            ],
        ),
        (
            pa.struct([("s", pa.large_list(NARROW_STRUCT))]),
            pa.struct([("t", pa.date32()), ("s", pa.large_list(GROWN_STRUCT))]),
            [{"s": [{"y": 2, "x": 1}]}, {"s": None}, None],
            [{"t": None, "s": [{"x": 1, "y": 2, "z": None}]}, {"t": None, "s": None}, None],
        ),
        (pa.int32(), pa.float64(), [2**31 - 1, None], [2147483647.0, None]),
    ],
    ids=str,
)
def test_fields_that_the_rows_lack_are_null_at_any_depth(
    given: pa.DataType, wanted: pa.DataType, values: list[Any], expected: list[Any]
) -> None:
    column, field = pa.array(values, given), pa.field("c", wanted)
    for start in range(len(values) + 1):
        rows = pa.RecordBatch.from_arrays([column.slice(start)], names=["c"])
        conformed = conform(rows, pa.schema([field])).column(0)
        conformed.validate(full=True)
        assert conformed.type == wanted
        assert conformed.to_pylist() == expected[start:]
        assert _conformed(column.slice(0, start), field) == expected[:start]


def test_a_column_that_is_never_null_cannot_be_lacking() -> None:
    rows = pa.record_batch({"b": ["x"]})
    with pytest.raises(SchemaMismatch, match="lack column a, and the table says it is never null"):
        conform(rows, pa.schema([_never_null("a", pa.int64()), ("b", pa.string())]))
    inner = pa.array([[{"y": 1}]], pa.list_(pa.struct([("y", pa.int64())])))
    with pytest.raises(SchemaMismatch, match=r"lack column c\.element\.x, "):
        _conformed(inner, pa.field("c", pa.list_(pa.field("element", STRICT_STRUCT))))


def test_no_struct_lacks_no_field() -> None:
    absent = pa.array([None, None], pa.struct([("y", pa.int64())]))
    assert _conformed(absent, pa.field("c", STRICT_STRUCT)) == [None, None]


@pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.int64()])
def test_what_lies_under_a_null_does_not_count(kind: pa.DataType) -> None:
    wanted = pa.timestamp("us") if pa.types.is_timestamp(kind) else pa.int64()
    hidden = pa.array([2**62, 1], pa.int64()).cast(kind)
    shown = hidden.slice(1).cast(wanted).to_pylist()[0]
    mask = pa.array([True, False])
    struct = pa.StructArray.from_arrays([hidden], names=["x"], mask=mask)
    wanted_struct = pa.struct([_never_null("x", wanted)])
    assert _conformed(struct, pa.field("c", wanted_struct)) == [None, {"x": shown}]
    offsets = pa.array([0, 1, 2], pa.int32())
    listed = pa.ListArray.from_arrays(offsets, hidden, mask=mask)
    element = pa.list_(_never_null("element", wanted))
    assert _conformed(listed, pa.field("c", element)) == [None, [shown]]
    keys = pa.array(["k", "l"])
    mapped = pa.MapArray.from_arrays(offsets, keys, hidden, mask=mask)
    value = pa.map_(pa.string(), _never_null("value", wanted))
    assert _conformed(mapped, pa.field("c", value)) == [None, [("l", shown)]]


def test_no_value_is_dropped_without_a_word() -> None:
    with pytest.raises(SchemaMismatch, match=r"The table has no column c\.y\."):
        _conformed(
            pa.array([{"x": 1, "y": 2}], LOOSE_STRUCT),
            pa.field("c", pa.struct([("x", pa.int64())])),
        )
    twice = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["c", "c"])
    with pytest.raises(SchemaMismatch, match="The rows have column c twice"):
        conform(twice, pa.schema([("c", pa.int64())]))
