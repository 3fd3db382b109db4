"""A runner over tables in memory: what it does, in which order, and what it leaves alone."""

from __future__ import annotations

from itertools import pairwise

import pytest

from lentic.engine import Attempt, LocalEngine
from lentic.errors import StorageError
from lentic.format import layout
from lentic.format.names import Action, State
from lentic.runner.budget import Budget
from lentic.runner.decide import Service
from lentic.runner.events import Result
from lentic.runner.loop import Orders
from lentic.runner.rest import FIRST_S, IDLE_S
from lentic.timeline.instant import Instant
from lentic.txn.transaction import transaction
from tests.unit.builders import put_instant, requested
from tests.unit.runner.lake import TTL_S, Lake


def test_what_is_due_is_done_in_one_cycle_over_all_tables() -> None:
    lake = Lake()
    one, two = lake.add("one", commits=3), lake.add("two", commits=3)
    lake.add("three", commits=1)
    assert lake.runner().run_cycle() == 0
    assert sorted(lake.told()) == [("one", "compaction", "done"), ("two", "compaction", "done")]
    for table in (one, two):
        assert [i.action for i in table.timeline()].count(Action.COMMIT) == 1
        assert table.verify() == []


def test_an_action_is_told_with_its_instant_and_what_it_made() -> None:
    lake = Lake()
    table = lake.add("one", commits=3)
    lake.runner().run_cycle()
    (event,) = lake.events
    done = next(i for i in table.timeline() if i.action is Action.COMMIT)
    assert event.instant == str(done.requested_at)
    assert (event.work.rows, event.work.files) == (3, 1)
    assert event.work.bytes > 0
    assert event.worker == "host:1"


def test_an_idle_cycle_is_one_listing_per_table_and_nothing_else() -> None:
    lake = Lake()
    for number in range(20):
        lake.add(f"t{number}", commits=3)
    runner = lake.runner()
    runner.run_cycle()
    runner.run_cycle()  # clean was due and had nothing to do
    for name in lake.storages:
        lake.calls(name)
    for _ in range(3):
        runner.run_cycle()
        for name in lake.storages:
            assert lake.calls(name) == [f"list_files {layout.TIMELINE}"]


def test_a_commit_is_noticed_by_the_next_cycle() -> None:
    lake = Lake()
    table = lake.add("one", commits=3)
    runner = lake.runner()
    runner.run_cycle()
    for number in range(3, 5):
        lake.write(table, number)
    lake.told()
    runner.run_cycle()
    assert lake.told() == [("one", "compaction", "done")]


def test_a_plan_is_left_to_its_executor_and_taken_over_a_time_to_live_after_its_death() -> None:
    lake = Lake()
    table = lake.add("one", commits=3)
    at = table.schedule("compaction")
    assert at
    runner = lake.runner()
    for beat in range(4):
        lake.beat("one", at, b"%d" % beat)
        runner.run_cycle()
        lake.clock.sleep(TTL_S * 0.7)
    assert lake.told() == []
    lake.clock.sleep(TTL_S)
    runner.run_cycle()
    assert lake.told() == [("one", "compaction", "done")]
    assert lake.clock.ms % 10 == 0, "nobody waited for a heartbeat"


def test_looking_waits_for_nobody() -> None:
    lake = Lake()
    table = lake.add("one", commits=3)
    at = table.schedule("compaction")
    assert at
    lake.beat("one", at, b"somebody")
    before = lake.clock.ms
    lake.runner().run_cycle()
    assert lake.clock.ms == before


def test_what_another_runner_has_taken_meanwhile_is_no_failure() -> None:
    lake = Lake()
    table = lake.add("one", commits=3)
    at = table.schedule("compaction")
    assert at
    runner = lake.runner()
    look = runner._look
    taken = False

    def look_and_lose(ward: object) -> None:
        nonlocal taken
        look(ward)  # type: ignore[arg-type]
        if not taken:
            taken = True
            lake.beat("one", at, b"somebody")

    runner._look = look_and_lose  # type: ignore[assignment, method-assign]
    assert runner.run_cycle() == 0
    assert lake.told() == [("one", "compaction", "busy")]
    assert "lentic_backoff_seconds" not in lake.metrics.text()


def test_a_table_that_cannot_be_opened_is_told_retried_and_holds_nobody_up() -> None:
    lake = Lake()
    lake.add("bad", commits=3)
    lake.add("good", commits=3)
    broken = True

    def open_(name: str) -> None:
        if broken and name == "bad":
            raise StorageError("The disk is gone.")

    lake.on_open = open_
    runner = lake.runner()
    assert runner.run_cycle() == 1
    assert sorted(lake.told()) == [("bad", "look", "failed"), ("good", "compaction", "done")]
    assert 'lentic_table_up{table="bad"} 0' in lake.metrics.text()
    assert runner.run_cycle() == 0, "it rests"
    broken = False
    lake.clock.sleep(FIRST_S)
    assert runner.run_cycle() == 0
    assert lake.told() == [("bad", "compaction", "done")]
    assert 'lentic_table_up{table="bad"} 1' in lake.metrics.text()


def test_even_an_error_of_ours_holds_nobody_up() -> None:
    lake = Lake()
    lake.add("bad", commits=3)
    lake.add("good", commits=3)

    def open_(name: str) -> None:
        if name == "bad":
            raise ZeroDivisionError("a bug")

    lake.on_open = open_
    assert lake.runner().run_cycle() == 1
    assert ("good", "compaction", "done") in lake.told()


class BrokenEngine(LocalEngine):
    __slots__ = ()

    def run(self, work: object, tasks: object, stage: object = None) -> list[str]:
        raise StorageError("No space is left.", where="d/x.parquet", next_step="make room")


def test_an_action_that_fails_rests_longer_each_time_and_others_go_on() -> None:
    lake = Lake(engine=BrokenEngine(threads=1))
    lake.add("one", commits=3)
    runner = lake.runner()
    assert runner.run_cycle() == 1
    assert [(e.action, e.result) for e in lake.events] == [("compaction", Result.FAILED)]
    assert lake.events[0].note == "StorageError: No space is left. [d/x.parquet]; next: make room"
    assert lake.events[0].instant == lake.open("one").timeline()[-1].requested_at
    waits = []
    for _ in range(4):
        tries = len(lake.events)
        started = lake.clock.ms
        while len(lake.events) == tries:
            lake.clock.sleep(0.5)
            runner.run_cycle()
        waits.append((lake.clock.ms - started) / 1000)
    assert all(a < b for a, b in pairwise(waits)), waits
    assert "lentic_backoff_seconds" in lake.metrics.text()


def test_where_there_is_nothing_to_do_it_is_not_looked_again_until_something_changes() -> None:
    lake = Lake(options={"hoodie.clean.commits.retained": 1})
    table = lake.add("one", commits=2)
    runner = lake.runner(Orders(services=frozenset({Service.CLEAN})))
    runner.run_cycle()
    lake.calls("one")
    assert lake.told() == [], "nothing was done, so nothing is told"
    assert 'outcome="nothing"' in lake.metrics.text()
    runner.run_cycle()
    assert len(lake.calls("one")) == 1
    lake.clock.sleep(IDLE_S)
    runner.run_cycle()
    assert len(lake.calls("one")) > 1, "some services go by the clock"
    runner.run_cycle()
    lake.calls("one")
    lake.write(table, 7)
    lake.calls("one")
    runner.run_cycle()
    assert len(lake.calls("one")) > 1


def test_a_write_without_heartbeat_is_a_single_writers_own_business() -> None:
    lake = Lake()
    table = lake.add("one", commits=1)
    _begin_write(lake, "one")
    runner = lake.runner()
    for _ in range(4):
        runner.run_cycle()
        lake.clock.sleep(TTL_S)
    assert lake.told() == []
    assert len([i for i in table.timeline() if i.is_pending]) == 1


def test_a_clean_leaves_the_write_of_a_single_writer_alone() -> None:
    lake = Lake(options={"hoodie.clean.commits.retained": 1})
    table = lake.add("one", commits=4)
    table.compact()
    lake.write(table, 5)
    lake.write(table, 6)
    _begin_write(lake, "one")
    runner = lake.runner(Orders(services=frozenset({Service.CLEAN})))
    for _ in range(3):
        runner.run_cycle()
        lake.clock.sleep(TTL_S)
    assert ("one", "clean", "done") in lake.told()
    assert any(i.is_pending for i in table.timeline())


def test_among_several_writers_a_write_without_heartbeat_is_rolled_back() -> None:
    mode = "OPTIMISTIC_CONCURRENCY_CONTROL"
    lake = Lake(options={"hoodie.write.concurrency.mode": mode})
    table = lake.add("one", commits=1)
    _begin_write(lake, "one")
    runner = lake.runner()
    runner.run_cycle()
    assert lake.told() == []
    lake.clock.sleep(TTL_S)
    runner.run_cycle()
    assert lake.told() == [("one", "rollback", "done")]
    assert not any(i.is_pending for i in table.timeline())


def _begin_write(lake: Lake, name: str) -> None:
    """A write that was begun, and nobody knows more."""
    with transaction(lake.open(name)._opened) as txn:
        txn.start(txn.request(Action.DELTACOMMIT))


def test_a_budget_of_bytes_ends_a_cycle_and_the_rest_comes_first_in_the_next() -> None:
    lake = Lake()
    for name in ("a", "b", "c"):
        lake.add(name, commits=3)
    runner = lake.runner(Orders(budget=Budget(bytes_max=1)))
    done = []
    for _ in range(3):
        runner.run_cycle()
        told = lake.told()
        assert len(told) == 1
        done += told
    assert sorted(done) == [(name, "compaction", "done") for name in ("a", "b", "c")]
    assert "lentic_deferred_total" in lake.metrics.text()


class SlowEngine(LocalEngine):
    """Each task takes ten seconds."""

    __slots__ = ("clock",)

    def run(self, work: object, tasks: object, stage: object = None) -> list[str]:
        self.clock.sleep(10)  # type: ignore[attr-defined]
        return super().run(work, tasks)  # type: ignore[arg-type]


def test_a_budget_of_minutes_ends_a_cycle() -> None:
    lake = Lake()
    slow = SlowEngine(threads=1)
    object.__setattr__(slow, "clock", lake.clock)
    for name in ("a", "b", "c"):
        lake.add(name, commits=3)
    lake.engine = slow
    runner = lake.runner(Orders(budget=Budget(seconds_max=15)))
    runner.run_cycle()
    assert len(lake.told()) == 2
    runner.run_cycle()
    assert len(lake.told()) == 1


def test_when_told_to_stop_nothing_new_begins() -> None:
    lake = Lake()
    for name in ("a", "b", "c"):
        lake.add(name, commits=3)
    runner = lake.runner()
    emit = lake.events.append

    def stop_after_one(event: object) -> None:
        emit(event)  # type: ignore[arg-type]
        lake.stop.is_asked = True

    object.__setattr__(runner._out, "emit", stop_after_one)
    runner.run(lambda: None)
    assert len(lake.told()) == 1


class StoppedEngine(LocalEngine):
    """The process is told to end while a task runs."""

    __slots__ = ("lake", "runner")

    def run(self, work: object, tasks: object, stage: object = None) -> list[str]:
        def then(attempt: Attempt, task: object) -> str:
            self.lake.stop.is_asked = self.lake.stop.is_urgent = True  # type: ignore[attr-defined]
            for ward in self.runner._wards.values():  # type: ignore[attr-defined]
                ward.engine.stop()
            return ""

        super().run(then, [1])
        return super().run(work, tasks)  # type: ignore[arg-type]


def test_work_that_is_stopped_leaves_the_plan_for_others_and_no_heartbeat() -> None:
    lake = Lake()
    table = lake.add("one", commits=3)
    engine = StoppedEngine(threads=1)
    lake.engine = engine
    runner = lake.runner()
    object.__setattr__(engine, "lake", lake)
    object.__setattr__(engine, "runner", runner)
    runner.run_cycle()
    (event,) = lake.events
    assert event.action == "compaction"
    assert event.result is Result.STOPPED
    assert event.instant == table.timeline()[-1].requested_at, "it is told of the plan it made"
    assert [i.action for i in table.timeline() if i.is_pending] == [Action.COMPACTION]
    assert lake.storages["one"].inner.list_files(layout.HEARTBEATS) == []
    lake.engine, lake.stop.is_asked, lake.stop.is_urgent = LocalEngine(threads=1), False, False
    lake.told()
    lake.runner().run_cycle()
    assert lake.told() == [("one", "compaction", "done")]
    assert table.verify() == []


def test_tables_come_and_go_with_their_folder() -> None:
    lake = Lake()
    lake.add("one", commits=3)
    runner = lake.runner(Orders(rescan_s=60))
    runner.run_cycle()
    lake.add("two", commits=3)
    lake.told()
    runner.run_cycle()
    assert lake.told() == []
    lake.clock.sleep(60)
    runner.run_cycle()
    assert lake.told() == [("two", "compaction", "done")]
    del lake.storages["one"]
    lake.clock.sleep(60)
    runner.run_cycle()
    assert 'table="one"' not in lake.metrics.text()
    assert "lentic_tables 1\n" in lake.metrics.text()


def test_a_table_that_was_made_anew_is_opened_anew() -> None:
    lake = Lake()
    lake.add("one", commits=3)
    opened: list[str] = []
    lake.on_open = opened.append
    runner = lake.runner()
    runner.run_cycle()
    lake.add("one", commits=3, table_type="COPY_ON_WRITE")
    runner._wards["one"].opened.storage.inner = lake.storages["one"].inner  # type: ignore[union-attr, attr-defined]
    lake.told()
    runner.run_cycle()
    assert opened == ["one", "one"]
    assert lake.told() == [], "what is copied on write needs no compaction"


@pytest.mark.parametrize("action", [Action.COMPACTION, Action.CLUSTERING])
def test_pending_plans_and_heartbeats_are_measured(action: Action) -> None:
    lake = Lake()
    lake.add("one")
    plan = Instant(requested(5), action, State.REQUESTED)
    put_instant(lake.storages["one"], plan)
    runner = lake.runner(Orders(services=frozenset({Service.CLEAN})))
    lake.beat("one", plan.requested_at, b"1")
    runner.run_cycle()
    lake.clock.sleep(3)
    runner.run_cycle()
    labels = f'{{table="one",action="{action}",instant="{plan.requested_at}"}}'
    text = lake.metrics.text()
    assert f"lentic_heartbeat_age_seconds{labels} 3\n" in text
    assert f"lentic_plan_age_seconds{labels} " in text
    assert f'hoodie_pending_{action}_instant_count{{table="one"}} 1\n' in text
    earliest = f'hoodie_earliest_inflight_{action}_instant{{table="one"}} {plan.requested_at}\n'
    assert earliest in text
