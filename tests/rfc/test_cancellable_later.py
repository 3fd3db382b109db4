"""Cancellable clustering: the holes C7, C8 and C10-C12 of the design.

What a write sees of a clustering, clocks that are wrong, plans that are cancelled again and again,
and files that come when all is over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lentic.engine import LocalEngine
from lentic.errors import WriteConflict
from lentic.format.names import State
from lentic.services.outcome import Aborted, Committed
from lentic.testing.checkers import list_leftovers
from lentic.timeline.reader import load_clustering_plan, load_commit_metadata, load_timeline
from tests.rfc.cancel_scenes import (
    COW,
    MOR,
    after,
    cancel_and_abort,
    cancelled,
    ensure_aborted,
    ensure_consistent,
    planned,
    user,
    write,
)
from tests.rfc.claims import says
from tests.rfc.guard_scenes import (
    HOUR_MS,
    Gate,
    Stage,
    after_its_files,
    attempt,
    die_at,
    execute,
    stage,
)
from tests.simulation.crowd import BASE, batch

BOTH = pytest.mark.parametrize("table_type", [COW, MOR])
SMALL = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}


# --- C7, C8: what a write sees ------------------------------------------------------------------


class Between(LocalEngine):
    """An engine that lets something happen once the rows are written and before the commit."""

    __slots__ = ("act",)

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__(threads=1)
        object.__setattr__(self, "act", act)

    def shuffle(self, source: Any, shuffle: Any) -> list[str]:
        done = super().shuffle(source, shuffle)
        act, _ = self.act, object.__setattr__(self, "act", lambda: None)
        act()
        return done


@says("C7", "cancel.ingest.2", "cancel.precedence.only", "cancel.precedence")
@BOTH
@pytest.mark.parametrize("retries", [0, 1])
def test_c7_a_clustering_that_completes_before_the_write_commits_is_seen_in_the_commit(
    table_type: str, retries: int
) -> None:
    scene = stage(planned(table_type))
    engine = Between(lambda: execute(scene.table("x"), scene.plan))
    options = {"hoodie.write.num.retries.on.conflict.failures": retries}
    writer = user(scene, "writer", options=options, engine=engine)
    if retries:
        writer.upsert(batch(BASE, 7))
        ensure_consistent(scene, after(7))
    else:
        with pytest.raises(WriteConflict):
            writer.upsert(batch(BASE, 7))
        ensure_consistent(scene)
        write(scene, 8)
        ensure_consistent(scene, after(8))
    now = scene.now()
    assert now is not None and now.is_completed and not cancelled(scene)


@says("C7", "cancel.goal.a", "cancel.goal.b")
@BOTH
@pytest.mark.parametrize("begun", [False, True])
def test_c7_a_plan_is_cancelled_whether_it_was_begun_or_only_requested(
    table_type: str, begun: bool
) -> None:
    scene = stage(planned(table_type))
    if begun:
        die_at(scene, after_its_files)
    now = scene.now()
    assert now is not None and now.state is (State.INFLIGHT if begun else State.REQUESTED)
    write(scene)
    assert cancelled(scene)
    ensure_consistent(scene, after(7))
    cancel_and_abort(scene)
    ensure_aborted(scene, after(7))


@says("C8", "R5")
@BOTH
def test_c8_no_key_is_found_in_files_of_a_clustering_that_has_not_committed(
    table_type: str,
) -> None:
    scene = stage(planned(table_type))
    groups = {part.group.file_id for part in user(scene).file_slices()}
    die_at(scene, after_its_files)
    assert scene.files(), "files of the clustering lie there"
    done = write(scene)
    instant = next(
        i for i in load_timeline(scene.memory).writes() if i.requested_at == done.requested_at
    )
    stats = load_commit_metadata(scene.memory, instant).stats
    updated = {stat.file_id for stat in stats if stat.updates}
    assert updated and updated <= groups
    cancel_and_abort(scene)
    ensure_aborted(scene, after(7))


# --- C10: clocks, and plans that starve ---------------------------------------------------------


@says("C10", "cancel.policy.hours", "cancel.clean.early")
@pytest.mark.parametrize("scheduler_h", [-9, -1, 0, 2])
@pytest.mark.parametrize("cleaner_h", [0, 9])
def test_c10_no_wrong_clock_makes_a_clean_cancel_a_young_plan(
    scheduler_h: int, cleaner_h: int
) -> None:
    scene = stage(planned(skew_ms=scheduler_h * HOUR_MS, hours=1))
    clean = lambda: user(scene, "cleaner", skew_ms=cleaner_h * HOUR_MS).clean()  # noqa: E731
    clean()
    scene.sleep(1800)
    clean()
    now = scene.now()
    assert now is not None and now.is_pending and not cancelled(scene)
    scene.sleep(3 * 3600)
    clean()
    ensure_aborted(scene)


@says("C10", "cancel.starve")
def test_c10_how_often_in_a_row_plans_of_a_file_group_were_cancelled_is_counted() -> None:
    scene = stage(planned())
    at = scene.plan.requested_at
    for number in range(1, 4):
        write(scene, 10 + number)
        table = user(scene)
        assert isinstance(table.execute(at), Aborted)
        again = table.schedule("clustering", sort_by="ts")
        assert again is not None
        at = again
        (plan,) = load_timeline(scene.memory).pending(scene.plan.action)
        counts = load_clustering_plan(scene.memory, plan).cancellation.cancelled
        assert max(counts.values()) == number
    assert isinstance(user(scene).execute(at), Committed), "once writes pause it is done"
    assert scene.rows() == after(11, 12, 13)
    write(scene, 20)
    table = user(scene)
    fresh = table.schedule("clustering", sort_by="ts")
    (plan,) = load_timeline(scene.memory).pending(scene.plan.action)
    assert fresh == plan.requested_at
    counts = load_clustering_plan(scene.memory, plan).cancellation.cancelled
    assert not counts, "a plan that completed ends the row"


# --- C11: files that come when all is over ------------------------------------------------------


def archive(scene: Stage) -> None:
    """Let so much happen that the aborted plan leaves the active timeline."""
    table = user(scene, "archiver", options=SMALL)
    for number in range(20, 26):
        table.upsert(batch(BASE, number))
    assert table.cluster(sort_by="ts") is not None
    for number in range(26, 32):
        table.upsert(batch(BASE, number))
    table.clean()
    table.archive()
    assert scene.now() is None


@says("C11", "R5", "R13")
def test_c11_a_file_that_a_late_execution_makes_after_abort_and_archival_is_never_seen() -> None:
    scene = stage(planned())

    def all_is_over() -> None:
        cancel_and_abort(scene)
        archive(scene)

    opened = lambda op, path: op == "open_output" and path.endswith(".parquet")  # noqa: E731
    gate = Gate(scene.memory, opened, all_is_over)
    result = attempt(lambda: execute(scene.table("x", gate), scene.plan))
    assert gate.is_passed and not isinstance(result, Committed), result
    rows = after(*range(20, 32))
    ensure_consistent(scene, rows)
    assert isinstance(user(scene).execute(scene.plan.requested_at), Aborted)
    ensure_consistent(scene, rows)
    assert scene.files() == set() and list_leftovers(scene.memory) == []


@says("C11", "R5")
def test_c11_if_it_is_killed_right_after_its_file_is_swept_and_not_seen_meanwhile() -> None:
    scene = stage(planned())
    stray = f"late-0_0-9-9_{scene.plan.requested_at}.parquet"
    old = user(scene).file_slices()[0]
    assert old.base is not None
    content = scene.memory.read(old.base.path)
    cancel_and_abort(scene)
    archive(scene)
    scene.memory.put_if_absent(stray, content)
    rows = after(*range(20, 32))
    ensure_consistent(scene, rows)
    scene.sleep(2 * 3600)
    user(scene, "cleaner").clean()
    ensure_consistent(scene, rows)
    assert scene.files() == set()


# --- C12: what was to be clustered still is -----------------------------------------------------


@says("C12")
@BOTH
def test_c12_the_file_groups_of_an_aborted_plan_are_in_the_next(table_type: str) -> None:
    scene = stage(planned(table_type))
    plan = load_clustering_plan(scene.memory, scene.plan)
    cancel_and_abort(scene)
    table = user(scene)
    at = table.schedule("clustering", sort_by="ts")
    (next_plan,) = load_timeline(scene.memory).pending(scene.plan.action)
    assert next_plan.requested_at == at
    assert load_clustering_plan(scene.memory, next_plan).file_groups() <= plan.file_groups()
    seen = set()
    while at is not None:  # smaller than the one before, so that it may take several
        (next_plan,) = load_timeline(scene.memory).pending(scene.plan.action)
        seen |= load_clustering_plan(scene.memory, next_plan).file_groups()
        assert isinstance(table.execute(at), Committed)
        ensure_consistent(scene)
        if plan.file_groups() <= seen:
            break
        at = table.schedule("clustering", sort_by="ts")
    assert plan.file_groups() <= seen
