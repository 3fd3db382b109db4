"""A table's schema grows with the rows, and only in ways that keep older files readable."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lentic.errors import SchemaMismatch
from lentic.format.record_fields import META_FIELDS
from lentic.records.align import align
from lentic.records.merge import IS_DELETED
from lentic.write.evolve import evolve, is_changed
from lentic.write.fit import conform


def _never_null(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


def _list(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", kind))


def _map(kind: pa.DataType) -> pa.DataType:
    return pa.map_(pa.string(), pa.field("value", kind))


def _one(kind: pa.DataType) -> pa.Schema:
    return pa.schema([("c", kind)])


def _refusal(
    table: pa.Schema, given: pa.Schema, *, required: tuple[str, ...] = ()
) -> SchemaMismatch:
    with pytest.raises(SchemaMismatch) as caught:
        evolve(table, given, required=required)
    assert caught.value.safe == "nothing was written"
    assert caught.value.next_step.endswith(" and write again")
    return caught.value


TABLE = pa.schema([_never_null("id", pa.string()), ("n", pa.int32()), ("at", pa.timestamp("us"))])
KEY = ("id",)

# What stays


def test_rows_of_the_tables_schema_leave_it_as_it_is() -> None:
    assert evolve(TABLE, TABLE, required=KEY) is TABLE
    assert not is_changed(TABLE, TABLE)


def test_order_and_meta_columns_of_the_rows_do_not_matter() -> None:
    meta = [(name, pa.int64()) for name in (*META_FIELDS, *META_FIELDS)]
    assert evolve(TABLE, pa.schema([*meta, *reversed(list(TABLE))]), required=KEY) is TABLE


def test_columns_that_the_rows_lack_stay() -> None:
    assert evolve(TABLE, pa.schema([TABLE.field("id")]), required=KEY) is TABLE


def test_nullability_neither_tightens_nor_loosens() -> None:
    table = pa.schema([_never_null("a", pa.int32()), ("b", _list(pa.int32()))])
    element = pa.list_(_never_null("element", pa.int32()))
    given = pa.schema([("a", pa.int64()), _never_null("b", element)])
    expected = pa.schema([_never_null("a", pa.int64()), ("b", _list(pa.int32()))])
    assert evolve(table, given, required=()) == expected


NARROWER: list[tuple[pa.DataType, pa.DataType]] = [
    (pa.int64(), pa.int32()),
    (pa.int32(), pa.int8()),
    (pa.float64(), pa.float32()),
    (pa.float64(), pa.int32()),
    (pa.float64(), pa.int16()),
    (pa.string(), pa.large_string()),
    (pa.string(), pa.dictionary(pa.int32(), pa.string())),
    (pa.decimal128(12, 2), pa.decimal128(5, 2)),
    (pa.timestamp("us"), pa.timestamp("s")),
    (pa.timestamp("us", "UTC"), pa.timestamp("ms", "Europe/Berlin")),
    (_list(pa.float64()), pa.large_list(pa.int32())),
    (_map(pa.int64()), pa.map_(pa.large_string(), pa.int16())),
    (pa.struct([("x", pa.float64())]), pa.struct([("x", pa.float32())])),
    (pa.struct([("x", pa.int64()), ("y", pa.int8())]), pa.struct([("x", pa.int32())])),
]


@pytest.mark.parametrize(("table", "given"), NARROWER, ids=str)
def test_rows_of_a_narrower_type_leave_the_table_as_it_is(
    table: pa.DataType, given: pa.DataType
) -> None:
    schema = _one(table)
    assert evolve(schema, _one(given), required=()) is schema
    assert evolve(schema, _one(given), required=(), allow=False) is schema


# What is added


def test_new_columns_come_last_in_the_rows_order_and_may_be_null() -> None:
    given = pa.schema([_never_null("z", pa.int64()), *TABLE, ("b", pa.bool_())])
    evolved = evolve(TABLE, given, required=KEY)
    assert evolved == pa.schema([*TABLE, ("z", pa.int64()), ("b", pa.bool_())])
    assert is_changed(TABLE, evolved)


ADDED: list[tuple[pa.DataType, pa.DataType]] = [
    (pa.int8(), pa.int32()),
    (pa.int16(), pa.int32()),
    (pa.large_string(), pa.string()),
    (pa.string_view(), pa.string()),
    (pa.dictionary(pa.int8(), pa.int16()), pa.int32()),
    (pa.decimal256(20, 3), pa.decimal128(20, 3)),
    (pa.timestamp("ms", "Europe/Berlin"), pa.timestamp("ms", "UTC")),
    (pa.large_list(pa.large_binary()), _list(pa.binary())),
    (pa.map_(pa.large_string(), pa.binary_view()), _map(pa.binary())),
    (
        pa.struct([_never_null("x", pa.int8()), ("y", pa.list_(pa.large_string()))]),
        pa.struct([_never_null("x", pa.int32()), ("y", _list(pa.string()))]),
    ),
]


@pytest.mark.parametrize(("given", "stored"), ADDED, ids=str)
def test_a_new_column_gets_the_type_that_avro_stores(
    given: pa.DataType, stored: pa.DataType
) -> None:
    evolved = evolve(TABLE, pa.schema([*TABLE, ("new", given)]), required=KEY)
    assert evolved == pa.schema([*TABLE, ("new", stored)])


OLD, NEW = (
    pa.struct([("x", pa.int32())]),
    pa.struct([_never_null("z", pa.int8()), ("x", pa.int8())]),
)
GROWN_STRUCT = pa.struct([("x", pa.int32()), ("z", pa.int32())])


@pytest.mark.parametrize(
    ("old", "new", "grown"),
    [
        (OLD, NEW, GROWN_STRUCT),
        (_list(OLD), pa.list_(NEW), _list(GROWN_STRUCT)),
        (_map(OLD), _map(NEW), _map(GROWN_STRUCT)),
        (_list(_map(OLD)), _list(_map(NEW)), _list(_map(GROWN_STRUCT))),
        (
            pa.struct([("s", OLD), ("k", pa.int32())]),
            pa.struct([("s", NEW)]),
            pa.struct([("s", GROWN_STRUCT), ("k", pa.int32())]),
        ),
    ],
    ids=str,
)
def test_a_struct_grows_at_its_end_wherever_it_lies(
    old: pa.DataType, new: pa.DataType, grown: pa.DataType
) -> None:
    assert evolve(_one(old), _one(new), required=()) == _one(grown)


def test_the_delete_flag_is_added_and_left_out_like_any_column() -> None:
    flagged = pa.schema([*TABLE, (IS_DELETED, pa.bool_())])
    assert evolve(TABLE, flagged, required=KEY) == flagged
    assert evolve(flagged, TABLE, required=KEY) is flagged


# What widens

WIDENED: list[tuple[pa.DataType, pa.DataType, Any]] = [
    (pa.int32(), pa.int64(), 2**31 - 1),
    (pa.int32(), pa.float64(), -(2**31)),
    (pa.float32(), pa.float64(), 0.5),
    (pa.decimal128(5, 2), pa.decimal128(12, 2), Decimal("123.45")),
    (pa.decimal128(5, 2), pa.decimal128(38, 2), Decimal("-999.99")),
    (_list(pa.int32()), _list(pa.int64()), [1, None]),
    (pa.struct([("x", pa.int32())]), pa.struct([("x", pa.int64())]), {"x": 7}),
    (pa.struct([("x", pa.int32())]), pa.struct([("x", pa.float64())]), {"x": 7}),
    (_list(OLD), _list(pa.struct([("x", pa.float64())])), [{"x": 7}, None]),
    (_map(pa.decimal128(5, 2)), _map(pa.decimal128(9, 2)), [("k", Decimal("1.50"))]),
]


@pytest.mark.parametrize(("old", "new", "value"), WIDENED, ids=str)
def test_a_type_widens_and_older_files_still_read(
    old: pa.DataType, new: pa.DataType, value: Any
) -> None:
    evolved = evolve(_one(old), _one(new), required=())
    assert evolved == _one(new)
    older = pa.record_batch([pa.array([value, None], old)], names=["c"])
    assert align(older, evolved, "an older file").column(0).to_pylist() == [value, None]
    assert conform(older, evolved).column(0).to_pylist() == [value, None]
    assert evolve(evolved, _one(old), required=()) is evolved


def test_a_wider_type_comes_out_as_avro_stores_it() -> None:
    for given in (pa.decimal256(12, 2), pa.decimal64(12, 2)):
        evolved = evolve(_one(pa.decimal128(5, 2)), _one(given), required=())
        assert evolved == _one(pa.decimal128(12, 2))
    assert evolve(_one(pa.int8()), _one(pa.int16()), required=()) == _one(pa.int32())


REFUSED: list[tuple[pa.DataType, pa.DataType]] = [
    (pa.int64(), pa.float64()),
    (pa.int64(), pa.float32()),
    (pa.int32(), pa.float32()),
    (pa.float32(), pa.int32()),
    (pa.float32(), pa.int64()),
    (pa.float64(), pa.int64()),
    (pa.int32(), pa.uint32()),
    (pa.int64(), pa.uint64()),
    (pa.int32(), pa.bool_()),
    (pa.bool_(), pa.int32()),
    (pa.int32(), pa.decimal128(12, 0)),
    (pa.decimal128(5, 2), pa.decimal128(12, 3)),
    (pa.decimal128(12, 2), pa.decimal128(12, 3)),
    (pa.decimal128(5, 2), pa.decimal256(40, 2)),
    (pa.decimal128(5, 2), pa.float64()),
    (pa.string(), pa.binary()),
    (pa.binary(), pa.string()),
    (pa.int32(), pa.string()),
    (pa.string(), pa.int32()),
    (pa.string(), pa.null()),
    (pa.int32(), pa.date32()),
    (pa.date32(), pa.int32()),
    (pa.date32(), pa.timestamp("us")),
    (pa.timestamp("ms"), pa.timestamp("us")),
    (pa.timestamp("us"), pa.timestamp("ns")),
    (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    (pa.timestamp("us"), pa.int64()),
    (pa.int64(), pa.timestamp("us")),
    (pa.int32(), _list(pa.int32())),
    (_list(pa.int32()), pa.int32()),
    (_list(pa.int32()), pa.list_(pa.int32(), 2)),
    (OLD, _map(pa.int32())),
]


@pytest.mark.parametrize(("table", "given"), REFUSED, ids=str)
def test_any_other_change_is_refused_and_both_types_are_named(
    table: pa.DataType, given: pa.DataType
) -> None:
    refusal = _refusal(_one(table), _one(given))
    assert refusal.what == f"Column c is {given} in the rows and {table} in the table."
    assert refusal.next_step == f"cast c to {table} and write again"


@pytest.mark.parametrize(
    ("wrap", "path"),
    [
        (_list, "c.element"),
        (_map, "c.value"),
        (lambda kind: pa.struct([("x", kind)]), "c.x"),
        (lambda kind: _list(pa.struct([("x", _map(kind))])), "c.element.x.value"),
    ],
)
def test_a_refusal_names_the_path_to_the_column(wrap: Any, path: str) -> None:
    refusal = _refusal(_one(wrap(pa.int32())), _one(wrap(pa.string())))
    assert refusal.what == f"Column {path} is string in the rows and int32 in the table."


def test_keys_of_maps_do_not_change() -> None:
    refusal = _refusal(_one(_map(pa.int32())), _one(pa.map_(pa.int32(), pa.int32())))
    assert refusal.what == "Column c.key is int32 in the rows and string in the table."


@pytest.mark.parametrize(
    "wrap",
    [
        lambda kind: pa.struct([("x", kind)]),
        lambda kind: pa.struct([("x", _list(kind))]),
        lambda kind: _list(pa.struct([("x", kind)])),
        _list,
        _map,
    ],
)
def test_a_float_within_another_type_stays_a_float(wrap: Any) -> None:
    refusal = _refusal(_one(wrap(pa.float32())), _one(wrap(pa.float64())))
    assert "is double in the rows and float in the table" in refusal.what
    assert "engines do not agree" in refusal.what


# What rows must have


def test_a_column_that_is_never_null_cannot_be_lacking() -> None:
    table = pa.schema([("a", pa.int32()), _never_null("b", pa.int32())])
    refusal = _refusal(table, pa.schema([("a", pa.int32())]))
    assert refusal.what == "The rows lack column b, and the table says it is never null."
    assert refusal.next_step == "add b and write again"


def test_a_field_that_is_never_null_cannot_be_lacking_in_a_struct() -> None:
    table = _one(_list(pa.struct([("x", pa.int32()), _never_null("y", pa.int32())])))
    assert "lack column c.element.y," in _refusal(table, _one(_list(OLD))).what


@pytest.mark.parametrize("required", ["n", "s.x", "s"])
def test_columns_that_place_and_order_rows_cannot_be_lacking(required: str) -> None:
    table = pa.schema([("n", pa.int32()), ("s", OLD), ("other", pa.int32())])
    refusal = _refusal(table, pa.schema([("other", pa.int32())]), required=(required,))
    assert f"lack column {required.partition('.')[0]}, by which the table places" in refusal.what


def test_a_required_field_cannot_be_lacking_in_its_struct() -> None:
    table = _one(pa.struct([("x", pa.int32()), ("y", pa.int32())]))
    refusal = _refusal(table, _one(OLD), required=("c.y",))
    assert "lack column c.y, by which the table places" in refusal.what
    assert evolve(table, _one(OLD), required=("c.x",)) is table


@pytest.mark.parametrize(
    ("table", "given"),
    [
        (pa.int32(), pa.int64()),
        (pa.int32(), pa.float64()),
        (pa.float64(), pa.int32()),
        (pa.float32(), pa.float64()),
        (pa.float64(), pa.float32()),
        (pa.decimal128(5, 2), pa.decimal128(9, 2)),
        (pa.int32(), pa.string()),
    ],
    ids=str,
)
def test_columns_that_place_and_order_rows_keep_their_type(
    table: pa.DataType, given: pa.DataType
) -> None:
    refusal = _refusal(_one(table), _one(given), required=("c",))
    assert f"Column c is {given} in the rows and {table} in the table" in refusal.what
    assert "a key, partition or ordering column keeps its type" in refusal.what
    nested = _refusal(
        _one(pa.struct([("x", table)])), _one(pa.struct([("x", given)])), required=("c.x",)
    )
    assert "Column c.x is" in nested.what


@pytest.mark.parametrize(
    ("table", "given"),
    [
        (pa.int64(), pa.int16()),
        (pa.string(), pa.large_string()),
        (pa.string(), pa.dictionary(pa.int32(), pa.string())),
        (pa.decimal128(9, 2), pa.decimal128(5, 2)),
        (pa.timestamp("us"), pa.timestamp("ms")),
        (pa.float64(), pa.float64()),
    ],
    ids=str,
)
def test_rows_may_have_them_in_a_type_of_the_same_text(
    table: pa.DataType, given: pa.DataType
) -> None:
    schema = _one(table)
    assert evolve(schema, _one(given), required=("c",)) is schema
