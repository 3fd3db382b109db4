"""One attempt at a write: announced before created, filled as the format says, told as it is."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lentic.engine import Attempt
from lentic.format.bucket import bucket_file_id
from lentic.format.log_block import Header, decode_blocks
from lentic.format.names import parse_base_file, parse_log_file
from lentic.format.record_fields import META_FIELDS
from lentic.write.completion import remove_completions
from lentic.write.markers import list_announced
from tests.rfc.claims import says
from tests.unit.builders import (
    SCHEMA,
    WrappedStorage,
    data_paths,
    new_table,
    rows,
)
from tests.unit.write.attempts import (
    begin,
    commit,
    finish,
    read_all,
    run_attempt,
    stored_rows,
    upsert,
)

MOR, COW = "MERGE_ON_READ", "COPY_ON_WRITE"
BOTH = pytest.mark.parametrize("table_type", [MOR, COW])


# Order of calls


@says("robust.begin")
@BOTH
def test_a_marker_precedes_every_data_file(table_type: str) -> None:
    storage = WrappedStorage()
    table = new_table(storage=storage, table_type=table_type)
    upsert(table, rows(*((f"k{n}", n, f"d{n % 3}") for n in range(20))))
    upsert(table, rows(*((f"k{n}", -n, f"d{n % 3}") for n in range(25))))
    created = [path for op, path in storage.calls if op == "open_output"]
    assert len(created) == len(set(created)) >= 8
    calls = storage.calls
    for path in created:
        at = calls.index(("open_output", path))
        announced = [
            n
            for n, (op, of) in enumerate(calls)
            if op == "put_if_absent" and f"/{path}.marker." in of
        ]
        assert announced
        assert announced[0] < at
        partition = path.rpartition("/")[0]
        known = calls.index(("info", f"{partition}/.hoodie_partition_metadata"))
        assert known < at


@says("robust.cm.aborted", "robust.begin")
@BOTH
def test_an_attempt_that_dies_while_writing_leaves_only_what_its_markers_name(
    table_type: str,
) -> None:
    class Full(WrappedStorage):
        def after(self, op: str, path: str) -> None:
            if op == "open_output":
                raise OSError("disk full")

    storage = Full()
    table = new_table(storage=storage, table_type=table_type)
    begun = begin(table)
    with pytest.raises(OSError, match="disk full"):
        run_attempt(table, begun, rows(("a", 1, "d1"), ("b", 2, "d2")))
    announced = list_announced(storage, begun.instant.requested_at)
    assert announced
    assert set(data_paths(storage.inner)) <= set(announced)
    assert read_all(table) == {}


# Names


@says("S10")
@BOTH
def test_two_attempts_never_share_a_name(table_type: str) -> None:
    table = new_table(table_type=table_type, buckets=1)
    begun = begin(table)
    given = rows(("a", 1, "d"))
    paths = []
    for task, number, run in [(0, 0, 7), (0, 1, 7), (1, 0, 7), (0, 0, 8), (0, 0, 2**31 - 1)]:
        statuses = run_attempt(table, begun, given, Attempt(task, number), run)
        paths += [status.stat.path for status in statuses]
        # As if it had died before it could say so: the next attempt writes again.
        remove_completions(table.storage, begun.instant.requested_at, keep_finalized=True)
    assert len(set(paths)) == 5
    names = [path.rpartition("/")[2] for path in paths]
    parsed = [parse_log_file(name) or parse_base_file(name) for name in names]
    tokens = [found.write_token for found in parsed if found]
    assert tokens == ["0-7-0", "0-7-1", "1-7-0", "0-8-0", "0-2147483647-0"]
    assert {found.file_id for found in parsed if found} == {bucket_file_id(0)}


@says("S10")
def test_every_run_of_a_write_has_a_nonce_of_its_own() -> None:
    table = new_table(table_type=COW, buckets=1)
    for number in range(5):
        upsert(table, rows(("a", number, "d")))
    names = [parse_base_file(path.rpartition("/")[2]) for path in data_paths(table.storage)]
    assert len({name.write_token for name in names if name}) == 5


# Contents


@BOTH
def test_meta_columns_are_filled_as_the_format_says(table_type: str) -> None:
    table = new_table(table_type=table_type)
    begun = begin(table)
    given = rows(*((f"k{n}", n, f"d{n % 2}") for n in range(12)))
    statuses = run_attempt(table, begun, given, Attempt(3, 0))
    at = begun.instant.requested_at
    numbers = set()
    for status in statuses:
        for row in stored_rows(table, status.stat.path):
            assert list(row)[:5] == list(META_FIELDS)
            assert row["_hoodie_commit_time"] == at
            instant, task, number = row["_hoodie_commit_seqno"].split("_")
            assert (instant, task) == (at, "3")
            numbers.add(int(number))
            assert row["_hoodie_record_key"] == row["id"]
            assert row["_hoodie_partition_path"] == row["day"] == status.stat.partition
            expected = status.stat.name if table_type == COW else status.stat.file_id
            assert row["_hoodie_file_name"] == expected
    assert len(numbers) == 12


def test_a_log_names_its_instant_and_the_schema_with_meta_columns() -> None:
    table = new_table()
    begun = begin(table)
    (status,) = run_attempt(table, begun, rows(("a", 1, "d")))
    (block,) = decode_blocks(table.storage.read(status.stat.path), "log")
    assert block.headers[Header.INSTANT_TIME] == begun.instant.requested_at
    assert all(name in block.headers[Header.SCHEMA] for name in META_FIELDS)


def test_untouched_rows_of_a_rewritten_base_file_keep_their_commit_time() -> None:
    table = new_table(table_type=COW, buckets=1)
    first = upsert(table, rows(("a", 1, "d"), ("b", 2, "d")))
    second = upsert(table, rows(("b", 20, "d"), ("c", 30, "d")))
    found = read_all(table)
    assert {key: (row["v"], row["_hoodie_commit_time"]) for key, row in found.items()} == {
        "a": (1, first),
        "b": (20, second),
        "c": (30, second),
    }
    newest = max(data_paths(table.storage), key=lambda path: path[-25:])
    assert {row["_hoodie_file_name"] for row in found.values()} == {newest.rpartition("/")[2]}
    assert found["a"]["_hoodie_commit_seqno"].startswith(first)


def test_of_several_rows_of_one_key_the_newest_is_written() -> None:
    table = new_table(ordering="v", buckets=1)
    begun = begin(table)
    (status,) = run_attempt(table, begun, rows(("a", 5, "d"), ("a", 9, "d"), ("a", 7, "d")))
    assert [row["v"] for row in stored_rows(table, status.stat.path)] == [9]
    assert status.stat.writes == 1


# What it tells


@BOTH
def test_stats_say_the_size_and_the_rows_of_what_was_written(table_type: str) -> None:
    table = new_table(table_type=table_type)
    upsert(table, rows(*((f"k{n}", n, f"d{n % 3}") for n in range(20))))
    begun = begin(table)
    statuses = run_attempt(table, begun, rows(*((f"k{n}", -n, f"d{n % 3}") for n in range(10, 30))))
    for status in statuses:
        info = table.storage.info(status.stat.path)
        assert info is not None
        assert status.stat.size == info.size
        assert status.stat.writes == len(stored_rows(table, status.stat.path))
        assert status.stat.path == f"{status.stat.partition}/{status.stat.name}"
        assert status.stat.file_id in status.stat.name
    assert sum(s.inserted + s.updated for s in statuses) == 20


def test_a_base_file_tells_what_it_replaced_and_counts_keys() -> None:
    table = new_table(table_type=COW, buckets=1)
    first = upsert(table, rows(("a", 1, "d"), ("b", 2, "d")))
    begun = begin(table)
    (status,) = run_attempt(table, begun, rows(("b", 20, "d"), ("c", 30, "d"), ("e", 1, "d")))
    (old,) = [path for path in data_paths(table.storage) if first in path]
    assert (status.inserted, status.updated, status.deleted) == (2, 1, 0)
    assert (status.stat.inserts, status.stat.updates, status.stat.writes) == (2, 1, 4)
    assert status.stat.prev_commit == first
    assert status.stat.base_file == old.rpartition("/")[2]
    assert status.stat.log_files == ()
    fresh = run_attempt(table, begun, rows(("a", 1, "other")))[0].stat
    assert (fresh.prev_commit, fresh.base_file) == (None, None)


def test_a_log_tells_the_base_it_stands_beside() -> None:
    table = new_table(buckets=1)
    begun = begin(table)
    (status,) = run_attempt(table, begun, rows(("a", 1, "d")))
    assert status.stat.log_files == (status.stat.name,)
    assert status.stat.log_version == 1
    assert status.stat.base_file == ""
    assert status.stat.prev_commit == begun.instant.requested_at
    assert (status.inserted, status.updated) == (1, 0)
    commit(table, begun, [status])
    again = begin(table)
    (status,) = run_attempt(table, again, rows(("a", 1, "d"), ("b", 1, "d")))
    assert (status.inserted, status.updated) == (1, 1)


def test_a_flagged_row_deletes_its_key_and_is_counted() -> None:
    schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    table = new_table(table_type=COW, schema=schema, buckets=1)
    both = pa.Table.from_pylist([{"id": "a", "day": "d"}, {"id": "b", "day": "d"}], schema=schema)
    upsert(table, both)
    gone = pa.Table.from_pylist(
        [{"id": "a", "day": "d", "_hoodie_is_deleted": True}], schema=schema
    )
    done = finish(table, gone, begin(table))
    assert (done.inserted, done.updated, done.deleted) == (0, 0, 1)
    assert list(read_all(table)) == ["b"]
