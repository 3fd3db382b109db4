"""Buckets are those of Apache Hudi's simple bucket index, for every key anyone can write."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lentic.errors import InvalidRecord
from lentic.format import bucket as bucket_module
from lentic.format.bucket import (
    BUCKETS_MAX,
    bucket_file_id,
    bucket_ids,
    bucket_ids_of_values,
    parse_bucket,
)
from lentic.format.keys import record_keys

# (key, hash fields, hash without sign, buckets of 4, 7 and 256), from the real class.
VECTORS: list[tuple[str, tuple[str, ...], int, tuple[int, int, int]]] = [
    ("k0001", (), 100294411, (3, 0, 11)),
    ("abc", (), 96385, (1, 2, 129)),
    ("12345", (), 46792786, (2, 5, 82)),
    ("ünï", (), 245852, (0, 5, 92)),
    ("", (), 31, (3, 3, 31)),
    ("id:k0001,seq:1", ("id", "seq"), 961643142, (2, 5, 134)),
    ("id:k0001,seq:1", (), 961643142, (2, 5, 134)),
    ("id:k0001,seq:1", ("id",), 100294411, (3, 0, 11)),
    ("id:k0001,seq:1", ("seq",), 80, (0, 3, 80)),
    ("id:a,seq:__null__", ("id", "seq"), 3968, (0, 6, 128)),
    ("id:a,seq:__empty__", ("id", "seq"), 3968, (0, 6, 128)),
    ("id:2014-10-22 13:50:42,seq:3", ("id", "seq"), 2065120849, (1, 1, 81)),
    ("id:a,b,seq:3", ("id", "seq"), 2936061, (1, 2, 253)),
    ("id:k0001", ("id",), 775815148, (0, 3, 236)),
]


@pytest.mark.parametrize(("key", "fields", "whole", "small"), VECTORS)
def test_the_vectors_of_the_real_class(
    key: str, fields: tuple[str, ...], whole: int, small: tuple[int, int, int]
) -> None:
    keys = pa.array(["before", key, "after"])
    for buckets, expected in zip((4, 7, 256), small, strict=True):
        assert bucket_ids(keys, buckets, hash_fields=fields)[1] == expected
    ids = bucket_ids(keys, BUCKETS_MAX, hash_fields=fields)
    assert ids[1] == whole % BUCKETS_MAX
    assert ids.dtype == np.int32


# The reference: one character, one value, one key at a time, as the format describes it.


def reference_string_hash(text: str) -> int:
    units = text.encode("utf-16-be")
    total = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        total = (31 * total + 256 * high + low) % 2**32
    return total


def reference_list_hash(values: Sequence[str | None]) -> int:
    total = 1
    for value in values:
        total = (31 * total + (0 if value is None else reference_string_hash(value))) % 2**32
    return total


def reference_values(key: str, fields: tuple[str, ...]) -> list[str | None]:
    if "," not in key or ":" not in key:
        return [key]
    found: list[str | None] = []
    rest: str | None = key
    while rest:
        name, tail = rest.split(":", 1)
        value, rest = tail, None
        for at in range(len(tail)):
            if tail[at] == ":" and "," in tail[:at]:
                cut = tail[:at].rindex(",")
                value, rest = tail[:cut], tail[cut + 1 :]
                break
        if not fields or name in fields:
            found.append({"__null__": None, "__empty__": ""}.get(value, value))
    return found or [key]


def reference_bucket(key: str, buckets: int, fields: tuple[str, ...] = ()) -> int:
    return (reference_list_hash(reference_values(key, fields)) & 0x7FFFFFFF) % buckets


def test_the_reference_itself_reproduces_the_vectors() -> None:
    for key, fields, whole, _ in VECTORS:
        assert reference_list_hash(reference_values(key, fields)) & 0x7FFFFFFF == whole


ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30)
TRICKY_TEXT = st.lists(
    st.sampled_from([*"abü😀,:1", "id", "id:", ",seq:", "__null__", "__empty__"]), max_size=8
).map("".join)


@given(st.lists(ANY_TEXT | TRICKY_TEXT), st.integers(1, 1000))
def test_any_text_hashes_as_the_reference_does(keys: list[str], buckets: int) -> None:
    found = bucket_ids(pa.array(keys, pa.string()), buckets)
    assert found.tolist() == [reference_bucket(key, buckets) for key in keys]


@given(st.lists(TRICKY_TEXT), st.sampled_from([("id",), ("id", "seq"), ("seq",), ("none",)]))
def test_any_hash_fields_count_as_in_the_reference(
    keys: list[str], fields: tuple[str, ...]
) -> None:
    found = bucket_ids(pa.array(keys, pa.string()), 997, hash_fields=fields)
    assert found.tolist() == [reference_bucket(key, 997, fields) for key in keys]


COLUMNS = {
    "string": (st.text(min_size=1, max_size=9), pa.string(), str),
    "emoji": (st.text("😀🦀aü", min_size=1, max_size=9), pa.string(), str),
    "int": (st.integers(-(2**63), 2**63 - 1), pa.int64(), str),
    "bool": (st.booleans(), pa.bool_(), lambda v: str(v).lower()),
    "date": (st.dates(), pa.date32(), date.isoformat),
    "decimal": (
        st.decimals(-999, 999, places=2).map(lambda d: d.quantize(Decimal("0.01"))),
        pa.decimal128(10, 2),
        lambda d: f"{d + 0:.2f}",
    ),
    "timestamp": (
        st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
        pa.timestamp("us", "UTC"),
        lambda t: str(
            (t - datetime(1970, 1, 1, tzinfo=UTC)).days * 86_400_000_000
            + (t - datetime(1970, 1, 1, tzinfo=UTC)).seconds * 1_000_000
            + t.microsecond
        ),
    ),
}


@pytest.mark.parametrize("kind", COLUMNS)
@given(data=st.data())
def test_plain_and_composite_keys_of_each_type(kind: str, data: st.DataObject) -> None:
    values, arrow_type, to_text = COLUMNS[kind]
    rows = data.draw(st.lists(values, min_size=1, max_size=8))
    table = pa.table({"id": pa.array(rows, arrow_type), "seq": pa.array(range(len(rows)))})
    texts = [to_text(row) for row in rows]

    plain = bucket_ids(record_keys(table, ("id",), composite=False), 64, hash_fields=("id",))
    assert plain.tolist() == [reference_bucket(text, 64, ("id",)) for text in texts]

    fields = ("id", "seq")
    composite = bucket_ids(record_keys(table, fields, composite=True), 64, hash_fields=fields)
    keys = [f"id:{text},seq:{number}" for number, text in enumerate(texts)]
    assert composite.tolist() == [reference_bucket(key, 64, fields) for key in keys]


@given(
    st.lists(
        st.tuples(st.none() | st.text("abü😀", max_size=5), st.none() | st.integers().map(str)),
        min_size=1,
    )
)
def test_values_hash_as_the_keys_made_of_them(rows: list[tuple[str | None, str | None]]) -> None:
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    found = bucket_ids_of_values(columns, 256)
    assert found.tolist() == [(reference_list_hash(row) & 0x7FFFFFFF) % 256 for row in rows]
    whole = [row for row in rows if row[0] or row[1]]
    if whole:
        table = pa.table({"a": [a for a, _ in whole], "b": pa.array([b for _, b in whole])})
        keys = record_keys(
            table.cast(pa.schema([("a", pa.string()), ("b", pa.string())])),
            ("a", "b"),
            composite=True,
        )
        by_key = bucket_ids(keys, 256, hash_fields=("a", "b"))
        by_value = bucket_ids_of_values(
            [pa.array(column, pa.string()) for column in zip(*whole, strict=True)], 256
        )
        assert by_key.tolist() == by_value.tolist()


def test_slices_chunks_and_large_strings_hash_alike() -> None:
    texts = ["a", "bb", "ü", "id:x,seq:1", "", "😀" * 3]
    expected = [reference_bucket(text, 97) for text in texts]
    whole = pa.array(["x", *texts, "y"])
    assert bucket_ids(whole[1:7], 97).tolist() == expected
    assert bucket_ids(whole[1:7].cast(pa.large_string()), 97).tolist() == expected
    chunked = pa.chunked_array([texts[:2], [], texts[2:]], pa.string())
    assert bucket_ids(chunked, 97).tolist() == expected


def test_work_cut_into_pieces_gives_the_same_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"k{number}" * (number % 5) + "ü" * (number % 3) for number in range(60)]
    texts += ["long" * 20, "id:" + "v" * 50 + ",seq:1", "a,b:c"]
    expected = [reference_bucket(text, 31) for text in texts]
    assert bucket_ids(pa.array(texts), 31).tolist() == expected
    # Pieces shorter than the longest keys, so that those take the path of their own.
    monkeypatch.setattr(bucket_module, "_CHUNK_BYTES", 16)
    monkeypatch.setattr(bucket_module, "_POWERS", bucket_module._powers(16))
    assert bucket_ids(pa.array(texts), 31).tolist() == expected


def test_no_keys_give_no_buckets() -> None:
    assert bucket_ids(pa.array([], pa.string()), 4).tolist() == []
    assert bucket_ids_of_values([pa.array([], pa.string())], 4).tolist() == []


def test_bytes_that_are_no_text_are_refused() -> None:
    broken = pa.StringArray.from_buffers(
        1, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe")
    )
    with pytest.raises(InvalidRecord, match="UTF-8"):
        bucket_ids(broken, 4)


def test_a_bucket_has_one_fixed_file_id() -> None:
    assert bucket_file_id(5) == "00000005-0000-0000-0000-000000000000-0"
    assert bucket_file_id(BUCKETS_MAX) == "99999999-0000-0000-0000-000000000000-0"


@pytest.mark.parametrize(
    ("file_id", "expected"),
    [
        ("00000005-0000-0000-0000-000000000000-0", 5),
        ("00000012-be72-4138-b235-9544b3531d4f-0", 12),
        ("be72aaaa-be72-4138-b235-9544b3531d4f-0", None),
        ("0000005-0000", None),
        ("000000051-000", None),
        ("", None),
        ("files-0000-0", None),
        ("0000000५-0000-0000-0000-000000000000-0", None),
    ],
)
def test_the_bucket_is_read_from_the_file_id(file_id: str, expected: int | None) -> None:
    assert parse_bucket(file_id) == expected


@given(st.integers(0, BUCKETS_MAX))
def test_file_ids_round_trip(bucket: int) -> None:
    assert parse_bucket(bucket_file_id(bucket)) == bucket
