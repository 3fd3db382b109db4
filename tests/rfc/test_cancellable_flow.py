"""Cancellable clustering: writes that go first, executions that stop, archiving, what plans say.

What a clean does is in `test_cancellable_clean.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from lentic.engine import LocalEngine
from lentic.errors import WriteConflict
from lentic.format import layout
from lentic.format.cancellable import Cancellation
from lentic.format.clustering_plan import decode_clustering_plan, encode_clustering_plan
from lentic.format.names import Action, State
from lentic.services.clustering import execute_clustering, schedule_clustering
from lentic.services.outcome import Aborted, Committed
from lentic.services.verify import verify_table
from lentic.table import Table
from lentic.testing.checkers import check_table
from lentic.testing.tables import open_on
from lentic.timeline.cancel_requests import list_cancelled, load_cancel_request
from lentic.timeline.reader import load_clustering_plan, load_timeline
from lentic.write import commit
from tests.rfc.cancel_scenes import (
    COW,
    MOR,
    abort,
    after,
    cancel,
    cancelled,
    ensure_aborted,
    ensure_consistent,
    planned,
    user,
    write,
)
from tests.rfc.claims import says
from tests.rfc.guard_scenes import ROWS, after_its_files, die_at, execute, stage
from tests.rfc.lock_watch import LockWatch
from tests.simulation.cases import MATRIX, Case, Shape, read, scene
from tests.simulation.crowd import BASE, batch

BOTH = pytest.mark.parametrize("table_type", [COW, MOR])
SMALL = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}


# --- a write comes first ------------------------------------------------------------------------


@says("cancel.rollout.ingest", "cancel.goal.a", "cancel.goal.a.work", "cancel.precedence")
@pytest.mark.parametrize(("case", "shape"), MATRIX, ids=lambda value: value.name)
def test_every_write_on_every_table_commits_and_what_is_in_its_way_is_cancelled(
    case: Case, shape: Shape
) -> None:
    sim, lock = scene(shape).stage()
    table = open_on(sim.memory, sim.world("x"), lock)
    at = schedule_clustering(table._opened, sort_by=("v",))
    assert at is not None
    groups = load_clustering_plan(sim.memory, load_timeline(sim.memory).pending()[0]).file_groups()
    slices = {(s.group.partition, s.group.file_id): s for s in table.file_slices()}
    case.act(table)
    now = {(s.group.partition, s.group.file_id): s for s in table.file_slices()}
    if shape.buckets is None:
        is_hit = any(now.get(group) != slices[group] for group in groups)
    else:  # logs that come later lie on what the clustering makes
        is_hit = any(now[group].base != slices[group].base for group in groups)
    assert (at in list_cancelled(sim.memory)) == is_hit
    assert read(sim.memory, sim.world("r"), lock) == case.after
    result = execute_clustering(table._opened, LocalEngine(threads=1), at)
    assert isinstance(result, Aborted if is_hit else Committed)
    assert read(sim.memory, sim.world("r"), lock) == case.after
    assert check_table(sim.memory) == [] and verify_table(sim.memory) == []


@says(
    "cancel.goal.a", "cancel.folder.txn", "cancel.ingest.1", "cancel.ingest.3", "cancel.cost.ingest"
)
@says("cancel.ingest.noabort")
@BOTH
def test_the_request_and_the_commit_are_one_transaction_and_cost_little(table_type: str) -> None:
    scene = stage(planned(table_type))
    watch = LockWatch(scene)
    writer = user(scene, "writer", watch)
    watch.seen.clear()
    done = writer.upsert(batch(BASE, 7))
    entry = layout.cancel_request(scene.plan.requested_at)
    places = [number for number, (_, path, _) in enumerate(watch.seen) if path == entry]
    commit = next(
        n
        for n, (op, path, _) in enumerate(watch.seen)
        if op == "put_if_absent" and f"/{done.requested_at}_" in path
    )
    requested = next(n for n, (_, path, _) in enumerate(watch.seen) if path.endswith(".requested"))
    assert requested < places[0] <= places[-1] < commit
    assert all(held for _, _, held in watch.seen[places[0] : commit + 1]), "in one transaction"
    plans = [
        path
        for _, path, held in watch.seen[:commit]
        if held and f"{scene.plan.requested_at}." in path
    ]
    assert len(places) + len(plans) <= 3
    now = scene.now()
    assert now is not None and now.is_pending, "to abort it is left to others"


@says("cancel.goal.a.ignore", "cancel.folder.ignore", "cancel.goal.b.all")
@BOTH
def test_a_plan_that_was_cancelled_already_is_passed_over(table_type: str) -> None:
    scene = stage(planned(table_type))
    die_at(scene, after_its_files)
    cancel(scene)
    path = layout.cancel_request(scene.plan.requested_at)
    content = scene.memory.read(path)
    for number in (7, 8):
        write(scene, number)
    assert scene.memory.read(path) == content
    ensure_consistent(scene, after(7, 8))


@says("cancel.starve", "cancel.rollout.both", "cancel.background.stays", "cancel.clean.others")
@BOTH
def test_a_plan_without_the_flag_is_never_cancelled_and_keeps_its_file_groups(
    table_type: str,
) -> None:
    scene = stage(planned(table_type, cancellable=False))
    die_at(scene, after_its_files)
    with pytest.raises(WriteConflict, match="may not be cancelled"):
        write(scene)
    scene.sleep(1_000 * 3600)
    user(scene, "cleaner").clean(wait=True)
    now = scene.now()
    assert now is not None and now.state is State.INFLIGHT and not cancelled(scene)
    assert isinstance(execute(scene.table("x"), scene.plan), Committed)
    write(scene)
    ensure_consistent(scene, after(7))


@says("cancel.rollout.both")
def test_plans_of_both_kinds_stand_on_one_table() -> None:
    sim, lock = scene(MATRIX[0][1]).stage()
    table = open_on(sim.memory, sim.world("x"), lock)
    firm = table.schedule("clustering", sort_by="v", partitions=["p0"], cancellable=False)
    loose = table.schedule("clustering", sort_by="v", partitions=["p1"])
    assert firm and loose and firm != loose
    table.delete_partitions(["p1"])
    with pytest.raises(WriteConflict):
        table.delete_partitions(["p0"])
    assert isinstance(table.execute(firm), Committed)
    assert isinstance(table.execute(loose), Aborted)
    assert verify_table(sim.memory) == []


@says("cancel.exec.detect")
@pytest.mark.parametrize("cancellable", [True, False])
def test_a_write_of_another_engine_that_requested_nothing_ends_the_plan_all_the_same(
    cancellable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage(planned(cancellable=cancellable))
    with monkeypatch.context() as patch:
        patch.setattr(commit, "cancel_conflicting", lambda *of: None)
        write(scene)
    assert not cancelled(scene)
    if cancellable:
        assert isinstance(execute(scene.table("x"), scene.plan), Aborted)
        ensure_aborted(scene, after(7))
        return
    with pytest.raises(WriteConflict, match="cannot succeed any more and was rolled back"):
        execute(scene.table("x"), scene.plan)
    assert scene.now() is None
    ensure_consistent(scene, after(7))


# --- an execution stops -------------------------------------------------------------------------


class Bell:
    """Background work that is done when a test rings."""

    def __init__(self) -> None:
        self.works: list[Callable[[], object]] = []

    @contextmanager
    def every(self, seconds: float, work: Callable[[], object]) -> Iterator[None]:
        self.works.append(work)
        try:
            yield
        finally:
            self.works.remove(work)

    def ring(self) -> None:
        for work in list(self.works):
            work()


@says("cancel.flag.poll", "cancel.exec.precommit")
def test_a_running_execution_that_is_cancelled_stops_before_its_next_task() -> None:
    scene = stage(planned())
    bell = Bell()
    opened = scene.table("x")
    opened = replace(opened, world=replace(opened.world, background=bell))  # type: ignore[arg-type]
    begun: list[int] = []

    class Counting(LocalEngine):
        __slots__ = ()

        def run(self, work: Any, tasks: Any, stage: Any = None) -> list[str]:
            def counted(attempt: Any, task: Any) -> str:
                begun.append(attempt.task)
                done = work(attempt, task)
                cancel(scene)
                bell.ring()
                return str(done)

            return super().run(counted, list(tasks) * 3)

    result = execute_clustering(opened, Counting(threads=1), scene.plan.requested_at)
    assert isinstance(result, Aborted)
    assert len(begun) == 1, "the others were not begun"
    ensure_aborted(scene)


@says("cancel.exec.heartbeat")
def test_an_execution_gives_signs_of_life_from_beginning_to_end() -> None:
    scene = stage(planned())
    watch = LockWatch(scene)
    table = scene.table("x", watch)
    watch.seen.clear()
    execute(table, scene.plan)
    path = layout.heartbeat(scene.plan.requested_at)
    places = [n for n, (p, _) in enumerate(watch.changes()) if p == path]
    data = [n for n, (p, _) in enumerate(watch.changes()) if p.endswith(".parquet")]
    commit = next(n for n, (p, _) in enumerate(watch.changes()) if ".replacecommit" in p)
    assert places[0] < min(data) and places[-1] > max(max(data), commit)


# --- what plans say, and who reads them ---------------------------------------------------------


@says("cancel.flag", "cancel.flag.infer", "cancel.policy.plan")
@pytest.mark.parametrize("cancellable", [False, True])
def test_a_plan_says_itself_whether_it_may_be_cancelled(cancellable: bool) -> None:
    scene = stage(planned(cancellable=cancellable, hours=3 if cancellable else None))
    said = load_clustering_plan(scene.memory, scene.plan).cancellation
    assert (said.cancellable, said.after_hours) == (cancellable, 3 if cancellable else None)
    others = {"lentic.clustering.cancellable": not cancellable}
    writer = user(scene, "writer", options=others)
    if cancellable:
        writer.upsert(batch(BASE, 7))
        assert cancelled(scene)
    else:
        with pytest.raises(WriteConflict):
            writer.upsert(batch(BASE, 7))


@says("cancel.format.plan")
def test_flag_and_policy_are_optional_and_other_values_of_a_plan_stay() -> None:
    scene = stage(planned())
    plan = load_clustering_plan(scene.memory, scene.plan)
    bare = replace(plan, cancellation=Cancellation(), extra={"of": "another"})
    again = decode_clustering_plan(encode_clustering_plan(bare, "memory://t"), "memory://t", "")
    assert not again.cancellation.cancellable
    assert again.cancellation.after_hours is None and again.cancellation.after_instants is None
    assert again.extra == {"of": "another"} and again.file_groups() == plan.file_groups()


@says("cancel.rollout.readers", "cancel.rollout.tools", "cancel.goal.b.all")
def test_readers_and_tools_tell_an_aborted_plan_from_a_commit_and_from_a_pending_one() -> None:
    scene = stage(planned())
    die_at(scene, after_its_files)
    cancel(scene)
    user(scene, "cleaner").clean(wait=True)
    table, at = user(scene), scene.plan.requested_at
    timeline = load_timeline(scene.memory)
    (aborted,) = timeline.aborted(Action.CLUSTERING)
    assert aborted.requested_at == at
    assert aborted not in timeline.completed() and aborted not in timeline.pending()
    assert aborted not in timeline.writes() and aborted.completed_at is None
    assert at not in {plan.requested_at for plan in table.plans()}
    assert (at, "aborted") in [(i.requested_at, i.state.value) for i in table.timeline()]
    assert scene.rows() == ROWS and table.changes(after="000").num_rows == len(ROWS)


@says(
    "cancel.archive", "cancel.rollout.archive", "cancel.aborted.archive", "cancel.abstract.blocks"
)
@says("cancel.abstract.proceed")
def test_archiving_stops_at_a_cancelled_plan_and_removes_an_aborted_one() -> None:
    scene = stage(planned())
    table = user(scene, "archiver", options=SMALL)

    def go_on(first: int) -> list[str]:
        for number in range(first, first + 6):
            table.upsert(batch(BASE, number))
        table.clean()
        return [str(i.requested_at) for i in table.archive()]

    off = user(scene, "other", options=SMALL | {"lentic.clean.cancels": False})
    for number in range(10, 16):
        off.upsert(batch(BASE, number))
    assert cancelled(scene)
    assert all(str(i.requested_at) < scene.plan.requested_at for i in off.archive())
    now = scene.now()
    assert now is not None and now.is_pending
    abort(scene)
    assert table.cluster(sort_by="ts") is not None
    assert scene.plan.requested_at in go_on(20)
    assert scene.now() is None
    names = [file.name for file in scene.memory.list_files(layout.TIMELINE)]
    assert not [name for name in names if name.startswith(scene.plan.requested_at)]
    ensure_consistent(scene, after(*range(10, 16), *range(20, 26)))


@says("cancel.rollout.execute", "cancel.cleanup")
def test_what_a_dead_execution_left_goes_with_the_next_that_is_tried() -> None:
    scene = stage(planned())
    die_at(scene, after_its_files)
    write(scene)
    request = load_cancel_request(scene.memory, scene.plan.requested_at)
    assert request is not None and request.by == "sim-writer:1"
    table = Table(scene.table("x"), LocalEngine(threads=1))
    assert isinstance(table.execute(scene.plan.requested_at), Aborted)
    ensure_aborted(scene, after(7))
