"""Which names new columns may have, when none may come, and how the grown schema is published."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from lentic.errors import SchemaMismatch
from lentic.format.avro_schema import arrow_schema, avro_schema_json
from lentic.format.record_fields import META_FIELDS
from lentic.records.merge import IS_DELETED
from lentic.write.evolve import evolve

TABLE = pa.schema([("id", pa.string()), ("amount", pa.int32())])
STRUCT = pa.struct([("amount", pa.int32())])


def _with(*columns: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema([*TABLE, *columns])


def _refusal(table: pa.Schema, given: pa.Schema, *, allow: bool = True) -> SchemaMismatch:
    with pytest.raises(SchemaMismatch) as caught:
        evolve(table, given, required=("id",), allow=allow)
    assert caught.value.safe == "nothing was written"
    assert caught.value.next_step
    return caught.value


# Names


def test_a_column_that_comes_twice_is_named() -> None:
    twice = _refusal(TABLE, _with(("amount", pa.int32()), ("x", pa.int8()), ("x", pa.int8())))
    assert twice.what == "The rows have column amount, x twice."
    assert twice.next_step == "rename one of them and write again"


@pytest.mark.parametrize("table", [_with(), _with(("s", STRUCT))])
def test_a_field_that_comes_twice_is_named_in_old_and_new_structs(table: pa.Schema) -> None:
    double = pa.struct([("amount", pa.int32()), ("amount", pa.int32())])
    assert _refusal(table, _with(("s", double))).what == "The rows have column s.amount twice."


def test_a_name_that_differs_from_the_tables_in_case_alone_is_refused_with_a_hint() -> None:
    renamed = pa.schema([("id", pa.string()), ("Amount", pa.int32())])
    for given in (renamed, _with(("Amount", pa.int32()))):
        refusal = _refusal(TABLE, given)
        assert refusal.what == (
            "Column Amount of the rows and amount of the table differ in case alone,"
            " and Spark takes them for one."
        )
        assert refusal.next_step == "rename Amount to amount, or drop it, and write again"


def test_new_names_that_differ_in_case_alone_are_refused() -> None:
    refusal = _refusal(TABLE, _with(("Ä", pa.int8()), ("ä", pa.int8())))
    assert "Column ä of the rows and Ä of the rows differ in case alone" in refusal.what
    assert refusal.next_step == "rename or drop ä and write again"


@pytest.mark.parametrize("wrap", [lambda kind: kind, pa.list_])
def test_case_counts_within_structs_too(wrap: Any) -> None:
    table, inner = _with(("s", wrap(STRUCT))), ".element" if wrap is pa.list_ else ""
    other = _with(("s", wrap(pa.struct([("Amount", pa.int32())]))))
    assert f"Column s{inner}.Amount of the rows" in _refusal(table, other).what
    both = _with(("s", wrap(pa.struct([("x", pa.int32()), ("X", pa.int32())]))))
    assert f"Column s{inner}.X of the rows" in _refusal(TABLE, both).what


def test_a_table_that_has_both_cases_keeps_them() -> None:
    table = _with(("Amount", pa.int32()))
    assert evolve(table, table, required=()) is table


@pytest.mark.parametrize(
    "name", ["_hoodie_operation", "_hoodie_x", "_HOODIE_RECORD_KEY", "_Hoodie_is_deleted"]
)
def test_names_of_the_format_are_refused(name: str) -> None:
    refusal = _refusal(TABLE, _with((name, pa.string())))
    assert refusal.what == f"Column {name} has a name that is kept for the table format."
    assert refusal.next_step == f"rename {name} and write again"


def test_a_name_of_the_format_that_the_table_has_already_is_a_column_like_any() -> None:
    table = _with(("_hoodie_operation", pa.string()))
    assert evolve(table, table, required=()) is table
    assert evolve(table, TABLE, required=()) is table


def test_the_delete_flag_is_a_bool() -> None:
    refusal = _refusal(TABLE, _with((IS_DELETED, pa.int32())))
    assert f"Column {IS_DELETED} is int32 in the rows and must be bool" in refusal.what
    flagged = _with((IS_DELETED, pa.bool_()))
    refusal = _refusal(flagged, _with((IS_DELETED, pa.string())))
    assert refusal.what == f"Column {IS_DELETED} is string in the rows and bool in the table."


@pytest.mark.parametrize(
    ("column", "path"),
    [
        (("a b", pa.int32()), "a b"),
        (("t", pa.timestamp("ns")), "t"),
        (("u", pa.uint32()), "u"),
        (("z", pa.null()), "z"),
        (("m", pa.map_(pa.int32(), pa.int32())), "m"),
        (("d", pa.decimal256(40, 2)), "d"),
        (("s", pa.struct([("x", pa.uint8())])), r"s\.x"),
    ],
)
def test_a_new_column_the_format_cannot_store_is_refused_by_its_path(
    column: tuple[str, pa.DataType], path: str
) -> None:
    refusal = _refusal(TABLE, _with(column))
    assert refusal.what.startswith(f"Column {path} ".replace("\\", ""))
    assert refusal.next_step == "rename, cast or drop the column"


def test_a_table_with_a_type_that_only_others_write_does_not_grow_but_takes_rows() -> None:
    table = _with(("t", pa.time64("us")))
    assert evolve(table, TABLE, required=("id",)) is table
    refusal = _refusal(table, _with(("new", pa.int32())))
    assert "Column t has type time64[us]" in refusal.what
    assert refusal.next_step == "give the rows the table's columns and types and write again"


# Without leave to change


def test_without_leave_a_new_column_is_refused() -> None:
    refusal = _refusal(TABLE, _with(("x", pa.int8()), ("y", pa.int8())), allow=False)
    assert refusal.what == "The table has no column x, y."
    assert refusal.next_step == "drop x and write again"
    nested = pa.struct([("amount", pa.int32()), ("more", pa.int32())])
    refusal = _refusal(_with(("s", STRUCT)), _with(("s", nested)), allow=False)
    assert refusal.what == "The table has no column s.more."


def test_without_leave_a_wider_type_is_refused() -> None:
    wider = pa.schema([("id", pa.string()), ("amount", pa.int64())])
    refusal = _refusal(TABLE, wider, allow=False)
    assert refusal.what == "Column amount is int64 in the rows and int32 in the table."
    assert refusal.next_step == "cast amount to int32 and write again"


def test_without_leave_rows_may_still_lack_columns_and_be_narrower() -> None:
    narrow = pa.schema([("amount", pa.int8()), ("id", pa.large_string())])
    assert evolve(TABLE, narrow, required=("id",), allow=False) is TABLE
    assert evolve(TABLE, pa.schema([("id", pa.string())]), required=("id",), allow=False) is TABLE


# As Avro

EVERYTHING = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        ("n", pa.int32()),
        ("s", pa.struct([pa.field("x", pa.int32(), nullable=False)])),
        ("l", pa.list_(STRUCT)),
        ("m", pa.map_(pa.string(), STRUCT)),
    ]
)
MORE = pa.struct([("amount", pa.int64()), pa.field("d", pa.decimal128(9, 2), nullable=False)])
GIVEN = pa.schema(
    [
        ("m", pa.map_(pa.string(), MORE)),
        ("l", pa.large_list(MORE)),
        ("s", pa.struct([("x", pa.int64()), ("at", pa.timestamp("us", "UTC"))])),
        ("n", pa.float64()),
        ("id", pa.string()),
        pa.field("new", pa.struct([("l", pa.list_(STRUCT))]), nullable=False),
        *((name, pa.string()) for name in META_FIELDS),
    ]
)


def test_the_grown_schema_comes_back_from_avro_as_it_is() -> None:
    evolved = evolve(EVERYTHING, GIVEN, required=("id",))
    text = avro_schema_json(evolved, "trips", meta_fields=False)
    assert arrow_schema(text, "a commit") == evolved
    assert evolved.names == [*EVERYTHING.names, "new"]


def test_readers_of_older_files_find_a_default_for_every_new_field() -> None:
    """Avro's own resolution: rows of the old schema read by the new one."""
    evolved = evolve(EVERYTHING, GIVEN, required=("id",))
    old = fastavro.parse_schema(json.loads(avro_schema_json(EVERYTHING, "t", meta_fields=False)))
    new = fastavro.parse_schema(json.loads(avro_schema_json(evolved, "t", meta_fields=False)))
    row = {"id": "a", "n": 7, "s": {"x": 1}, "l": [{"amount": 2}], "m": {"k": {"amount": None}}}
    assert _read_by_avro(row, old, new) == {
        "id": "a",
        "n": 7.0,
        "s": {"x": 1, "at": None},
        "l": [{"amount": 2, "d": None}],
        "m": {"k": {"amount": None, "d": None}},
        "new": None,
    }


def test_every_new_field_is_a_union_with_null_that_defaults_to_null() -> None:
    avro = json.loads(
        avro_schema_json(evolve(EVERYTHING, GIVEN, required=("id",)), "t", meta_fields=False)
    )
    fields = {field["name"]: field for field in avro["fields"]}
    inner = [
        fields["new"],
        fields["s"]["type"][1]["fields"][1],
        fields["l"]["type"][1]["items"][1]["fields"][1],
        fields["m"]["type"][1]["values"][1]["fields"][1],
    ]
    assert [field["name"] for field in inner] == ["new", "at", "d", "d"]
    assert all(field["type"][0] == "null" and field["default"] is None for field in inner)


def _read_by_avro(row: dict[str, Any], old: Any, new: Any) -> Any:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, old, row)
    buffer.seek(0)
    return fastavro.schemaless_reader(buffer, old, new)
