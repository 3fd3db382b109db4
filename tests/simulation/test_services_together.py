"""Compaction, log compaction, clustering, clean and archive with two writers, faults by seed.

    make services SEED=0 SEEDS=20000

Crash, pause longer than the heartbeat, lease expiry, failed call, lost reply: no committed row is
lost or doubled, none uncommitted is seen; when the faults stop, three runs bring every plan to its
end and leave nothing stale.
"""

from __future__ import annotations

import os

from tests.simulation.service_crowd import plot_of, violations

FIRST_SEED = int(os.environ.get("LENTIC_SERVICES_SEED", "0"))
SEEDS = int(os.environ.get("LENTIC_SERVICES_SEEDS", "40"))


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
