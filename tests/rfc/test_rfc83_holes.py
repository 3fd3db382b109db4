"""RFC-83 taken literally forgets partitions: each hole by its number, and the rule that closes it
(R11, R12, P20)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lentic.format import layout
from lentic.format.clustering_plan import decode_clustering_plan, encode_clustering_plan
from lentic.format.commit_metadata import decode_commit_metadata, encode_commit_metadata
from lentic.format.names import Action
from lentic.format.plan_window import WINDOW_KEY, Look
from lentic.format.times import RequestedAt
from lentic.services.archive import archive_timeline
from lentic.services.plan_windows import Subject
from lentic.services.schedule import look
from lentic.services.undo_completed import roll_back_instant
from lentic.timeline.history import load_history
from tests.rfc.claims import says
from tests.rfc.planning_scenes import (
    BOUNDED,
    EVERYTHING,
    REWRITE,
    SERVICE,
    SHARED,
    Scene,
    one_at_a_time,
    served,
)
from tests.unit.builders import clock_of

# --- I1: by requested time a slow write is never seen -------------------------------------------


@REWRITE
@says("I1", "R11")
def test_i1_a_write_that_was_requested_before_a_plan_and_completed_after_it_is_seen_by_the_next(
    service: str,
) -> None:
    """RFC-83, Work Flow, planner step 3: "from INSTANT 1 to INSTANT 2", by completion time."""
    scene = Scene(service, **SHARED)
    scene.change("d1")
    slow = scene.begin()
    scene.write("d2")
    at = scene.run() if service != "log_compaction" else None
    scene.finish(slow, "d3")
    at = at or scene.run()  # a log compaction waits for writers before it is planned
    assert service == "log_compaction" or str(slow.instant.requested_at) < str(at)
    scene.write("d3")
    seen, places, _ = scene.watched()
    assert "d3" in places and seen is not None and "d3" in scene.partitions_of(seen)


# --- I2: what a bounded plan leaves -------------------------------------------------------------


@BOUNDED
@says("I2", "P20")
def test_i2_what_a_bounded_plan_leaves_is_carried_until_it_has_had_its_turn(service: str) -> None:
    """RFC-83, Work Flow, planner step 4: recording INSTANT 2 says nothing of what was left out."""
    scene = one_at_a_time(service)
    scene.change("d1", "d2", "d3")
    done = []
    for left in (2, 1, 0):
        at = scene.planned()
        assert len(scene.window_of(at).carry) == left
        done += [*scene.partitions_of(at)]
        scene.execute(at)
    assert sorted(done) == ["d1", "d2", "d3"]
    assert scene.plan() is None


@says("I2", "P20")
def test_i2_what_waits_longest_comes_first_however_often_others_change() -> None:
    """RFC-83 has no order in which partitions that were left out have their turn."""
    scene = one_at_a_time("clustering")
    scene.change("d1", "d2", "d9")
    done = []
    for _ in range(4):
        at = scene.planned()
        done += [*scene.partitions_of(at)]
        scene.execute(at)
        scene.write("d1", "d2")
    assert "d9" in done


@says("I2")
def test_i2_a_partition_that_is_not_due_at_this_hour_is_carried_to_its_own() -> None:
    """RFC-83: a partition filter leaves partitions out of a plan whose window saw them."""
    mode = "hoodie__clustering__plan__partition__filter__mode"
    scene = Scene("clustering", **{mode: "DAY_ROLLING"})
    days = [f"d{number}" for number in range(1, 6)]
    scene.write(*days)
    done: list[str] = []
    for _ in range(24):
        if (at := scene.plan()) is not None:
            done += [*scene.partitions_of(at)]
            scene.execute(at)
        clock_of(scene.opened).ms += 3_600_000 - 1_000
    assert sorted(done) == days


@says("I2")
def test_i2_a_partition_with_nothing_to_do_is_not_carried_to_its_hour() -> None:
    """RFC-83: what a filter leaves out is left undone only if there is something to do."""
    scene = Scene(
        "clustering",
        hoodie__clustering__plan__partition__filter__mode="DAY_ROLLING",
        hoodie__clustering__plan__strategy__single__group__clustering__enabled=False,
        hoodie__parquet__small__file__limit=0,
    )
    days = [f"d{number}" for number in range(60)]
    scene.write(*days)
    clock_of(scene.opened).ms += 3_600_000 * 12
    assert scene.plan() is None and scene.look.kind is Look.FULL and scene.look.carry == ()
    scene.write("d1", "d2")  # the same file groups
    scene.table.bulk_insert(scene.rows("d3", "d4"))
    scene.plan()
    assert scene.look.kind is Look.INCREMENTAL and scene.look.carry == ("d3", "d4")


@says("I2")
def test_i2_the_newest_partitions_that_are_skipped_come_once_newer_ones_are_there() -> None:
    """RFC-83: a filter for recent days goes by all partitions, of which a window shows some."""
    scene = Scene(
        "clustering",
        hoodie__clustering__plan__partition__filter__mode="RECENT_DAYS",
        hoodie__clustering__plan__strategy__daybased__lookback__partitions=1,
        hoodie__clustering__plan__strategy__daybased__skipfromlatest__partitions=1,
    )
    scene.write("d1", "d2", "d3")
    first = scene.run()
    assert scene.partitions_of(first) == {"d2"} and scene.window_of(first).carry == ("d3",)
    scene.write("d1")
    assert scene.plan() is None, "a change to an old partition is none of its business"
    scene.write("d4")
    assert scene.partitions_of(scene.planned()) == {"d3"}


# --- I3: the edge is gone -----------------------------------------------------------------------


def archive(scene: Scene) -> None:
    for _ in range(4):
        scene.write("d0")
    if scene.service != "clean":  # what was replaced must be gone before its commit may go
        scene.table.clean()
    archive_timeline(scene.opened)


@SERVICE
@says("I3")
def test_i3_the_edge_of_an_archived_plan_is_found_in_the_history(service: str) -> None:
    """RFC-83, Work Flow, planner step 1: the last service commit may have been archived."""
    scene = served(service)
    scene.change("d2")
    plan = scene.looks[-1].at
    archive(scene)
    assert plan in [i.requested_at for i in load_history(scene.storage).instants]
    places = scene.looked()
    assert "d2" in places and places <= {"d0", "d2"}
    assert scene.look.kind is Look.INCREMENTAL


@REWRITE
@says("I3", "R11")
def test_i3_an_archived_plan_that_does_not_say_how_far_it_saw_makes_the_next_look_at_everything(
    service: str,
) -> None:
    """RFC-83, Work Flow, planner step 1: the instant may be missing from the commit."""
    scene = served(service)
    done = scene.completed(scene.looks[-1].at)
    path = layout.timeline_file(done.file_name)
    metadata = decode_commit_metadata(scene.storage.read(path), path)
    kept = {key: value for key, value in metadata.extra.items() if key != WINDOW_KEY}
    forgetful = encode_commit_metadata(
        replace(metadata, extra=kept), replaces=done.action is Action.REPLACECOMMIT
    )
    scene.storage.replace(path, forgetful)
    archive(scene)
    assert scene.looked() == EVERYTHING and "archived" in scene.look.why


@pytest.mark.parametrize("damage", ["{", '{"at":"1"}', "gone"])
@says("I3", "R11")
def test_i3_a_plan_whose_window_is_damaged_or_gone_makes_the_next_look_at_everything(
    damage: str,
) -> None:
    """RFC-83, Work Flow, planner step 1: what the plan recorded may not read."""
    scene = served("clustering")
    path = scene.plan_file(scene.looks[-1].at)
    plan = decode_clustering_plan(scene.storage.read(path), scene.storage.root, path)
    extra = {} if damage == "gone" else {WINDOW_KEY: damage}
    hurt = replace(plan, extra=extra)
    scene.storage.replace(path, encode_clustering_plan(hurt, scene.storage.root))
    scene.change("d2")
    assert scene.looked() == EVERYTHING
    assert "does not read" in scene.look.why or "does not say" in scene.look.why


@SERVICE
@says("I3", "R11")
def test_i3_a_damaged_history_makes_the_next_look_at_everything(service: str) -> None:
    """RFC-83, Work Flow, planner step 1: the archived timeline may not read."""
    scene = served(service)
    archive(scene)
    for file in scene.storage.list_files(layout.HISTORY):
        if file.name.endswith(".parquet"):
            scene.storage.replace(file.path, b"x" * file.size)
    subject = Subject(scene.action, "" if service == "clean" else "any", {})
    found = look(scene.storage, scene.timeline, RequestedAt("9" * 17), subject)
    assert found.partitions is None
    assert found.window.why == "the archived timeline does not read"


# --- I4, I5: plans beside plans -----------------------------------------------------------------


@says("I4")
def test_i4_a_plan_that_is_overtaken_by_a_later_one_keeps_what_it_took_on() -> None:
    """RFC-83 says nothing of plans beside each other: the later one completes first."""
    scene = served("clustering")
    scene.write("d1")
    earlier = scene.planned()
    scene.write("d2")
    later = scene.planned()
    assert scene.partitions_of(later) == {"d2"}
    scene.execute(later)
    scene.write("d3")
    at = scene.planned()
    assert scene.partitions_of(at) == {"d3"}
    scene.execute(earlier)
    assert scene.plan() == at, "nothing is left but what is pending"


@says("I5", "C12", "P20")
def test_i5_a_plan_that_is_aborted_after_a_later_one_completed_leaves_nothing_behind() -> None:
    """RFC-83 says nothing of plans that end unexecuted: A took p0 on, B did not look at it."""
    scene = served("clustering")
    scene.write("d1")
    a = scene.planned()
    scene.write("d2")
    scene.run()
    scene.table.request_cancel(a)
    scene.table.execute_abort(a)
    assert scene.partitions_of(scene.planned()) == {"d1"}


@says("I5")
def test_i5_what_a_pending_plan_holds_is_carried_by_plans_that_see_it() -> None:
    """RFC-83 says nothing of file groups that another plan has: they are left out, and kept in
    mind."""
    scene = served("clustering")
    scene.write("d1")
    a = scene.planned()
    scene.table.bulk_insert(scene.rows("d1"))  # new file groups, beside those of the plan
    b = scene.planned()
    assert scene.partitions_of(b) == {"d1"} and scene.window_of(b).carry == ("d1",)
    scene.execute(b)
    scene.table.request_cancel(a)
    scene.table.execute_abort(a)
    assert scene.partitions_of(scene.planned()) == {"d1"}


@REWRITE
@says("I5", "P20")
def test_i5_a_plan_that_is_rolled_back_gives_its_partitions_to_the_next(service: str) -> None:
    """RFC-83 says nothing of plans that are rolled back: a rollback keeps no list of theirs."""
    scene = served(service)
    scene.change("d1")
    a = scene.planned()
    later = None
    if service == "clustering":
        scene.write("d2")
        later = scene.run()
    roll_back_instant(scene.opened, a)
    at, places, _ = scene.watched()
    assert at is not None and "d1" in scene.partitions_of(at)
    assert later is None or "d2" in places, "the window begins before the plan that is gone"
    assert places != EVERYTHING
