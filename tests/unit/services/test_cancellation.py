"""Cancelling a clustering: the promise, the end, who may do what, and what is left: nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

import lentic
from lentic.errors import InstantCancelled, PlanBusy, PlanCompleted, Refused
from lentic.format import layout
from lentic.format.names import Action, State
from lentic.format.properties import decode_properties
from lentic.format.times import RequestedAt
from lentic.services.abort import execute_abort
from lentic.services.cancel_policy import list_due
from lentic.services.outcome import Aborted, AlreadyCommitted, Committed
from lentic.services.verify import verify_table
from lentic.storage.base import Storage
from lentic.table import Table
from lentic.testing.checkers import list_leftovers
from lentic.testing.tables import open_on
from lentic.timeline.cancel_requests import list_cancelled, load_cancel_request
from lentic.timeline.reader import load_clustering_plan, load_timeline
from lentic.write.alive import staying_alive
from tests.rfc.claims import says
from tests.unit.builders import WrappedStorage, rows
from tests.unit.services.clusterings import ENGINE, execute, opened, plan_at, schedule, storage_of
from tests.unit.verbs import JOINED, found, loaded

ROWS = {("a", 1, "mon"): 1, ("b", 2, "mon"): 1, ("c", 3, "tue"): 1}


def planned(kind: str = "COPY_ON_WRITE None", **asked: object) -> tuple[Table, str]:
    table = loaded(kind)
    return table, schedule(table, sort_by=("v",), **asked)


def states(table: Table, at: str) -> list[State]:
    return [i.state for i in table.timeline() if i.requested_at == at]


def ensure_sound(table: Table) -> None:
    storage = storage_of(table)
    assert verify_table(storage) == [] and list_leftovers(storage) == []


@says("cancel.exec.short")
@JOINED
def test_a_cancelled_plan_is_never_executed_and_ends_as_aborted(kind: str) -> None:
    table, at = planned(kind)
    table.request_cancel(at, why="for the test")
    request = load_cancel_request(storage_of(table), RequestedAt(at))
    assert request is not None and request.why == "for the test"
    ended = execute(table, at)
    assert isinstance(ended, Aborted) and states(table, at) == [State.ABORTED]
    assert found(table) == ROWS
    ensure_sound(table)


@says("cancel.request.many", "cancel.abort.3")
def test_cancelling_twice_is_one_request_and_aborting_twice_one_end() -> None:
    table, at = planned()
    table.request_cancel(at, why="first")
    table.request_cancel(at, why="second")
    request = load_cancel_request(storage_of(table), RequestedAt(at))
    assert request is not None and request.why == "first"
    one, other = table.execute_abort(at), table.execute_abort(at)
    assert one == other
    table.request_cancel(at)
    assert not list_cancelled(storage_of(table)), "what has ended is not asked to end"


@says("C2", "cancel.request.3")
def test_what_has_completed_is_neither_cancelled_nor_aborted() -> None:
    table, at = planned()
    execute(table, at)
    for verb in (table.request_cancel, table.execute_abort):
        with pytest.raises(PlanCompleted, match="completed"):
            verb(at)
    assert found(table) == ROWS
    assert isinstance(execute(table, at), AlreadyCommitted)


def test_only_what_was_cancelled_is_aborted() -> None:
    table, at = planned()
    with pytest.raises(Refused, match="was not cancelled"):
        table.execute_abort(at)
    assert isinstance(execute(table, at), Committed)


def test_other_plans_and_none_at_all_are_not_cancelled() -> None:
    table = loaded("MERGE_ON_READ 2")
    table.upsert(rows(("a", 10, "mon")))
    at = table.schedule("compaction")
    assert at is not None
    for time in (at, "20200101000000000"):
        with pytest.raises(Refused, match="only clustering plans"):
            table.request_cancel(time)


@says("cancel.starve")
def test_a_plan_that_was_not_made_cancellable_is_not_cancelled() -> None:
    table, at = planned(cancellable=False)
    with pytest.raises(Refused, match="not made cancellable"):
        table.request_cancel(at)
    assert isinstance(execute(table, at), Committed)


@says("cancel.abort.4")
def test_nobody_aborts_what_somebody_executes() -> None:
    table, at = planned()
    table.request_cancel(at)
    with staying_alive(opened(table), ENGINE, RequestedAt(at), epoch=1):
        with pytest.raises(PlanBusy):
            execute_abort(opened(table), ENGINE, RequestedAt(at), waits=False)
        assert table.clean() is None, "a clean leaves it to its executor"
        assert list_cancelled(storage_of(table)) == {at}
    assert table.execute_abort(at).instant.is_aborted


@says("cancel.rollout.readers")
def test_an_aborted_plan_is_known_for_what_it_is() -> None:
    table, at = planned()
    groups = plan_at(table, RequestedAt(at)).file_groups()
    table.request_cancel(at)
    table.execute_abort(at)
    assert isinstance(table.execute(at), lentic.Aborted)
    (aborted,) = load_timeline(storage_of(table)).aborted(Action.CLUSTERING)
    assert load_clustering_plan(storage_of(table), aborted).file_groups() == groups
    assert [plan.requested_at for plan in table.plans()] == []
    with pytest.raises(InstantCancelled, match="aborted"):
        table.rollback(at)


@says("C9")
def test_other_engines_see_no_plan_after_the_abort() -> None:
    """They ignore the aborted file, and take a requested one for pending, come what may."""
    table, at = planned()
    table.request_cancel(at)
    table.execute_abort(at)
    names = [file.name for file in storage_of(table).list_files(layout.TIMELINE)]
    assert [name for name in names if name.startswith(at)] == [f"{at}.clustering.aborted"]


def test_a_request_for_a_plan_that_was_rolled_back_goes_with_the_next_clean() -> None:
    table, at = planned()
    storage = storage_of(table)
    table.rollback(at)
    storage.put_if_absent(layout.cancel_request(RequestedAt(at)), b"")
    table.clean()
    assert not list_cancelled(storage)


@says("R18")
def test_the_table_says_that_its_plans_may_be_aborted() -> None:
    table = loaded("COPY_ON_WRITE None")

    def said(storage: Storage) -> str | None:
        return decode_properties(storage.read(layout.PROPERTIES), "").get("lentic.cancellation")

    schedule(table, sort_by=("v",), cancellable=False, partitions=["mon"])
    assert said(storage_of(table)) is None
    schedule(table, sort_by=("v",), partitions=["tue"])
    assert said(storage_of(table)) == "true"


@says("C10")
def test_the_row_of_cancels_is_counted_and_plans_get_smaller() -> None:
    table = loaded("COPY_ON_WRITE None")
    sizes = []
    for number in range(3):
        at = schedule(table, sort_by=("v",))
        plan = plan_at(table, at)
        sizes.append(len(plan.groups))
        assert set(plan.cancellation.cancelled.values()) == ({number} if number else set())
        table.request_cancel(at)
        table.execute_abort(at)
    assert sizes == sorted(sizes, reverse=True)


def test_policies_that_make_no_sense_are_refused() -> None:
    table = loaded("COPY_ON_WRITE None")
    with pytest.raises(lentic.ConfigError, match="less than nothing"):
        schedule(table, cancel_after_hours=-1)
    with pytest.raises(lentic.ConfigError, match="may not be cancelled"):
        schedule(table, cancellable=False, cancel_after_instants=3)


def test_a_clean_cancels_what_waited_for_too_many_writes() -> None:
    table, at = planned(cancel_after_instants=2)
    table.upsert(rows(("n", 1, "new")))
    table.clean()
    assert states(table, at) == [State.REQUESTED]
    table.upsert(rows(("n", 2, "new")))
    table.clean()
    assert states(table, at) == [State.ABORTED]
    ensure_sound(table)


@says("cancel.archive")
def test_archiving_drops_aborted_plans_once_another_followed_and_history_knows_them() -> None:
    table, at = planned()
    table.request_cancel(at)
    table.execute_abort(at)
    small = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    mine = reopened(table, **small)
    for number in range(6):
        mine.upsert(rows(("n", number, "new")))
    mine.archive()
    assert states(mine, at) == [State.ABORTED], "nothing has followed it yet"
    assert mine.cluster(sort_by="v") is not None
    for number in range(6, 12):
        mine.upsert(rows(("n", number, "new")))
    mine.clean()
    mine.archive()
    assert states(mine, at) == []
    assert (at, State.ABORTED) in [(i.requested_at, i.state) for i in mine.history()]
    assert isinstance(mine.execute(at), lentic.Aborted)
    mine.request_cancel(at)
    assert not list_cancelled(storage_of(mine))


def test_what_replaced_files_otherwise_has_not_followed_an_aborted_plan() -> None:
    """Only a later plan takes up what the aborted one was for."""
    table, at = planned()
    table.request_cancel(at)
    table.execute_abort(at)
    mine = reopened(table, **{"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3})
    mine.insert_overwrite(rows(("o", 1, "other")))
    for number in range(6):
        mine.upsert(rows(("n", number, "new")))
    mine.clean()
    mine.archive()
    assert states(mine, at) == [State.ABORTED]


def test_an_aborted_plan_may_go_with_the_plan_that_followed_it() -> None:
    table, at = planned()
    table.request_cancel(at)
    table.execute_abort(at)
    keep = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    mine = reopened(table, **keep, **{"hoodie.clean.commits.retained": 1})
    assert mine.cluster(sort_by="v") is not None
    for number in range(6):
        mine.upsert(rows(("n", number, "new")))
    mine.clean()
    mine.archive()
    assert Action.REPLACECOMMIT not in {i.action for i in mine.timeline()}
    assert states(mine, at) == []


class _EndsMeanwhile(WrappedStorage):
    """A plan ends, by other hands, right after the timeline was listed."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.end: Callable[[], object] | None = None

    def after(self, op: str, path: str) -> None:
        if self.end and (op, path) == ("list_files", layout.TIMELINE):
            end, self.end = self.end, None
            end()


@pytest.mark.parametrize("by", ["rollback", "abort"])
def test_a_plan_that_ends_while_a_clean_looks_for_old_ones_is_not_missed(by: str) -> None:
    table, at = planned(cancel_after_instants=0)

    def end() -> None:
        if by == "rollback":
            table.rollback(at)
        else:
            table.request_cancel(at)
            table.execute_abort(at)

    storage = _EndsMeanwhile(storage_of(table))
    looking = replace(opened(table), storage=storage)
    storage.end = end
    assert list_due(looking) == ()
    assert storage.end is None


def reopened(table: Table, **options: object) -> Table:
    return open_on(storage_of(table), opened(table).world, opened(table).lock, options)
