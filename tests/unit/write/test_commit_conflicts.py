"""What others did while a write ran: it commits beside them, or is refused and leaves nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from lentic.engine import LocalEngine
from lentic.errors import WriteConflict
from lentic.format.names import Action
from lentic.query.snapshot import read_rows
from lentic.services.compaction import execute_compaction, schedule_compaction
from lentic.table import Table
from lentic.timeline.reader import load_timeline
from lentic.txn.transaction import OpenTable
from lentic.write.operations import Operation, Request
from tests.rfc.claims import says
from tests.unit.builders import SCHEMA, by_key, data_paths, new_table, rows
from tests.unit.write.attempts import ENGINE, UPSERT, begin, finish, upsert

COW = "COPY_ON_WRITE"
INSERT = Request(Operation.INSERT)
OVERWRITE = Request(Operation.INSERT_OVERWRITE)
OVERWRITE_ALL = Request(Operation.INSERT_OVERWRITE_TABLE)


def _drop(*partitions: str) -> Request:
    return Request(Operation.DELETE_PARTITION, partitions=partitions)


def _values(table: OpenTable) -> dict[str, object]:
    return {key: row["v"] for key, row in by_key(read_rows(table, ENGINE)).items()}


def _compact(table: OpenTable) -> None:
    at = schedule_compaction(table)
    assert at is not None
    execute_compaction(table, ENGINE, at)


# Overwriting in buckets, while a compaction is planned


@pytest.mark.parametrize(
    ("request_", "given"),
    [
        (OVERWRITE, rows(("z", 9, "d"))),
        (OVERWRITE_ALL, rows(("z", 9, "other"))),
        (_drop("d"), None),
    ],
    ids=["overwrite", "overwrite all", "drop"],
)
def test_an_overwrite_is_refused_if_a_compaction_of_its_group_was_planned_meanwhile(
    request_: Request, given: pa.Table | None
) -> None:
    """Its base file would be later than the overwrite's and hold what was overwritten."""
    table = new_table(buckets=1)
    upsert(table, rows(("a", 1, "d")))
    begun = begin(table, request_)
    planned = schedule_compaction(table)
    assert planned is not None
    with pytest.raises(WriteConflict, match=f"compaction {planned} changed 1 file group") as caught:
        finish(table, given, begun, request_)
    assert "d/00000000-" in caught.value.what
    assert "nothing of this write is visible" in caught.value.safe
    assert _values(table) == {"a": 1}
    execute_compaction(table, ENGINE, planned)
    assert _values(table) == {"a": 1}


def test_an_overwrite_is_refused_if_a_compaction_was_planned_and_executed_meanwhile() -> None:
    table = new_table(buckets=1)
    upsert(table, rows(("a", 1, "d")))
    begun = begin(table, OVERWRITE)
    _compact(table)
    with pytest.raises(WriteConflict):
        finish(table, rows(("z", 9, "d")), begun, OVERWRITE)
    assert _values(table) == {"a": 1}


def test_a_compaction_of_other_groups_stands_in_no_ones_way() -> None:
    table = new_table(buckets=1)
    upsert(table, rows(("a", 1, "d1")))
    begun = begin(table, OVERWRITE)
    planned = schedule_compaction(table)
    assert planned is not None
    finish(table, rows(("z", 9, "d2")), begun, OVERWRITE)
    execute_compaction(table, ENGINE, planned)
    assert _values(table) == {"a": 1, "z": 9}


def test_a_compaction_planned_before_the_overwrite_does_not_bring_rows_back() -> None:
    table = new_table(buckets=1)
    upsert(table, rows(("a", 1, "d")))
    planned = schedule_compaction(table)
    assert planned is not None
    finish(table, rows(("z", 9, "d")), begin(table, OVERWRITE), OVERWRITE)
    assert _values(table) == {"z": 9}
    execute_compaction(table, ENGINE, planned)
    assert _values(table) == {"z": 9}
    upsert(table, rows(("y", 1, "d")))
    _compact(table)
    assert _values(table) == {"y": 1, "z": 9}


@dataclass(frozen=True)
class _Busy(LocalEngine):
    """An engine that while it shuffles lets something else happen to the table."""

    meanwhile: Callable[[], None] = lambda: None

    def shuffle(self, *given: Any, **more: Any) -> list[str]:
        self.meanwhile()
        return super().shuffle(*given, **more)


def test_a_refused_overwrite_is_undone_and_the_next_one_works() -> None:
    opened = new_table(buckets=1)
    upsert(opened, rows(("a", 1, "d")))
    table = Table(opened, _Busy(threads=1, meanwhile=lambda: _schedule(opened)))
    before = data_paths(opened.storage)
    with pytest.raises(WriteConflict):
        table.insert_overwrite(rows(("z", 9, "d")))
    timeline = load_timeline(opened.storage)
    assert timeline.pending(Action.DELTACOMMIT) == ()
    assert len(timeline.completed(Action.ROLLBACK)) == 1
    assert data_paths(opened.storage) == before
    assert _values(opened) == {"a": 1}
    done = table.insert_overwrite(rows(("z", 9, "d")))  # the plan is not new to this one
    assert (done.inserted, done.deleted) == (1, 1)
    (planned,) = load_timeline(opened.storage).pending(Action.COMPACTION)
    table.execute(planned.requested_at)
    assert _values(opened) == {"z": 9}


def _schedule(table: OpenTable) -> None:
    assert schedule_compaction(table) is not None


# Others that wrote meanwhile


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", COW])
def test_two_overwrites_of_one_group_cannot_both_commit(table_type: str) -> None:
    table = new_table(table_type=table_type, buckets=1)
    upsert(table, rows(("a", 1, "d")))
    slow = begin(table, OVERWRITE)
    finish(table, rows(("b", 2, "d")), begin(table, OVERWRITE), OVERWRITE)
    with pytest.raises(WriteConflict):
        finish(table, rows(("c", 3, "d")), slow, OVERWRITE)
    assert _values(table) == {"b": 2}


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", COW])
@pytest.mark.parametrize("operation", [Operation.BULK_INSERT, Operation.INSERT_OVERWRITE])
def test_two_writes_that_begin_one_bucket_with_a_base_file_cannot_both_commit(
    table_type: str, operation: Operation
) -> None:
    """Both give it the same file id, and of two base files readers take one."""
    table = new_table(table_type=table_type, buckets=1)
    request = Request(operation)
    slow = begin(table, request)
    finish(table, rows(("b", 2, "d")), begin(table, request), request)
    with pytest.raises(WriteConflict):
        finish(table, rows(("c", 3, "d")), slow, request)
    assert _values(table) == {"b": 2}


def test_a_log_that_another_appended_meanwhile_is_not_overwritten() -> None:
    table = new_table(buckets=1)
    upsert(table, rows(("a", 1, "d")))
    slow = begin(table, OVERWRITE)
    upsert(table, rows(("b", 2, "d")))
    with pytest.raises(WriteConflict):
        finish(table, rows(("c", 3, "d")), slow, OVERWRITE)
    assert _values(table) == {"a": 1, "b": 2}


def test_a_log_goes_on_top_of_what_another_overwrote_meanwhile() -> None:
    table = new_table(buckets=1)
    upsert(table, rows(("a", 1, "d")))
    slow = begin(table)
    finish(table, rows(("b", 2, "d")), begin(table, OVERWRITE), OVERWRITE)
    finish(table, rows(("c", 3, "d")), slow)
    assert _values(table) == {"b": 2, "c": 3}


# Without buckets


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", COW])
@pytest.mark.parametrize("request_", [OVERWRITE, _drop("d")], ids=["overwrite", "drop"])
def test_a_group_that_another_changed_meanwhile_is_not_ended(
    table_type: str, request_: Request
) -> None:
    table = new_table(table_type=table_type, buckets=None)
    upsert(table, rows(("a", 1, "d")))
    slow = begin(table, request_)
    upsert(table, rows(("a", 2, "d")))
    given = None if request_.partitions else rows(("z", 9, "d"))
    with pytest.raises(WriteConflict):
        finish(table, given, slow, request_)
    assert _values(table) == {"a": 2}


@says("rfc66.occ.small")
@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", COW])
@pytest.mark.parametrize("request_", [UPSERT, INSERT], ids=["upsert", "insert"])
def test_two_writes_cannot_both_fill_one_small_file(table_type: str, request_: Request) -> None:
    table = new_table(table_type=table_type, buckets=None)
    upsert(table, rows(("a", 1, "d")))
    slow = begin(table, request_)
    upsert(table, rows(("b", 2, "d")))
    with pytest.raises(WriteConflict):
        finish(table, rows(("c", 3, "d")), slow, request_)
    assert _values(table) == {"a": 1, "b": 2}


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", COW])
def test_writes_to_new_groups_stand_in_no_ones_way(table_type: str) -> None:
    table = new_table(table_type=table_type, buckets=None)
    slow = begin(table)
    upsert(table, rows(("a", 1, "d")))
    finish(table, rows(("b", 2, "d")), slow)
    assert _values(table) == {"a": 1, "b": 2}


@says("N12")
def test_a_small_file_whose_compaction_is_planned_meanwhile_is_not_filled() -> None:
    table = new_table(buckets=None)
    upsert(table, rows(("a", 1, "d")))
    slow = begin(table)
    upsert(table, rows(("a", 2, "d")))  # a log on top, so that there is something to compact
    _schedule(table)
    with pytest.raises(WriteConflict):
        finish(table, rows(("b", 3, "d")), slow)
    assert _values(table) == {"a": 2}


# Rows that were computed from the table


@pytest.mark.parametrize("buckets", [1, None])
@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", COW])
def test_rows_computed_from_what_has_changed_since_are_refused(
    table_type: str, buckets: int | None
) -> None:
    table = new_table(table_type=table_type, buckets=buckets)
    upsert(table, rows(("a", 1, "d"), ("b", 1, "other")))
    seen = load_timeline(table.storage)
    upsert(table, rows(("a", 2, "d")))
    begun = replace(begin(table), seen=seen)
    with pytest.raises(WriteConflict, match="rewrote or built upon"):
        finish(table, rows(("a", 9, "d")), begun)
    assert _values(table) == {"a": 2, "b": 1}
    elsewhere = replace(begin(table), seen=seen)
    finish(table, rows(("b", 9, "other")), elsewhere)
    assert _values(table) == {"a": 2, "b": 9}


def test_a_compaction_since_changes_nothing_that_rows_were_computed_from() -> None:
    table = new_table(buckets=1)
    upsert(table, rows(("a", 1, "d")))
    seen = load_timeline(table.storage)
    _compact(table)
    finish(table, rows(("a", 9, "d")), replace(begin(table), seen=seen))
    assert _values(table) == {"a": 9}


def test_a_write_of_nothing_conflicts_with_nobody() -> None:
    table = new_table(table_type=COW, buckets=1)
    slow = begin(table, OVERWRITE)
    upsert(table, rows(("a", 1, "d")))
    finish(table, SCHEMA.empty_table(), slow, OVERWRITE)
    assert _values(table) == {"a": 1}
