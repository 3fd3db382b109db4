"""Where rows go without buckets: known keys to their file, new ones to small files and new ones."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from lentic.engine import LocalEngine
from lentic.table import Table
from lentic.view.files import FileSlice
from tests.unit.builders import WrappedStorage, new_table, rows

BOTH = pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
ROW_BYTES = "hoodie.copyonwrite.record.size.estimate"
FILE_BYTES = "hoodie.parquet.max.file.size"
SMALL_BYTES = "hoodie.parquet.small.file.limit"


def _table(table_type: str, options: dict[str, object] | None = None) -> Table:
    opened = new_table(table_type=table_type, buckets=None, options=options)
    return Table(opened, LocalEngine(threads=1))


def _batch(first: int, last: int, v: int = 0, day: str = "d") -> Any:
    return rows(*((f"k{n:05d}", v, day) for n in range(first, last)))


def _slices(table: Table) -> dict[str, FileSlice]:
    return {part.group.file_id: part for part in table.file_slices()}


def _rows_per_file(table: Table) -> dict[str, int]:
    """By the beginning of its name, which is the file group."""
    names = table.read(columns=["_hoodie_file_name"]).column(0).to_pylist()
    return dict(Counter(name.partition("_")[0] for name in names))


@BOTH
def test_new_keys_go_into_the_small_file_there_is(table_type: str) -> None:
    table = _table(table_type)
    done = table.upsert(_batch(0, 20))
    assert (done.inserted, done.files) == (20, 1)
    done = table.upsert(_batch(15, 40, 1))
    assert (done.inserted, done.updated, done.files) == (20, 5, 1)
    (part,) = table.file_slices()
    assert part.base is not None
    assert part.logs == (), "where new keys go, known ones are rewritten along"
    assert len(table.read()) == 40


@BOTH
def test_the_driver_looks_at_a_partition_once(table_type: str) -> None:
    """For the keys that are there, for files with room, and for what an overwrite ends."""
    storage = WrappedStorage()
    opened = new_table(storage=storage, table_type=table_type, buckets=None)
    table = Table(opened, LocalEngine(threads=1))
    table.upsert(_batch(0, 20))
    storage.calls.clear()
    table.upsert(_batch(15, 40, 1))
    table.upsert(_batch(0, 1, day="e"))
    looks = Counter(path for op, path in storage.calls if op == "list_files")
    assert looks["d"] == 2, "the driver, and the task that writes there"
    assert looks["e"] == 2
    assert len(table.read()) == 41


@BOTH
def test_with_a_limit_of_zero_every_write_makes_new_files(table_type: str) -> None:
    table = _table(table_type, {SMALL_BYTES: 0})
    for number in range(3):
        table.upsert(_batch(10 * number, 10 * number + 10))
    assert sorted(_rows_per_file(table).values()) == [10, 10, 10]


@BOTH
def test_files_are_filled_to_the_target_and_the_rest_goes_into_new_ones(table_type: str) -> None:
    """By the rows' size as told: a file of 100 kB takes 1,000 rows of 100 bytes."""
    table = _table(table_type, {FILE_BYTES: 100_000, ROW_BYTES: 100, SMALL_BYTES: 80_000})
    done = table.upsert(_batch(0, 3_000))
    assert (done.inserted, done.files) == (3_000, 3)
    assert all(850 < count < 1_150 for count in _rows_per_file(table).values())
    done = table.upsert(_batch(3_000, 7_000))
    assert done.inserted == 4_000
    counts = _rows_per_file(table)
    assert sum(counts.values()) == 7_000
    assert max(counts.values()) < 2_200, "what is there counts by its bytes on disk"
    assert len(counts) >= 5


@BOTH
def test_a_key_stays_in_its_file_whatever_is_written(table_type: str) -> None:
    table = _table(table_type, {FILE_BYTES: 20_000, ROW_BYTES: 100})
    table.upsert(_batch(0, 500))
    before = _home(table)
    assert len(set(before.values())) >= 2
    table.upsert(_batch(400, 900, 1))
    table.upsert(_batch(0, 900, 2))
    after = _home(table)
    assert {key: after[key] for key in before} == before
    assert table.read(columns=["v"]).column(0).to_pylist() == [2] * 900


def _home(table: Table) -> dict[str, str]:
    found = table.read(columns=["id", "_hoodie_file_name"]).to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["_hoodie_file_name"].partition("_")[0] for row in found}


def test_updates_alone_are_logs_on_top_and_copied_on_write_into_the_next_base_file() -> None:
    merged, copied = _table("MERGE_ON_READ"), _table("COPY_ON_WRITE")
    for table in (merged, copied):
        table.upsert(_batch(0, 10))
        done = table.upsert(_batch(3, 5, 1))
        assert (done.inserted, done.updated, done.files) == (0, 2, 1)
    (part,) = merged.file_slices()
    assert part.base is not None
    assert len(part.logs) == 1
    (part,) = copied.file_slices()
    assert part.logs == ()
    assert merged.read().sort_by("id") == copied.read().sort_by("id")


def test_a_file_with_logs_is_not_filled_until_it_is_compacted() -> None:
    table = _table("MERGE_ON_READ")
    table.upsert(_batch(0, 10))
    table.upsert(_batch(0, 1, 1))
    (first,) = _slices(table)
    table.upsert(_batch(10, 15))
    assert _rows_per_file(table)[first] == 10
    assert len(_slices(table)) == 2
    table.compact()
    table.upsert(_batch(15, 16))
    assert len(_slices(table)) == 2
    assert len(table.read()) == 16


def test_new_keys_never_begin_with_a_log() -> None:
    """Whoever looks keys up looks into base files alone."""
    table = _table("MERGE_ON_READ", {SMALL_BYTES: 0})
    for number in range(3):
        table.upsert(_batch(5 * number, 5 * number + 8, number))
    assert all(part.base is not None for part in table.file_slices())
    assert len(table.read()) == 18


@BOTH
def test_partitions_do_not_share_files(table_type: str) -> None:
    table = _table(table_type)
    table.upsert(_batch(0, 5, day="d1"))
    table.upsert(_batch(0, 5, day="d2"))
    done = table.upsert(_batch(3, 8, 1, day="d2"))
    assert (done.inserted, done.updated) == (3, 2)
    assert sorted(part.group.partition for part in table.file_slices()) == ["d1", "d2"]
    assert len(table.read(filter="day = 'd1'")) == 5
