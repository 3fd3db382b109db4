"""Avro schemas from Arrow and back."""

from __future__ import annotations

import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lentic.errors import Corrupt, SchemaMismatch, UnsupportedFormat
from lentic.format.avro_schema import arrow_schema, avro_schema_json
from lentic.format.record_fields import META_FIELDS

# The schema that Apache Hudi 1.2.0 with Spark stored for a table `mor_tntz`.
BY_HUDI = (
    '{"type":"record","name":"mor_tntz_record","namespace":"hoodie.mor_tntz","fields":['
    '{"name":"id","type":["null","string"],"default":null},'
    '{"name":"seq","type":["null","long"],"default":null},'
    '{"name":"day","type":["null",{"type":"int","logicalType":"date"}],"default":null},'
    '{"name":"i32","type":["null","int"],"default":null},'
    '{"name":"b","type":["null","boolean"],"default":null},'
    '{"name":"f32","type":["null","float"],"default":null},'
    '{"name":"f64","type":["null","double"],"default":null},'
    '{"name":"dec","type":["null",{"type":"fixed","name":"fixed",'
    '"namespace":"hoodie.mor_tntz.mor_tntz_record.dec","size":6,'
    '"logicalType":"decimal","precision":12,"scale":3}],"default":null},'
    '{"name":"bigdec","type":["null",{"type":"fixed","name":"fixed",'
    '"namespace":"hoodie.mor_tntz.mor_tntz_record.bigdec","size":13,'
    '"logicalType":"decimal","precision":30,"scale":6}],"default":null},'
    '{"name":"tsu","type":["null",{"type":"long","logicalType":"timestamp-micros"}],'
    '"default":null},'
    '{"name":"tntz","type":["null",{"type":"long","logicalType":"local-timestamp-micros"}],'
    '"default":null},'
    '{"name":"bin","type":["null","bytes"],"default":null},'
    '{"name":"st","type":["null",{"type":"record","name":"st",'
    '"namespace":"hoodie.mor_tntz.mor_tntz_record","fields":['
    '{"name":"a","type":["null","int"],"default":null},'
    '{"name":"c","type":["null",{"type":"record","name":"c",'
    '"namespace":"hoodie.mor_tntz.mor_tntz_record.st","fields":['
    '{"name":"d","type":["null","double"],"default":null}]}],"default":null}]}],"default":null},'
    '{"name":"arr","type":["null",{"type":"array","items":["null","string"]}],"default":null},'
    '{"name":"arrst","type":["null",{"type":"array","items":["null",{"type":"record",'
    '"name":"arrst","namespace":"hoodie.mor_tntz.mor_tntz_record","fields":['
    '{"name":"x","type":["null","int"],"default":null}]}]}],"default":null},'
    '{"name":"mp","type":["null",{"type":"map","values":["null","long"]}],"default":null}]}'
)


def test_a_schema_of_hudi_becomes_the_columns_spark_had() -> None:
    assert arrow_schema(BY_HUDI, "x") == pa.schema(
        [
            ("id", pa.string()),
            ("seq", pa.int64()),
            ("day", pa.date32()),
            ("i32", pa.int32()),
            ("b", pa.bool_()),
            ("f32", pa.float32()),
            ("f64", pa.float64()),
            ("dec", pa.decimal128(12, 3)),
            ("bigdec", pa.decimal128(30, 6)),
            ("tsu", pa.timestamp("us", tz="UTC")),
            ("tntz", pa.timestamp("us")),
            ("bin", pa.binary()),
            ("st", pa.struct([("a", pa.int32()), ("c", pa.struct([("d", pa.float64())]))])),
            ("arr", pa.list_(pa.string())),
            ("arrst", pa.list_(pa.struct([("x", pa.int32())]))),
            ("mp", pa.map_(pa.string(), pa.int64())),
        ]
    )


def test_the_schema_we_write_is_byte_for_byte_the_one_hudi_wrote() -> None:
    assert avro_schema_json(arrow_schema(BY_HUDI, "x"), "mor_tntz", meta_fields=False) == BY_HUDI


def test_meta_columns_come_first_and_only_once() -> None:
    columns = pa.schema([("id", pa.string()), *((name, pa.string()) for name in META_FIELDS)])
    avro = json.loads(avro_schema_json(columns, "t", meta_fields=True))
    assert [field["name"] for field in avro["fields"]] == [*META_FIELDS, "id"]
    assert avro["fields"][0] == {
        "name": "_hoodie_commit_time",
        "type": ["null", "string"],
        "doc": "",
        "default": None,
    }
    plain = json.loads(avro_schema_json(columns, "t", meta_fields=False))
    assert [field["name"] for field in plain["fields"]] == ["id"]


def test_a_column_that_is_never_null_has_a_plain_type() -> None:
    columns = pa.schema(
        [
            pa.field("k", pa.string(), nullable=False),
            pa.field("a", pa.list_(pa.field("element", pa.int32(), nullable=False))),
        ]
    )
    avro = json.loads(avro_schema_json(columns, "t", meta_fields=False))
    assert avro["fields"][0] == {"name": "k", "type": "string"}
    assert avro["fields"][1]["type"] == ["null", {"type": "array", "items": "int"}]
    assert arrow_schema(json.dumps(avro), "x") == columns


@pytest.mark.parametrize(
    ("table", "name"),
    [("trips", "trips"), ("my-trips", "my__trips"), ("1st", "__st"), ("a.b c", "a__b__c")],
)
def test_the_record_is_named_after_the_table_in_legal_avro(table: str, name: str) -> None:
    avro = json.loads(avro_schema_json(pa.schema([("a", pa.int8())]), table, meta_fields=False))
    assert (avro["name"], avro["namespace"]) == (f"{name}_record", f"hoodie.{name}")
    assert avro["fields"][0]["type"] == ["null", "int"]
    fastavro.parse_schema(avro)


@pytest.mark.parametrize(
    ("precision", "size"),
    [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (9, 4), (10, 5), (18, 8), (19, 9), (38, 16)],
)
def test_decimals_take_the_fewest_bytes(precision: int, size: int) -> None:
    columns = pa.schema([("d", pa.decimal128(precision, 0))])
    avro = json.loads(avro_schema_json(columns, "t", meta_fields=False))
    assert avro["fields"][0]["type"][1]["size"] == size


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (pa.uint32(), "c"),
        (pa.null(), "c"),
        (pa.timestamp("ns"), "c"),
        (pa.time64("us"), "c"),
        (pa.decimal256(40, 2), "c"),
        (pa.decimal128(5, -2), "c"),
        (pa.dictionary(pa.int32(), pa.string()), "c"),
        (pa.map_(pa.int32(), pa.string()), "c"),
        (pa.struct([]), "c"),
        (pa.struct([("d", pa.uint8())]), r"c\.d"),
        (pa.list_(pa.struct([("d", pa.float16())])), r"c\[\]\.d"),
        (pa.map_(pa.string(), pa.uint8()), r"c\{\}"),
        (pa.struct([("a b", pa.int8())]), r"c\.a b"),
        (pa.struct([("a", pa.int8()), ("a", pa.int8())]), r"c\.a"),
    ],
)
def test_a_type_the_format_does_not_store_is_refused_by_column(
    kind: pa.DataType, path: str
) -> None:
    with pytest.raises(SchemaMismatch, match=f"Column {path} "):
        avro_schema_json(pa.schema([("ok", pa.int32()), ("c", kind)]), "t", meta_fields=False)


@pytest.mark.parametrize("name", ["", "1a", "a-b", "a.b", "a b", "\U0001d4d0", "a\n"])
def test_a_column_name_avro_does_not_know_is_refused(name: str) -> None:
    with pytest.raises(SchemaMismatch, match="name"):
        avro_schema_json(pa.schema([(name, pa.int32())]), "t", meta_fields=False)


def test_letters_of_any_script_are_legal_in_column_names() -> None:
    columns = pa.schema([("größe_1", pa.int32()), ("数", pa.int32())])
    assert arrow_schema(avro_schema_json(columns, "t", meta_fields=True), "x").names[5:] == [
        "größe_1",
        "数",
    ]


def _one(kind: Any) -> str:
    return json.dumps({"type": "record", "name": "r", "fields": [{"name": "c", "type": kind}]})


@pytest.mark.parametrize(
    ("kind", "arrow"),
    [
        ({"type": "string", "avro.java.string": "String"}, pa.string()),
        ({"type": {"type": "long"}}, pa.int64()),
        (["string", "null"], pa.string()),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.string()),
        ({"type": "fixed", "name": "f", "size": 4}, pa.binary(4)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9}, pa.decimal128(9, 0)),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("ms", tz="UTC")),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, pa.timestamp("ms")),
        ({"type": "int", "logicalType": "time-millis"}, pa.time32("ms")),
        ({"type": "string", "logicalType": "uuid"}, pa.string()),
        ({"type": "long", "logicalType": "unheard"}, pa.int64()),
    ],
)
def test_every_avro_type_keeps_its_exact_meaning(kind: Any, arrow: pa.DataType) -> None:
    assert arrow_schema(_one(kind), "x").field("c").type == arrow


def test_a_type_may_be_used_by_its_name_in_its_namespace() -> None:
    inner = {"type": "record", "name": "i", "fields": [{"name": "x", "type": "int"}]}
    fields = [{"name": "a", "type": inner}, {"name": "b", "type": ["null", "i"]}]
    fields.append({"name": "c", "type": "n.s.i"})
    avro = {"type": "record", "name": "r", "namespace": "n.s", "fields": fields}
    schema = arrow_schema(json.dumps(avro), "x")
    assert schema.field("a").type == schema.field("b").type == schema.field("c").type
    assert schema.field("b").nullable and not schema.field("c").nullable


@pytest.mark.parametrize("kind", [["int", "string"], "null", ["null"], []])
def test_a_type_without_a_counterpart_is_refused_by_column(kind: Any) -> None:
    with pytest.raises(UnsupportedFormat, match="Column c "):
        arrow_schema(_one(kind), "x")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        '"string"',
        "[" * 100_000,
        '{"type":"record"}',
        _one("unheard"),
        _one("r"),
        _one(None),
        _one({"type": "fixed", "name": "f", "size": -1}),
        _one({"type": "fixed", "name": "f", "size": 1, "logicalType": "decimal"}),
        _one({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}),
    ],
    ids=lambda text: text[:20],
)
def test_text_that_is_no_schema_is_corrupt(text: str) -> None:
    with pytest.raises(Corrupt):
        arrow_schema(text, "x")


def test_types_of_types_of_types_do_not_fill_the_memory() -> None:
    fields: list[Any] = [
        {
            "name": f"f{level}",
            "type": {
                "type": "record",
                "name": f"t{level}",
                "fields": [
                    {"name": side, "type": f"t{level - 1}" if level else "int"} for side in "ab"
                ],
            },
        }
        for level in range(60)
    ]
    with pytest.raises(UnsupportedFormat):
        arrow_schema(json.dumps({"type": "record", "name": "r", "fields": fields}), "x")


def test_deep_nesting_is_refused_both_ways() -> None:
    kind = pa.int32()
    avro: Any = "int"
    for _ in range(50):
        kind, avro = pa.list_(kind), {"type": "array", "items": avro}
    with pytest.raises(SchemaMismatch, match="deeper"):
        avro_schema_json(pa.schema([("c", kind)]), "t", meta_fields=False)
    with pytest.raises(UnsupportedFormat, match="deeper"):
        arrow_schema(_one(avro), "x")


SCALARS = st.sampled_from(
    [
        pa.bool_(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.binary(),
        pa.date32(),
        pa.timestamp("us", tz="UTC"),
        pa.timestamp("us"),
        pa.timestamp("ms", tz="UTC"),
        pa.timestamp("ms"),
        pa.decimal128(1, 0),
        pa.decimal128(38, 18),
    ]
)
# Names that collide on purpose: one name at several depths must still give unique Avro names.
NAMES = st.sampled_from(["a", "b", "fixed", "t_record", "_x9"])


def _fields(kinds: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[list[pa.Field]]:
    field = st.builds(pa.field, NAMES, kinds, nullable=st.booleans())
    return st.lists(field, min_size=1, max_size=4, unique_by=lambda each: each.name)


def _nested(kinds: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    inner = st.builds(pa.field, st.just("element"), kinds, nullable=st.booleans())
    value = st.builds(pa.field, st.just("value"), kinds, nullable=st.booleans())
    return st.one_of(
        _fields(kinds).map(pa.struct),
        inner.map(pa.list_),
        value.map(lambda field: pa.map_(pa.string(), field)),
    )


@given(_fields(st.recursive(SCALARS, _nested, max_leaves=8)), st.booleans())
def test_schemas_round_trip_and_are_legal_avro(columns: list[pa.Field], meta_fields: bool) -> None:
    text = avro_schema_json(pa.schema(columns), "t", meta_fields)
    fastavro.parse_schema(json.loads(text))
    back = arrow_schema(text, "x")
    assert list(back)[5 * meta_fields :] == columns
