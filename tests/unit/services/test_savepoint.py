"""Savepoints: what they name, when they are refused, and that they stop nobody."""

from __future__ import annotations

import pytest

from lentic.errors import Refused
from lentic.format import layout
from lentic.format.names import Action
from lentic.format.times import RequestedAt
from lentic.services.restore import restore_table
from lentic.services.savepoint import load_savepoints, make_savepoint, remove_savepoint
from lentic.services.undo_completed import roll_back_instant
from lentic.services.verify import verify_table
from lentic.table import Table
from lentic.timeline.reader import load_timeline
from tests.unit.builders import data_paths, rows
from tests.unit.services.past import (
    TYPES,
    ensure_sound,
    put_clean_plan,
    some_table,
    values,
)
from tests.unit.write.attempts import ENGINE, begin, upsert


@TYPES
def test_a_savepoint_names_every_file_of_the_latest_write_and_is_found_again(
    table_type: str,
) -> None:
    table = some_table(table_type)
    upsert(table, rows(("a", 1, "d"), ("b", 1, "e")))
    upsert(table, rows(("a", 2, "d")))
    made = make_savepoint(table, by="me", comment="why")
    timeline = load_timeline(table.storage)
    (found,) = load_savepoints(table.storage, timeline)
    shown = {path for part in Table(table, ENGINE).file_slices() for path in part.paths}
    assert found.instant == made and made.requested_at == timeline.writes()[-1].requested_at
    assert found.files == shown
    assert (found.metadata.by, found.metadata.comment) == ("me", "why")
    assert make_savepoint(table) == made, "it is there already"
    ensure_sound(table)
    assert values(table) == {"a": 2, "b": 1}
    upsert(table, rows(("a", 3, "d")))
    assert values(table) == {"a": 3, "b": 1}


def test_a_savepoint_of_an_earlier_write_names_the_files_of_then() -> None:
    table = some_table("COPY_ON_WRITE", 1)
    first = upsert(table, rows(("a", 1, "d")))
    then = set(data_paths(table.storage))
    upsert(table, rows(("a", 2, "d")))
    made = make_savepoint(table, first)
    (found,) = load_savepoints(table.storage, load_timeline(table.storage))
    assert made.requested_at == first
    assert found.files == then


def test_time_travel_to_a_savepointed_write_does_not_show_what_came_before_the_savepoint() -> None:
    table = some_table()
    first = upsert(table, rows(("a", 1, "d")))
    upsert(table, rows(("a", 2, "d")))
    make_savepoint(table, first)
    seen = Table(table, ENGINE).read(as_of=first).to_pylist()
    assert [row["v"] for row in seen] == [1]


def test_a_savepoint_of_nothing_is_refused() -> None:
    table = some_table()
    with pytest.raises(Refused, match="no completed write"):
        make_savepoint(table)
    upsert(table, rows(("a", 1, "d")))
    pending = begin(table).instant.requested_at
    for at in (pending, RequestedAt("20200101000000000")):
        with pytest.raises(Refused, match="no completed write"):
            make_savepoint(table, at)


def test_a_savepoint_of_files_that_were_cleaned_is_refused() -> None:
    table = some_table("COPY_ON_WRITE", 1)
    first = upsert(table, rows(("a", 1, "d")))
    (old,) = data_paths(table.storage)
    upsert(table, rows(("a", 2, "d")))
    table.storage.delete(old)
    with pytest.raises(Refused, match="gone") as caught:
        make_savepoint(table, first)
    assert caught.value.where == old
    assert load_timeline(table.storage).completed(Action.SAVEPOINT) == ()


def test_a_removed_savepoint_protects_nothing_and_cannot_be_removed_twice() -> None:
    table = some_table()
    first = upsert(table, rows(("a", 1, "d")))
    make_savepoint(table)
    remove_savepoint(table, first)
    timeline = load_timeline(table.storage)
    assert load_savepoints(table.storage, timeline) == ()
    assert [i.action for i in timeline.instants] == [Action.DELTACOMMIT]
    with pytest.raises(Refused, match="no savepoint"):
        remove_savepoint(table, first)


def test_a_savepoint_whose_maker_died_is_made_anew_and_stops_nobody() -> None:
    table = some_table()
    first = upsert(table, rows(("a", 1, "d")))
    table.storage.put_if_absent(layout.timeline_file(f"{first}.savepoint.inflight"), b"")
    assert load_timeline(table.storage).pending() == ()
    upsert(table, rows(("b", 1, "d")))
    assert make_savepoint(table, first).is_completed
    ensure_sound(table)


def test_files_that_a_pending_clean_will_take_can_be_neither_kept_nor_gone_back_to() -> None:
    table = some_table("COPY_ON_WRITE", 1)
    first = upsert(table, rows(("a", 1, "d")))
    (old,) = data_paths(table.storage)
    second = upsert(table, rows(("a", 2, "d")))
    put_clean_plan(table, old)
    for call in (make_savepoint, restore_table):
        with pytest.raises(Refused, match="about to be deleted by clean") as caught:
            call(table, first)
        assert caught.value.where == old
    with pytest.raises(Refused, match="about to be deleted by clean"):
        roll_back_instant(table, second)
    assert make_savepoint(table).requested_at == second, "its files stay"


def test_a_savepoint_whose_files_are_gone_is_found_by_verify() -> None:
    table = some_table("COPY_ON_WRITE", 1)
    upsert(table, rows(("a", 1, "d")))
    (old,) = data_paths(table.storage)
    made = make_savepoint(table)
    upsert(table, rows(("a", 2, "d")))
    assert verify_table(table.storage) == []
    table.storage.delete(old)
    assert verify_table(table.storage) == [f"{old} is protected by {made} and is not there"]
