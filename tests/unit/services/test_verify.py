"""Each planted defect is found, and a sound table has none."""

from __future__ import annotations

import pytest

from lentic.engine import LocalEngine
from lentic.format import layout
from lentic.services.verify import verify_table
from lentic.storage.memory import MemoryStorage
from lentic.table import Table
from lentic.timeline.reader import load_timeline
from tests.rfc.claims import says
from tests.unit.builders import data_paths, new_table, rows


@pytest.fixture
def table() -> Table:
    opened = new_table(buckets=2)
    made = Table(opened, LocalEngine(threads=1))
    made.upsert(rows(("a", 1, "d"), ("b", 2, "e")))
    made.upsert(rows(("a", 3, "d")))
    made.compact()
    made.upsert(rows(("b", 4, "e")))
    return made


def _storage(table: Table) -> MemoryStorage:
    storage = table._opened.storage
    assert isinstance(storage, MemoryStorage)
    return storage


def test_a_table_after_writes_and_compaction_is_sound(table: Table) -> None:
    assert table.verify() == []


def test_a_file_that_is_gone_is_found(table: Table) -> None:
    path = table.file_slices()[0].paths[0]
    _storage(table).delete(path)
    assert f"{path} holds current rows and is not there" in verify_table(_storage(table))


def test_a_file_of_another_length_is_found(table: Table) -> None:
    path = table.file_slices()[0].paths[0]
    _storage(table).replace(path, b"short")
    assert any(f"{path} has 5 bytes" in line for line in table.verify())


def test_a_table_of_which_no_commit_reads_tells_each_and_what_cannot_be_told(
    table: Table,
) -> None:
    storage = _storage(table)
    writes = load_timeline(storage).writes()
    for write in writes:
        storage.replace(layout.timeline_file(write.file_name), b"junk")
    found = table.verify()
    for write in writes:
        assert any(f"{write.file_name}@0 does not read: Not an Avro" in line for line in found)
    assert found[len(writes) :] == [
        "which files hold current rows cannot be told until that is mended"
    ]


def test_what_does_not_rest_on_a_damaged_file_is_looked_at_all_the_same(table: Table) -> None:
    storage = _storage(table)
    first, *_, last = load_timeline(storage).writes()
    storage.replace(layout.timeline_file(first.file_name), b"junk")
    (log,) = [path for path in data_paths(storage) if str(last.requested_at) in path]
    storage.replace(log, b"short")
    storage.put_if_absent(layout.timeline_file(f"{last.completed_at}.clean.requested"), b"")
    found = " | ".join(table.verify())
    assert "does not read" in found and f"{log} has 5 bytes" in found
    assert f"time {last.completed_at} was issued twice" in found


@pytest.mark.parametrize("service", ["compaction", "clustering"])
def test_a_plan_that_does_not_read_is_found(service: str) -> None:
    buckets = {"compaction": 1, "clustering": None}[service]
    made = Table(new_table(buckets=buckets), LocalEngine(threads=1))
    for number in range(2):
        made.upsert(rows(("a", number, "d")))
    at = made.schedule(service)
    assert at is not None and made.verify() == []
    path = layout.timeline_file(f"{at}.{service}.requested")
    _storage(made).replace(path, b"junk")
    assert made.verify()[0].startswith(f"{path}@0 does not read")


def test_a_savepoint_that_does_not_read_is_found(table: Table) -> None:
    savepoint = table.savepoint()
    assert table.verify() == []
    path = layout.timeline_file(savepoint.file_name)
    _storage(table).replace(path, b"junk")
    (line,) = table.verify()
    assert line.startswith(f"{path}@0 does not read")


def test_a_timeline_that_does_not_read_is_a_finding(table: Table) -> None:
    storage = _storage(table)
    last = load_timeline(storage).writes()[-1]
    again = f"{last.requested_at}_{last.completed_at}9.{last.action}"
    storage.put_if_absent(layout.timeline_file(again), b"")
    assert "completed twice" in table.verify()[0]


@says("P1")
def test_a_time_that_was_issued_twice_is_found(table: Table) -> None:
    last = load_timeline(_storage(table)).writes()[-1]
    again = layout.timeline_file(f"{last.completed_at}.deltacommit.requested")
    _storage(table).put_if_absent(again, b"")
    assert table.verify() == [f"time {last.completed_at} was issued twice"]


@says("cancel.rollout.tools")
def test_a_cancellation_that_came_too_late_is_found(table: Table) -> None:
    last = load_timeline(_storage(table)).writes()[-1]
    _storage(table).put_if_absent(f"{layout.CANCEL}/{last.requested_at}", b"")
    assert len(table.verify()) == 1
