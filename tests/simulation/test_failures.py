"""A storage call that fails, at every call of a compaction, with and without its effect.

The caller gets one of our errors, or a success; no row changes, and whatever is left of the plan
does not stop the next upsert. The write operations have the same in `test_lost_replies`.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from lentic.errors import LenticError
from lentic.testing.checkers import check_table
from lentic.testing.crash_sweep import crash_points, set_scene
from lentic.testing.simulation import Raised, Returned
from tests.simulation.cases import sample
from tests.simulation.flows import Rows, after, compact, create, fold, read, upsert

FIRST: Rows = {"a0": 1, "b0": 1, "c1": 1}
SECOND: Rows = {"a0": 2, "e1": 2}
THIRD: Rows = {"a0": 3, "g0": 3}
WAYS: tuple[Literal["before", "after"], ...] = ("before", "after")


def test_a_failing_call_of_a_compaction_changes_no_row() -> None:
    start = set_scene(after(create("MERGE_ON_READ"), upsert(FIRST, SECOND)))
    rows, ends = fold(FIRST, SECOND), set()
    calls = sorted({point.call for point in crash_points(compact, start)})
    failures = [(call, when) for call in calls for when in WAYS]
    for call, when in sample(failures, 40, "compaction"):
        sim, lock = start.stage()
        sim.fail_at("flow", call=call, when=when)
        world = sim.world("flow")
        sim.actor("flow", partial(compact, sim.storage(), world, lock))
        outcome = sim.run()["flow"]
        trace = f"call {call} {when}: {outcome}\n" + "\n".join(sim.trace)
        failed = isinstance(outcome, Raised) and isinstance(outcome.error, LenticError)
        assert failed or isinstance(outcome, Returned), trace
        assert read(sim.memory, world, lock) == rows, trace
        assert check_table(sim.memory) == [], trace
        upsert(THIRD)(sim.memory, world, lock)
        assert read(sim.memory, world, lock) == fold(rows, THIRD), trace
        ends.add(type(outcome).__name__)
    assert ends == {"Raised", "Returned"}
