"""RFC-83 taken literally: names that mean two things, edges that move, windows that are empty; and
the net (I6 to I9, R11, R12)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lentic.coordination.lock_process import ProcessLock
from lentic.format import layout
from lentic.format.names import Action
from lentic.format.plan_window import EDGE_KEY, WINDOW_KEY, Look
from lentic.format.times import CompletedAt
from lentic.services.savepoint import make_savepoint, remove_savepoint
from lentic.services.undo_completed import roll_back_instant
from lentic.timeline.reader import load_commit_metadata, load_earliest_retained
from lentic.view.changed_partitions import FULL_LOOK_EVERY
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
from tests.unit.builders import WrappedStorage
from tests.unit.write.attempts import finish

# --- I6: names ----------------------------------------------------------------------------------


@REWRITE
@says("I6")
def test_i6_the_edge_of_a_plan_is_never_taken_for_what_a_clean_retains(service: str) -> None:
    """RFC-83, Changes in TableService Metadata Schema: the name is that of a clean's retention."""
    scene = Scene(service)
    scene.change("d1")
    at = scene.run()
    assert load_commit_metadata(scene.storage, scene.completed(at)).extra[EDGE_KEY] == at
    assert load_earliest_retained(scene.storage, scene.timeline) is None
    assert WINDOW_KEY.startswith("lentic.") and EDGE_KEY != WINDOW_KEY


@says("I6")
def test_i6_the_window_of_a_clean_stands_under_a_key_of_its_own() -> None:
    """RFC-83, Work Flow, executor step 3: what a clean retains is no edge of a plan."""
    scene = served("clean")
    scene.change("d1")
    scene.run()
    kept = load_earliest_retained(scene.storage, scene.timeline)
    assert kept == scene.timeline.writes()[-1].requested_at
    assert scene.look.hi == scene.timeline.completions()[kept] != CompletedAt(scene.look.at)


# --- I7: the right edge -------------------------------------------------------------------------


class Sleepy(WrappedStorage):
    """Something happens just before the timeline is loaded for the second time."""

    def __init__(self, inner: WrappedStorage, happens: Callable[[], object]) -> None:
        super().__init__(inner)
        self._happens = happens
        self._loads = 0

    def before(self, op: str, path: str) -> None:
        if (op, path) == ("list_files", layout.TIMELINE):
            self._loads += 1
            if self._loads == 2:
                self._happens()


@says("I7")
def test_i7_what_completes_after_a_planner_took_its_time_is_in_its_look_or_in_the_next() -> None:
    """RFC-83, Work Flow, planner step 2: writes complete while a plan is made."""
    scene = served("compaction", **SHARED)
    scene.write("d1")
    slow = scene.begin()
    whole = scene.opened
    # A writer that does not wait for the planner: as one whose lock was lost and taken over.
    beside = replace(whole, lock=ProcessLock("another", 1_000))

    def lands() -> None:
        finish(beside, scene.rows("d2"), slow)

    scene.opened = replace(whole, storage=Sleepy(scene.storage, lands))
    first = scene.planned()
    scene.opened = whole
    seen = scene.partitions_of(first)
    scene.execute(first)
    second = scene.plan()
    later = scene.partitions_of(second) if second else frozenset()
    assert "d1" in seen and "d2" in later and "d2" not in seen


@SERVICE
@says("I7", "R12")
def test_i7_a_planner_takes_its_time_then_reads_the_timeline_and_only_then_looks(
    service: str,
) -> None:
    """RFC-83, Work Flow, planner steps 2 and 3, in the order of R12."""
    scene = served(service)
    scene.change("d2")
    at, _, _ = scene.watched()
    assert at is not None
    reads = [n for n, call in enumerate(scene.storage.calls) if call[1] == layout.TIMELINE]
    looks = [
        n for n, (op, path) in enumerate(scene.storage.calls) if (op, path) == ("list_files", "d2")
    ]
    published = scene.storage.calls.index(("put_if_absent", scene.plan_file(at)))
    assert len(reads) >= 2 and reads[1] < looks[-1] < published


# --- I8: history that moves ---------------------------------------------------------------------


@SERVICE
@says("I8", "R11")
def test_i8_after_a_restore_everything_is_looked_at(service: str) -> None:
    """RFC-83 says nothing of restores: history goes back behind the edge."""
    scene = served(service)
    back = scene.timeline.writes()[-1]
    scene.change("d2")
    scene.run()
    scene.change("d3")
    scene.table.restore(scene.timeline.writes()[-2].requested_at)
    scene.change("d1")
    assert scene.looked() == EVERYTHING and "restored" in scene.look.why
    assert back.completed_at is not None


@says("I8")
def test_i8_what_a_write_that_was_rolled_back_had_put_an_end_to_is_found_again() -> None:
    """RFC-83 says nothing of rollbacks: the logs that a compaction had merged are there again."""
    scene = Scene("log_compaction")
    scene.change("d1")
    scene.table.compact()
    assert scene.plan() is None
    roll_back_instant(scene.opened, scene.timeline.writes()[-1].requested_at)
    at = scene.planned()
    assert scene.partitions_of(at) == {"d1"} and "rolled back" in scene.look.why


@says("I8")
def test_i8_partitions_that_were_replaced_are_looked_at_and_found_empty() -> None:
    """RFC-83 says nothing of replacements inside a window."""
    scene = served("clustering")
    scene.write("d1", "d2")
    scene.table.delete_partitions(["d1"])
    at = scene.planned()
    assert scene.partitions_of(at) == {"d2"}
    assert scene.window_of(at).considered >= 2 and scene.window_of(at).carry == ()


@says("I8", "P17")
def test_i8_what_a_savepoint_held_is_found_once_it_is_removed() -> None:
    """RFC-83, Background: an incremental clean would not come back to what a savepoint held."""
    scene = Scene("clean")
    scene.change("d1")
    make_savepoint(scene.opened, scene.timeline.writes()[0].requested_at)
    scene.change("d1")
    scene.run()
    scene.change("d2")
    scene.run()
    remove_savepoint(scene.opened, scene.timeline.completed(Action.SAVEPOINT)[0].requested_at)
    scene.change("d3")
    at = scene.planned()
    assert "d1" in scene.partitions_of(at) and "savepoint" in scene.look.why


@says("I8")
def test_i8_what_a_pending_plan_kept_from_a_clean_is_found_when_the_plan_has_ended() -> None:
    """RFC-83, Background: an incremental clean would not come back to what a plan held."""
    scene = Scene("clean")
    scene.change("d1")
    held = scene.table.schedule("clustering", sort_by="v", cancellable=True)
    assert held is not None
    scene.change("d1")
    scene.change("d2")
    scene.run()
    scene.change("d2")
    scene.run()
    assert scene.look.carry == ("d1",)
    scene.table.request_cancel(held)
    scene.table.execute_abort(held)
    scene.change("d2")
    assert "d1" in scene.partitions_of(scene.planned())


# --- I9: an empty window ------------------------------------------------------------------------


@REWRITE
@says("I9")
def test_i9_where_nothing_changed_nothing_is_listed_and_nothing_planned(service: str) -> None:
    """RFC-83 says nothing of an empty window: there is nothing to schedule."""
    scene = served(service)
    assert scene.watched()[:2] == (None, frozenset())
    assert scene.look.considered == 0


@BOUNDED
@says("I9", "P20")
def test_i9_an_empty_window_still_has_what_was_carried(service: str) -> None:
    """RFC-83: with commits that write nothing there is still what the last plan left."""
    scene = one_at_a_time(service)
    scene.change("d1", "d2")
    scene.run()
    at, places, _ = scene.watched()
    assert at is not None and len(places) == 1 and scene.partitions_of(at) == places


@says("I9", "P20")
def test_i9_an_empty_window_still_has_what_an_aborted_plan_left() -> None:
    """RFC-83: with nothing new there is still what a plan that was aborted had taken on."""
    scene = served("clustering")
    scene.write("d1")
    a = scene.planned()
    scene.write("d2")
    scene.run()
    assert scene.plan() == a, "nothing new; what is pending is named"
    scene.table.request_cancel(a)
    scene.table.execute_abort(a)
    at, places, _ = scene.watched()
    assert at is not None and places == {"d1"}


# --- the net ------------------------------------------------------------------------------------


@says("R11")
def test_one_plan_of_fifty_looks_at_everything_come_what_may() -> None:
    """R11: a full scan also runs every so many plans, as a net."""
    scene = served("clustering")
    full = []
    for number in range(FULL_LOOK_EVERY + 1):
        scene.write("d1")
        scene.run()
        full += [number] if scene.look.kind is Look.FULL else []
    assert full == [FULL_LOOK_EVERY - 1] and "50th" in scene.looks[-2].why


@SERVICE
@says("R11")
def test_an_option_that_decides_what_is_worth_planning_makes_the_next_look_at_everything(
    service: str,
) -> None:
    """R11: a change of what is selected puts all in doubt that was passed over before."""
    scene = served(service)
    services = scene.opened.services
    scene.tell(
        compaction=replace(services.compaction, log_files=1),
        clustering=replace(services.clustering, small_bytes=10**6),
        clean=replace(services.clean, commits=2),
        log_compact_blocks=3,
    )
    scene.change("d2")
    assert scene.looked() == EVERYTHING and "options" in scene.look.why


@SERVICE
@says("R11")
def test_a_look_in_vain_at_everything_is_not_repeated(service: str) -> None:
    """R11 without a plan: where nothing was found to do, a note says how far it was looked."""
    scene = Scene(
        service,
        hoodie__log__compaction__blocks__threshold=50,
        hoodie__compaction__logfile__num__threshold=50,
        hoodie__clustering__plan__strategy__small__file__limit=0,
    )
    days = [f"d{number}" for number in range(6)]
    for day in days:  # nothing of it can be cleaned
        scene.write(day)
    assert scene.watched()[:2] == (None, EVERYTHING)
    scene.write("d6")
    at, places, _ = scene.watched()
    assert at is None and places <= {"d5", "d6"} and scene.look.kind is Look.INCREMENTAL
