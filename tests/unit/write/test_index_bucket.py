"""The bucket index: rows of one key always meet in one file group, however they are cut."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lentic.errors import ConfigError, InvalidRecord
from lentic.format.table_config import KeyGenerator
from lentic.write.index_bucket import BucketIndex, bucket_index, split_by_group
from tests.unit.builders import SCHEMA, new_table, rows

INDEX = BucketIndex(
    key_fields=("id",),
    composite=False,
    partition_fields=("day",),
    hive_style=False,
    url_encode=False,
    buckets=4,
)

ROWS = st.lists(
    st.tuples(
        st.text("abcdeäé:,_ 0", min_size=1, max_size=4),
        st.none() | st.integers(0, 5),
        st.sampled_from(["d1", "d2", "2026/01"]),
    ),
    min_size=1,
    max_size=40,
)


@given(ROWS, st.integers(1, 9))
@settings(max_examples=200, deadline=None)
def test_groups_hold_every_row_once_in_order_and_one_key_in_one_group(
    given: list[tuple[str, int | None, str]], buckets: int
) -> None:
    index = replace(INDEX, buckets=buckets)
    numbered = rows(*((key, number, day) for number, (key, _, day) in enumerate(given)))
    seen: dict[tuple[str, str], tuple[str, int]] = {}
    numbers = []
    for part in split_by_group(numbered, index.tag(numbered), buckets):
        assert 0 <= part.bucket < buckets
        assert part.rows.num_rows == len(part.keys) > 0
        order = part.rows.column("v").to_pylist()
        assert order == sorted(order)
        numbers += order
        for row, key in zip(part.rows.to_pylist(), part.keys.to_pylist(), strict=True):
            assert row["day"] == part.partition
            assert row["id"] == key
            group = seen.setdefault((row["day"], key), (part.partition, part.bucket))
            assert group == (part.partition, part.bucket)
    assert sorted(numbers) == list(range(len(given)))


@given(ROWS, st.integers(1, 9), st.integers(1, 5))
@settings(max_examples=150, deadline=None)
def test_rows_of_one_group_get_one_number_however_the_batches_are_cut(
    given: list[tuple[str, int | None, str]], buckets: int, cut: int
) -> None:
    index = replace(INDEX, buckets=buckets)
    table = rows(*given)
    (whole,) = table.combine_chunks().to_batches()
    numbers = index.route(whole)
    assert numbers.type == pa.int32()
    assert all(number >= 0 for number in numbers.to_pylist())
    pieces = [index.route(batch) for batch in table.to_batches(max_chunksize=cut)]
    assert [n for piece in pieces for n in piece.to_pylist()] == numbers.to_pylist()
    tagged = index.tag(whole)
    groups = zip(tagged.partitions.to_pylist(), tagged.buckets.tolist(), strict=True)
    number_of: dict[tuple[str, int], int] = {}
    for group, number in zip(groups, numbers.to_pylist(), strict=True):
        assert number_of.setdefault(group, number) == number


def test_the_buckets_of_a_partition_get_consecutive_numbers() -> None:
    table = rows(*((f"k{n}", n, "d1") for n in range(200)))
    numbers = set(INDEX.route(table.to_batches()[0]).to_pylist())
    assert numbers == set(range(min(numbers), min(numbers) + 4))


def test_keys_partitions_and_buckets_are_the_formats() -> None:
    tagged = INDEX.tag(rows(("k0001", 1, "d1"), ("abc", 2, "d2"), ("12345", 3, "d1")))
    assert tagged.keys.to_pylist() == ["k0001", "abc", "12345"]
    assert tagged.partitions.to_pylist() == ["d1", "d2", "d1"]
    assert tagged.buckets.tolist() == [3, 1, 2]


def test_a_composite_key_names_its_fields_and_hive_folders_theirs() -> None:
    index = replace(INDEX, key_fields=("id", "v"), composite=True, hive_style=True)
    tagged = index.tag(rows(("k0001", 1, "d1"), ("a", None, "d1")))
    assert tagged.keys.to_pylist() == ["id:k0001,v:1", "id:a,v:__null__"]
    assert tagged.partitions.to_pylist() == ["day=d1", "day=d1"]
    assert tagged.buckets.tolist() == [2, 0]
    assert index.columns == ("id", "v", "day")


def test_a_column_that_is_key_and_partition_is_asked_for_once() -> None:
    assert replace(INDEX, key_fields=("id", "day"), composite=True).columns == ("id", "day")


@pytest.mark.parametrize(
    ("key", "day"), [("", "d"), ("a", ".."), ("a", ".hoodie"), ("a", "x//y"), ("a", "/etc")]
)
def test_a_row_without_key_or_safe_folder_is_invalid(key: str, day: str) -> None:
    with pytest.raises(InvalidRecord):
        INDEX.route(rows(("good", 1, "d"), (key, 1, day)).to_batches()[0])


def test_a_null_key_is_invalid_and_its_row_is_named() -> None:
    batch = pa.record_batch({"id": pa.array(["a", None]), "day": ["d", "d"]})
    with pytest.raises(InvalidRecord, match="Row 1"):
        INDEX.tag(batch)


def test_an_unpartitioned_table_has_one_partition_without_a_name() -> None:
    index = replace(INDEX, partition_fields=())
    table = rows(("a", 1, "x"), ("b", 2, "y"))
    parts = list(split_by_group(table, index.tag(table), index.buckets))
    assert {part.partition for part in parts} == {""}


def test_the_index_of_a_table_is_what_its_properties_say() -> None:
    config = new_table(
        key="id,v", options={"hoodie.datasource.write.hive_style_partitioning": True}
    )
    index = bucket_index(config.config)
    assert index == BucketIndex(("id", "v"), True, ("day",), True, False, 2)
    assert pickle.loads(pickle.dumps(index)) == index


@pytest.mark.parametrize(
    ("key", "keygen", "composite"),
    [
        ("id", KeyGenerator.SIMPLE, False),
        ("id", KeyGenerator.NON_PARTITION, False),
        ("id", KeyGenerator.COMPLEX, True),
        ("id,v", KeyGenerator.NON_PARTITION, True),
    ],
)
def test_the_key_generator_decides_whether_keys_are_composite(
    key: str, keygen: KeyGenerator, composite: bool
) -> None:
    config = replace(new_table(key=key).config, keygen=keygen)
    assert bucket_index(config).composite is composite


def test_a_table_without_a_bucket_count_is_refused_with_the_remedy() -> None:
    config = replace(new_table().config, buckets=None)
    with pytest.raises(ConfigError) as caught:
        bucket_index(config)
    assert "hoodie.bucket.index.num.buckets" in caught.value.next_step


def test_no_rows_make_no_groups() -> None:
    empty = SCHEMA.empty_table()
    assert list(split_by_group(empty, INDEX.tag(empty), 4)) == []
