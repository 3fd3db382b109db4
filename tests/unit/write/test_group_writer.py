"""What becomes of a group's rows: the kind of file, the rows in it, and what is told of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lentic.engine import Attempt
from lentic.errors import InvalidRecord
from lentic.format.bucket import bucket_file_id
from lentic.records.merge import IS_DELETED
from lentic.timeline.reader import load_timeline
from lentic.txn.transaction import OpenTable
from lentic.view.files import FileGroup
from lentic.view.listing import load_table_view
from lentic.write.group_writer import GroupWriter, Into, choose_file
from lentic.write.placement import DELETE_FLAG, GroupRows
from lentic.write.status import WriteStatus
from tests.unit.builders import (
    SCHEMA,
    base_file,
    data_paths,
    log_file,
    new_table,
    rows,
    slice_of,
)
from tests.unit.write.attempts import (
    begin,
    commit,
    make_handle,
    make_writing,
    read_all,
    stored_rows,
    upsert,
)

MOR, COW = "MERGE_ON_READ", "COPY_ON_WRITE"
FLAGGED = SCHEMA.append(pa.field(IS_DELETED, pa.bool_()))

# Which kind of file

BASE_ONLY, WITH_LOGS, LOGS_ONLY = (
    slice_of(base_file(1, 2)),
    slice_of(base_file(1, 2), log_file(3, 4)),
    slice_of(None, log_file(3, 4)),
)


@pytest.mark.parametrize(
    ("how", "slot", "before", "rows_", "into"),
    [
        # A group that is not there yet.
        ({}, "0", None, False, Into.NOTHING),
        ({}, "0", None, True, Into.FRESH_BASE),
        ({"appends": True}, "0", None, True, Into.FRESH_BASE),
        ({"appends": True, "starts_with_log": True}, "0", None, True, Into.LOG),
        ({"appends": True, "starts_with_log": True}, "0", None, False, Into.NOTHING),
        ({"overwrites": True}, "0", None, True, Into.FRESH_BASE),
        ({"overwrites": True}, "0", None, False, Into.NOTHING),
        ({"merges": False}, "0", None, True, Into.FRESH_BASE),
        # One that is.
        ({}, "0", BASE_ONLY, True, Into.NEXT_BASE),
        ({}, "0", BASE_ONLY, False, Into.NEXT_BASE),
        ({"appends": True}, "0", BASE_ONLY, True, Into.LOG),
        ({"appends": True}, "0", WITH_LOGS, True, Into.LOG),
        ({"appends": True}, "0", LOGS_ONLY, False, Into.LOG),
        ({"appends": True, "rewritten": frozenset({"0"})}, "0", BASE_ONLY, True, Into.NEXT_BASE),
        ({"appends": True, "rewritten": frozenset({"0"})}, "1", BASE_ONLY, True, Into.LOG),
        ({"overwrites": True}, "0", BASE_ONLY, True, Into.FRESH_BASE),
        ({"overwrites": True}, "0", BASE_ONLY, False, Into.FRESH_BASE),
        ({"overwrites": True, "appends": True}, "0", LOGS_ONLY, True, Into.FRESH_BASE),
        ({"merges": False}, "0", BASE_ONLY, True, Into.LONGER_BASE),
        (
            {"merges": False, "appends": True, "rewritten": frozenset({"0"})},
            "0",
            BASE_ONLY,
            True,
            Into.LONGER_BASE,
        ),
        ({"merges": False, "appends": True}, "0", WITH_LOGS, True, Into.LOG),
    ],
)
def test_the_write_and_the_slice_decide_the_kind_of_file(
    how: dict[str, Any], slot: str, before: Any, rows_: bool, into: Into
) -> None:
    table = new_table()
    plain = replace(make_writing(table, begin(table)), appends=False, starts_with_log=False)
    assert choose_file(replace(plain, **how), slot, before, has_rows=rows_) is into


# What is in it


def _group(table: OpenTable) -> FileGroup | None:
    groups = load_table_view(table.storage, load_timeline(table.storage))
    assert len(groups) <= 1
    return groups[0] if groups else None


def _write(
    table: OpenTable, given: pa.Table, schema: pa.Schema = SCHEMA, **changes: Any
) -> tuple[WriteStatus, ...]:
    """Write into the only group of the table and commit."""
    begun = begin(table)
    group = _group(table)
    how = replace(make_writing(table, begun, schema=schema), **changes)
    part = GroupRows("d", "0", given.column("id").combine_chunks(), given)
    file_id = group.id.file_id if group else bucket_file_id(0)
    writer = GroupWriter(how, Attempt(3, 1), "d", file_id, group.latest if group else None)
    statuses = writer.write(part, 10)
    commit(table, begun, statuses)
    return statuses


def _values(table: OpenTable) -> dict[str, object]:
    return {key: row["v"] for key, row in read_all(table).items()}


def _counts(status: WriteStatus) -> tuple[int, int, int]:
    assert (status.inserted, status.updated, status.deleted) == (
        status.stat.inserts,
        status.stat.updates,
        status.stat.deletes,
    )
    return status.inserted, status.updated, status.deleted


def _flagged(*given: tuple[str, int | None, bool | None], column: str = DELETE_FLAG) -> pa.Table:
    flags = pa.array([flag for *_, flag in given], pa.bool_())
    return rows(*((key, v, "d") for key, v, _ in given)).append_column(column, flags)


def test_a_log_goes_on_top_and_names_the_base_beside_it() -> None:
    table = new_table(buckets=1)
    (first,) = _write(table, rows(("a", 1, "d")), starts_with_log=False)
    assert first.stat.name.endswith(".parquet")
    (status,) = _write(table, rows(("a", 2, "d"), ("b", 3, "d")))
    assert status.stat.is_log
    assert status.stat.base_file == first.stat.name
    assert _counts(status) == (1, 1, 0)
    assert _values(table) == {"a": 2, "b": 3}


def test_the_next_base_file_holds_the_slice_with_its_logs() -> None:
    table = new_table(buckets=1)
    (first,) = _write(table, rows(("a", 1, "d"), ("b", 1, "d")), starts_with_log=False)
    _write(table, rows(("b", 2, "d"), ("c", 2, "d")))
    (status,) = _write(table, rows(("c", 3, "d"), ("e", 3, "d")), rewritten=frozenset({"0"}))
    assert _counts(status) == (1, 1, 0)
    assert (status.stat.writes, status.stat.base_file) == (4, first.stat.name)
    assert status.stat.prev_commit == first.stat.name.rpartition("_")[2].removesuffix(".parquet")
    assert {row["id"]: row["v"] for row in stored_rows(table, status.stat.path)} == {
        "a": 1,
        "b": 2,
        "c": 3,
        "e": 3,
    }


def test_rows_that_are_only_added_stand_beside_what_was_there() -> None:
    table = new_table(table_type=COW, buckets=1, ordering="v")
    _write(table, rows(("a", 5, "d"), ("b", 5, "d")))
    late = rows(("a", 1, "d"), ("c", 1, "d"), ("c", 2, "d"))
    (status,) = _write(table, late, merges=False, combines=False)
    assert _counts(status) == (3, 0, 0)
    found = stored_rows(table, status.stat.path)
    assert [(row["id"], row["v"]) for row in found] == [
        ("a", 5),
        ("b", 5),
        ("a", 1),
        ("c", 1),
        ("c", 2),
    ]
    (status,) = _write(table, late, merges=False, combines=True)
    assert _counts(status) == (2, 0, 0), "of each key in the batch the newest"
    assert status.stat.writes == 7


def test_overwriting_forgets_what_was_there_and_counts_it() -> None:
    table = new_table(buckets=1)
    _write(table, rows(("a", 1, "d"), ("b", 1, "d")))
    _write(table, rows(("b", 2, "d"), ("c", 2, "d")))
    (status,) = _write(table, rows(("z", 9, "d"), ("b", 9, "d")), overwrites=True)
    assert _counts(status) == (2, 0, 3)
    assert status.stat.prev_commit is not None, "it is no new group"
    assert _values(table) == {"z": 9, "b": 9}
    (status,) = _write(table, rows(("y", 9, "d")), overwrites=True, counts_exactly=False)
    assert _counts(status) == (1, 0, 0)


def test_an_emptied_group_is_a_base_file_without_rows() -> None:
    table = new_table(buckets=1)
    _write(table, rows(("a", 1, "d"), ("b", 1, "d")))
    begun, group = begin(table), _group(table)
    assert group is not None
    how = replace(make_writing(table, begun), overwrites=True)
    writer = GroupWriter(how, Attempt(0, 0), "d", group.id.file_id, group.latest)
    (status,) = writer.empty()
    assert _counts(status) == (0, 0, 2)
    assert stored_rows(table, status.stat.path) == []
    commit(table, begun, [status])
    assert _values(table) == {}
    assert _counts(_write(table, rows(("a", 7, "d")))[0]) == (1, 0, 0)
    assert _values(table) == {"a": 7}


@pytest.mark.parametrize("table_type", [MOR, COW])
def test_keys_are_deleted_and_only_those_that_were_there_are_counted(table_type: str) -> None:
    table = new_table(table_type=table_type, buckets=1)
    _write(table, rows(("a", 1, "d"), ("b", 1, "d"), ("c", 1, "d")))
    (status,) = _write(table, rows(("a", 0, "d"), ("x", 0, "d"), ("a", 0, "d")), deletes=True)
    assert _counts(status) == (0, 0, 1)
    assert _values(table) == {"b": 1, "c": 1}
    (status,) = _write(table, rows(("a", 0, "d")), deletes=True)
    assert _counts(status) == (0, 0, 0), "it was gone already"


@pytest.mark.parametrize("table_type", [MOR, COW])
def test_deleting_from_a_group_that_is_not_there_writes_nothing(table_type: str) -> None:
    table = new_table(table_type=table_type, buckets=1)
    assert _write(table, rows(("a", 0, "d")), deletes=True) == ()
    assert _write(table, _flagged(("a", 1, True))) == ()
    assert data_paths(table.storage) == []


@pytest.mark.parametrize("table_type", [MOR, COW])
def test_flagged_rows_delete_their_keys_and_the_others_stay_rows(table_type: str) -> None:
    table = new_table(table_type=table_type, buckets=1)
    _write(table, rows(("a", 1, "d"), ("b", 1, "d"), ("c", 1, "d")))
    given = _flagged(("a", 9, True), ("b", 9, False), ("e", 9, None), ("x", 9, True))
    (status,) = _write(table, given)
    assert _counts(status) == (1, 1, 1)
    assert _values(table) == {"b": 9, "c": 1, "e": 9}
    assert DELETE_FLAG not in stored_rows(table, status.stat.path)[0]


def test_flagged_rows_in_a_new_base_file_leave_no_trace() -> None:
    table = new_table(table_type=COW, buckets=1)
    (status,) = _write(table, _flagged(("a", 1, True), ("b", 2, False)))
    assert _counts(status) == (1, 0, 0)
    assert _values(table) == {"b": 2}


@pytest.mark.parametrize("combines", [True, False])
@pytest.mark.parametrize("merges", [True, False])
def test_a_row_that_says_it_is_deleted_never_lies_in_a_base_file(
    combines: bool, merges: bool
) -> None:
    table = new_table(table_type=COW, buckets=1, schema=FLAGGED)
    given = _flagged(("a", 1, True), ("b", 2, False), ("c", 3, None), column=IS_DELETED)
    for _ in range(2):
        statuses = _write(table, given, FLAGGED, combines=combines, merges=merges)
        assert "a" not in {row["id"] for row in stored_rows(table, statuses[0].stat.path)}


def test_a_key_deleted_and_written_again_in_one_batch_is_refused_by_event_time() -> None:
    table = new_table(buckets=1, ordering="v", schema=FLAGGED)
    given = _flagged(("a", None, True), ("a", 3, False), column=IS_DELETED)
    with pytest.raises(InvalidRecord, match="Key a is deleted"):
        _write(table, given, FLAGGED)


@pytest.mark.parametrize("table_type", [MOR, COW])
@pytest.mark.parametrize("ordering", ["", "v"])
def test_a_new_base_file_is_sorted_and_still_holds_the_row_that_counts(
    table_type: str, ordering: str
) -> None:
    """Sorting must not decide which of two rows came later."""
    table = new_table(table_type=table_type, buckets=1, ordering=ordering)
    given = rows(("b", 5, "d"), ("a", 9, "d"), ("c", 7, "d"), ("a", 1, "d"))
    (status,) = _write(table, given, starts_with_log=False, sort_by=("v", "id"))
    found = [(row["id"], row["v"]) for row in stored_rows(table, status.stat.path)]
    newest = ("a", 9) if ordering else ("a", 1)
    assert found == sorted([("b", 5), ("c", 7), newest], key=lambda row: row[1])


def test_without_combining_a_new_base_file_holds_equal_keys() -> None:
    table = new_table(table_type=COW, buckets=1)
    given = rows(("b", 5, "d"), ("a", 9, "d"), ("a", 1, "d"))
    (status,) = _write(table, given, combines=False, sort_by=("id", "v"))
    found = [(row["id"], row["v"]) for row in stored_rows(table, status.stat.path)]
    assert found == [("a", 1), ("a", 9), ("b", 5)]
    assert _counts(status) == (3, 0, 0)


@pytest.mark.parametrize("exact", [True, False])
def test_counting_may_be_left_out_where_a_log_goes_on_top(exact: bool) -> None:
    table = new_table(buckets=1)
    (status,) = _write(table, rows(("a", 1, "d")), counts_exactly=exact)
    assert _counts(status) == (1, 0, 0), "a new group holds nothing to look for"
    given = _flagged(("a", 2, False), ("b", 2, False), ("x", 2, True))
    (status,) = _write(table, given, counts_exactly=exact)
    assert _counts(status) == ((1, 1, 0) if exact else (0, 2, 1))


def test_rows_are_numbered_from_where_the_attempt_is() -> None:
    table = new_table(buckets=1)
    (status,) = _write(table, rows(("a", 1, "d"), ("b", 2, "d")))
    numbers = [row["_hoodie_commit_seqno"] for row in stored_rows(table, status.stat.path)]
    assert [number.split("_")[1:] for number in numbers] == [["3", "10"], ["3", "11"]]
    assert status.stat.name.endswith("_3-7-1")


def test_a_handle_numbers_the_rows_of_all_its_groups_once() -> None:
    table = new_table(buckets=4)
    begun = begin(table)
    given = rows(*((f"k{n}", n, f"d{n % 2}") for n in range(30)))
    texts = list(make_handle(table, begun)(Attempt(0, 0), iter(given.to_batches())))
    assert len(texts) == len(data_paths(table.storage)) == 8
    numbers = [
        row["_hoodie_commit_seqno"]
        for path in data_paths(table.storage)
        for row in stored_rows(table, path)
    ]
    assert len(set(numbers)) == 30


def test_an_upsert_of_nothing_new_leaves_the_table_as_it_was() -> None:
    table = new_table(table_type=COW, buckets=1, ordering="v")
    upsert(table, rows(("a", 5, "d")))
    (status,) = _write(table, rows(("a", 1, "d")))
    assert _counts(status) == (0, 0, 0), "it came late"
    assert _values(table) == {"a": 5}
