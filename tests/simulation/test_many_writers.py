"""Three writers, two compactors, a cleaner and a follower on one table, with faults by seed.

    make crowd SEED=0 SEEDS=20000

Crash, pause longer than the heartbeat, lease expiry, failed call, lost reply, clocks that are off:
no committed row is lost or doubled, none uncommitted is seen, times rise, everybody who was left
alone commits (without blocking), and the next run of the services puts everything right. Then each
rule of the protocols is switched off, and the same checks must find it out.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from typing import Any

import pytest

from lentic.coordination import heartbeat
from lentic.coordination.lock import Held
from lentic.format.plans import encode_compaction_plan
from lentic.format.times import RequestedAt, Zone, format_time
from lentic.services import catalog, compaction
from lentic.testing import sim_world
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_timeline
from lentic.txn import transaction
from lentic.txn.transaction import OpenTable, Transaction
from lentic.view import slicing, table_view
from lentic.view.files import FileGroup, FileGroupId, LogFile
from lentic.view.listing import load_table_files
from lentic.world import Clock
from lentic.write.completion import Share
from tests.rfc.claims import says
from tests.simulation.crowd import COMPACTORS, Plot, plot_of, violations
from tests.simulation.faults import without_r2

FIRST_SEED = int(os.environ.get("LENTIC_CROWD_SEED", "0"))
SEEDS = int(os.environ.get("LENTIC_CROWD_SEEDS", "60"))
MUTANT_RUNS = 1_000


@says("rfc66.nbcc", "N15", "N1")
def test_nothing_is_lost_doubled_or_seen_too_early() -> None:
    met: dict[str, int] = {}
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        found = violations(seed)
        assert not found, f"seed {seed}:\n" + "\n".join(found)
        for _, _, kind in plot_of(seed).faults:
            met[kind] = met.get(kind, 0) + 1
    print(f"\n{SEEDS} seeds, faults planned: {dict(sorted(met.items()))}")
    assert SEEDS < 20 or len(met) >= 6, "the seeds must bring different faults"


@pytest.mark.parametrize("seed", [11_515, 12_733])
def test_what_a_dead_holder_decided_is_seen_by_a_cleaner_that_waits(seed: int) -> None:
    """A writer died between its decision in the lock and the file: the next holder makes it, and
    a cleaner that looks before it holds the lock would leave the instant pending."""
    assert not violations(seed)


def _without_r1(patch: pytest.MonkeyPatch) -> None:
    def ensure_nothing(self: Transaction, instant: Instant, **settled: object) -> None:
        """Whatever the timeline says."""

    patch.setattr(Transaction, "ensure_still_ours", ensure_nothing)


def _without_r4(patch: pytest.MonkeyPatch) -> None:
    """Every run calls its files the same."""
    patch.setattr(sim_world.SimEntropy, "integer", lambda self, below: 0)
    patch.setattr(compaction, "Share", lambda part, file_id, task, _: Share(part, file_id, task))


def _without_r9(patch: pytest.MonkeyPatch) -> None:
    """Each clock for itself."""

    def issue(held: Held, clock: Clock, zone: Zone, *, seen: str, skew_ms_max: int) -> str:
        time = format_time(clock.now_ms(), zone)
        held.save_last_time(time)
        return time

    patch.setattr(transaction, "issue_time", issue)


def _without_r10(patch: pytest.MonkeyPatch) -> None:
    """A log belongs to the slice that was there when its writer began."""

    def slice_by_request(group: FileGroupId, bases: Any, logs: Any) -> FileGroup:
        bases, logs = list(bases), list(logs)
        begun = [_as_if_completed_when_begun(log) for log in logs]
        return slicing.slice_file_group(group, bases, begun)

    patch.setattr(table_view, "slice_file_group", slice_by_request)


def _as_if_completed_when_begun(log: LogFile) -> LogFile:
    changed: Any = log.name.requested_at
    return LogFile(**{f: getattr(log, f) for f in log.__slots__} | {"completed_at": changed})


def _without_r12(patch: pytest.MonkeyPatch) -> None:
    """The planner looks at the table before it has the lock and a time."""

    def schedule(table: OpenTable, **_: object) -> RequestedAt | None:
        seen = load_timeline(table.storage)
        groups = load_table_files(table.storage, seen).groups()
        plan = compaction.plan_compaction(groups, table.services.compaction)
        with transaction.transaction(table) as txn:
            if pending := txn.timeline.pending(compaction.Action.COMPACTION):
                return pending[0].requested_at
            if not plan.operations:
                return None
            at = RequestedAt(txn.next_time())
            content = encode_compaction_plan(plan)
            return txn.request_at(at, compaction.Action.COMPACTION, content).requested_at

    hasty = replace(catalog.SERVICES["compaction"], schedule=schedule)
    patch.setattr(catalog, "SERVICES", {**catalog.SERVICES, "compaction": hasty})


def _without_r14(patch: pytest.MonkeyPatch) -> None:
    """One look at a heartbeat is enough to give its owner up."""
    patch.setattr(heartbeat.Watch, "has_expired", lambda self, at, content: True)


MUTANTS = {
    "R1": _without_r1,
    "R2": without_r2,
    "R4": _without_r4,
    "R9": _without_r9,
    "R10": _without_r10,
    "R12": _without_r12,
    "R14": _without_r14,
}


def _can_tell(rule: str, plot: Plot) -> bool:
    """Whether a run of the plot may depend on the rule at all; the rest would only take time."""
    if rule == "R4":  # names matter where a plan is taken over
        return any(who in COMPACTORS and what == "pause 30000" for who, _, what in plot.faults)
    return plot.has_lease if rule == "R2" else True


@pytest.mark.parametrize("rule", MUTANTS)
def test_a_rule_that_is_off_is_found_out(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[rule](monkeypatch)
    seeds = (seed for seed in itertools.count() if _can_tell(rule, plot_of(seed)))
    for runs, seed in enumerate(seeds, start=1):
        if found := violations(seed):
            print(f"\nwithout {rule}: run {runs}, seed {seed}: {found[0][:200]}")
            return
        assert runs < MUTANT_RUNS, f"{runs} runs found nothing wrong without {rule}"
