"""Three runners and a writer on one table, faults by seed; then one runner without faults.

    make runners SEED=0 SEEDS=2000

Crash, pause longer than the heartbeat, lease expiry, failed call, lost reply: no committed row is
lost, no plan is completed twice, and two times to live after the faults stop nothing is pending.
"""

from __future__ import annotations

import os

from tests.simulation.runner_crowd import plot_of, violations

FIRST_SEED = int(os.environ.get("LENTIC_RUNNERS_SEED", "0"))
SEEDS = int(os.environ.get("LENTIC_RUNNERS_SEEDS", "25"))


def test_runners_survive_each_other_and_finish_what_the_dead_left() -> None:
    met: dict[str, int] = {}
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        found = violations(seed)
        assert not found, f"seed {seed}:\n" + "\n".join(found)
        for name, _, kind in plot_of(seed).faults:
            met[f"{name[0]} {kind}"] = met.get(f"{name[0]} {kind}", 0) + 1
    print(f"\n{SEEDS} seeds, faults planned: {dict(sorted(met.items()))}")
    assert SEEDS < 20 or len(met) >= 8, "the seeds must bring different faults"
