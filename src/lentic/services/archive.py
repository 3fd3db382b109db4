"""Archiving: the oldest instants leave the active timeline for its history (R13).

Completed instants go, the oldest first, and none may be left that readers or writers still look
for on the active timeline; with them go aborted plans that a later plan has followed. Other
engines take every file older than the first active instant for committed; so nothing that is
undecided may lie before what is archived.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from lentic.config.retention import ArchiveOptions
from lentic.format.names import Action, parse_base_file, parse_log_file
from lentic.format.times import CompletedAt, RequestedAt, is_before
from lentic.services.due import is_archive_due
from lentic.services.plan_windows import list_plans
from lentic.services.rollback import sweep_markers
from lentic.storage.base import Storage
from lentic.timeline.instant import WRITES, Instant
from lentic.timeline.reader import load_commit_metadata
from lentic.timeline.timeline import Timeline
from lentic.txn.transaction import OpenTable, transaction


def archive_timeline(table: OpenTable) -> tuple[Instant, ...]:
    """Archive what is due, in one transaction; the instants that were archived."""
    if not is_archive_due(sweep_markers(table), table.services.archive):
        return ()
    with transaction(table) as txn:
        instants = list_due(table, txn.timeline)
        plans = list_plans(table.storage, txn.timeline, Action.CLUSTERING) if instants else ()
        if instants:
            txn.archive(instants)
        if aborted := plan_aborted(txn.timeline, instants, plans):
            txn.archive_aborted(aborted)
        return (*instants, *aborted)


def list_due(table: OpenTable, timeline: Timeline) -> tuple[Instant, ...]:
    """What would be archived now."""
    needed = load_first_needed(table.storage, timeline)
    return plan_archive(timeline, table.services.archive, needed)


def plan_archive(
    timeline: Timeline, options: ArchiveOptions, needed: RequestedAt | None = None
) -> tuple[Instant, ...]:
    """The instants to archive: the oldest, until `commits_min` writes are left. Never beyond

    - the first that is pending, nor one that completed after that was requested: the pending one
      has not seen it, and looks for it on the active timeline when it completes;
    - the first that has a savepoint;
    - anything while a restore is pending, which undoes completed instants;
    - `needed`, the first replacement that still hides files.

    What stays completed later than all that goes, so that a window of changes which begins with an
    active write needs no history. Cleans, rollbacks and the like go with the writes around them.
    """
    if not is_archive_due(timeline, options) or timeline.pending(Action.RESTORE):
        return ()
    done = [i for i in timeline.completed() if i.action is not Action.SAVEPOINT]
    writes = [i for i in done if i.action in WRITES]
    stop = _barrier(timeline, needed)
    for last in reversed(writes[: len(writes) - options.commits_min]):
        going = [i for i in done if i.requested_at <= last.requested_at]
        staying = [i for i in writes if i.requested_at > last.requested_at]
        if (stop is None or last.requested_at < stop) and _is_earlier(timeline, going, staying):
            return tuple(going)
    return ()


def plan_aborted(
    timeline: Timeline, going: Sequence[Instant], plans: Sequence[Instant]
) -> tuple[Instant, ...]:
    """The aborted plans that go with `going`: those as old. One that no later plan has followed,
    of those that live (`plans`) or were aborted, stays: the next takes up what it was for."""
    old = timeline.aborted(Action.CLUSTERING)
    last = max((i.requested_at for i in going), default=None)
    latest = max((i.requested_at for i in (*plans, *old)), default=None)
    if last is None or latest is None:
        return ()
    return tuple(i for i in old if i.requested_at < last and i.requested_at < latest)


@dataclass(frozen=True, slots=True)
class Barrier:
    """An instant that nothing may be archived beyond, and what it is that keeps it there: it is
    pending, it has a savepoint, or it still hides files."""

    at: RequestedAt
    kind: Literal["pending", "savepoint", "hides"]
    why: str


def list_barriers(timeline: Timeline, needed: RequestedAt | None) -> tuple[Barrier, ...]:
    """All that archiving must not go past, the oldest first."""
    found = [Barrier(i.requested_at, "pending", f"{i} is pending") for i in timeline.pending()]
    for held in timeline.instants:
        if held.action is Action.SAVEPOINT:
            found.append(Barrier(held.requested_at, "savepoint", f"{held} keeps its write"))
    if needed is not None:
        found.append(Barrier(needed, "hides", f"replacecommit {needed} still hides files"))
    return tuple(sorted(found, key=lambda barrier: barrier.at))


def _barrier(timeline: Timeline, needed: RequestedAt | None) -> RequestedAt | None:
    return min((barrier.at for barrier in list_barriers(timeline, needed)), default=None)


def _is_earlier(timeline: Timeline, going: Sequence[Instant], staying: Sequence[Instant]) -> bool:
    """Whether all that goes completed before all that stays, and before what is pending began."""
    latest = max(_completions(going))
    first_pending = min((i.requested_at for i in timeline.pending()), default=None)
    if first_pending is not None and not is_before(latest, first_pending):
        return False
    return all(latest < at for at in _completions(staying))


def _completions(instants: Iterable[Instant]) -> list[CompletedAt]:
    return [i.completed_at for i in instants if i.completed_at is not None]


def load_first_needed(storage: Storage, timeline: Timeline) -> RequestedAt | None:
    """The oldest replacement of which a group that it ended still has files: once archived it would
    hide them from no other engine."""
    for instant in timeline.completed(Action.REPLACECOMMIT):
        for partition, ids in load_commit_metadata(storage, instant).replaced.items():
            if _has_files(storage, partition, frozenset(ids)):
                return instant.requested_at
    return None


def _has_files(storage: Storage, partition: str, file_ids: frozenset[str]) -> bool:
    for file in storage.list_files(partition):
        name = parse_base_file(file.name) or parse_log_file(file.name)
        if name and name.file_id in file_ids:
            return True
    return False
