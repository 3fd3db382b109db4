"""Ingestion, clustering, two who cancel, a cleaner and an archiver on one table, faults by seed.

    make cancels SEED=0 SEEDS=20000

Crash, pause longer than the heartbeat, lease expiry, failed call, lost reply: no plan is both
committed and aborted, a promise that a plan will not complete is kept, no write fails but for a
clustering that completed first, no row is lost, doubled or seen uncommitted; when the faults stop,
three runs of the services bring every plan to its end and leave nothing stale. Then each rule of
the protocols is switched off, and the same checks must find it out.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from lentic.format.names import Action
from lentic.format.times import RequestedAt
from lentic.services import abort, catalog, clustering, clustering_draft, guard, schedule
from lentic.storage.base import Storage
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_timeline
from lentic.timeline.timeline import Timeline
from lentic.txn.transaction import OpenTable, Transaction
from lentic.view.changed_partitions import Doubt
from lentic.view.listing import load_table_files
from lentic.view.table_view import TableFiles
from lentic.write import commit, markers
from tests.rfc.claims import says
from tests.simulation.cancel_crowd import EXECUTORS, Plot, aimed_plot_of, plot_of
from tests.simulation.cancel_judge import violations
from tests.simulation.faults import LEASE_MS, without_r2

FIRST_SEED = int(os.environ.get("LENTIC_CANCELS_SEED", "0"))
SEEDS = int(os.environ.get("LENTIC_CANCELS_SEEDS", "30"))
MUTANT_RUNS = 1_000


@says(
    "R3",
    "cancel.request.promise",
    "cancel.exec.many",
    "cancel.precedence.only",
    "cancel.aborted.must",
)
def test_cancelling_keeps_its_promise_and_everything_comes_to_rest() -> None:
    met: dict[str, int] = {}
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        found = violations(seed)
        assert not found, f"seed {seed}:\n" + "\n".join(found)
        for _, _, kind in plot_of(seed).faults:
            kind = kind.rstrip(" 0123456789")
            met[kind] = met.get(kind, 0) + 1
    print(f"\n{SEEDS} seeds, faults planned: {dict(sorted(met.items()))}")
    assert SEEDS < 20 or len(met) == 6, "the seeds must bring different faults"


@pytest.mark.parametrize("seed", [16966])
def test_what_was_found_once_is_not_found_again(seed: int) -> None:
    """16966: an executor that had slept announced a file while a clean swept its earlier ones, and
    the clean took the marker away, though it had not deleted that file."""
    assert not violations(seed)


def test_sleepers_between_a_decision_and_its_file_harm_nobody() -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + max(1, SEEDS // 6)):
        plot = aimed_plot_of(seed)
        found = violations(seed, plot)
        assert not found, f"seed {seed}, aimed:\n" + "\n".join(found)


# --- each rule is needed ------------------------------------------------------------------------


def _without_r1(patch: pytest.MonkeyPatch) -> None:
    """Terminal steps do not look whether the instant is still theirs."""
    patch.setattr(Transaction, "ensure_still_ours", _ensure_nothing)
    patch.setattr(Transaction, "ensure_not_cancelled", _ensure_nothing)
    patch.setattr(abort, "_ensure_mine", _ensure_nothing)


def _ensure_nothing(*of: object, **more: object) -> None:
    """Whatever the timeline says."""


def _without_r3_timeline(patch: pytest.MonkeyPatch) -> None:
    """A clustering looks for a request to cancel it before it completes, and for nothing else."""
    whole = Transaction.ensure_still_ours

    def ensure(self: Transaction, instant: Instant, **settled: Any) -> None:
        if instant.action is Action.CLUSTERING:
            self.ensure_not_cancelled(instant)
        else:
            whole(self, instant, **settled)

    patch.setattr(Transaction, "ensure_still_ours", ensure)
    patch.setattr(commit, "_ensure_guard", _ensure_nothing)


def _without_r3_request(patch: pytest.MonkeyPatch) -> None:
    """A clustering looks at the timeline before it completes, and not for a request to cancel."""
    patch.setattr(Transaction, "ensure_not_cancelled", _ensure_nothing)


def _without_r3_refusal(patch: pytest.MonkeyPatch) -> None:
    """Whoever aborts a plan does not look whether it has completed."""
    patch.setattr(abort, "_ensure_abortable", _ensure_nothing)
    patch.setattr(abort, "_ensure_mine", _ensure_nothing)


class _Late:
    """The files that were announced, as of the moment at which they are deleted."""

    def __init__(self, storage: Storage, at: RequestedAt) -> None:
        self.storage, self.at = storage, at

    def __iter__(self) -> Iterator[str]:
        return iter(markers.list_announced(self.storage, self.at))


def _without_r4(patch: pytest.MonkeyPatch) -> None:
    """An executor deletes what it finds when it comes to it, whoever announced it."""
    reconcile = commit._reconcile

    def reconcile_all(*of: Any, run: int | None) -> None:
        reconcile(*of, run=None)

    patch.setattr(guard, "markers", SimpleNamespace(list_announced=_Late))
    patch.setattr(commit, "_reconcile", reconcile_all)


def _without_r11_carry(patch: pytest.MonkeyPatch) -> None:
    """What a plan has seen and not taken on is not passed on to the next."""
    whole = schedule.load_start

    def start(*of: Any) -> Any:
        found = whole(*of)
        return found if isinstance(found, Doubt) else replace(found, carry=frozenset())

    patch.setattr(schedule, "load_start", start)


def _without_r11_aborted(patch: pytest.MonkeyPatch) -> None:
    """Nobody takes up what an aborted plan was for."""
    patch.setattr(schedule, "load_aborted", lambda *of: frozenset())


def _without_r12(patch: pytest.MonkeyPatch) -> None:
    """The planner looks at the table before it has the lock and a time."""
    seen: dict[int, TableFiles] = {}

    def schedule_hastily(table: OpenTable, **asked: Any) -> RequestedAt | None:
        timeline = load_timeline(table.storage)
        seen[id(table.storage)] = load_table_files(table.storage, timeline)
        return clustering.schedule_clustering(table, **asked)

    def load(storage: Storage, timeline: Timeline, looked: schedule.Looked) -> TableFiles:
        before, chosen = seen.pop(id(storage), None), looked.partitions
        if before is None or chosen is None:
            return before or schedule.load_looked_at(storage, timeline, looked)
        files = tuple(file for file in before.files if file.directory in chosen)
        return replace(before, files=files, partitions=chosen)

    hasty = replace(catalog.SERVICES["clustering"], schedule=schedule_hastily)
    patch.setattr(catalog, "SERVICES", {**catalog.SERVICES, "clustering": hasty})
    patch.setattr(clustering_draft, "load_looked_at", load)


MUTANTS = {
    "R1": _without_r1,
    "R2": without_r2,
    "R3 timeline": _without_r3_timeline,
    "R3 request": _without_r3_request,
    "R3 refusal": _without_r3_refusal,
    "R4": _without_r4,
    "R11 carry": _without_r11_carry,
    "R11 aborted": _without_r11_aborted,
    "R12": _without_r12,
}


def _can_tell(rule: str, plot: Plot) -> bool:
    """Whether a run of the plot may depend on the rule at all; the rest would only take time."""
    calls = [call for who, call, kind in plot.faults if who in EXECUTORS and "pause" in kind]
    slept = plot.slept(EXECUTORS)
    match rule:
        case "R2":
            return plot.has_lease and bool(slept) and slept[0] > LEASE_MS
        case "R3 timeline":  # it is given up, and aborted by others, when it is about to complete
            return plot.looks > 2 and max(slept, default=0) > 20_000 and 30 < max(calls) < 75
        case "R4":  # it is given up as it begins, and wakes while another is at it
            left_alone = plot.shape.first is not None and plot.looks == 0 and len(calls) == 3
            return left_alone and calls[0] < 23 and calls[2] > 63
        case "R11 carry":
            return plot.shape.groups_max == 1
        case "R11 aborted":  # somebody else plans meanwhile, for what is written meanwhile
            shape, by_change = plot.shape, [asked.partitions is None for asked in plot.plans]
            has_logs = shape.buckets is None and shape.table_type == "MERGE_ON_READ"
            return has_logs and not plot.joins and sum(by_change) > 3
        case "R12":
            return not plot.joins
        case _:
            return True


SOON = ("R1", "R2", "R3 timeline", "R3 request", "R3 refusal")
"""Found out within a few runs; the others take minutes, and are for `make cancels`."""


@says("R3")
@pytest.mark.parametrize(
    "rule", [r if r in SOON else pytest.param(r, marks=pytest.mark.slow) for r in MUTANTS]
)
def test_a_rule_that_is_off_is_found_out(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[rule](monkeypatch)
    seeds = (seed for seed in itertools.count() if _can_tell(rule, plot_of(seed)))
    for runs, seed in enumerate(seeds, start=1):
        if found := violations(seed):
            print(f"\nwithout {rule}: run {runs}, seed {seed}: {found[0][:200]}")
            return
        assert runs < MUTANT_RUNS, f"{runs} runs found nothing wrong without {rule}"
