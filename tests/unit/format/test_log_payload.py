"""Rows in blocks round trip, have the documented bytes, and damage to them is `Corrupt`."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lentic.errors import Corrupt, SchemaMismatch
from lentic.format.avro_schema import avro_schema_json
from lentic.format.log_payload import (
    decode_avro_payload,
    decode_parquet_payload,
    encode_avro_payload,
    encode_parquet_payload,
)

WHERE = "p0/.f-0_1.log.1_0-0-0@0"

TABLE = pa.table(
    {
        "key": ["a", "b", None],
        "n": pa.array([1, None, -(2**63)], pa.int64()),
        "t": pa.array([0, None, 253402300800000000], pa.timestamp("us", "UTC")),
        "w": pa.array([-1, None, 5], pa.timestamp("us")),
        "d": pa.array([date(2024, 2, 3), None, date(1, 1, 1)]),
        "dec": pa.array([Decimal("12.50"), None, Decimal("-0.01")], pa.decimal128(12, 2)),
        "l": pa.array([["x", None], [], None], pa.list_(pa.field("element", pa.string()))),
        "m": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
        "s": pa.array(
            [{"x": 1, "m": [("a", datetime(2024, 1, 1))]}, None, {"x": None, "m": None}],
            pa.struct([("x", pa.int32()), ("m", pa.map_(pa.string(), pa.timestamp("us", "UTC")))]),
        ),
        "f": pa.array([1.5, None, float("inf")], pa.float32()),
        "b": pa.array([True, None, False]),
        "bin": pa.array([b"", None, b"\xff"], pa.binary()),
    }
)


SCHEMA = avro_schema_json(TABLE.schema, "t", meta_fields=False)


# Parquet


def test_parquet_rows_round_trip() -> None:
    content = encode_parquet_payload(TABLE)
    assert decode_parquet_payload(memoryview(content), WHERE).equals(TABLE)


def test_a_parquet_block_is_a_plain_parquet_file() -> None:
    file = pq.ParquetFile(pa.BufferReader(encode_parquet_payload(TABLE)))
    assert file.metadata.metadata is None
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert "l.list.element" in {column.path for column in file.schema}
    assert file.schema.column(2).logical_type.type == "TIMESTAMP"
    gzip = pq.ParquetFile(pa.BufferReader(encode_parquet_payload(TABLE, compression="gzip")))
    assert gzip.metadata.row_group(0).column(0).compression == "GZIP"


def test_parquet_columns_come_as_asked_for_and_absent_ones_are_left_out() -> None:
    content = encode_parquet_payload(TABLE)
    found = decode_parquet_payload(content, WHERE, ["s", "absent", "n"])
    assert found.equals(TABLE.select(["s", "n"]))
    assert decode_parquet_payload(content, WHERE, ["absent"]).column_names == []


@pytest.mark.parametrize("unit", ["s", "ms", "ns"])
def test_parquet_refuses_timestamps_in_other_units_wherever_they_are(unit: str) -> None:
    kind = pa.timestamp(unit)
    for column in (pa.array([1], kind), pa.array([[1]], pa.list_(kind))):
        with pytest.raises(SchemaMismatch, match="Column c holds"):
            encode_parquet_payload(pa.table({"c": column}))


def test_a_cut_parquet_block_is_corrupt() -> None:
    content = encode_parquet_payload(TABLE.select(["n"]))
    for cut in range(0, len(content), 7):
        with pytest.raises(Corrupt) as caught:
            decode_parquet_payload(content[:cut], WHERE)
        assert caught.value.where == WHERE


def test_damaged_parquet_pages_do_not_pass_as_other_values() -> None:
    table = pa.table({"n": pa.array(range(1000), pa.int64())})
    content = encode_parquet_payload(table, compression="none")
    at = content.index(struct.pack("<q", 500))
    damaged = content[:at] + b"\xff" + content[at + 1 :]
    with pytest.raises(Corrupt, match=r"(?i)crc|checksum"):
        decode_parquet_payload(damaged, WHERE)


# Avro


def test_avro_rows_round_trip() -> None:
    content = encode_avro_payload(TABLE[:2].to_pylist(maps_as_pydicts="strict"), SCHEMA)
    assert decode_avro_payload(memoryview(content), SCHEMA, WHERE).equals(TABLE[:2])


def test_avro_takes_maps_as_pairs() -> None:
    content = encode_avro_payload(TABLE[:2].to_pylist(), SCHEMA)
    assert decode_avro_payload(content, SCHEMA, WHERE).equals(TABLE[:2])


def test_avro_takes_and_gives_moments_that_python_cannot_hold() -> None:
    schema = json.dumps(
        {
            "type": "record",
            "name": "r",
            "fields": [
                {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
                {"name": "d", "type": {"type": "int", "logicalType": "date"}},
            ],
        }
    )
    found = decode_avro_payload(
        encode_avro_payload([{"t": 2**62, "d": 10**7}], schema), schema, WHERE
    )
    assert found["t"].cast(pa.int64()).to_pylist() == [2**62]
    assert found["d"].cast(pa.int32()).to_pylist() == [10**7]


def test_a_datetime_without_zone_is_meant_in_utc() -> None:
    naive, aware = (
        encode_avro_payload([{"t": datetime(2024, 1, 1, tzinfo=zone)}], SCHEMA)
        for zone in (None, UTC)
    )
    assert naive == aware


def test_avro_content_has_exactly_the_documented_bytes() -> None:
    schema = json.dumps(
        {"type": "record", "name": "r", "fields": [{"name": "s", "type": "string"}]}
    )
    content = encode_avro_payload([{"s": "a"}, {"s": ""}], schema)
    assert content == struct.pack(">ii", 3, 2) + b"\0\0\0\x02\x02a" + b"\0\0\0\x01\x00"


def test_no_avro_records_are_no_rows() -> None:
    content = encode_avro_payload([], SCHEMA)
    assert content == struct.pack(">ii", 3, 0)
    assert decode_avro_payload(content, SCHEMA, WHERE).equals(TABLE[:0])


def test_a_record_that_does_not_fit_the_schema_is_refused_by_number() -> None:
    with pytest.raises(SchemaMismatch, match="Record 1 "):
        encode_avro_payload([{"n": 1}, {"n": "x"}], SCHEMA)


def test_a_cut_avro_block_is_corrupt() -> None:
    content = encode_avro_payload(TABLE[:2].to_pylist(), SCHEMA)
    for cut in range(len(content)):
        with pytest.raises(Corrupt) as caught:
            decode_avro_payload(content[:cut], SCHEMA, WHERE)
        assert caught.value.where == WHERE


STRING_SCHEMA = json.dumps(
    {"type": "record", "name": "r", "fields": [{"name": "s", "type": "string"}]}
)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        struct.pack(">ii", 2, 0),
        struct.pack(">ii", 3, -1),
        struct.pack(">ii", 3, 2**31 - 1),
        struct.pack(">ii", 3, 0) + b"\0",
        struct.pack(">iii", 3, 1, 2**31 - 1) + b"\x02a",
        struct.pack(">iii", 3, 1, -1) + b"\x02a",
        struct.pack(">iii", 3, 1, 3) + b"\x02aa",
        struct.pack(">iii", 3, 1, 1) + b"\x02a",
        struct.pack(">iii", 3, 1, 2) + b"\x02\xff",
        struct.pack(">iii", 3, 1, 5) + b"\xfe\xff\xff\xff\x0f",
    ],
    ids=repr,
)
def test_damaged_avro_lengths_are_corrupt(content: bytes) -> None:
    with pytest.raises(Corrupt) as caught:
        decode_avro_payload(content, STRING_SCHEMA, WHERE)
    assert caught.value.where == WHERE


@pytest.mark.parametrize(
    "schema",
    [
        "",
        "{",
        '"string"',
        '{"type":"record","name":"r","fields":[]}',
        '{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"array","items":'
        '{"type":"record","name":"e","fields":[]}}}]}',
    ],
)
def test_a_schema_that_cannot_be_or_has_no_bound_is_corrupt(schema: str) -> None:
    bomb = struct.pack(">iii", 3, 1, 10) + b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\0"
    with pytest.raises(Corrupt):
        decode_avro_payload(bomb, schema, WHERE)


# Both


@given(st.data())
def test_any_damage_is_corrupt_or_decodes_never_anything_else(data: st.DataObject) -> None:
    decoders: list[tuple[bytes, Callable[[bytes], object]]] = [
        (
            encode_avro_payload(TABLE[:2].to_pylist(), SCHEMA),
            lambda content: decode_avro_payload(content, SCHEMA, WHERE),
        ),
        (
            encode_parquet_payload(TABLE.select(["n", "l"])),
            lambda content: decode_parquet_payload(content, WHERE),
        ),
    ]
    content, decode = data.draw(st.sampled_from(decoders))
    damaged = bytearray(content)
    for at in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
        damaged[at] = data.draw(st.integers(0, 255))
    try:
        decode(bytes(damaged))
    except Corrupt as error:
        assert error.where == WHERE
