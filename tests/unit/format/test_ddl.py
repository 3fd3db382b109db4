"""Spark's DDL schema text becomes an Arrow schema, or an error that says where and what."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lentic.errors import ConfigError
from lentic.format.ddl import parse_ddl

TYPES = {
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "varchar(10)": pa.string(),
    "char(3)": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
    "decimal": pa.decimal128(10, 0),
    "decimal(12)": pa.decimal128(12, 0),
    "dec(12, 3)": pa.decimal128(12, 3),
    "numeric( 38 ,38 )": pa.decimal128(38, 38),
    "array<int>": pa.list_(pa.field("element", pa.int32())),
    "map<string,bigint>": pa.map_(pa.string(), pa.int64()),
    "struct<x:int,y:string>": pa.struct([("x", pa.int32()), ("y", pa.string())]),
    "struct<x int, y: string>": pa.struct([("x", pa.int32()), ("y", pa.string())]),
    "array<map<string,struct<a:array<int>>>>": pa.list_(
        pa.field(
            "element",
            pa.map_(pa.string(), pa.struct([("a", pa.list_(pa.field("element", pa.int32())))])),
        )
    ),
}


@pytest.mark.parametrize("text", TYPES)
def test_every_type(text: str) -> None:
    assert parse_ddl(f"c {text}") == pa.schema([("c", TYPES[text])])


@pytest.mark.parametrize("text", [text for text in TYPES if "struct" not in text])
def test_type_names_ignore_case(text: str) -> None:
    assert parse_ddl(f"c {text.upper()}") == parse_ddl(f"c {text}")


def test_list_elements_are_called_element() -> None:
    assert parse_ddl("a array<int>").field("a").type.value_field.name == "element"


def test_a_whole_schema() -> None:
    found = parse_ddl(
        "id bigint not null, name string comment 'x', d decimal(10,2), a array<int>,"
        " m map<string,bigint>, s struct<x:int,y:string>"
    )
    assert found == pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("name", pa.string()),
            ("d", pa.decimal128(10, 2)),
            ("a", pa.list_(pa.field("element", pa.int32()))),
            ("m", pa.map_(pa.string(), pa.int64())),
            ("s", pa.struct([("x", pa.int32()), ("y", pa.string())])),
        ]
    )


def test_names_keep_their_case_and_words_do_not_matter() -> None:
    found = parse_ddl("Id BIGINT NOT  NULL,\n\tnAmE String")
    assert found.names == ["Id", "nAmE"]
    assert not found.field("Id").nullable


def test_backticks_allow_any_name() -> None:
    names = ["a b", "select", "ü", "x,y:<int>", "tick`tick", "a.b"]
    text = ", ".join(f"`{name.replace('`', '``')}` int" for name in names)
    assert parse_ddl(text).names == names


def test_words_of_the_grammar_can_be_names() -> None:
    assert parse_ddl("comment string, not int, array array<int>").names == [
        "comment",
        "not",
        "array",
    ]


def test_comments_are_kept_as_metadata() -> None:
    found = parse_ddl("""a int comment 'it\\'s, <ok>', b int not null comment "x" """)
    assert found.field("a").metadata == {b"comment": b"it's, <ok>"}
    assert found.field("b").metadata == {b"comment": b"x"}
    assert not found.field("b").nullable


def test_struct_fields_can_be_required_and_commented() -> None:
    kind = parse_ddl("s struct<x: int not null comment 'c', y: int>").field("s").type
    assert not kind.field("x").nullable
    assert kind.field("y").nullable


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("", 0, "a column name"),
        ("   ", 3, "a column name"),
        ("id", 2, "a type"),
        ("id,", 2, "a type"),
        ("id int,", 7, "a column name"),
        ("id int x", 7, "',' or the end"),
        ("id intt", 3, "a type, one of"),
        ("id void", 3, "a type, one of"),
        ("id int not", 10, "'null'"),
        ("id int not nul", 11, "'null'"),
        ("id int comment x", 15, "the comment in quotes"),
        ("id int comment 'x", 15, "a name, a type"),
        ("a array", 7, "'<'"),
        ("a array<int", 11, "'>'"),
        ("a array<int,int>", 11, "'>'"),
        ("a map<int>", 9, "','"),
        ("a struct<>", 9, "a column name"),
        ("a struct<x:int", 14, "'>'"),
        ("d decimal(39)", 2, "decimal(precision, scale)"),
        ("d decimal(0)", 2, "decimal(precision, scale)"),
        ("d decimal(3,4)", 2, "decimal(precision, scale)"),
        ("d decimal(3,1,1)", 2, "decimal(precision, scale)"),
        ("d decimal()", 10, "a number"),
        ("d decimal(x)", 10, "a number"),
        ("d decimal(99999999999)", 10, "a number"),
        ("d decimal(-1)", 10, "a name, a type"),
        ("v varchar", 2, "varchar(length)"),
        ("v varchar(1,2)", 2, "varchar(length)"),
        ("a int, A int", 7, "another name than A"),
        ("s struct<x:int,x:int>", 15, "another name than x"),
        ("`` int", 0, "a column name"),
        ("`a int", 0, "a name, a type"),
        ("ü int", 0, "backticks"),
        ("a int; drop", 5, "a name, a type"),
    ],
)
def test_an_error_says_where_and_what_was_expected(text: str, position: int, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_ddl(text)
    assert f"at position {position}:" in caught.value.what
    assert expected in caught.value.what
    assert "<HERE>" in caught.value.next_step


def test_depth_is_limited() -> None:
    def nested(depth: int) -> str:
        return "a " + "array<" * depth + "int" + ">" * depth

    parse_ddl(nested(32))
    with pytest.raises(ConfigError, match="at most 32 deep"):
        parse_ddl(nested(33))
    with pytest.raises(ConfigError, match="at most 32 deep"):
        parse_ddl(nested(100_000))


@given(
    st.text("ab`'\"\\,:<>() 01ü")
    | st.lists(
        st.sampled_from(
            [
                "a",
                "int",
                "array",
                "<",
                ">",
                "struct",
                "map",
                ",",
                ":",
                "(",
                ")",
                "5",
                "not",
                "null",
                "comment",
                "'x'",
                " ",
                "decimal",
                "varchar",
            ]
        )
    ).map(" ".join)
)
def test_any_text_is_a_schema_or_a_config_error(text: str) -> None:
    try:
        found = parse_ddl(text)
    except ConfigError:
        return
    assert len(found) > 0
