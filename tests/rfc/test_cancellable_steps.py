"""Cancellable clustering: `request_cancel` and `execute_abort`, step by step, and what the folder
of requests and the state aborted mean.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lentic.engine import LocalEngine
from lentic.errors import InstantCancelled, PlanBusy, PlanCompleted, Refused
from lentic.format import layout
from lentic.format.names import Action, State
from lentic.format.times import RequestedAt
from lentic.services.abort import execute_abort
from lentic.services.outcome import Aborted, Committed
from lentic.timeline.cancel_requests import list_cancelled
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_clustering_plan, load_timeline
from tests.rfc.cancel_scenes import (
    WHY,
    abort,
    cancel,
    cancelled,
    ensure_aborted,
    ensure_consistent,
    planned,
    user,
    write,
)
from tests.rfc.claims import says
from tests.rfc.guard_scenes import (
    COMPACTION,
    ROWS,
    STAYING,
    TTL_S,
    Gate,
    Stage,
    after_its_files,
    attempt,
    die_at,
    execute,
    keep_beating,
    stage,
)
from tests.rfc.guard_scenes import planned as other_plan
from tests.rfc.lock_watch import LockWatch

ENGINE = LocalEngine(threads=1)


def begun() -> Stage:
    """Somebody began to execute the plan, and is gone for good."""
    scene = stage(planned())
    die_at(scene, after_its_files)
    scene.sleep(2 * TTL_S)
    return scene


def watched(scene: Stage, name: str) -> tuple[LockWatch, object]:
    watch = LockWatch(scene)
    table = scene.table(name, watch)
    watch.seen.clear()
    return watch, table


# --- request_cancel -----------------------------------------------------------------------------


@says("cancel.request.1", "cancel.request.5", "cancel.folder")
def test_steps_1_5_6_a_request_is_one_file_made_under_the_lock() -> None:
    scene = stage(planned())
    watch, table = watched(scene, "c")
    cancel(scene, table)  # type: ignore[arg-type]
    path = f".hoodie/.cancel/{scene.plan.requested_at}"
    assert watch.changes() == [(path, True)]
    assert json.loads(scene.memory.read(path)) == {"by": "sim-c:1", "why": WHY}
    assert scene.lock_is_free()


@says("cancel.request.2", "cancel.request.3", "cancel.exec.committed")
def test_steps_2_3_a_plan_that_committed_while_the_caller_waited_is_an_error() -> None:
    scene = stage(planned())
    listed = lambda op, path: op == "list_files" and path == layout.TIMELINE  # noqa: E731
    gate = Gate(scene.memory, listed, lambda: None)
    table = scene.table("c", gate)
    load_timeline(gate)  # what the caller knows is stale from here on
    execute(scene.table("x"), scene.plan)
    with pytest.raises(PlanCompleted) as raised:
        cancel(scene, table)
    assert raised.value.safe and raised.value.next_step
    assert not cancelled(scene)
    ensure_consistent(scene)


@says("cancel.request.4", "cancel.abort.note")
def test_step_4_an_aborted_plan_is_no_error_and_gets_no_request() -> None:
    scene = begun()
    cancel(scene)
    abort(scene)
    cancel(scene)
    assert not cancelled(scene)
    ensure_aborted(scene)


@says("cancel.request.many", "cancel.request.5")
@pytest.mark.parametrize("seed", range(5))
def test_of_several_requests_at_once_all_succeed_and_the_first_stays(seed: int) -> None:
    scene = stage(planned(), seed)
    for name in ("a", "b", "c"):
        table = scene.table(name, scene.sim.storage())
        scene.sim.actor(name, lambda table=table: cancel(scene, table))
    ends = scene.sim.run()
    assert {getattr(end, "value", end) for end in ends.values()} == {None}
    path = layout.cancel_request(scene.plan.requested_at)
    content = scene.memory.read(path)
    cancel(scene)
    assert scene.memory.read(path) == content
    made = [line for line in scene.sim.trace if path in line and " put_if_absent  True" in line]
    assert len(made) == 1


@says("cancel.request.promise", "cancel.folder.commit", "cancel.flag.abort", "R3")
def test_what_was_cancelled_is_never_committed_whoever_executes_it() -> None:
    scene = stage(planned())
    cancel(scene)
    for name in ("x", "y"):
        assert isinstance(execute(scene.table(name), scene.plan), Aborted)
    ensure_aborted(scene)


@says("cancel.goal.b", "cancel.goal.b.nowait", "cancel.exec.alive", "cancel.request.race")
@says("cancel.exec.precommit", "cancel.exec.heartbeat")
def test_a_plan_is_cancelled_while_somebody_executes_it_and_nobody_waits() -> None:
    scene = stage(planned())

    def meanwhile() -> None:
        before_ms = scene.sim.now_ms
        cancel(scene)
        assert scene.sim.now_ms - before_ms < 1000, "nobody was waited for"
        other = scene.table("a")
        keep_beating(scene, other)
        with pytest.raises(PlanBusy):
            abort(scene, other)
        assert cancelled(scene)
        now = scene.now()
        assert now is not None and now.state is State.INFLIGHT

    gate = Gate(scene.memory, after_its_files, meanwhile)
    assert isinstance(execute(scene.table("x", gate), scene.plan), Aborted)
    assert gate.is_passed
    ensure_aborted(scene)


@says("cancel.goal.b")
def test_a_plan_may_be_cancelled_at_any_call_of_its_execution_until_it_has_committed() -> None:
    ends: set[str] = set()
    for number in range(1, 60):
        scene = stage(planned())
        told: list[object] = []

        def meanwhile(scene: Stage = scene, told: list[object] = told) -> None:
            told.append(attempt(lambda: cancel(scene)))

        calls = iter(range(1, 10**9))
        gate = Gate(
            scene.memory,
            lambda op, path, calls=calls, n=number, s=scene: next(calls) == n and s.lock_is_free(),
            meanwhile,
        )
        result = attempt(lambda s=scene, g=gate: execute(s.table("x", g), s.plan))
        if told == [None]:
            assert isinstance(result, Aborted), (number, result)
            ensure_aborted(scene)
        elif told:
            assert isinstance(told[0], PlanCompleted) and isinstance(result, Committed)
        ends.add(type(result).__name__)
    assert ends == {"Aborted", "Committed"}


@says("cancel.rollout.clustering")
@pytest.mark.parametrize("kind", [COMPACTION, STAYING])
def test_only_a_clustering_can_be_cancelled(kind: str) -> None:
    scene = stage(other_plan(kind))
    with pytest.raises(Refused, match="only clustering plans"):
        cancel(scene)
    scene.memory.put_if_absent(layout.cancel_request(scene.plan.requested_at), b"")
    assert isinstance(execute(scene.table("x"), scene.plan), Committed)


# --- execute_abort ------------------------------------------------------------------------------


@says("cancel.abort.cancelled")
def test_only_what_was_cancelled_is_aborted() -> None:
    scene = begun()
    left = scene.files()
    with pytest.raises(Refused, match="was not cancelled"):
        abort(scene)
    assert scene.files() == left
    assert isinstance(execute(scene.table("x"), scene.plan), Committed)


@says("cancel.abort.1", "cancel.abort.5", "cancel.abort.7", "cancel.abort.8", "cancel.abort.9")
@says("cancel.abort.10", "cancel.aborted.clean")
def test_steps_1_to_11_in_their_order_and_under_the_lock_where_the_design_says_so() -> None:
    scene = begun()
    left, at = scene.files(), scene.plan.requested_at
    plan = load_clustering_plan(scene.memory, scene.plan)
    cancel(scene)
    watch, table = watched(scene, "a")
    abort(scene, table)  # type: ignore[arg-type]
    changes = watch.changes()
    held = dict(changes)
    place = {path: number for number, (path, _) in reversed(list(enumerate(changes)))}
    entry, aborted = layout.cancel_request(at), layout.timeline_file(f"{at}.clustering.aborted")
    assert held[aborted] and held[entry], "steps 8 to 11"
    files = [path for path, _ in changes if path in left]
    assert set(files) == left and not any(held[path] for path in files), "steps 5 to 7"
    requested = layout.timeline_file(f"{at}.clustering.requested")
    inflight = layout.timeline_file(f"{at}.clustering.inflight")
    order = [max(place[f] for f in files), place[aborted], place[inflight], place[requested]]
    assert [*order, place[entry]] == sorted([*order, place[entry]])
    now = scene.now()
    assert now is not None
    told = replace(plan.cancellation, by="sim-canceller:1", why="for the test")
    kept = replace(plan, cancellation=told)
    assert load_clustering_plan(scene.memory, now) == kept, "the plan, and who cancelled it"
    ensure_aborted(scene)


@says("cancel.abort.3")
def test_step_3_an_entry_that_is_left_for_an_aborted_plan_goes() -> None:
    scene = begun()
    cancel(scene)
    first = abort(scene)
    scene.memory.put_if_absent(layout.cancel_request(scene.plan.requested_at), b"late")
    assert abort(scene) == first
    ensure_aborted(scene)


@says("cancel.abort.4", "cancel.exec.alive")
def test_steps_4_6_while_somebody_is_at_it_nothing_is_touched() -> None:
    scene = begun()
    cancel(scene)
    table = scene.table("a")
    keep_beating(scene, table)
    scene.memory.replace(layout.heartbeat(scene.plan.requested_at), b"alive")
    there = {file.path for file in scene.memory.walk("")}
    with pytest.raises(PlanBusy):
        abort(scene, table)
    assert {file.path for file in scene.memory.walk("")} == there
    now = scene.now()
    assert now is not None and now.state is State.INFLIGHT


@says("cancel.abort.1", "cancel.abort.4")
def test_steps_1_to_4_a_heartbeat_that_began_while_the_caller_waited_is_seen() -> None:
    scene = begun()
    cancel(scene)

    def somebody_begins() -> None:
        scene.memory.replace(layout.heartbeat(scene.plan.requested_at), b"just now")

    # Between the caller's first look at the heartbeat and its transaction.
    gate = Gate(scene.memory, lambda op, path: path == layout.TIMELINE, somebody_begins)
    with pytest.raises(PlanBusy):
        abort(scene, scene.table("a", gate))
    assert gate.is_passed and scene.files()


@says("cancel.clean.now", "cancel.anyone", "cancel.utility", "cancel.utility.sure")
def test_an_operator_ends_a_plan_at_once_and_for_good() -> None:
    scene = stage(planned())
    table = user(scene, "operator")
    at = scene.plan.requested_at
    table.request_cancel(at, why=WHY)
    assert table.execute_abort(at).instant.is_aborted
    ensure_aborted(scene)
    assert isinstance(table.execute(at), Aborted)
    assert isinstance(execute(scene.table("x"), scene.plan), Aborted)
    assert scene.files() == set() and scene.rows() == ROWS


# --- the folder, and the state ------------------------------------------------------------------


@says("cancel.folder.forever", "cancel.aborted.must")
def test_a_request_cannot_be_taken_back_but_by_the_end_of_the_plan() -> None:
    scene = begun()
    cancel(scene)
    table = user(scene, "operator")
    with pytest.raises(InstantCancelled):
        table.rollback(scene.plan.requested_at)
    write(scene)
    assert cancelled(scene)
    table.clean(wait=True)
    now = scene.now()
    assert now is not None and now.is_aborted and not cancelled(scene)


@says("cancel.aborted.terminal", "cancel.format.state")
def test_nothing_comes_after_aborted() -> None:
    for state in State:
        for follows in State:
            is_legal = (state, follows) in {
                (State.REQUESTED, State.INFLIGHT),
                (State.REQUESTED, State.ABORTED),
                (State.INFLIGHT, State.ABORTED),
            }
            if State.COMPLETED in (state, follows):
                continue  # has a completion time, and is told elsewhere
            instant = Instant(RequestedAt("20260101000000000"), Action.CLUSTERING, state)
            if is_legal:
                assert instant.at(follows).state is follows
            else:
                with pytest.raises(AssertionError):
                    instant.at(follows)


@says("cancel.rollout.folder", "cancel.format.folder")
def test_only_names_of_times_count_in_the_folder_and_no_other_file_is_taken_for_data() -> None:
    scene = stage(planned())
    cancel(scene)
    for name in ("README", "20240101000000000.tmp", ".DS_Store"):
        scene.memory.put_if_absent(f"{layout.CANCEL}/{name}", b"")
    assert list_cancelled(scene.memory) == {scene.plan.requested_at}
    ensure_consistent(scene)
    assert [part for part in user(scene).file_slices() if "cancel" in part.group.partition] == []


@says("cancel.exec.short", "cancel.cleanup")
def test_whoever_comes_to_execute_what_was_cancelled_does_not_begin() -> None:
    scene = stage(planned())
    cancel(scene)
    watch, table = watched(scene, "x")
    assert isinstance(execute(table, scene.plan), Aborted)  # type: ignore[arg-type]
    assert not [path for path, _ in watch.changes() if path.endswith(".parquet")]
    started = layout.timeline_file(f"{scene.plan.requested_at}.clustering.inflight")
    created = [path for op, path, _ in watch.seen if op == "put_if_absent"]
    assert started not in created
    ensure_aborted(scene)


@says("cancel.cost.cluster")
def test_an_execution_holds_the_lock_once_or_twice_more_only_if_it_was_cancelled() -> None:
    def turns(is_cancelled: bool) -> int:
        scene = stage(planned())
        if is_cancelled:
            cancel(scene)
        before = scene.plain.epoch
        execute(scene.table("x"), scene.plan)
        return scene.plain.epoch - before

    assert turns(False) == 2, "to begin and to commit, as any other plan"
    assert turns(True) <= 4


@says("cancel.abort.4")
def test_without_waiting_a_heartbeat_that_was_not_watched_counts_as_living() -> None:
    scene = begun()
    cancel(scene)
    table = scene.table("a")
    with pytest.raises(PlanBusy):
        execute_abort(table, ENGINE, scene.plan.requested_at, waits=False)
    scene.sleep(2 * TTL_S)
    assert execute_abort(table, ENGINE, scene.plan.requested_at, waits=False).instant.is_aborted
