"""Every write operation meets a storage that fails: at any call, before its effect or after it.

After it means a lost reply: the call did what it was told, and the caller is told it failed. The
caller of the operation gets one of our errors, and nothing is visible; or a success, and all of it
is; or `OutcomeUnknown`, and reading back tells which. Never half (R15).
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import pytest

from lentic.errors import LenticError, OutcomeUnknown
from lentic.testing.crash_sweep import crash_points
from lentic.testing.simulation import Raised, Returned
from tests.rfc.claims import says
from tests.simulation.cases import (
    AT_LENGTH,
    BEFORE,
    COW,
    COW_BUCKETS,
    MATRIX,
    MOR,
    MOR_BUCKETS,
    Case,
    Rows,
    Shape,
    commit_call,
    ensure_sound,
    sample,
    scene,
)

When = Literal["before", "after"]
Loss = tuple[tuple[int, When], ...]
"""The calls that fail, and how."""

WAYS: tuple[When, When] = ("before", "after")
WHOLE = {("delete_partitions", COW)}
"""What the short suite tries in whole. Of the rest it tries the commit itself and a sample."""
SAMPLE = 1
FOR_GOOD = 300
FEW = [
    (case, shape)
    for case, shape in MATRIX
    if AT_LENGTH
    or (case.name, shape)
    in {
        ("upsert", MOR_BUCKETS),
        ("upsert_new_column", COW_BUCKETS),
        ("merge", MOR),
        ("insert_overwrite", COW),
        ("delete_partitions", COW),
    }
]


def over(cells: list[tuple[Case, Shape]]) -> pytest.MarkDecorator:
    names = [f"{case.name}-{shape.name}" for case, shape in cells]
    return pytest.mark.parametrize(("case", "shape"), cells, ids=names)


def told(case: Case, shape: Shape, loss: Loss) -> str:
    """What the caller is told when these calls fail, and what was so; the next writer recovers."""
    start = scene(shape)
    sim, lock = start.stage()
    for call, when in loss:
        sim.fail_at("flow", call=call, when=when)
    sim.actor("flow", partial(case.flow, sim.storage(), sim.world("flow"), lock))
    outcome = sim.run()["flow"]
    trace = f"{loss[:2]}: {outcome}\n" + "\n".join(sim.trace)
    answer: str
    allowed: list[Rows]
    if isinstance(outcome, Returned):
        answer, allowed = "done", [case.after]
    else:
        assert isinstance(outcome, Raised) and isinstance(outcome.error, LenticError), trace
        unknown = isinstance(outcome.error, OutcomeUnknown)
        answer = "unknown" if unknown else "not done"
        allowed = [BEFORE, case.after] if unknown else [BEFORE]
    seen = ensure_sound(
        sim.memory, sim.world("next"), lock, began=start, allowed=allowed, trace=trace
    )
    return f"{answer}, {'after' if seen == case.after else 'before'}"


def choose_calls(case: Case, shape: Shape, name: str) -> list[int]:
    every = sorted({point.call for point in crash_points(case.flow, scene(shape))})
    if AT_LENGTH or (case.name, shape) in WHOLE:
        return every
    commit = commit_call(case, scene(shape))
    return [commit, *sample(every, SAMPLE, f"{name} {case.name}-{shape.name}")]


@over(MATRIX)
def test_a_call_that_fails_with_or_without_its_effect_is_all_or_nothing(
    case: Case, shape: Shape
) -> None:
    losses = [(call, when) for call in choose_calls(case, shape, "one loss") for when in WAYS]
    answers = {told(case, shape, (loss,)) for loss in losses}
    assert answers == {"done, after", "not done, before"}


@says("R15", "P19")
@over(FEW)
def test_when_reading_back_fails_too_the_outcome_is_unknown_and_still_never_half(
    case: Case, shape: Shape
) -> None:
    calls = choose_calls(case, shape, "two losses")
    answers = {
        told(case, shape, ((call, when), (call + 1, "before"))) for call in calls for when in WAYS
    }
    assert answers >= {"unknown, after", "unknown, before"}


@over(FEW)
def test_a_storage_that_goes_away_for_good_leaves_a_table_that_the_next_writer_mends(
    case: Case, shape: Shape
) -> None:
    """Nothing can be rolled back either: all clean-up is left to who comes next."""
    answers = set()
    for call in choose_calls(case, shape, "gone for good"):
        dead: Loss = tuple((later, "before") for later in range(call + 1, call + FOR_GOOD))
        answers.add(told(case, shape, ((call, "after"), *dead)))
    assert "unknown, after" in answers
