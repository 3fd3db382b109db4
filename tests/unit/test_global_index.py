"""A global index: a key lives in one partition, and moves or stays as the user says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lentic
from lentic.engine import LocalEngine
from lentic.errors import ConfigError, InvalidRecord
from lentic.table import Table
from lentic.write.commit import Commit
from tests.unit.builders import SCHEMA, data_paths, new_table, rows

KINDS = [
    (table_type, index)
    for table_type in ("MERGE_ON_READ", "COPY_ON_WRITE")
    for index in ("GLOBAL_SIMPLE", "GLOBAL_BLOOM")
]
EVERY = pytest.mark.parametrize(("table_type", "index"), KINDS)
BOTH = pytest.mark.parametrize("moves", [True, False])


def _table(table_type: str, index: str = "GLOBAL_SIMPLE", **options: Any) -> Table:
    given = {"hoodie.index.type": index} | {k.replace("__", "."): v for k, v in options.items()}
    opened = new_table(table_type=table_type, buckets=None, options=given)
    return Table(opened, LocalEngine(threads=1))


def _loaded(table_type: str, index: str, *, moves: bool = True) -> Table:
    table = _table(table_type, index, hoodie__simple__index__update__partition__path=moves)
    table.upsert(rows(("a", 1, "mon"), ("b", 2, "mon"), ("c", 3, "tue")))
    return table


def _placed(table: Table) -> Counter[tuple[str, Any, str, str]]:
    """Key, value, day, and the partition the row lies in."""
    names = ("id", "v", "day", "_hoodie_partition_path")
    return Counter(tuple(row[n] for n in names) for row in table.read(meta=True).to_pylist())


def _are(table: Table, *given: tuple[str, Any, str, str]) -> None:
    assert _placed(table) == Counter(given)
    if table.config.table_type.value == "MERGE_ON_READ":
        table.compact()
        assert _placed(table) == Counter(given), "a compaction changes no row"


def _counts(done: Commit) -> tuple[int, int, int]:
    return done.inserted, done.updated, done.deleted


@EVERY
def test_a_key_that_comes_with_another_partition_moves_there(table_type: str, index: str) -> None:
    table = _loaded(table_type, index)
    done = table.upsert(rows(("a", 10, "tue"), ("b", 20, "mon"), ("d", 4, "wed")))
    assert _counts(done) == (2, 1, 1), "what moves is deleted here and inserted there"
    _are(
        table,
        ("a", 10, "tue", "tue"),
        ("b", 20, "mon", "mon"),
        ("c", 3, "tue", "tue"),
        ("d", 4, "wed", "wed"),
    )
    assert _counts(table.upsert(rows(("a", 100, "mon")))) == (1, 0, 1), "and back again"
    _are(
        table,
        ("a", 100, "mon", "mon"),
        ("b", 20, "mon", "mon"),
        ("c", 3, "tue", "tue"),
        ("d", 4, "wed", "wed"),
    )


@EVERY
def test_a_key_that_must_not_move_is_updated_where_it_is(table_type: str, index: str) -> None:
    table = _loaded(table_type, index, moves=False)
    done = table.upsert(rows(("a", 10, "tue"), ("d", 4, "wed")))
    assert _counts(done) == (1, 1, 0)
    _are(
        table,
        ("a", 10, "tue", "mon"),
        ("b", 2, "mon", "mon"),
        ("c", 3, "tue", "tue"),
        ("d", 4, "wed", "wed"),
    )
    done = table.upsert(rows(("a", 100, "wed")))
    assert _counts(done) == (0, 1, 0), "it is still found there"
    assert ("a", 100, "wed", "mon") in _placed(table)


@EVERY
@BOTH
def test_keys_are_deleted_wherever_they_are(table_type: str, index: str, moves: bool) -> None:
    table = _loaded(table_type, index, moves=moves)
    keys = pa.table({"id": ["a", "c", "x"], "day": ["tue", "tue", "mon"]})
    assert _counts(table.delete(keys)) == (0, 0, 2)
    _are(table, ("b", 2, "mon", "mon"))
    assert _counts(table.delete(keys)) == (0, 0, 0)


@EVERY
@BOTH
def test_where_no_partition_changes_a_global_index_is_like_any_other(
    table_type: str, index: str, moves: bool
) -> None:
    table = _loaded(table_type, index, moves=moves)
    done = table.upsert(rows(("a", 10, "mon"), ("c", 30, "tue"), ("e", 5, "tue")))
    assert _counts(done) == (1, 2, 0)
    _are(
        table,
        ("a", 10, "mon", "mon"),
        ("b", 2, "mon", "mon"),
        ("c", 30, "tue", "tue"),
        ("e", 5, "tue", "tue"),
    )


@EVERY
@BOTH
def test_nothing_is_nothing_to_look_for(table_type: str, index: str, moves: bool) -> None:
    table = _loaded(table_type, index, moves=moves)
    before = data_paths(table._opened.storage)
    assert _counts(table.upsert(SCHEMA.empty_table())) == (0, 0, 0)
    assert _counts(table.delete("v > 100")) == (0, 0, 0)
    assert data_paths(table._opened.storage) == before


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_an_index_that_is_not_global_looks_in_the_rows_own_partition(table_type: str) -> None:
    table = _loaded(table_type, "SIMPLE")
    assert _counts(table.upsert(rows(("a", 10, "tue")))) == (1, 0, 0)
    _are(
        table,
        ("a", 1, "mon", "mon"),
        ("a", 10, "tue", "tue"),
        ("b", 2, "mon", "mon"),
        ("c", 3, "tue", "tue"),
    )


@EVERY
def test_a_partition_from_which_every_key_moved_can_be_written_again(
    table_type: str, index: str
) -> None:
    table = _loaded(table_type, index)
    table.upsert(rows(("a", 1, "wed"), ("b", 2, "wed")))
    _are(table, ("a", 1, "wed", "wed"), ("b", 2, "wed", "wed"), ("c", 3, "tue", "tue"))
    assert _counts(table.upsert(rows(("e", 5, "mon")))) == (1, 0, 0)
    assert _counts(table.upsert(rows(("e", 6, "mon"), ("a", 7, "mon")))) == (1, 1, 1)
    _are(
        table,
        ("a", 7, "mon", "mon"),
        ("b", 2, "wed", "wed"),
        ("c", 3, "tue", "tue"),
        ("e", 6, "mon", "mon"),
    )


@EVERY
def test_moved_keys_fill_small_files_of_their_new_partition(table_type: str, index: str) -> None:
    table = _loaded(table_type, index)
    before = {(s.group.partition, s.group.file_id) for s in table.file_slices()}
    table.upsert(rows(("a", 10, "tue")))
    after = {(s.group.partition, s.group.file_id) for s in table.file_slices()}
    assert after == before


def test_a_global_index_is_refused_where_a_late_row_would_move_its_key(tmp_path: Path) -> None:
    table = lentic.create(
        str(tmp_path / "t"),
        "id string, day string, at bigint",
        key="id",
        partition_by="day",
        ordering="at",
        options={"hoodie.index.type": "GLOBAL_SIMPLE"},
    )
    with pytest.raises(ConfigError, match="a late row would take its key"):
        table.upsert(pa.table({"id": ["a"], "day": ["mon"], "at": [1]}))
    assert table.timeline() == []


def test_one_key_in_two_partitions_of_a_batch_is_refused(tmp_path: Path) -> None:
    table = lentic.create(
        str(tmp_path / "t"),
        "id string, day string",
        key="id",
        partition_by="day",
        options={"hoodie.index.type": "GLOBAL_SIMPLE"},
    )
    with pytest.raises(InvalidRecord, match="the index is global"):
        table.upsert(pa.table({"id": ["a", "a"], "day": ["mon", "tue"]}))
    assert table.read().num_rows == 0
