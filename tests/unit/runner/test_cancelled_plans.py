"""Plans that were cancelled, in the care of a runner."""

from __future__ import annotations

from lentic.engine import LocalEngine
from lentic.runner.decide import Service
from lentic.runner.loop import Orders
from lentic.table import Table
from tests.unit.runner.lake import TTL_S, Lake


def _clusterable(lake: Lake) -> Table:
    return lake.add("one", commits=4, table_type="COPY_ON_WRITE", buckets=None)


def test_a_cancelled_plan_is_aborted_at_once_if_nobody_executes_it() -> None:
    lake = Lake()
    table = _clusterable(lake)
    at = table.schedule("clustering")
    assert at
    table.request_cancel(at)
    lake.runner().run_cycle()
    assert lake.told() == [("one", "abort", "aborted")]
    assert [i.requested_at for i in table.timeline() if i.is_aborted] == [at]
    assert 'lentic_plan_cancels_total{table="one"} 1\n' in lake.metrics.text()
    assert table.verify() == []


def test_a_cancelled_plan_is_left_to_its_executor_until_that_is_dead() -> None:
    lake = Lake()
    table = _clusterable(lake)
    at = table.schedule("clustering")
    assert at
    table.request_cancel(at)
    lake.beat("one", at, b"1")
    runner = lake.runner()
    runner.run_cycle()
    assert lake.told() == []
    lake.clock.sleep(TTL_S)
    runner.run_cycle()
    assert lake.told() == [("one", "abort", "aborted")]


def test_what_a_clean_cancels_because_it_waited_too_long_is_told() -> None:
    """Where others are to execute the plans: no plan of theirs ends without a line that says so."""
    lake = Lake(options={"hoodie.clean.commits.retained": 1})
    table = _clusterable(lake)
    at = table.schedule("clustering", cancel_after_instants=1)
    assert at
    lake.write(table, 100)
    only_clean = Orders(services=frozenset({Service.CLEAN}))
    lake.runner(only_clean).run_cycle()
    (event,) = lake.events
    assert (event.action, event.result, event.work.instants) == ("clean", "done", 1)
    assert event.note == f"aborted {at}"
    assert [i.requested_at for i in table.timeline() if i.is_aborted] == [at]


def test_a_clustering_that_was_cancelled_rests_before_the_next_one() -> None:
    """Else ingestion and clustering would cancel and plan each other in turn, pass by pass."""
    lake = Lake()
    table = _clusterable(lake)
    at = table.schedule("clustering")
    assert at
    engine = CancellingEngine(threads=1)
    object.__setattr__(engine, "cancel", lambda: table.request_cancel(at))
    lake.engine = engine
    runner = lake.runner(Orders(services=frozenset({Service.CLUSTERING})))
    runner.run_cycle()
    assert lake.told() == [("one", "clustering", "aborted")]
    assert 'lentic_backoff_seconds{table="one",action="clustering"}' in lake.metrics.text()
    assert runner.run_cycle() == 0
    assert lake.told() == []


class CancellingEngine(LocalEngine):
    """Somebody cancels the plan while it is executed."""

    __slots__ = ("cancel",)

    def run(self, work: object, tasks: object, stage: object = None) -> list[str]:
        self.cancel()  # type: ignore[attr-defined]
        return super().run(work, tasks)  # type: ignore[arg-type]
