"""Real faults on a real cluster: executors are killed or frozen, tasks run twice, statuses vanish.

Whatever happens to attempts, the commit has every row once, names one file per file group, and no
data file stays on disk that no commit names (RFC "Robust spark writes", with S1 to S12 of its
review). `LENTIC_FAULTS=full` runs all of it, `make test` a handful.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lentic.errors import InstantCancelled, StorageError
from lentic.storage.local import LocalStorage
from tests.faults.actions import Done, Job, Moment, Rerun, read, run_job
from tests.faults.cluster import Cluster
from tests.faults.control import Caught, Control, Gate, Point
from tests.faults.processes import executor_of, list_executors, send
from tests.faults.waiting import until
from tests.faults.writes import (
    KINDS,
    Kind,
    Scene,
    ensure_counted,
    ensure_exact,
    ensure_tidy,
    find_unnamed,
    make_scene,
)
from tests.interop.compare import ensure_same_rows
from tests.rfc.claims import says

pytestmark = [pytest.mark.spark, pytest.mark.faults]

COW, MOR, BULK, INSERT = KINDS
FULL = os.environ.get("LENTIC_FAULTS") == "full"
BEFORE_THE_END = tuple(point for point in Point if point is not Point.END)

Count = Callable[[str], None]


def each(names: str, all_cases: list[Any], *handful: Any) -> pytest.MarkDecorator:
    """All cases, or the handful that every run of the tests can afford."""
    if not FULL and not handful:
        return pytest.mark.skip("only with `make faults`")
    cases = all_cases if FULL else list(handful)
    return pytest.mark.parametrize(names, cases, ids=lambda value: str(value).replace(" ", "-"))


class Play:
    """One harmed write, from the table to the checks."""

    def __init__(
        self, cluster: Cluster, path: Path, kind: Kind, *gates: Gate, speculation: bool = False
    ) -> None:
        # One driver does for a handful of faults: a second one would take longer than they do.
        self.driver = cluster.driver(speculation=speculation or not FULL)
        self.scene: Scene = make_scene(kind, path / "table")
        self.control = Control(str(path / "control"), gates)
        (path / "control").mkdir()
        self.rows = self.scene.next_rows()

    def begin(self, **more: Any) -> None:
        """Start the write."""
        job = Job(self.scene.path, self.scene.kind, self.rows, self.control, **more)
        self.driver.begin(run_job, job)

    def catch(self, gate: str) -> Caught:
        """Wait until an attempt stands at the gate."""

        def look() -> Caught | None:
            assert not self.driver.has_answered(), self.driver.finish()
            return self.control.caught(gate)

        return until(look, f"an attempt at the gate {gate!r}")

    def finish(self) -> Done:
        """Wait for the write; it must have been committed, with the right counts."""
        done: Done = self.driver.finish()
        assert done.commit is not None, done.error
        ensure_counted(self.scene, self.rows, done.commit)
        self.scene.written(self.rows)
        return done

    def check(self) -> None:
        """Everything must be right now, and stay so after the next write."""
        ensure_exact(self.scene, self.driver.call(read, self.scene.path))
        ensure_tidy(self.scene)

    def let_stray_go_on(self, stray: Caught, *opened: str) -> None:
        """Wake the Python worker alone: its executor is lost, and cannot tell it to end."""
        for gate in opened:
            self.control.open(gate)
        self.control.release("stray")
        send([stray.pid], signal.SIGCONT)


# --- (a) an attempt ends in the middle ----------------------------------------------------------


@says("robust.retries", "robust.cm.loss", "S12")
@each(
    "point, kind, passes",
    [(point, kind, 0) for point in Point for kind in KINDS]
    + [(point, kind, 2) for point in (Point.IN_DATA, Point.AFTER_COMPLETION) for kind in KINDS],
    (Point.IN_DATA, COW, 0),
)
def test_a_killed_executor_costs_nothing(
    point: Point, kind: Kind, passes: int, cluster: Cluster, tmp_path: Path, count_fault: Count
) -> None:
    play = Play(cluster, tmp_path, kind, Gate("victim", point, passes))
    play.begin()
    executor_of(play.catch("victim").pid).kill()
    play.finish()
    play.check()
    count_fault(f"executor killed {point}")


@says("robust.retries", "robust.cm.loss")
@each(
    "point, kind",
    [(p, k) for p in (Point.IN_DATA, Point.AFTER_DATA, Point.AFTER_COMPLETION) for k in KINDS],
)
def test_a_killed_python_worker_costs_nothing(
    point: Point, kind: Kind, cluster: Cluster, tmp_path: Path, count_fault: Count
) -> None:
    play = Play(cluster, tmp_path, kind, Gate("victim", point))
    play.begin()
    send([play.catch("victim").pid], signal.SIGKILL)
    play.finish()
    play.check()
    count_fault(f"Python worker killed {point}")


@says("robust.retries", "robust.cm.loss")
@each("point, kind", [(Point.AFTER_COMPLETION, kind) for kind in KINDS])
def test_all_executors_may_be_killed_at_once(
    point: Point, kind: Kind, cluster: Cluster, tmp_path: Path, count_fault: Count
) -> None:
    play = Play(cluster, tmp_path, kind, Gate("victim", point))
    play.begin()
    play.catch("victim")
    executors = list_executors(cluster.mark)
    assert len(executors) == 2
    for executor in executors:
        executor.kill()
    play.finish()
    play.check()
    count_fault(f"all executors killed, one {point}")


# --- (b) two attempts at once -------------------------------------------------------------------


@says("robust.cm.stray")
@each(
    "point, kind",
    [(point, kind) for point in (Point.BEFORE_DATA, Point.AFTER_DATA) for kind in KINDS],
    (Point.AFTER_DATA, MOR),
)
def test_the_copy_of_a_slow_task_may_win(
    point: Point, kind: Kind, cluster: Cluster, tmp_path: Path, count_fault: Count
) -> None:
    play = Play(cluster, tmp_path, kind, Gate("slow", point), speculation=True)
    play.begin()
    slow = play.catch("slow")
    play.finish()
    assert play.control.wait_for_end(slow) == "killed", "Spark ends the attempt that has lost"
    play.check()
    count_fault(f"slow attempt {point}: its copy wins, it is killed")


@says("robust.cm.stray")
@each("kind", list(KINDS))
def test_the_slow_task_may_win_over_its_copy(
    kind: Kind, cluster: Cluster, tmp_path: Path, count_fault: Count
) -> None:
    gates = Gate("slow", Point.START), Gate("copy", Point.IN_DATA, like="slow")
    play = Play(cluster, tmp_path, kind, *gates, speculation=True)
    play.begin()
    slow, copy = play.catch("slow"), play.catch("copy")
    play.control.release("slow")
    play.finish()
    assert play.control.wait_for_end(slow) is None
    assert play.control.wait_for_end(copy) == "killed"
    play.check()
    count_fault("copy in the data file: the slow attempt wins, the copy is killed")


@says("robust.cm.stray", "S1")
@each("kind", list(KINDS))
def test_an_attempt_and_its_copy_may_complete_at_the_same_time(
    kind: Kind, cluster: Cluster, tmp_path: Path, count_fault: Count
) -> None:
    point = Point.BEFORE_COMPLETION
    gates = Gate("slow", point), Gate("copy", point, like="slow")
    play = Play(cluster, tmp_path, kind, *gates, speculation=True)
    play.begin()
    attempts = play.catch("slow"), play.catch("copy")
    play.control.release("slow")
    play.control.release("copy")
    play.finish()
    ends = [play.control.wait_for_end(attempt) for attempt in attempts]
    assert None in ends, "one of them has served the write"
    play.check()
    count_fault("attempt and copy reach the completion marker together")


# --- (c) an attempt sleeps, and wakes up after the commit ---------------------------------------


@says("robust.case1", "robust.case1.after")
@each(
    "point, kind",
    [(point, kind) for point in BEFORE_THE_END for kind in KINDS],
    (Point.BEFORE_DATA, INSERT),
)
def test_an_attempt_that_wakes_up_after_the_commit_leaves_nothing(
    point: Point, kind: Kind, cluster: Cluster, tmp_path: Path, count_fault: Count
) -> None:
    play = Play(cluster, tmp_path, kind, Gate("stray", point))
    play.begin()
    stray = play.catch("stray")
    with executor_of(stray.pid).frozen():
        play.finish()
        ensure_exact(play.scene, None)
        play.let_stray_go_on(stray)
        error = play.control.wait_for_end(stray)
    # Who had its say before the commit, and has no other file group to write, just ends.
    had_its_say = point in (Point.BEFORE_COMPLETION, Point.AFTER_COMPLETION)
    assert error == "InstantCancelled" or (error is None and had_its_say)
    play.check()
    count_fault(f"executor stopped {point}, goes on after the commit")


FORGOTTEN = pytest.mark.xfail(
    raises=AssertionError,
    reason="the commit removes the begin markers of attempts that may still run, and with them the "
    "only word of a file that such an attempt creates after the commit, should it die then",
)


@says("robust.both", "S2")
@each(
    "point, kind",
    [(Point.BEFORE_MARKER, kind) for kind in KINDS]
    + [pytest.param(Point.BEFORE_DATA, kind, marks=FORGOTTEN) for kind in (COW, MOR)],
)
def test_what_a_late_attempt_leaves_when_it_is_killed_goes_with_the_next_write(
    point: Point, kind: Kind, cluster: Cluster, tmp_path: Path, count_fault: Count
) -> None:
    gates = Gate("stray", point), Gate("late", Point.AFTER_DATA, shut=True)
    play = Play(cluster, tmp_path, kind, *gates)
    play.begin()
    stray = play.catch("stray")
    with executor_of(stray.pid).frozen():
        play.finish()
        play.let_stray_go_on(stray, "late")
        assert play.control.wait_for("late") == stray
    left = find_unnamed(LocalStorage(play.scene.path))
    assert len(left) == 1, "the very file that must not stay"
    ensure_same_rows(play.scene.expected, play.scene.open().read(), ["id"], "expected", "alone")
    ensure_tidy(play.scene)
    count_fault(f"executor stopped {point}, goes on after the commit, killed after the data file")


@says("robust.case1.after")
@each("point, kind", [(p, k) for p in (Point.BEFORE_MARKER, Point.BEFORE_DATA) for k in KINDS])
def test_an_attempt_that_wakes_up_after_a_rollback_leaves_nothing_to_the_next_write(
    point: Point, kind: Kind, cluster: Cluster, tmp_path: Path, count_fault: Count
) -> None:
    gates = Gate("stray", point), Gate("others", Point.START, like="stray", breaks=True)
    play = Play(cluster, tmp_path, kind, *gates)
    play.begin(options={"hoodie.upsert.shuffle.parallelism": 6})
    stray = play.catch("stray")
    with executor_of(stray.pid).frozen():
        done = play.driver.finish()
        assert isinstance(done.error, StorageError), done
        ensure_exact(play.scene, play.driver.call(read, play.scene.path))
        play.let_stray_go_on(stray)
        assert play.control.wait_for_end(stray) != "killed"
    ensure_same_rows(play.scene.expected, play.scene.open().read(), ["id"], "expected", "alone")
    ensure_tidy(play.scene)
    count_fault(f"executor stopped {point}, goes on after the write was rolled back")


# --- (d) the statuses are lost, and Spark runs the write again ----------------------------------


@says("robust.case2", "robust.case2.same")
@each(
    "policy, moment, kind",
    [(p, m, k) for p in ("fail", "recover") for m in Moment for k in KINDS],
    ("fail", Moment.AFTER_FINALIZE, BULK),
    ("recover", Moment.AFTER_FINALIZE, INSERT),
)
def test_statuses_that_are_evaluated_again_are_the_same_or_refused(
    policy: str, moment: Moment, kind: Kind, cluster: Cluster, tmp_path: Path, count_fault: Count
) -> None:
    play = Play(cluster, tmp_path, kind)
    play.begin(options={"lentic.write.finalize.on_rerun": policy}, rerun=Rerun(moment))
    ensure_refused_or_same(play.finish(), policy, moment)
    play.check()
    count_fault(f"statuses dropped {moment}, {policy}")


@says("robust.case2")
@each(
    "policy, moment, kind",
    [(p, Moment.AFTER_FINALIZE, k) for p in ("fail", "recover") for k in KINDS]
    + [("fail", Moment.BEFORE_FINALIZE, BULK)],
)
def test_statuses_that_die_with_their_executors_are_the_same_or_refused(
    policy: str, moment: Moment, kind: Kind, cluster: Cluster, tmp_path: Path, count_fault: Count
) -> None:
    play = Play(cluster, tmp_path, kind)
    rerun = Rerun(moment, cluster.mark)
    play.begin(options={"lentic.write.finalize.on_rerun": policy}, rerun=rerun)
    ensure_refused_or_same(play.finish(), policy, moment)
    play.check()
    count_fault(f"statuses lost with all executors {moment}, {policy}")


def ensure_refused_or_same(done: Done, policy: str, moment: Moment) -> None:
    """The second evaluation never writes. Until the finalize marker it serves what attempts have
    completed. From then on, by policy, it fails or serves what was accepted; after the commit there
    is nothing to serve. The commit is made of the first evaluation, so it lands in any case."""
    assert done.first
    serves = moment is Moment.BEFORE_FINALIZE or (
        policy == "recover" and moment is Moment.AFTER_FINALIZE
    )
    if serves:
        assert done.again_error is None
        assert done.again == done.first
    else:
        assert isinstance(done.again_error, InstantCancelled), done.again_error


# --- the tests can fail -------------------------------------------------------------------------


@each("kind", [COW])
def test_without_the_finalize_marker_the_late_attempt_would_be_found_out(
    kind: Kind, cluster: Cluster, tmp_path: Path
) -> None:
    play = Play(cluster, tmp_path, kind, Gate("stray", Point.BEFORE_DATA))
    play.begin(blind=True)
    stray = play.catch("stray")
    with executor_of(stray.pid).frozen():
        play.finish()
        play.let_stray_go_on(stray)
        assert play.control.wait_for_end(stray) is None
    assert find_unnamed(LocalStorage(play.scene.path))
