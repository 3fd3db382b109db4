"""Every write operation, on every shape of table, is killed at every storage call in every way.

Readers see exactly the rows before it or exactly the rows after it. The next writer needs no help:
it works, its rows are exact, and it leaves nothing behind of what died (S2, S5, S11: a torn log is
never appended to, and a driver that dies at any moment leaves nothing that stops the next one).
"""

from __future__ import annotations

import pytest

from lentic.testing.crash_sweep import CrashPoint, crash_points, run_with_crash
from tests.rfc.claims import says
from tests.simulation.cases import (
    AT_LENGTH,
    BEFORE,
    COW,
    COW_BUCKETS,
    MATRIX,
    MOR,
    Case,
    Shape,
    commit_call,
    distinct,
    ensure_sound,
    sample,
    scene,
)

WHOLE = {("upsert", COW_BUCKETS), ("upsert", MOR), ("insert_overwrite", COW)}
"""What the short suite sweeps in whole. Of the rest it tries the commit itself and a sample."""
SAMPLE = 3


def choose_points(case: Case, shape: Shape) -> list[CrashPoint]:
    every = crash_points(case.flow, scene(shape))
    if AT_LENGTH or (case.name, shape) in WHOLE:
        return every
    commit = commit_call(case, scene(shape))
    chosen = sample(every, SAMPLE, f"crash {case.name}-{shape.name}")
    return [CrashPoint(commit, "before"), CrashPoint(commit, "after"), *chosen]


@says("robust.acid")
@pytest.mark.parametrize(
    ("case", "shape"), MATRIX, ids=[f"{case.name}-{shape.name}" for case, shape in MATRIX]
)
def test_a_killed_write_shows_all_or_nothing_and_the_next_writer_recovers(
    case: Case, shape: Shape
) -> None:
    start = scene(shape)
    runs = (run_with_crash(case.flow, point, start) for point in choose_points(case, shape))
    ends = [
        ensure_sound(
            run.storage,
            run.world,
            run.lock,
            began=start,
            allowed=(BEFORE, case.after),
            trace=run,
        )
        for run in distinct(runs)
    ]
    assert BEFORE in ends and case.after in ends, "both ends must occur, or this proves nothing"
