"""The scenarios of RFC-79's test plan once each with processes that are frozen and killed.

`tests/rfc/test_rfc79_scenarios.py` plays them over thousands of simulated schedules.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

import lentic
from lentic.format.names import Action
from lentic.services.compaction import schedule_compaction
from lentic.services.log_compaction import schedule_log_compaction
from lentic.table import Table
from lentic.timeline.instant import Instant
from tests.faults.waiting import until
from tests.rfc.claims import says
from tests.writers.executor import CLEAN, Task

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs the signals of Linux")

ROOT = Path(__file__).resolve().parents[2]
DONE, LATE, BEGUN = "Committed", "AlreadyCommitted", "PlanMustBeRolledBack"
REFUSED = {"PlanBusy", "InstantCancelled", "WriteConflict", "HeartbeatLost", "Conflict"}
"""What an execution may be told by which another came first."""
OPTIONS = {
    "hoodie.client.heartbeat.interval_in_ms": "500",
    "hoodie.client.heartbeat.tolerable.misses": "6",
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.log.compaction.blocks.threshold": "2",
}
OLD = {"lentic.services.rollback_delay_minutes": "0"}
SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64())])
ROWS = {"a": 3, "b-1": 1, "b-2": 2, "b-3": 3}


@dataclass
class Player:
    """A process at work on the plan."""

    task: Task
    process: subprocess.Popen[bytes]

    def wait_at_gate(self) -> None:
        until(lambda: self.task.file("at-gate").exists(), f"{self.task.name} to stand at the gate")

    def let_go(self) -> None:
        self.task.file("go").touch()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def told(self) -> str:
        """What it was told in the end."""
        self.process.wait(120)
        file = self.task.file("told")
        assert file.exists(), self.task.file("log").read_text()
        return file.read_text()


@dataclass
class Theatre:
    """A table with one plan, and the processes that work on it."""

    folder: Path
    table: Table
    plan: Instant
    players: list[Player] = field(default_factory=list)

    def start(self, name: str, *, gate: bool = False, cleans: bool = False, **more: str) -> Player:
        task = Task(
            name=name,
            table=self.table.path,
            folder=str(self.folder),
            action=CLEAN if cleans else str(self.plan.action),
            at=str(self.plan.requested_at),
            options=OPTIONS | more,
            has_gate=gate,
        )
        paths = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
        with task.file("log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.writers.executor", task.to_json()],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": paths},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        player = Player(task, process)
        self.players.append(player)
        return player

    def leave_inflight(self) -> set[str]:
        """Somebody begins to execute the plan and is killed; the files that are left of it."""
        dead = self.start("dead", gate=True)
        dead.wait_at_gate()
        dead.kill()
        left = self.files()
        assert left
        return left

    def now(self) -> Instant | None:
        found = (i for i in self.table.timeline() if i.identity == self.plan.identity)
        return next(found, None)

    def is_done(self) -> bool:
        now = self.now()
        return now is not None and now.is_completed

    def was_rolled_back(self) -> bool:
        return any(instant.action is Action.ROLLBACK for instant in self.table.timeline())

    def files(self) -> set[str]:
        """The data files that executions of the plan left."""
        root = Path(self.table.path)
        found = (path for path in root.rglob("*") if str(self.plan.requested_at) in path.name)
        return {path.name for path in found if ".hoodie" not in path.parts}

    def ensure_sound(self) -> None:
        rows = self.table.read().to_pylist()
        assert {row["id"]: row["ts"] for row in rows} == ROWS
        assert len(rows) == len(ROWS)
        assert self.table.verify() == []
        if self.is_done():
            assert len(self.files()) == 1, "files of executions that came to nothing"


@contextmanager
def theatre(folder: Path, kind: str) -> Iterator[Theatre]:
    table = lentic.create(
        str(folder / "table"), SCHEMA, key="id", ordering="ts", buckets=1, options=OPTIONS
    )
    for ts in (1, 2, 3):
        table.upsert(pa.table([["a", f"b-{ts}"], [ts, ts]], schema=SCHEMA))
    opened = table._opened
    if kind == "compaction":
        assert schedule_compaction(opened)
    else:
        assert schedule_log_compaction(opened, removable=kind == "removable")
    (plan,) = (instant for instant in table.timeline() if instant.is_pending)
    tellings = folder / "tellings"
    tellings.mkdir()
    stage = Theatre(tellings, table, plan)
    try:
        yield stage
    finally:
        for player in stage.players:
            player.kill()


# --- "Compaction and table service plans that are not removable-plan" ----------------------------


@says("rfc79.abstract.platform", "rfc79.stays.a", "rfc79.goes.a")
@pytest.mark.parametrize("kind", ["compaction", "removable"])
def test_scenario_a_of_three_that_execute_a_new_plan_one_completes_it(
    tmp_path: Path, kind: str
) -> None:
    """Tables 1 and 2, A: of three at once, one completes the plan; the others are told that it is
    busy or done."""
    with theatre(tmp_path, kind) as stage:
        told = sorted(player.told() for player in [stage.start(name) for name in "xyz"])
        assert told.count(DONE) == 1, told
        assert set(told) <= {DONE, LATE, *REFUSED}, told
        assert stage.is_done()
        stage.ensure_sound()


@says("rfc79.stays.b", "G1")
def test_a_plan_that_stays_scenario_b_a_frozen_executor_is_overtaken_and_quits(
    tmp_path: Path,
) -> None:
    """Table 1, B: X is frozen in the middle; Y waits until X counts as dead, undoes what X made and
    completes the plan. X wakes, and completes nothing."""
    with theatre(tmp_path, "compaction") as stage:
        x = stage.start("x", gate=True)
        x.wait_at_gate()
        x.send(signal.SIGSTOP)
        theirs = stage.files()
        assert theirs
        assert stage.start("y").told() == DONE
        assert not theirs & stage.files(), "what x made is gone"
        x.let_go()
        x.send(signal.SIGCONT)
        assert x.told() in {LATE, *REFUSED}
        stage.ensure_sound()


@says("rfc79.stays.c")
def test_a_plan_that_stays_scenario_c_what_a_killed_executor_left_is_undone(
    tmp_path: Path,
) -> None:
    """Table 1, C: somebody was killed in the middle; of X and Y one completes the plan, and no file
    of the dead is left."""
    with theatre(tmp_path, "compaction") as stage:
        left = stage.leave_inflight()
        told = sorted(player.told() for player in [stage.start(name) for name in "xy"])
        assert told.count(DONE) == 1, told
        assert set(told) <= {DONE, LATE, *REFUSED}, told
        assert not left & stage.files()
        stage.ensure_sound()


# --- "Removable-plan clustering / logcompaction" -------------------------------------------------


@says("rfc79.goes.b")
def test_a_removable_plan_scenario_b_what_a_frozen_executor_began_is_executed_by_nobody_else(
    tmp_path: Path,
) -> None:
    """Table 2, B: X is frozen in the middle; Y is refused. X wakes; nobody has the plan but X, so
    that it may complete it or fail."""
    with theatre(tmp_path, "removable") as stage:
        x = stage.start("x", gate=True)
        x.wait_at_gate()
        x.send(signal.SIGSTOP)
        assert stage.start("y").told() == BEGUN
        x.let_go()
        x.send(signal.SIGCONT)
        told = x.told()
        assert told in {DONE, *REFUSED}
        assert stage.is_done() == (told == DONE)
        stage.ensure_sound()


@says("rfc79.goes.c")
def test_a_removable_plan_scenario_c_what_a_killed_executor_began_is_executed_by_nobody(
    tmp_path: Path,
) -> None:
    """Table 2, C: somebody was killed in the middle; X and Y are both refused, and a clean takes
    the plan and its files away."""
    with theatre(tmp_path, "removable") as stage:
        stage.leave_inflight()
        told = [player.told() for player in [stage.start(name) for name in "xy"]]
        assert told == [BEGUN, BEGUN]
        stage.ensure_sound()
        assert stage.start("cleaner", cleans=True, **OLD).told() == str(stage.plan.requested_at)
        assert stage.now() is None
        assert stage.files() == set()
        stage.ensure_sound()


@says("rfc79.goes.d", "rfc79.clean.beating")
def test_a_removable_plan_scenario_d_clean_leaves_alone_what_somebody_executes(
    tmp_path: Path,
) -> None:
    """Table 2, D: X executes the plan, however old that is, and Y's clean leaves it alone."""
    with theatre(tmp_path, "removable") as stage:
        x = stage.start("x", gate=True)
        x.wait_at_gate()
        assert stage.start("y", cleans=True, **OLD).told() == ""
        assert not stage.was_rolled_back()
        x.let_go()
        assert x.told() == DONE
        stage.ensure_sound()


@says("rfc79.goes.e")
@pytest.mark.parametrize("is_old", [False, True], ids=["young", "old"])
def test_a_removable_plan_scenario_e_a_clean_takes_old_plans_and_leaves_young_ones(
    tmp_path: Path, is_old: bool
) -> None:
    """Table 2, E: X cleans, then Y comes to execute: it can if the plan is young, else it is
    told that the plan is gone."""
    with theatre(tmp_path, "removable") as stage:
        cleaned = stage.start("x", cleans=True, **(OLD if is_old else {})).told()
        assert cleaned == (str(stage.plan.requested_at) if is_old else "")
        assert stage.start("y").told() == ("InstantCancelled" if is_old else DONE)
        assert stage.is_done() != is_old
        stage.ensure_sound()
