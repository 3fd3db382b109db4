"""A storage call that fails, at every call of every flow, with and without its effect.

The caller gets one of our errors. Unless that is `OutcomeUnknown`, nothing of the write is visible;
a success means all of it is. Either way the next upsert works.
"""

from __future__ import annotations

from functools import partial

import pytest

from lentic.errors import LenticError, OutcomeUnknown
from lentic.testing.checkers import check_table
from lentic.testing.crash_sweep import Flow, crash_points
from lentic.testing.simulation import Raised, Returned, Simulation
from tests.simulation.flows import Rows, after, compact, create, fold, read, upsert

FIRST: Rows = {"a0": 1, "b0": 1, "c1": 1}
SECOND: Rows = {"a0": 2, "e1": 2, "f2": 2}
THIRD: Rows = {"a0": 3, "g0": 3}


def outcomes(flow: Flow, setup: Flow, before: Rows, done: Rows) -> set[str]:
    seen = set()
    for call in sorted({point.call for point in crash_points(flow, setup)}):
        for when in ("before", "after"):
            sim = Simulation()
            storage, lock = sim.storage(), sim.lock()
            setup(storage, sim.world("setup"), lock)
            sim.fail_at("flow", call=call, when=when)
            world = sim.world("flow")
            sim.actor("flow", partial(flow, storage, world, lock))
            outcome = sim.run()["flow"]
            trace = f"call {call} {when}\n" + "\n".join(sim.trace)
            rows = read(sim.memory, world, lock)
            assert check_table(sim.memory) == [], trace
            if isinstance(outcome, Returned):
                assert rows == done, trace
            else:
                assert isinstance(outcome, Raised) and isinstance(outcome.error, LenticError), trace
                unknown = isinstance(outcome.error, OutcomeUnknown)
                assert rows == before or (unknown and rows == done), trace
            upsert(THIRD)(sim.memory, world, lock)
            assert read(sim.memory, world, lock) == fold(rows, THIRD), trace
            seen.add(type(outcome).__name__)
    return seen


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_a_failing_call_of_an_upsert_is_all_or_nothing(table_type: str) -> None:
    setup = after(create(table_type), upsert(FIRST))
    seen = outcomes(upsert(SECOND), setup, FIRST, fold(FIRST, SECOND))
    assert seen == {"Raised", "Returned"}


def test_a_failing_call_of_a_compaction_changes_no_row() -> None:
    setup = after(create("MERGE_ON_READ"), upsert(FIRST, SECOND))
    rows = fold(FIRST, SECOND)
    assert outcomes(compact, setup, rows, rows) == {"Raised", "Returned"}
