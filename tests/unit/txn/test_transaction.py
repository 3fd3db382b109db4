"""A transaction: checks and the step they license stand on one timeline under one lock (R1, R9)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lentic.errors import Conflict, Corrupt, InstantCancelled, Unavailable
from lentic.format.layout import PROPERTIES, timeline_file
from lentic.format.names import Action, State
from lentic.format.plans import RollbackPlan, encode_rollback_plan
from lentic.format.properties import decode_properties
from lentic.format.times import RequestedAt, Zone, format_time
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_timeline
from lentic.txn.transaction import OpenTable, transaction
from tests.rfc.claims import says
from tests.unit.builders import (
    START_MS,
    WrappedStorage,
    clock_of,
    completed,
    new_table,
    requested,
)


def _begin(table: OpenTable, action: Action = Action.DELTACOMMIT) -> Instant:
    with transaction(table) as txn:
        return txn.start(txn.request(action))


def _complete(table: OpenTable, instant: Instant) -> Instant:
    with transaction(table) as txn:
        return txn.complete(instant, b"metadata")


def _roll_back(table: OpenTable, target: Instant, upto: State) -> Instant:
    """A rollback of `target`, as far as `upto`, with the target still on the timeline."""
    plan = RollbackPlan(target.requested_at, target.action, ())
    with transaction(table) as txn:
        rollback = txn.request(Action.ROLLBACK, encode_rollback_plan(plan, table.storage.root))
        if upto is State.REQUESTED:
            return rollback
        rollback = txn.start(rollback)
        return rollback if upto is State.INFLIGHT else txn.finish_rollback(rollback, b"x")


@says("P4")
def test_a_write_goes_from_nothing_to_completed_with_rising_times() -> None:
    table = new_table()
    inflight = _begin(table)
    done = _complete(table, inflight)
    assert done.identity == inflight.identity
    assert done.completed_at is not None
    assert str(done.completed_at) > str(done.requested_at)
    assert load_timeline(table.storage).instants == (done,)
    assert table.storage.read(timeline_file(done.file_name)) == b"metadata"


def test_properties_that_do_not_read_are_not_written_anew() -> None:
    """What was left of them would be taken for all there is."""
    table = new_table()
    table.storage.replace(PROPERTIES, b"")
    with transaction(table) as txn, pytest.raises(Corrupt):
        txn.change_properties(lambda now: {**now, "a": "b"}, "for the test")
    assert table.storage.read(PROPERTIES) == b""


def test_the_timeline_is_loaded_after_the_lock_is_taken_and_let_go_at_the_end() -> None:
    storage = WrappedStorage()
    table = new_table(storage=storage)
    with transaction(table) as txn:
        assert storage.calls[-1] == ("list_files", ".hoodie/timeline")
        # Not reentrant: this thread is told that it holds the lock already.
        with pytest.raises(AssertionError), transaction(table):
            pass
    with transaction(table):
        pass
    with pytest.raises(Conflict):
        txn.request(Action.DELTACOMMIT)
    with pytest.raises(Conflict):
        txn.change_properties(dict, "for the test")


# R1


def test_an_instant_that_is_gone_cannot_complete() -> None:
    table = new_table()
    inflight = _begin(table)
    with transaction(table) as txn:
        txn.remove(inflight)
    with pytest.raises(InstantCancelled, match="gone") as caught:
        _complete(table, inflight)
    assert "start over" in caught.value.safe
    assert "lentic timeline" in caught.value.next_step
    assert load_timeline(table.storage).instants == ()


def test_an_instant_completes_once() -> None:
    table = new_table()
    inflight = _begin(table)
    done = _complete(table, inflight)
    with pytest.raises(InstantCancelled, match="completed"):
        _complete(table, inflight)
    assert load_timeline(table.storage).instants == (done,)


@says("R1")
def test_an_instant_that_lost_its_inflight_file_cannot_complete() -> None:
    table = new_table()
    inflight = _begin(table)
    table.storage.delete(timeline_file(inflight.file_name))
    with pytest.raises(InstantCancelled, match="requested"):
        _complete(table, inflight)


@says("R1", "P8")
@pytest.mark.parametrize("upto", [State.REQUESTED, State.INFLIGHT, State.COMPLETED])
def test_an_instant_that_a_rollback_targets_cannot_complete(upto: State) -> None:
    table = new_table()
    inflight = _begin(table)
    rollback = _roll_back(table, inflight, upto)
    with pytest.raises(InstantCancelled, match=f"rolled back by rollback {rollback.requested_at}"):
        _complete(table, inflight)
    assert not load_timeline(table.storage).completed(Action.DELTACOMMIT)


@says("R1")
def test_the_refusal_holds_however_stale_the_writers_own_timeline_is() -> None:
    """C1, N8: whoever slept through a rollback looks at the timeline as it is now."""
    table = new_table()
    inflight = _begin(table)
    _roll_back(table, inflight, State.COMPLETED)
    with transaction(table) as txn:
        txn.remove(inflight)
    clock_of(table).ms += 3_600_000
    with pytest.raises(InstantCancelled):
        _complete(table, inflight)
    assert not load_timeline(table.storage).completed(Action.DELTACOMMIT)


def test_a_rollback_of_another_instant_is_no_hindrance() -> None:
    table = new_table()
    first, second = _begin(table), _begin(table)
    _roll_back(table, first, State.COMPLETED)
    assert _complete(table, second).is_completed


def test_a_rollback_whose_plan_was_removed_is_passed_over() -> None:
    table = new_table()
    inflight = _begin(table)
    other = Instant(requested(100), Action.ROLLBACK, State.COMPLETED, completed(101))
    table.storage.put_if_absent(timeline_file(other.file_name), b"")
    assert _complete(table, inflight).is_completed


def test_a_compaction_completes_as_a_commit_under_the_same_checks() -> None:
    table = new_table()
    inflight = _begin(table, Action.COMPACTION)
    assert _complete(table, inflight).action is Action.COMMIT
    with pytest.raises(InstantCancelled):
        _complete(table, inflight)


def test_rollback_of_finds_the_rollback_in_every_state() -> None:
    table = new_table()
    inflight = _begin(table)
    with transaction(table) as txn:
        assert txn.rollback_of(inflight) is None
    rollback = _roll_back(table, inflight, State.REQUESTED)
    with transaction(table) as txn:
        assert txn.rollback_of(inflight) == rollback
        done = txn.finish_rollback(txn.start(rollback), b"x")
    with transaction(table) as txn:
        assert txn.rollback_of(inflight) == done


# R9


@says("P1")
def test_all_times_of_a_standing_clock_differ() -> None:
    table = new_table()
    with transaction(table) as txn:
        issued = [txn.next_time() for _ in range(20)]
    with transaction(table) as txn:
        issued += [txn.next_time() for _ in range(20)]
    assert issued == sorted(set(issued))


def test_a_time_is_later_than_everything_on_the_timeline_though_the_lock_forgot() -> None:
    table = new_table()
    future = format_time(START_MS + 150, Zone.UTC)
    path = timeline_file(f"{format_time(START_MS, Zone.UTC)}_{future}.deltacommit")
    table.storage.put_if_absent(path, b"")
    assert _begin(table).requested_at > future


def test_a_clock_that_went_back_within_the_skew_is_no_hindrance() -> None:
    table = new_table()
    first = _complete(table, _begin(table))
    clock_of(table).ms -= 190
    second = _complete(table, _begin(table))
    assert str(second.requested_at) > str(first.completed_at)


@says("N11")
def test_a_clock_that_went_back_further_stops_the_writer_before_anything_is_written() -> None:
    table = new_table()
    inflight = _begin(table)
    before = table.storage.walk("")
    clock_of(table).ms -= 3_600_000
    with pytest.raises(Unavailable):
        _begin(table)
    with pytest.raises(Unavailable):
        _complete(table, inflight)
    assert table.storage.walk("") == before


@says("rfc66.time.atomic", "P3")
@given(st.lists(st.tuples(st.integers(-150, 400), st.booleans()), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_completion_times_rise_in_the_order_of_publication(
    steps: list[tuple[int, bool]],
) -> None:
    """P1 and P3: no two times are equal, and what is published later completes later."""
    table = new_table()
    open_instants: list[Instant] = []
    published: list[str] = []
    times: list[str] = []
    for step, finish in steps:
        clock_of(table).ms += step
        try:
            if finish and open_instants:
                done = _complete(table, open_instants.pop(0))
                published.append(str(done.completed_at))
                times.append(str(done.completed_at))
            else:
                open_instants.append(_begin(table))
                times.append(str(open_instants[-1].requested_at))
        except Unavailable:
            continue
    assert times == sorted(set(times))
    assert published == sorted(published)


@says("R12", "P4")
def test_a_plan_is_published_only_at_a_time_of_its_own_transaction() -> None:
    table = new_table()
    with transaction(table) as txn:
        at = RequestedAt(txn.next_time())
    with transaction(table) as txn, pytest.raises(AssertionError):
        txn.request_at(at, Action.COMPACTION, b"plan")
    with transaction(table) as txn:
        at = RequestedAt(txn.next_time())
        assert txn.request_at(at, Action.COMPACTION, b"plan").requested_at == at


def test_changing_the_properties_keeps_what_the_change_keeps() -> None:
    table = new_table()
    before = decode_properties(table.storage.read(PROPERTIES), PROPERTIES)
    with transaction(table) as txn:
        txn.change_properties(lambda now: {**now, "a": "b"}, "for the test")
    assert decode_properties(table.storage.read(PROPERTIES), PROPERTIES) == {**before, "a": "b"}
