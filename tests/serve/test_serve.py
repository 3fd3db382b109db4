"""`lentic serve` as processes: several on the same tables, under ingestion, some killed with -9.

    make serve-soak SECONDS_EACH=180      20 tables, 3 processes, a kill every 20 s

Each plan has one executor at a time, what the dead began others finish, no row is lost, every table
is sound in the end, and whoever is asked to stop does, with exit code 0.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import pyarrow.compute as pc
import pytest

from lentic.format import layout
from tests.serve.fleet import INTERVAL_S, TTL_S, Fleet, Story, fleet, perform

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs the signals of Linux")

SECONDS = float(os.environ.get("LENTIC_SERVE_S", "14"))
SEED = int(os.environ.get("LENTIC_SERVE_SEED", "0"))
IS_LONG = SECONDS >= 60
TABLES, ROWS = (20, 2_000) if IS_LONG else (4, 500)
KILL_EVERY_S = 20.0 if IS_LONG else 5.0
OF_A_BUSY_MACHINE = ("HeartbeatLost", "LockTimeout")
PLANS = ("compaction", "log_compaction", "clustering")


def test_processes_share_tables_take_over_from_the_dead_and_end_in_good_order(
    tmp_path: Path,
) -> None:
    with fleet(tmp_path, TABLES) as stage:
        stage.start_ingestion(ROWS, pause_s=0.2)
        story = perform(stage, servers=3, seconds=SECONDS, kill_every_s=KILL_EVERY_S, seed=SEED)
        _print(stage, story)
        _ensure_one_executor_per_plan(stage, story)
        _ensure_no_row_is_lost(stage)
        for table in stage.tables:
            assert table.verify() == [], table.path
        assert stage.pending() == []
        assert story.codes == [0, 0, 0], [s.err.read_text() for s in stage.servers]
        assert _left_heartbeats(stage) == []
        assert story.kills, "nobody was killed"
        # The bound that is promised is 2 times to live and a few cycles; a busy machine gets more.
        assert story.settled_s < 10 * (2 * TTL_S + 5 * INTERVAL_S)


def _ensure_one_executor_per_plan(stage: Fleet, story: Story) -> None:
    done = Counter(
        (line["table"], line["instant"])
        for line in stage.lines()
        if line["outcome"] == "done" and line["action"] in PLANS
    )
    assert done, "no plan was executed"
    assert max(done.values()) == 1, "a plan was completed twice"
    for plan, owners in story.watcher.owners.items():
        assert len(owners) == len(set(owners)), f"{plan} went back to an earlier executor"
    failed = [line["note"] for line in stage.lines() if line["outcome"] == "failed"]
    assert not [note for note in failed if not note.startswith(OF_A_BUSY_MACHINE)], failed


def _ensure_no_row_is_lost(stage: Fleet) -> None:
    written = stage.written()
    errors = [told for told in written if told["error"]]
    assert not errors, errors
    for table in stage.tables:
        numbers = [told["number"] for told in written if told["table"] == table.path]
        rows = table.read()
        assert rows.num_rows == len(numbers) * (ROWS - 1) + 1, table.path
        newest = rows.filter(pc.equal(rows["id"], "shared"))["at"].to_pylist()
        assert newest == [max(numbers)], table.path


def _left_heartbeats(stage: Fleet) -> list[str]:
    """Of the living: what the killed left of writes and plans that have ended is swept later."""
    folders = [Path(table.path) / layout.HEARTBEATS for table in stage.tables]
    left = [file for folder in folders if folder.exists() for file in folder.iterdir()]
    pids = {server.pid for server in stage.servers}
    return [str(f) for f in left if any(f'"pid": {pid}' in f.read_text() for pid in pids)]


def _print(stage: Fleet, story: Story) -> None:
    outcomes = Counter((line["action"], line["outcome"]) for line in stage.lines())
    taken_over = sum(len(owners) > 1 for owners in story.watcher.owners.values())
    in_plans = sum(bool(kill) for kill in story.kills)
    print(f"\n{len(stage.tables)} tables, {len(stage.written())} commits, {SECONDS:g} s")
    print(f"{len(story.kills)} kills, {in_plans} of them in a plan; {taken_over} taken over")
    print(
        f"settled {story.settled_s:.1f} s after the last commit; {dict(sorted(outcomes.items()))}"
    )
