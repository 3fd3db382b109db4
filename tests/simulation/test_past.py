"""Savepoint, restore and the rollback of a completed write are killed at every storage call, and
run beside writers that fall asleep at any of theirs.

After a kill readers see the state before or the state asked for, or one the table was in between;
the next write finishes what was decided, and nothing lies about. A writer that wakes to a table
that went back has committed nothing, or after it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from lentic.errors import LenticError
from lentic.format.names import Action
from lentic.format.times import RequestedAt
from lentic.services.restore import restore_table
from lentic.services.savepoint import load_savepoints, make_savepoint, remove_savepoint
from lentic.services.undo_completed import roll_back_instant
from lentic.testing.checkers import check_table, list_leftovers
from lentic.testing.crash_sweep import CrashRun, Flow, crash_points, run_with_crash, set_scene
from lentic.testing.simulation import Raised, Simulation
from lentic.testing.tables import open_on
from lentic.timeline.reader import load_timeline
from tests.simulation import flows
from tests.simulation.cases import distinct, sample
from tests.simulation.flows import Rows, after, compact, create, fold, upsert

FIRST: Rows = {"a0": 1, "b0": 1, "c1": 1}
SECOND: Rows = {"a0": 2, "d1": 2}
THIRD: Rows = {"a0": 3, "e2": 3}
NEXT: Rows = {"b0": 9, "f0": 9}
TYPES = pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])


def calling(service: Callable[..., object], number: int) -> Flow:
    """A flow that calls `service` for the write of that number, counted as they completed."""

    def flow(storage: Any, world: Any, lock: Any) -> None:
        at = load_timeline(storage).writes()[number].requested_at
        service(open_on(storage, world, lock)._opened, at)

    return flow


def read(run: CrashRun) -> Rows:
    return flows.read(run.storage, run.world, run.lock)


def deaths(flow: Flow, setup: Flow, count: int) -> list[CrashRun]:
    start = set_scene(setup)
    points = sample(crash_points(flow, start), count, "past")
    return [run_with_crash(flow, point, start) for point in points]


def ensure_goes_on(run: CrashRun, seen: Rows) -> None:
    upsert(NEXT)(run.storage, run.world, run.lock)
    assert read(run) == fold(seen, NEXT), run
    assert check_table(run.storage) == [], run
    assert list_leftovers(run.storage) == [], run
    assert load_timeline(run.storage).pending() == (), run


def is_decided(run: CrashRun, *actions: Action) -> bool:
    return any(i.action in actions for i in load_timeline(run.storage).instants)


@TYPES
def test_a_killed_savepoint_is_whole_or_none_and_can_be_made(table_type: str) -> None:
    setup = after(create(table_type), upsert(FIRST, SECOND))
    ends = set()
    for run in deaths(calling(make_savepoint, 0), setup, 60):
        found = load_savepoints(run.storage, load_timeline(run.storage))
        ends.add(len(found))
        assert check_table(run.storage) == [], run
        calling(make_savepoint, 0)(run.storage, run.world, run.lock)
        (made,) = load_savepoints(run.storage, load_timeline(run.storage))
        assert made.files and all(run.storage.info(path) for path in made.files), run
        ensure_goes_on(run, fold(FIRST, SECOND))
    assert ends == {0, 1}, "both outcomes must occur, or the sweep proves nothing"


def test_a_killed_removal_of_a_savepoint_can_be_repeated() -> None:
    setup = after(create("MERGE_ON_READ"), upsert(FIRST), calling(make_savepoint, 0))
    for run in deaths(calling(remove_savepoint, 0), setup, 60):
        assert check_table(run.storage) == [], run
        ensure_goes_on(run, FIRST)
        calling(make_savepoint, 0)(run.storage, run.world, run.lock)
        assert len(load_savepoints(run.storage, load_timeline(run.storage))) == 1, run


@TYPES
def test_a_killed_rollback_of_a_completed_write_happens_once_it_is_decided(
    table_type: str,
) -> None:
    setup = after(create(table_type), upsert(FIRST, SECOND))
    before, undone = fold(FIRST, SECOND), FIRST
    ends = set()
    for run in distinct(iter(deaths(calling(roll_back_instant, -1), setup, 120)), always=True):
        seen = read(run)
        assert seen in (before, undone), run
        assert check_table(run.storage) == [], run
        expected = undone if is_decided(run, Action.ROLLBACK) else before
        ends.add(len(expected))
        ensure_goes_on(run, expected)
    assert len(ends) == 2


@TYPES
def test_a_killed_restore_happens_once_it_is_decided(table_type: str) -> None:
    steps = [FIRST, fold(FIRST, SECOND), fold(FIRST, SECOND, THIRD)]
    more = (compact,) if table_type == "MERGE_ON_READ" else ()
    setup = after(create(table_type), upsert(FIRST, SECOND), *more, upsert(THIRD))
    ends = set()
    for run in distinct(iter(deaths(calling(restore_table, 0), setup, 160)), always=True):
        assert read(run) in steps, run
        assert check_table(run.storage) == [], run
        expected = FIRST if is_decided(run, Action.RESTORE) else steps[-1]
        ends.add(len(expected))
        ensure_goes_on(run, expected)
    assert len(ends) == 2


def test_a_killed_restore_can_be_asked_for_again() -> None:
    setup = after(create("MERGE_ON_READ"), upsert(FIRST, SECOND, THIRD))
    for run in deaths(calling(restore_table, 0), setup, 40):
        calling(restore_table, 0)(run.storage, run.world, run.lock)
        assert read(run) == FIRST, run
        ensure_goes_on(run, FIRST)


@pytest.mark.parametrize("service", [restore_table, roll_back_instant])
@TYPES
def test_a_writer_that_sleeps_anywhere_commits_before_or_after_but_never_what_was_undone(
    table_type: str, service: Callable[..., object]
) -> None:
    """The writer builds on the write that goes. Where it committed first, a rollback is refused and
    a restore takes it along; where it did not, it is refused or begins anew after it."""
    ends = set()
    calls = _interleave(table_type, service, None)[0].calls("writer")
    for call in sample(list(range(1, calls + 1)), 24, f"{table_type} {service.__name__}"):
        sim, lock, at = _interleave(table_type, service, call)
        told = f"asleep at {call}\n" + "\n".join(sim.trace)
        seen = flows.read(sim.memory, sim.world("after"), lock)
        wrote = not isinstance(sim.outcomes["writer"], Raised)
        undid = not isinstance(sim.outcomes["undoer"], Raised)
        is_there = any(i.requested_at == at for i in load_timeline(sim.memory).writes())
        allowed = [fold(FIRST, SECOND, THIRD)] if not undid else [FIRST, fold(FIRST, THIRD)]
        assert is_there != undid, told
        assert seen in allowed, f"{seen}\n{told}"
        assert wrote or seen.get("e2") is None, told
        ends.add((wrote, undid, "e2" in seen))
        assert check_table(sim.memory) == [], told
        upsert(NEXT)(sim.memory, sim.world("after"), lock)
        assert flows.read(sim.memory, sim.world("after"), lock) == fold(seen, NEXT), told
        assert list_leftovers(sim.memory) == [], told
    assert len(ends) >= 2, ends


def _interleave(
    table_type: str, service: Callable[..., object], call: int | None
) -> tuple[Simulation, Any, RequestedAt]:
    sim = Simulation(0)
    storage, lock = sim.storage(), sim.lock(timeout_ms=None)
    after(create(table_type), upsert(FIRST, SECOND))(storage, sim.world("setup"), lock)
    first, second = (write.requested_at for write in load_timeline(storage).writes())
    chosen = first if service is restore_table else second

    def undo(table: Any) -> None:
        service(table._opened, chosen)

    sim.actor("writer", partial(upsert(THIRD), storage, sim.world("writer"), lock))
    sim.actor("undoer", partial(undo, open_on(storage, sim.world("undoer"), lock)))
    sim.pause_at("undoer", call=1, pause_ms=15_000)  # until the writer sleeps, or has ended
    if call is not None:
        sim.pause_at("writer", call=call, pause_ms=30_000)
    for outcome in sim.run().values():
        assert not isinstance(outcome, Raised) or isinstance(outcome.error, LenticError), outcome
    return sim, lock, second
