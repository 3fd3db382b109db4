"""RFC-66, as writers and planners meet it: several at once, and what stands in names and plans."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from lentic.coordination.lock_storage import StorageLock
from lentic.errors import LenticError
from lentic.format import layout
from lentic.format.names import Action, parse_log_file
from lentic.services.compaction import schedule_compaction
from lentic.testing.crash_sweep import Scene, set_scene
from lentic.testing.simulation import Simulation
from lentic.testing.tables import create_on, open_on
from lentic.timeline.reader import load_commit_metadata, load_compaction_plan, load_timeline
from tests.rfc.claims import says
from tests.rfc.guard_scenes import Gate, attempt, nth_call
from tests.rfc.rfc66_world import World, slices
from tests.simulation.faults import LEASE_MS
from tests.simulation.flows import SCHEMA, Rows, arrow, fold, options
from tests.unit.builders import base_file, log_file
from tests.unit.write.attempts import finish

LEASE_ENDS_MS = 6_000
SLOW = {"hoodie.client.heartbeat.interval_in_ms": 600_000}
NBCC = SLOW | {"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}


# --- several writers ----------------------------------------------------------------------------


@says("rfc66.nbcc", "rfc66.union", "rfc66.commit.noconflict")
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_writers_that_began_together_all_commit_in_any_order(order: tuple[int, ...]) -> None:
    world = World()
    batches: list[Rows] = [{"a0": 1, "x0": 1}, {"a0": 3, "y0": 1}, {"a0": 2, "z1": 1}]
    begun = [world.begin() for _ in batches]
    for number in order:
        world.finish(begun[number], batches[number])
    assert world.rows() == {"a0": 3, "x0": 1, "y0": 1, "z1": 1}
    world.table.compact()
    assert world.rows() == {"a0": 3, "x0": 1, "y0": 1, "z1": 1}


@says("rfc66.pre.same", "rfc66.compact.merge", "rfc66.compact.event")
def test_a_new_key_that_two_writers_bring_at_once_is_one_row_of_one_bucket() -> None:
    world = World()
    one, two = world.begin(), world.begin()
    world.finish(two, {"new0": 7})
    world.finish(one, {"new0": 5})
    (part,) = world.table.file_slices()
    assert len(part.logs) == 2
    assert world.rows() == {"new0": 7}, "the greater ordering value, though it came first"
    world.table.compact()
    assert world.rows() == {"new0": 7}


@says("rfc66.logs.token", "rfc66.name.instant", "rfc66.name.parse", "rfc66.name.pattern")
@says("rfc66.commit.current", "rfc66.logs.sequence", "N10")
def test_a_log_is_named_after_its_write_and_no_two_logs_alike() -> None:
    world = World()
    world.finish(world.begin(), {"a0": 1})
    world.table.compact()
    begun = [world.begin(), world.begin()]
    drivers = [open_on(world.storage, world.sim.world(f"w{n}"), world.lock) for n in (0, 1)]
    done = [finish(drivers[n]._opened, arrow({"a0": 2 + n}), begun[n]) for n in (1, 0)]
    (part,) = world.table.file_slices()
    assert part.base is not None
    names = [log.path.rpartition("/")[2] for log in part.logs]
    assert len(set(names)) == 2
    for name, commit in zip(names, done, strict=True):
        assert re.fullmatch(r"\.[-0-9a-f]+_[0-9]{17}\.log\.[0-9]+_[0-9]+-[0-9]+-[0-9]+", name)
        parsed = parse_log_file(name)
        assert parsed is not None and parsed.requested_at == commit.requested_at
        assert parsed.file_id == part.group.file_id
        assert parsed.requested_at != part.base.name.requested_at
    tokens = [log.name.write_token for log in part.logs]
    assert tokens[0] != tokens[1], "each run has a number of its own"
    assert [log.name.version for log in part.logs] == [1, 1], "nobody listed to find a version"


@says("rfc66.logs.order", "rfc66.order.3")
@pytest.mark.parametrize("compacts", [False, True])
def test_of_versions_of_one_ordering_value_the_last_that_a_writer_wrote_stays(
    compacts: bool,
) -> None:
    world = World()
    world.finish(world.begin(), {"a0": 1, "b0": 1})
    for value in (1, 1, 1):
        if compacts:
            world.table.compact()
        last = world.finish(world.begin(), {"a0": value})
    (row,) = world.table.read(filter="id = 'a0'", meta=True).to_pylist()
    assert row["_hoodie_commit_time"] == last.requested_at


@says("rfc66.sort", "rfc66.sort.tie", "N9")
@pytest.mark.parametrize("compacts", [False, True])
def test_of_equal_ordering_values_the_write_that_completed_later_wins(compacts: bool) -> None:
    world = World()
    world.finish(world.begin(), {"a0": 1})
    early, late = world.begin(), world.begin()
    world.finish(late, {"a0": 5})
    if compacts:
        world.table.compact()
    won = world.finish(early, {"a0": 5})
    for _ in range(2):
        (row,) = world.table.read(meta=True).to_pylist()
        assert row["_hoodie_commit_time"] == won.requested_at
        world.table.compact()


# --- plans beside writers -----------------------------------------------------------------------


@says("rfc66.plan.example", "rfc66.plan.rule", "rfc66.plan.slice", "rfc66.plan.anytime")
def test_the_example_of_two_logs_and_a_plan_between_their_completions() -> None:
    world = World()
    one = world.begin()  # t1
    two = world.begin()  # t2
    world.finish(one, {"a0": 1})  # t3
    at = world.table.schedule("compaction")  # t4
    world.finish(two, {"a0": 2})  # t5
    assert at is not None
    (plan,) = load_timeline(world.storage).pending(Action.COMPACTION)
    (operation,) = load_compaction_plan(world.storage, plan).operations
    assert [parse_log_file(name).requested_at for name in operation.log_files] == [  # type: ignore[union-attr]
        one.instant.requested_at
    ]
    world.table.execute(at)
    (part,) = world.table.file_slices()
    assert part.barrier == at
    assert [log.name.requested_at for log in part.logs] == [two.instant.requested_at]
    assert world.rows() == {"a0": 2}


@says("rfc66.frequent", "rfc66.plan.anytime")
def test_compactions_are_planned_and_done_though_somebody_always_writes() -> None:
    world = World()
    under_way = world.begin()
    for value in range(1, 6):
        after = world.begin()
        world.finish(under_way, {"a0": value, f"k{value}0": value})
        assert world.table.compact() is not None
        under_way = after
    assert world.rows() == {"a0": 5} | {f"k{value}0": value for value in range(1, 6)}


def leased() -> Scene:
    """A table with some logs, whose lock has a lease."""

    def setup(storage: Any, world: Any, lock: Any) -> None:
        create_on(storage, SCHEMA, options("MERGE_ON_READ"))
        table = open_on(storage, world, StorageLock(storage, world, 120_000, LEASE_MS), NBCC)
        for value in (1, 2):
            table.upsert(arrow({"a0": value, f"b{value}0": value}))

    return set_scene(setup)


BEFORE: Rows = fold({"a0": 1, "b10": 1}, {"a0": 2, "b20": 2})


class Leased:
    """Somebody sleeps at one of its calls until its lease has ended, and others act meanwhile."""

    def __init__(self, start: Scene) -> None:
        self.sim: Simulation
        self.sim, _ = start.stage()

    def table(self, name: str, storage: Any = None) -> Any:
        storage = storage or self.sim.memory
        world = self.sim.world(name)
        return open_on(storage, world, StorageLock(storage, world, 120_000, LEASE_MS), NBCC)

    def rows(self) -> Rows:
        found = self.table("reader").read().to_pylist()
        assert len({row["id"] for row in found}) == len(found)
        return {row["id"]: row["ts"] for row in found}

    def sleeps(
        self, number: int, act: Callable[[Any], Any], meanwhile: Callable[[], None]
    ) -> tuple[object, bool]:
        def others() -> None:
            self.sim.now_ms += LEASE_ENDS_MS
            meanwhile()

        gate = Gate(self.sim.memory, lambda op, path: False, others)
        table = self.table("sleeper", gate)
        gate._when = nth_call(number)
        return attempt(lambda: act(table)), gate.is_passed


@says("N1", "rfc66.time.atomic")
def test_n1_a_writer_that_sleeps_between_its_time_and_its_file_loses_no_row() -> None:
    """Others plan and complete a compaction while it sleeps, and a reader follows the changes."""
    start, passed = leased(), 0
    for number in range(1, 60):
        here = Leased(start)
        seen: Rows = {}
        checkpoint = ["000"]

        def follow(here: Leased = here, checkpoint: list[str] = checkpoint) -> Rows:
            done = load_timeline(here.sim.memory).completed()
            last = max(str(instant.completed_at) for instant in done)
            found = here.table("follower").changes(after=checkpoint[0], upto=last).to_pylist()
            checkpoint[0] = last
            return {row["id"]: row["ts"] for row in found}

        def meanwhile(here: Leased = here, seen: Rows = seen) -> None:
            here.table("planner").compact()
            seen.update(follow())

        result, is_passed = here.sleeps(
            number, lambda table: table.upsert(arrow({"a0": 9, "c0": 9})), meanwhile
        )
        passed += is_passed
        landed = not isinstance(result, LenticError)
        here.table("next").upsert(arrow({"d0": 1}))
        expected = fold(BEFORE, {"d0": 1}, {"a0": 9, "c0": 9} if landed else {})
        assert here.rows() == expected, number
        seen.update(follow())
        assert {k: v for k, v in seen.items() if k in ("c0", "d0")} == {
            k: v for k, v in expected.items() if k in ("c0", "d0")
        }, number
        here.table("planner").compact()
        assert here.rows() == expected, number
    assert passed >= 20


@says("N2", "rfc66.plan.rule", "rfc66.plan.both", "R12")
def test_n2_a_planner_that_sleeps_anywhere_misses_no_log() -> None:
    """Whatever completes while it sleeps, its plan holds all that completed before its time, or
    there is no plan."""
    start, passed = leased(), 0
    for number in range(1, 40):
        here = Leased(start)

        def meanwhile(here: Leased = here) -> None:
            here.table("writer").upsert(arrow({"a0": 9, "c0": 9}))

        _, is_passed = here.sleeps(
            number, lambda table: schedule_compaction(table._opened), meanwhile
        )
        passed += is_passed
        timeline = load_timeline(here.sim.memory)
        for plan in timeline.pending(Action.COMPACTION):
            named = {
                name
                for one in load_compaction_plan(here.sim.memory, plan).operations
                for name in one.log_files
            }
            due = {
                path.rpartition("/")[2]
                for write in timeline.completed(Action.DELTACOMMIT)
                if str(write.completed_at) < plan.requested_at
                for path in load_commit_metadata(here.sim.memory, write).paths()
            }
            assert named == due, number
        here.table("planner").compact()
        here.table("planner").compact()
        expected = fold(BEFORE, {"a0": 9, "c0": 9}) if is_passed else BEFORE
        assert here.rows() == expected, number
    assert passed >= 8


# --- names of completed files -------------------------------------------------------------------


@says("rfc66.format.completed")
def test_the_completed_file_of_every_action_tells_when_it_completed() -> None:
    world = World()
    kept = world.finish(world.begin(), {"a0": 1, "b1": 1})
    table = world.table
    table.savepoint(kept.requested_at)
    for value in (2, 3, 4):
        world.finish(world.begin(), {"a0": value})
    threshold = {"hoodie.log.compaction.blocks.threshold": 2}
    open_on(world.storage, world.sim.world("x"), world.lock, threshold).log_compact()
    table.compact()
    table.cluster(sort_by="ts")
    table.rollback(world.finish(world.begin(), {"a0": 9}).requested_at)
    keep_one = {"hoodie.clean.commits.retained": 1}
    world.finish(world.begin(), {"a0": 5})
    open_on(world.storage, world.sim.world("x"), world.lock, keep_one).clean()
    table.restore(kept.requested_at)
    names = [file.name for file in world.storage.list_files(layout.TIMELINE)]
    done = [name for name in names if not name.endswith((".requested", ".inflight"))]
    assert all(re.fullmatch(r"[0-9]{17}_[0-9]{17}\.[a-z]+", name) for name in done), done
    assert {name.partition(".")[2] for name in done} >= {
        "deltacommit",
        "savepoint",
        "rollback",
        "restore",
    }


# --- temporal order -----------------------------------------------------------------------------


@says("rfc66.order.1", "rfc66.order.2", "rfc66.order.4", "rfc66.slices.newest")
def test_base_files_and_logs_follow_each_other_as_the_design_says() -> None:
    first, second = base_file(10, 20), base_file(30, 40)
    before, after, late = log_file(21, 25), log_file(31, 35), log_file(22, 45)
    found = slices(before, first, late, second, after)
    assert found == [
        (str(second.name.requested_at), [after.path, late.path]),
        (str(first.name.requested_at), [before.path]),
    ]
