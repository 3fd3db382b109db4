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
from tests.unit.builders import new_table, rows


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


@says("P1")
def test_a_time_that_was_issued_twice_is_found(table: Table) -> None:
    last = load_timeline(_storage(table)).writes()[-1]
    _storage(table).put_if_absent(layout.timeline_file(f"{last.completed_at}.clean.requested"), b"")
    assert table.verify() == [f"time {last.completed_at} was issued twice"]


@says("cancel.rollout.tools")
def test_a_cancellation_that_came_too_late_is_found(table: Table) -> None:
    last = load_timeline(_storage(table)).writes()[-1]
    _storage(table).put_if_absent(f"{layout.CANCEL}/{last.requested_at}", b"")
    assert len(table.verify()) == 1
