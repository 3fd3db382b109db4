"""Deletes round trip, agree with Apache Hudi's bytes, and damage to them is `Corrupt`."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lentic.errors import Corrupt, InvalidRecord, SchemaMismatch
from lentic.format.log_deletes import DeleteRecord, decode_delete_payload, encode_delete_payload

WHERE = "p0/.f-0_1.log.1_0-0-0@0"

# From a log by Apache Hudi 1.2.0: two deletes by commit time.
REAL = bytes.fromhex("000000030000001c04020a6b30303030020470300400020a6b3030303302047030040000")

MOMENT = datetime(2024, 2, 3, 4, 5, 6, 789)
EPOCH = datetime(1970, 1, 1)
MICROS = (MOMENT - EPOCH) // timedelta(microseconds=1)


def _stored(values: list[Any], kind: pa.DataType) -> list[object | None]:
    """What deletes at these values are read back as."""
    content = encode_delete_payload(
        pa.array(map(str, range(len(values)))), "p", (pa.array(values, kind),)
    )
    found = decode_delete_payload(content, WHERE)
    assert [record.key for record in found] == [str(number) for number in range(len(values))]
    assert all(record.partition == "p" for record in found)
    return [record.ordering for record in found]


def test_deletes_by_apache_hudi_decode_and_encode_to_the_same_bytes() -> None:
    found = decode_delete_payload(memoryview(REAL), WHERE)
    assert found == [DeleteRecord("k0000", "p0", None), DeleteRecord("k0003", "p0", None)]
    for ordering in (None, (), (pa.nulls(2, pa.int64()),), (pa.nulls(2, pa.string()),) * 2):
        assert encode_delete_payload(pa.array(["k0000", "k0003"]), "p0", ordering) == REAL


ORDERINGS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [True, False]),
    (pa.int8(), [1, -128, 127]),
    (pa.int16(), [1, -(2**15), 2**15 - 1]),
    (pa.int32(), [1, -1, 63, 64, -64, -65, 2**31 - 1, -(2**31)]),
    (pa.int64(), [0, 1, -1, 8191, 8192, -8192, -8193, 2**63 - 1, -(2**63)]),
    (pa.float32(), [0.0, 1.5, -1.5, float("inf"), float("-inf")]),
    (pa.float64(), [0.0, 0.1, -1e300, 5e-324, float("inf"), float("-inf")]),
    (pa.string(), ["", "a", "ü", "😀" * 100, "\0"]),
    (pa.large_string(), ["", "ü"]),
    (pa.binary(), [b"", b"\x00", b"\xff" * 300]),
    (pa.large_binary(), [b"", b"\xff"]),
    (pa.decimal128(12, 2), [Decimal("0.00"), Decimal("12.50"), Decimal("-9999999999.99")]),
    (pa.decimal128(15, 15), [Decimal("0.000000000000001"), Decimal("-0.999999999999999")]),
    (pa.decimal128(38, 20), [Decimal("1.5"), Decimal(-(10**14))]),
    (pa.decimal256(40, 2), [Decimal("1.5")]),
]


@pytest.mark.parametrize(("kind", "values"), ORDERINGS, ids=str)
def test_each_type_of_ordering_value_round_trips(kind: pa.DataType, values: list[Any]) -> None:
    found = _stored(values, kind)
    assert found == values
    assert [type(value) for value in found] == [type(value) for value in values]


@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [
        (pa.date32(), date(2024, 2, 3), 19756),
        (pa.date32(), date(1, 1, 1), -719162),
        (pa.timestamp("us", "UTC"), MOMENT.replace(tzinfo=UTC), MICROS),
        (pa.timestamp("us", "Asia/Tokyo"), MOMENT.replace(tzinfo=UTC), MICROS),
        (pa.timestamp("us"), MOMENT, MICROS),
        (pa.timestamp("us"), EPOCH, 0),
        (pa.timestamp("us"), EPOCH - timedelta(microseconds=1), -1),
        (pa.timestamp("ms"), EPOCH + timedelta(seconds=5), 5000),
    ],
    ids=str,
)
def test_dates_and_times_are_stored_as_the_numbers_that_the_column_stores(
    kind: pa.DataType, value: Any, stored: int
) -> None:
    assert _stored([value], kind) == [stored]
    assert pa.array([stored], kind).to_pylist() == pa.array([value], kind).to_pylist()


# The branch of each wrapper in the union of the delete schema, as it is written (zigzag).
@pytest.mark.parametrize(
    ("value", "kind", "stored"),
    [
        (True, pa.bool_(), b"\x02\x01"),
        (5, pa.int32(), b"\x04\x0a"),
        (5, pa.int16(), b"\x04\x0a"),
        (5, pa.int64(), b"\x06\x0a"),
        (-300, pa.int64(), b"\x06\xd7\x04"),
        (1.0, pa.float32(), b"\x08\x00\x00\x80\x3f"),
        (1.0, pa.float64(), b"\x0a\x00\x00\x00\x00\x00\x00\xf0\x3f"),
        (b"\xff", pa.binary(), b"\x0c\x02\xff"),
        ("a", pa.string(), b"\x0e\x02a"),
        (date(1970, 1, 2), pa.date32(), b"\x04\x02"),
        (Decimal("0.000000000000127"), pa.decimal128(20, 15), b"\x12\x02\x7f"),
        (Decimal("0.000000000000128"), pa.decimal128(20, 15), b"\x12\x04\x00\x80"),
        (Decimal("-0.000000000000128"), pa.decimal128(20, 15), b"\x12\x02\x80"),
        (Decimal("-0.000000000000129"), pa.decimal128(20, 15), b"\x12\x04\xff\x7f"),
        (5, pa.timestamp("us", "UTC"), b"\x06\x0a"),
        (5, pa.timestamp("us"), b"\x06\x0a"),
        (None, pa.int64(), b"\x04\x00"),
    ],
    ids=str,
)
def test_the_columns_type_decides_how_an_ordering_value_is_stored(
    value: Any, kind: pa.DataType, stored: bytes
) -> None:
    content = encode_delete_payload(pa.array(["k"]), "p", (pa.array([value], kind),))
    assert content[8:] == b"\x02" + b"\x02\x02k" + b"\x02\x02p" + stored + b"\x00"


def test_a_long_zero_is_an_ordering_value_and_an_int_zero_is_none() -> None:
    assert _stored([0], pa.int64()) == [0]
    assert _stored([0, 1], pa.int32()) == [None, 1]
    assert _stored([EPOCH.date()], pa.date32()) == [None]


@pytest.mark.parametrize(("kind", "values"), ORDERINGS, ids=str)
def test_a_null_among_ordering_values_is_a_hard_delete(
    kind: pa.DataType, values: list[Any]
) -> None:
    assert _stored([None, *values, None], kind) == [None, *values, None]


def test_several_ordering_fields_each_have_their_type() -> None:
    ordering = (
        pa.array([0, 7, None], pa.int32()),
        pa.array(["x", "", None]),
        pa.array([Decimal("1.5"), Decimal(-1), None], pa.decimal128(5, 2)),
        pa.array([MOMENT, MOMENT, None], pa.timestamp("us")),
    )
    content = encode_delete_payload(pa.array(["a", "b", "c"]), "", ordering)
    assert decode_delete_payload(content, WHERE) == [
        DeleteRecord("a", "", (0, "x", Decimal("1.5"), MICROS)),
        DeleteRecord("b", "", (7, "", Decimal(-1), MICROS)),
        DeleteRecord("c", "", None),
    ]


def test_some_but_not_all_of_several_ordering_values_are_refused() -> None:
    """Apache Hudi fails to read a block with a delete of that kind."""
    with pytest.raises(InvalidRecord, match="ordering fields"):
        ordering = (pa.array([1, 2]), pa.array(["x", None]))
        encode_delete_payload(pa.array(["a", "b"]), "", ordering)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([[1]]),
        pa.array([{"a": 1}]),
        pa.array([1], pa.uint64()),
        pa.array([1], pa.time64("us")),
        pa.array([1], pa.duration("us")),
        pa.array([1], pa.float16()),
        pa.array([Decimal(10) ** 15], pa.decimal128(38, 2)),
        pa.array([Decimal(1).scaleb(-16)], pa.decimal128(38, 16)),
    ],
    ids=lambda values: str(values.type),
)
def test_an_ordering_value_that_has_no_place_in_a_delete_is_refused(values: pa.Array) -> None:
    for ordering in ((values,), (pa.array([1]), values)):
        with pytest.raises(SchemaMismatch, match="ordered by") as caught:
            encode_delete_payload(pa.array(["k"]), "", ordering)
        assert str(values.type) in caught.value.what
        assert caught.value.safe
        assert caught.value.next_step


def test_a_delete_without_key_is_refused() -> None:
    with pytest.raises(InvalidRecord, match="key"):
        encode_delete_payload(pa.array(["a", None]), "", None)


def test_parts_of_larger_columns_are_encoded_like_columns_of_their_own() -> None:
    keys = pa.array([f"key {number}" for number in range(9)])
    for kind, values in ORDERINGS:
        column = pa.array([*values, None, *values], kind)
        part = column.slice(1, min(len(column) - 1, 5))
        alone = pa.array(part.to_pylist(), kind)
        some = keys.slice(3, len(part))
        content = encode_delete_payload(some, "p", (part,))
        assert content == encode_delete_payload(pa.array(some.to_pylist()), "p", (alone,))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("count", [1, 63, 64, 5000])
def test_many_deletes_round_trip_in_order(count: int, kind: pa.DataType) -> None:
    keys = [f"{number}" * (number % 70) for number in range(count)]
    ordering = [number if number % 3 else None for number in range(-5, count - 5)]
    content = encode_delete_payload(
        pa.array(keys, kind), "a=1/b=ü", (pa.array(ordering, pa.int64()),)
    )
    expected = [DeleteRecord(key, "a=1/b=ü", at) for key, at in zip(keys, ordering, strict=True)]
    assert decode_delete_payload(content, WHERE) == expected


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]))),
    st.text(st.characters(exclude_categories=["Cs"])),
)
def test_any_text_can_be_a_key_and_a_partition(keys: list[str], partition: str) -> None:
    content = encode_delete_payload(pa.array(keys, pa.string()), partition, None)
    expected = [DeleteRecord(key, partition, None) for key in keys]
    assert decode_delete_payload(content, WHERE) == expected


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_any_long_can_be_an_ordering_value(values: list[int | None]) -> None:
    assert _stored(values, pa.int64()) == values


@given(st.lists(st.none() | st.integers(1 - 10**30, 10**30 - 1).map(lambda n: Decimal(f"{n}e-15"))))
def test_any_decimal_that_fits_can_be_an_ordering_value(values: list[Decimal | None]) -> None:
    assert _stored(values, pa.decimal128(30, 15)) == values


def test_no_deletes_round_trip() -> None:
    for ordering in (None, (pa.array([], pa.int64()),)):
        content = encode_delete_payload(pa.array([], pa.string()), "p", ordering)
        assert content == struct.pack(">ii", 3, 1) + b"\0"
        assert decode_delete_payload(content, WHERE) == []


# Wrappers that are read and not written


@pytest.mark.parametrize(
    ("wrapped", "value"),
    [
        (b"\x10\x02", date(1970, 1, 2)),
        (b"\x16\x0a", datetime(1970, 1, 1, 0, 0, 0, 5, tzinfo=UTC)),
        (b"\x18\x02\x04\x18\x02\x00\x00", (date(1970, 1, 2), None)),
        (b"\x00", None),
    ],
    ids=str,
)
def test_other_wrappers_are_read(wrapped: bytes, value: object) -> None:
    avro = b"\x02\x02\x02k\x02\x02p" + wrapped + b"\x00"
    content = struct.pack(">ii", 3, len(avro)) + avro
    assert decode_delete_payload(content, WHERE) == [DeleteRecord("k", "p", value)]


# Damage


def test_a_cut_delete_block_is_corrupt() -> None:
    for cut in range(len(REAL)):
        with pytest.raises(Corrupt) as caught:
            decode_delete_payload(REAL[:cut], WHERE)
        assert caught.value.where == WHERE


@pytest.mark.parametrize(
    "avro",
    [
        b"\x00\x00",  # a byte too many
        b"\x02\x00\x00\x00\x00",  # a delete without a key
        b"\x02\x02\x02k\x00\x1e\x00\x00",  # a wrapper that does not exist
        b"\x02\x02\x02k\x00\x18\x02\x00\x00",  # an ordering of no values
        b"\x02\x02\x02k\x00\x18\x00\x00",  # an ordering of null
        b"\x02\x02\xfe\xff\xff\xff\x0fk",  # a key of two gigabytes
        b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f",  # many deletes and none there
        b"\x02\x02\x02\xff\x00\x00\x00",  # a key that is no text
        b"\x02\x02\x02k\x00\x16\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00",  # no such time
    ],
    ids=bytes.hex,
)
def test_damaged_deletes_are_corrupt(avro: bytes) -> None:
    with pytest.raises(Corrupt) as caught:
        decode_delete_payload(struct.pack(">ii", 3, len(avro)) + avro, WHERE)
    assert caught.value.where == WHERE


@pytest.mark.parametrize(
    "content",
    [struct.pack(">ii", 2, 1) + b"\0", struct.pack(">ii", 3, 2**31 - 1) + b"\0", b"\0\0\0\x03"],
)
def test_damaged_delete_lengths_are_corrupt(content: bytes) -> None:
    with pytest.raises(Corrupt):
        decode_delete_payload(content, WHERE)


@given(st.data())
def test_any_damage_is_corrupt_or_decodes_never_anything_else(data: st.DataObject) -> None:
    several = encode_delete_payload(pa.array(["a", "b"]), "p", (pa.array([1, 2]), pa.array("xy")))
    damaged = bytearray(data.draw(st.sampled_from([REAL, several])))
    size = len(damaged)
    for at in data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=4)):
        damaged[at] = data.draw(st.integers(0, 255))
    try:
        decode_delete_payload(bytes(damaged), WHERE)
    except Corrupt as error:
        assert error.where == WHERE
