"""Avro containers: what is written is read back, and hostile bytes end in Corrupt."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lentic.errors import Corrupt
from lentic.format.avro import (
    SCHEMA_NAMES,
    Fields,
    SchemaName,
    decode_container,
    encode_container,
    holds_any,
    parsed_schema,
)

SAVEPOINT = {
    "savepointedBy": "me",
    "savepointedAt": 1794736217282,
    "comments": "",
    "partitionMetadata": {"p0": {"partitionPath": "p0", "savepointDataFile": ["a_0_1.parquet"]}},
}


def _container(schema: Any, body: bytes, count: int = 1) -> bytes:
    """A container with a schema and record bytes of one's own making."""
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    sync = b"s" * 16
    header = _long(1) + _long(11) + b"avro.schema" + _long(len(text)) + text + _long(0)
    return b"Obj\x01" + header + sync + _long(count) + _long(len(body)) + body + sync


def _long(value: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", value)
    return out.getvalue()


def _record(*fields: Any, name: str = "R") -> dict[str, Any]:
    listed = [{"name": f"f{index}", "type": kind} for index, kind in enumerate(fields)]
    return {"type": "record", "name": name, "fields": listed}


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_every_schema_is_complete_in_itself(name: SchemaName) -> None:
    assert parsed_schema(name)["name"].endswith(name)
    assert parsed_schema(name) is parsed_schema(name)


def test_whether_a_text_is_in_a_container_is_told_without_decoding_it() -> None:
    data = encode_container("HoodieSavepointMetadata", SAVEPOINT)
    assert holds_any(data, ["nowhere", "a_0_1.parquet"])
    assert not holds_any(data, ["nowhere", "a_0_2.parquet"]) and not holds_any(data, [])
    packed = data.replace(b"\x08null", b"\x08zstd")
    for unreadable in (b"", b"Obj", data[4:], packed):
        assert holds_any(unreadable, ["nowhere"]), "it may be in there"


def test_a_container_round_trips() -> None:
    data = encode_container("HoodieSavepointMetadata", SAVEPOINT)
    assert decode_container(data, "x") == SAVEPOINT | {"version": 1}


def test_equal_records_give_equal_bytes() -> None:
    data = encode_container("HoodieSavepointMetadata", SAVEPOINT)
    assert data == encode_container("HoodieSavepointMetadata", dict(SAVEPOINT))


def test_another_avro_reader_reads_our_container() -> None:
    data = encode_container("HoodieSavepointMetadata", SAVEPOINT)
    reader = fastavro.reader(io.BytesIO(data))
    assert list(reader) == [SAVEPOINT | {"version": 1}]
    assert reader.metadata["avro.codec"] == "null"


def test_we_read_the_container_of_another_avro_writer() -> None:
    out = io.BytesIO()
    fastavro.writer(out, parsed_schema("HoodieSavepointMetadata"), [SAVEPOINT])
    assert decode_container(out.getvalue(), "x") == SAVEPOINT | {"version": 1}


def test_a_record_with_a_field_too_many_is_not_written() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        encode_container("HoodieSavepointMetadata", SAVEPOINT | {"nonsense": 1})


def test_no_bytes_are_no_record() -> None:
    assert decode_container(b"", "x") is None


def test_a_container_cut_off_anywhere_is_corrupt() -> None:
    data = encode_container("HoodieSavepointMetadata", SAVEPOINT)
    for end in range(1, len(data)):
        with pytest.raises(Corrupt):
            decode_container(data[:end], "x")


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_flipped_byte_never_raises_anything_but_corrupt(position: int, flip: int) -> None:
    data = bytearray(encode_container("HoodieSavepointMetadata", SAVEPOINT))
    data[position % len(data)] ^= flip
    with contextlib.suppress(Corrupt):
        decode_container(bytes(data), "x")


@given(st.binary(min_size=1, max_size=200))
def test_any_bytes_are_corrupt(data: bytes) -> None:
    for start in (b"", b"Obj\x01"):
        with pytest.raises(Corrupt):
            decode_container(start + data, "x")


@pytest.mark.parametrize("count", [0, 2, 1 << 60])
def test_a_container_of_other_than_one_record_is_corrupt(count: int) -> None:
    with pytest.raises(Corrupt, match="exactly one"):
        decode_container(_container(_record("long"), b"\x02" * min(count, 2), count), "x")


def test_another_codec_is_corrupt() -> None:
    out = io.BytesIO()
    schema = parsed_schema("HoodieSavepointMetadata")
    fastavro.writer(out, schema, [SAVEPOINT], codec="deflate")
    with pytest.raises(Corrupt, match="codec"):
        decode_container(out.getvalue(), "x")


def test_declared_lengths_beyond_the_file_are_corrupt_and_name_the_offset() -> None:
    with pytest.raises(Corrupt) as caught:
        decode_container(b"Obj\x01" + _long(1) + _long(1 << 40), "x")
    assert caught.value.where == "x@11"
    assert caught.value.safe and "copy of the table" in caught.value.next_step
    huge_string = _container(_record("string"), _long(1 << 50))
    huge_array = _container(_record({"type": "array", "items": "long"}), _long(1 << 50))
    huge_map = _container(_record({"type": "map", "values": "long"}), _long(-(1 << 50)))
    for data in (huge_string, huge_array, huge_map):
        with pytest.raises(Corrupt):
            decode_container(data, "x")


def test_bytes_after_the_record_are_corrupt() -> None:
    with pytest.raises(Corrupt, match="left"):
        decode_container(_container(_record("long"), b"\x02\x02"), "x")


def test_types_may_be_used_by_name_once_complete() -> None:
    inner = _record("long", name="Inner")
    data = _container(_record(inner, "Inner", ["null", "Inner"]), b"\x02\x04\x02\x06")
    assert decode_container(data, "x") == {"f0": {"f0": 1}, "f1": {"f0": 2}, "f2": {"f0": 3}}


def test_logical_types_are_read_as_what_they_are_stored_as() -> None:
    kind = {"type": "long", "logicalType": "timestamp-micros", "avro.java.string": "x"}
    assert decode_container(_container(_record(kind), b"\x02"), "x") == {"f0": 1}


NULLS = {"type": "array", "items": "null"}


def _nested(depth: int) -> Any:
    kind: Any = "long"
    for _ in range(depth):
        kind = {"type": "array", "items": kind}
    return kind


def _chain(length: int) -> dict[str, Any]:
    """Types that each hold the one before by name: flat as text, deep as values."""
    links: list[Any] = [_record("long", name="L0")]
    links += [_record(f"L{index - 1}", name=f"L{index}") for index in range(1, length)]
    return _record(*links)


@pytest.mark.parametrize(
    "schema",
    [
        _record(NULLS),
        _record({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}),
        _record({"type": "array", "items": {"type": "record", "name": "E", "fields": []}}),
        _record("R"),
        _record(["null", "R"]),
        _record(_record("long", name="A"), _record("long", name="x.A")),
        _record(_nested(40)),
        _record([[[[["long"]]]]] * 1),
        _chain(40),
        _record("unheard"),
        {"type": "long"},
        [],
        5,
        None,
        b"{",
        b"[" * 100_000,
        b'{"type":' * 100_000,
        b" " * (1 << 20) + b'"long"',
    ],
    ids=lambda schema: str(schema)[:30],
)
def test_a_schema_that_could_decode_without_end_is_corrupt(schema: Any) -> None:
    with pytest.raises(Corrupt):
        decode_container(_container(schema, _long(1 << 60)), "x")


def test_fields_of_another_kind_are_corrupt() -> None:
    fields = Fields({"text": "a", "number": 1, "minus": -1, "list": ["a", 1], "no": None}, "x")
    assert (fields.text("text"), fields.number("number")) == ("a", 1)
    assert (fields.text("no"), fields.number("absent"), fields.texts("no")) == ("", 0, ())
    assert fields.record("no").values == {} and fields.records("no") == ()
    assert fields.text_map("no") == {} and fields.flag("no") is False
    for read in (
        lambda: fields.text("number"),
        lambda: fields.number("text"),
        lambda: fields.number("minus"),
        lambda: fields.flag("number"),
        lambda: fields.texts("list"),
        lambda: fields.records("list"),
        lambda: fields.record("text"),
        lambda: fields.requested_at("text"),
        lambda: fields.requested_at("no"),
    ):
        with pytest.raises(Corrupt) as caught:
            read()
        assert caught.value.where == "x"
