"""Compaction, log compaction, clustering, clean and archive with two writers, faults by seed.

    make services SEED=0 SEEDS=20000

Crash, pause longer than the heartbeat, lease expiry, failed call, lost reply: no committed row is
lost or doubled, none uncommitted is seen; when the faults stop, three runs bring every plan to its
end and leave nothing stale.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from tests.rfc.claims import says
from tests.simulation.service_crowd import aimed_plot_of, plot_of, violations

FIRST_SEED = int(os.environ.get("LENTIC_SERVICES_SEED", "0"))
SEEDS = int(os.environ.get("LENTIC_SERVICES_SEEDS", "40"))


@says("rfc79.abstract.beside")
def test_services_survive_each_other_and_come_to_rest() -> None:
    met: dict[str, int] = {}
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        found = violations(seed)
        assert not found, f"seed {seed}:\n" + "\n".join(found)
        plot = plot_of(seed)
        for word in (*plot.services, *(kind for _, _, kind in plot.faults)):
            met[word] = met.get(word, 0) + 1
    print(f"\n{SEEDS} seeds, services and faults planned: {dict(sorted(met.items()))}")
    assert SEEDS < 20 or len(met) >= 12, "the seeds must bring different services and faults"


def test_sleepers_between_a_decision_and_its_file_harm_nobody() -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + max(1, SEEDS // 4)):
        plot = aimed_plot_of(seed)
        found = violations(seed, plot)
        assert not found, f"seed {seed}, aimed:\n" + "\n".join(found)


@pytest.mark.parametrize("seed", [3_388])
def test_a_plan_that_comes_back_without_its_content_is_in_nobodys_way(seed: int) -> None:
    """An executor slept between its decision in the lock and the inflight file. The next holder
    made the file, a write took the plan off the timeline, and then the executor woke."""
    assert not violations(seed)


def test_the_dead_are_given_up_together_and_not_one_after_the_other() -> None:
    """A writer and the executors of two plans died or slept: nobody waits for each in turn."""
    assert not violations(20_491)
    assert not violations(22_124), "one of them held the lock"
    assert not violations(1_369), "one died between a decision in the lock and its file"
    faults = (("w1", 83, "pause 30000"), ("compact", 137, "crash before"))
    assert not violations(1_090, replace(plot_of(1_090), has_lease=True, faults=faults))
