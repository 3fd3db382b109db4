"""Archiving: the oldest instants leave the active timeline for its history (R13).

Only completed instants go, the oldest first, and none may be left that readers or writers still
look for on the active timeline. Other engines take every file older than the first active instant
for committed; so nothing that is undecided may lie before what is archived.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lentic.config.retention import ArchiveOptions
from lentic.format.names import Action, parse_base_file, parse_log_file
from lentic.format.times import CompletedAt, RequestedAt, is_before
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
        if instants:
            txn.archive(instants)
        return instants


def list_due(table: OpenTable, timeline: Timeline) -> tuple[Instant, ...]:
    """What would be archived now."""
    needed = _first_needed(table.storage, timeline)
    return plan_archive(timeline, table.services.archive, needed)


def is_archive_due(timeline: Timeline, options: ArchiveOptions) -> bool:
    """Whether more completed writes are active than may be."""
    return len(timeline.writes()) > options.commits_max


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


def _barrier(timeline: Timeline, needed: RequestedAt | None) -> RequestedAt | None:
    held = [i.requested_at for i in timeline.pending()]
    held += [i.requested_at for i in timeline.instants if i.action is Action.SAVEPOINT]
    return min((*held, *([needed] if needed else [])), default=None)


def _is_earlier(timeline: Timeline, going: Sequence[Instant], staying: Sequence[Instant]) -> bool:
    """Whether all that goes completed before all that stays, and before what is pending began."""
    latest = max(_completions(going))
    first_pending = min((i.requested_at for i in timeline.pending()), default=None)
    if first_pending is not None and not is_before(latest, first_pending):
        return False
    return all(latest < at for at in _completions(staying))


def _completions(instants: Iterable[Instant]) -> list[CompletedAt]:
    return [i.completed_at for i in instants if i.completed_at is not None]


def _first_needed(storage: Storage, timeline: Timeline) -> RequestedAt | None:
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
