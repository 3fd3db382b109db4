"""The bucket index: rows of one key always meet in one file group, however they are cut."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lentic.errors import ConfigError, InvalidRecord
from lentic.format.bucket import bucket_file_id
from lentic.format.table_config import KeyGenerator
from lentic.write.index_bucket import BucketIndex
from lentic.write.placement import KeyRules, key_rules
from tests.rfc.claims import says
from tests.unit.builders import SCHEMA, new_table, rows

RULES = KeyRules(
    key_fields=("id",),
    composite=False,
    partition_fields=("day",),
    hive_style=False,
    url_encode=False,
)
INDEX = BucketIndex(RULES, buckets=4)

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
    seen: dict[tuple[str, str], tuple[str, str]] = {}
    numbers = []
    for part in index.split(numbered):
        assert 0 <= int(part.slot) < buckets
        assert part.rows.num_rows == len(part.keys) > 0
        order = part.rows.column("v").to_pylist()
        assert order == sorted(order)
        numbers += order
        for row, key in zip(part.rows.to_pylist(), part.keys.to_pylist(), strict=True):
            assert row["day"] == part.partition
            assert row["id"] == key
            group = seen.setdefault((row["day"], key), (part.partition, part.slot))
            assert group == (part.partition, part.slot)
    assert sorted(numbers) == list(range(len(given)))


@says("rfc66.pre.same")
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
    number_of = numbers.to_pylist()
    numbered = table.set_column(1, "v", pa.array(range(table.num_rows)))
    for part in index.split(numbered):
        assert len({number_of[row] for row in part.rows.column("v").to_pylist()}) == 1


def test_the_buckets_of_a_partition_get_consecutive_numbers() -> None:
    table = rows(*((f"k{n}", n, "d1") for n in range(200)))
    numbers = set(INDEX.route(table.to_batches()[0]).to_pylist())
    assert numbers == set(range(min(numbers), min(numbers) + 4))


def test_keys_partitions_and_buckets_are_the_formats() -> None:
    parts = INDEX.split(rows(("k0001", 1, "d1"), ("abc", 2, "d2"), ("12345", 3, "d1")))
    assert {(p.keys.to_pylist()[0], p.partition, p.slot) for p in parts} == {
        ("k0001", "d1", "3"),
        ("abc", "d2", "1"),
        ("12345", "d1", "2"),
    }


def test_a_composite_key_names_its_fields_and_hive_folders_theirs() -> None:
    rules = replace(RULES, key_fields=("id", "v"), composite=True, hive_style=True)
    index = BucketIndex(rules, 4)
    parts = index.split(rows(("k0001", 1, "d1"), ("a", None, "d1")))
    assert {(p.keys.to_pylist()[0], p.partition, p.slot) for p in parts} == {
        ("id:k0001,v:1", "day=d1", "2"),
        ("id:a,v:__null__", "day=d1", "0"),
    }
    assert index.columns == ("id", "v", "day")


def test_a_column_that_is_key_and_partition_is_asked_for_once() -> None:
    rules = replace(RULES, key_fields=("id", "day"), composite=True)
    assert BucketIndex(rules, 4).columns == rules.columns == ("id", "day")


@pytest.mark.parametrize(
    ("key", "day"), [("", "d"), ("a", ".."), ("a", ".hoodie"), ("a", "x//y"), ("a", "/etc")]
)
def test_a_row_without_key_or_safe_folder_is_invalid(key: str, day: str) -> None:
    with pytest.raises(InvalidRecord):
        INDEX.route(rows(("good", 1, "d"), (key, 1, day)).to_batches()[0])


def test_a_null_key_is_invalid_and_its_row_is_named() -> None:
    batch = pa.record_batch({"id": pa.array(["a", None]), "day": ["d", "d"]})
    with pytest.raises(InvalidRecord, match="Row 1"):
        INDEX.route(batch)
    with pytest.raises(InvalidRecord, match="Row 1"):
        RULES.keys(batch)


def test_an_unpartitioned_table_has_one_partition_without_a_name() -> None:
    index = BucketIndex(replace(RULES, partition_fields=()), 4)
    parts = list(index.split(rows(("a", 1, "x"), ("b", 2, "y"))))
    assert {part.partition for part in parts} == {""}
    assert sum(part.rows.num_rows for part in parts) == 2


def test_the_rules_of_a_table_are_what_its_properties_say() -> None:
    table = new_table(key="id,v", options={"hoodie.datasource.write.hive_style_partitioning": True})
    rules = key_rules(table.config)
    assert rules == KeyRules(("id", "v"), True, ("day",), True, False)
    index = BucketIndex(rules, 2)
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
    assert key_rules(config).composite is composite


def test_a_table_without_key_columns_is_refused_with_the_remedy() -> None:
    config = replace(new_table().config, key_fields=())
    with pytest.raises(ConfigError, match="no key columns") as caught:
        key_rules(config)
    assert "Apache Hudi" in caught.value.next_step


def test_no_rows_make_no_groups() -> None:
    assert list(INDEX.split(SCHEMA.empty_table())) == []


def test_a_slot_is_a_bucket_and_every_file_id_of_the_bucket_fills_it() -> None:
    assert INDEX.new_file_id("3") == bucket_file_id(3)
    for slot in ("0", "3"):
        assert INDEX.slot_of(INDEX.new_file_id(slot)) == slot
    assert INDEX.slot_of("00000002-be72-4138-b235-9544b3531d4f-0") == "2"


@pytest.mark.parametrize(
    "file_id", ["00000004-0000-0000-0000-000000000000-0", "be720000-4138-b235-9544", "", "3"]
)
def test_a_file_group_of_no_bucket_fills_no_slot(file_id: str) -> None:
    assert INDEX.slot_of(file_id) is None
