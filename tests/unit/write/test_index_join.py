"""The join index: located rows go where their key is, new keys where the driver said."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lentic.engine import FILE_ID, FOUND_IN, KEY, PARTITION, KeyFile
from lentic.errors import Corrupt, InvalidRecord, MissingFile
from lentic.storage.memory import MemoryStorage
from lentic.timeline.reader import load_timeline
from lentic.view.listing import load_table_view
from lentic.write.assign import Choice, Sizes, SmallFile, assign_groups
from lentic.write.index_join import JoinPlacement, ReadKeys, TagRows, keep_places, settle_moves
from lentic.write.placement import DELETE_FLAG, key_rules
from tests.unit.builders import new_table, rows
from tests.unit.write.attempts import upsert

FULL = 2**32
Line = tuple[str, str, str | None]
"""Key, partition and the file group found."""
CHOICES = {
    "p": Choice(("new0", "new1"), (FULL // 2, FULL)),
    "q": Choice(("small",), (FULL,)),
}
PLACEMENT = JoinPlacement(CHOICES)


def _located(lines: list[Line], chunk: int = 100) -> pa.Table:
    columns = {
        "n": pa.array(range(len(lines)), pa.int64()),
        KEY: pa.array([line[0] for line in lines], pa.string()),
        PARTITION: pa.array([line[1] for line in lines], pa.string()),
        FILE_ID: pa.array([line[2] for line in lines], pa.string()),
    }
    table = pa.table(columns)
    parts = [table.slice(at, chunk) for at in range(0, len(lines), chunk)]
    return pa.concat_tables(parts) if parts else table


LINES = st.lists(
    st.tuples(
        st.text("abcxyz", max_size=3),
        st.sampled_from(["p", "q"]),
        st.none() | st.sampled_from(["f1", "f2", "new0"]),
    ),
    min_size=1,
    max_size=30,
)


# Placing


@given(LINES, st.integers(1, 9))
@settings(max_examples=150, deadline=None)
def test_rows_go_to_the_group_found_and_new_keys_to_one_that_was_chosen(
    lines: list[Line], chunk: int
) -> None:
    placed: dict[int, str] = {}
    for part in PLACEMENT.split(_located(lines, chunk)):
        numbers = part.rows.column("n").to_pylist()
        assert numbers == sorted(numbers)
        for number, key in zip(numbers, part.keys.to_pylist(), strict=True):
            assert (key, part.partition) == lines[number][:2]
            placed[number] = part.slot
    assert sorted(placed) == list(range(len(lines)))
    chosen_for: dict[tuple[str, str], str] = {}
    for number, (key, partition, found) in enumerate(lines):
        if found is not None:
            assert placed[number] == found
        else:
            assert placed[number] in CHOICES[partition].file_ids
            assert chosen_for.setdefault((key, partition), placed[number]) == placed[number]


@given(LINES, st.integers(1, 9))
@settings(max_examples=150, deadline=None)
def test_rows_of_one_slot_get_one_number_however_they_are_cut(
    lines: list[Line], chunk: int
) -> None:
    table = _located(lines)
    (whole,) = table.select(list(PLACEMENT.columns)).combine_chunks().to_batches()
    numbers = PLACEMENT.route(whole)
    assert numbers.type == pa.int32()
    assert all(number >= 0 for number in numbers.to_pylist())
    pieces = [PLACEMENT.route(batch) for batch in table.to_batches(max_chunksize=chunk)]
    assert [n for piece in pieces for n in piece.to_pylist()] == numbers.to_pylist()
    for part in PLACEMENT.split(table):
        rows_of = part.rows.column("n").to_pylist()
        assert len({numbers[row].as_py() for row in rows_of}) == 1


def test_different_slots_seldom_share_a_number() -> None:
    lines: list[Line] = [(f"k{n}", "p", f"be72-{n}-0") for n in range(200)]
    (batch,) = _located(lines, len(lines)).combine_chunks().to_batches()
    assert len(set(PLACEMENT.route(batch).to_pylist())) == 200


def test_a_placement_needs_choices_only_for_partitions_with_new_keys() -> None:
    table = _located([("a", "elsewhere", "f9"), ("b", "q", None)])
    found = {(part.partition, part.slot) for part in JoinPlacement(CHOICES).split(table)}
    assert found == {("elsewhere", "f9"), ("q", "small")}
    (part,) = JoinPlacement({}).split(_located([("a", "p", "f1")]))
    assert part.slot == "f1"


def test_slots_are_file_ids() -> None:
    assert PLACEMENT.columns == (KEY, PARTITION, FILE_ID)
    assert PLACEMENT.slot_of("f1") == PLACEMENT.new_file_id("f1") == "f1"
    assert list(PLACEMENT.split(_located([]))) == []


def test_a_placement_travels_and_places_alike() -> None:
    choices = assign_groups({"p": 50}, {"p": [SmallFile("s", 5)]}, Sizes(100, 80, 5), lambda: "n-0")
    copied = pickle.loads(pickle.dumps(JoinPlacement(choices)))
    table = _located([(f"k{n}", "p", None) for n in range(50)])
    first = {part.slot: part.rows.to_pylist() for part in JoinPlacement(choices).split(table)}
    assert {part.slot: part.rows.to_pylist() for part in copied.split(table)} == first


# Tagging and reading keys


def test_rows_are_tagged_with_what_the_format_makes_of_them() -> None:
    table = new_table(
        buckets=None, key="id,v", options={"hoodie.datasource.write.hive_style_partitioning": True}
    )
    tag = TagRows(key_rules(table.config))
    (batch,) = rows(("a", 1, "d1"), ("b", None, "d2")).to_batches()
    assert tag(batch).to_pydict() == {
        KEY: ["id:a,v:1", "id:b,v:__null__"],
        PARTITION: ["day=d1", "day=d2"],
    }
    with pytest.raises(InvalidRecord):
        tag(rows(("a", 1, "../x")).to_batches()[0])


def test_the_keys_of_a_base_file_are_read_and_nothing_else() -> None:
    table = new_table(buckets=None)
    upsert(table, rows(*((f"k{n}", n, "d") for n in range(20))))
    (group,) = load_table_view(table.storage, load_timeline(table.storage))
    assert group.latest.base is not None
    file = KeyFile("d", group.id.file_id, group.latest.base.path)
    found = [key for keys in ReadKeys(table.storage)(file) for key in keys.to_pylist()]
    assert sorted(found) == sorted(f"k{n}" for n in range(20))


def test_a_base_file_that_does_not_read_is_corrupt_and_named() -> None:
    storage = MemoryStorage()
    storage.put_if_absent("p/x.parquet", b"no Parquet")
    with pytest.raises(Corrupt) as caught:
        list(ReadKeys(storage)(KeyFile("p", "x", "p/x.parquet")))
    assert caught.value.where == "p/x.parquet"
    with pytest.raises(MissingFile):
        list(ReadKeys(storage)(KeyFile("p", "x", "p/gone.parquet")))


# Keys that live in another partition


def _moves(*lines: tuple[str, str, str | None, str | None], **columns: list[Any]) -> pa.RecordBatch:
    """Key, partition wanted, file group found and its partition."""
    names = (KEY, PARTITION, FILE_ID, FOUND_IN)
    given = dict(zip(names, (list(column) for column in zip(*lines, strict=True)), strict=True))
    arrays = {name: pa.array(values, pa.string()) for name, values in given.items()}
    flags = {name: pa.array(values, pa.bool_()) for name, values in columns.items()}
    numbers = {"n": pa.array(range(len(lines)), pa.int64())}
    return pa.record_batch(numbers | arrays | flags)


def _lines(batch: pa.RecordBatch) -> set[tuple[Any, ...]]:
    names = ("n", PARTITION, FILE_ID, DELETE_FLAG)
    found = [tuple(row[name] for name in names) for row in batch.to_pylist()]
    assert len(set(found)) == len(found)
    return set(found)


def test_a_moved_key_is_deleted_where_it_was_and_new_where_it_belongs() -> None:
    batch = _moves(
        ("a", "q", "f1", "p"),
        ("b", "p", "f1", "p"),
        ("c", "p", None, None),
    )
    settled = settle_moves(batch)
    assert _lines(settled) == {
        (0, "p", "f1", True),
        (0, "q", None, False),
        (1, "p", "f1", False),
        (2, "p", None, False),
    }
    assert settled.schema.field(DELETE_FLAG).type == pa.bool_()


def test_a_key_found_in_several_places_is_deleted_in_each() -> None:
    settled = settle_moves(_moves(("a", "r", "f1", "p"), ("a", "r", "f2", "q")))
    assert _lines(settled) == {
        (0, "p", "f1", True),
        (0, "r", None, False),
        (1, "q", "f2", True),
        (1, "r", None, False),
    }


def test_a_row_that_deletes_is_not_new_anywhere() -> None:
    batch = _moves(
        ("a", "q", "f1", "p"),
        ("b", "q", "f1", "p"),
        ("c", "q", "f1", "p"),
        ("d", "p", "f1", "p"),
        ("e", "p", None, None),
        **{DELETE_FLAG: [True, False, None, True, True]},
    )
    assert _lines(settle_moves(batch)) == {
        (0, "p", "f1", True),
        (1, "p", "f1", True),
        (1, "q", None, False),
        (2, "p", "f1", True),
        (2, "q", None, None),
        (3, "p", "f1", True),
        (4, "p", None, True),
    }


def test_where_nothing_moves_only_the_flag_is_added() -> None:
    batch = _moves(("a", "p", "f1", "p"), ("b", "p", None, None))
    settled = settle_moves(batch)
    assert settled.select(batch.schema.names) == batch
    assert settled.column(DELETE_FLAG).to_pylist() == [False, False]
    flagged = _moves(("a", "p", "f1", "p"), **{DELETE_FLAG: [True]})
    assert settle_moves(flagged) == flagged


def test_settled_batches_have_one_schema_whether_or_not_something_moved() -> None:
    """They are put together into one table again."""
    moved = settle_moves(_moves(("a", "q", "f1", "p")))
    stayed = settle_moves(_moves(("a", "p", "f1", "p")))
    assert moved.schema == stayed.schema
    assert pa.Table.from_batches([moved, stayed]).num_rows == 3


def test_without_moving_a_key_stays_in_the_partition_it_is_in() -> None:
    batch = _moves(("a", "q", "f1", "p"), ("b", "p", "f1", "p"), ("c", "q", None, None))
    kept = keep_places(batch)
    assert kept.column(PARTITION).to_pylist() == ["p", "p", "q"]
    assert kept.schema == batch.schema
    others = [name for name in batch.schema.names if name != PARTITION]
    assert kept.select(others) == batch.select(others)
