"""Two attempts at every task of a write, at the same time, in whatever order a seed says.

Of each share one attempt counts: its file group gets one file, the other attempt's file is gone,
and rows and counts are what a single attempt would have made them.
"""

from __future__ import annotations

import pytest

from lentic.testing.checkers import list_leftovers
from lentic.testing.simulation import Crashed, Returned, Simulation
from lentic.write.commit import Commit
from tests.rfc.claims import says
from tests.simulation.cases import (
    CASES,
    COW,
    COW_BUCKETS,
    FIRST_SEED,
    MOR,
    MOR_BUCKETS,
    SEEDS,
    SHAPES,
    Case,
    Shape,
    case_named,
    sample,
    scene,
)
from tests.simulation.cluster import (
    COMPACT,
    ClusterRun,
    ensure_next_writer_works,
    ensure_written_once,
    play,
)

BY_SHAPE = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)


def cases_of(shape: Shape) -> tuple[Case, ...]:
    return (*CASES, COMPACT) if shape in (MOR, MOR_BUCKETS) else CASES


def counts(run: ClusterRun) -> tuple[int, int, int, int] | None:
    assert isinstance(run.outcome, Returned), run
    done = run.outcome.value
    if not isinstance(done, Commit):
        return None
    return done.inserted, done.updated, done.deleted, done.files


@says("S1", "S9", "robust.cm.stray")
@BY_SHAPE
def test_s1_s9_two_attempts_at_once_count_once(shape: Shape) -> None:
    """S1: both reach the completion marker, and storage chooses. S9: rows come to each of them in
    another order."""
    start, cases = scene(shape), cases_of(shape)
    alone = {case.name: counts(play(case.act, start, plan=_without_second)) for case in cases}
    losers = 0
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        case = cases[seed % len(cases)]
        run = play(case.act, start, seed=seed)
        ensure_written_once(run, case, start)
        assert counts(run) == alone[case.name], run
        ensure_next_writer_works(run, [case.after], start)
        losers += any("delete" in line and "worker-" in line for line in run.sim.trace)
    assert losers or SEEDS < 20, "no attempt ever lost a race: the seeds prove little"


def _without_second(sim: Simulation) -> None:
    """Worker 0 is alone: the other sleeps until all is over."""
    sim.pause_at("worker-1", call=1, pause_ms=10_000_000)


def _first_is_early(sim: Simulation) -> None:
    """Worker 0 goes ahead; the other begins when that has ended, or died."""
    sim.pause_at("worker-1", call=1, pause_ms=60_000)


@says("S12", "S2")
@pytest.mark.parametrize(
    ("case", "shape"),
    [
        (case_named("upsert"), COW_BUCKETS),
        (case_named("upsert"), MOR),
        (case_named("insert_overwrite_table"), MOR_BUCKETS),
        (case_named("insert_overwrite"), COW),
        (COMPACT, MOR_BUCKETS),
    ],
    ids=lambda value: value.name,
)
def test_s12_s2_the_next_attempt_needs_nothing_of_one_that_was_killed(
    case: Case, shape: Shape
) -> None:
    """S12: killed after its completion marker, so that its result is lost. S2: killed after its
    data file, before or after it could tell. The driver removes what it left, and at the commit
    nothing is there that it does not name."""
    start = scene(shape)
    unharmed = play(case.act, start, plan=_first_is_early)
    torn = set(unharmed.sim.torn_calls("worker-0"))
    points = [
        (call, when)
        for call in range(1, unharmed.sim.calls("worker-0") + 1)
        for when in ("before", "torn", "after")
        if when != "torn" or call in torn
    ]
    short_circuited = 0
    # Killed at its very last call it has completed all, and told the driver nothing of the last.
    chosen = [*sample(points[:-1], 12, f"killed worker {case.name}-{shape.name}"), points[-1]]
    for call, when in chosen:

        def plan(sim: Simulation, call: int = call, when: str = when) -> None:
            _first_is_early(sim)
            sim.crash_at("worker-0", call=call, when=when)  # type: ignore[arg-type]

        run = play(case.act, start, plan=plan)
        assert run.sim.outcomes["worker-0"] == Crashed(), run
        ensure_written_once(run, case, start)
        assert counts(run) == counts(unharmed), run
        assert list_leftovers(run.sim.memory) == [], run
        written = [line for line in run.sim.trace if "worker-1" in line and "close_output" in line]
        short_circuited += not written
        ensure_next_writer_works(run, [case.after], start)
    assert short_circuited
