"""The one door to COMPLETED: reconcile, describe, complete.

Everything is derived from the one set of statuses the driver collected (R8): what may stay on
storage, and what the commit metadata names. Readers see the write at the moment the completed file
appears, which happens inside one transaction together with the checks that license it (R1).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lentic.config.groups import OnMetadataTable
from lentic.coordination.guards import latest_guard
from lentic.errors import (
    InstantCancelled,
    StorageError,
    UnsupportedFormat,
    WriteConflict,
    shell_command,
)
from lentic.format import layout
from lentic.format.commit_metadata import (
    REARRANGING,
    CommitMetadata,
    encode_commit_metadata,
)
from lentic.format.names import Action, completed_action, run_of
from lentic.format.table_config import decode_table_config
from lentic.format.times import CompletedAt, RequestedAt
from lentic.storage.base import Storage
from lentic.timeline.history import History, find_archived, load_archived_after
from lentic.timeline.instant import WRITES, Instant
from lentic.timeline.reader import decode_write, load_commit_metadata, load_compaction_plan
from lentic.timeline.timeline import Timeline
from lentic.txn.cancellation import cancel_conflicting
from lentic.txn.conflicts import (
    Mine,
    Refuse,
    Theirs,
    Touched,
    Verdict,
    completed_since,
    judge,
    may_stand_against,
    planned_since,
    touched_by,
    undone_since,
)
from lentic.txn.transaction import OpenTable, Transaction, transaction
from lentic.write import completion, markers
from lentic.write.completion import Accepted, statuses_of

_log = logging.getLogger(__name__)

_METADATA_KEYS = ("hoodie.table.metadata.partitions", "hoodie.table.metadata.partitions.inflight")


@dataclass(frozen=True, slots=True)
class Commit:
    """What a write did. Counts are in records, `bytes` is what was written.

    An updated record is one whose key was there and which has won; one that came late and changed
    nothing counts nowhere. Overwriting counts what it ended as deleted.
    """

    requested_at: RequestedAt
    completed_at: CompletedAt
    action: Action
    inserted: int
    updated: int
    deleted: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Begun:
    """A write under way: its instant, and the timeline it builds on; for a plan that must find its
    file groups as they were, the timeline on which it was made."""

    instant: Instant
    timeline: Timeline
    seen: Timeline | None = None
    """The table that the rows were computed from, where they were: what changed in their file
    groups since then was not taken into account."""
    looks_up: bool = False
    """Whether keys are looked up before new ones get a place, which buckets make needless."""
    epoch: int = 0
    """That of the transaction it began in."""
    guard: int | None = None
    """For plans, which may be executed more than once: the guard under which this is done."""
    settled: frozenset[RequestedAt] = frozenset()
    """Rollbacks that undid earlier executions of the plan, and do not stand against this one."""


def begin_write(
    table: OpenTable, action: Action, seen: Timeline | None = None, *, looks_up: bool = False
) -> Begun:
    """(nothing) -> INFLIGHT, in one transaction."""
    with transaction(table) as txn:
        ensure_metadata_table_true(txn, may_drop=True)
        instant = txn.start(txn.request(action))
        return Begun(instant, txn.timeline, seen, looks_up, txn.epoch)


def commit_write(
    table: OpenTable,
    begun: Begun,
    accepted: Sequence[Accepted],
    *,
    run: int,
    operation: str,
    extra: Mapping[str, str],
    replaced: Mapping[str, tuple[str, ...]] | None = None,
    compacted: bool = False,
) -> Commit:
    """INFLIGHT -> COMPLETED with exactly the files that `accepted` names.

    First the write is finalized, so that nothing can be added to it, then what is not accepted is
    removed (R7). `WriteConflict` if it rewrote or ended file groups that someone else changed
    meanwhile.
    """
    instant = begun.instant
    statuses = statuses_of(accepted)
    stats = tuple(status.stat for status in statuses)
    metadata = CommitMetadata(
        operation=operation, compacted=compacted, stats=stats, extra=extra, replaced=replaced or {}
    )
    completion.finalize(table.storage, instant.requested_at, run, accepted)
    seen = _reconcile(table, instant, metadata.paths(), run=None if begun.guard is None else run)
    replaces = completed_action(instant.action) is Action.REPLACECOMMIT
    content = encode_commit_metadata(metadata, replaces=replaces)
    touched = touched_by(metadata)
    with transaction(table) as txn:
        ensure_metadata_table_true(txn, may_drop=False)
        if begun.guard is not None:
            _ensure_guard(txn, begun)
        if instant.action is not Action.COMPACTION:  # its plan keeps others out
            _ensure_nothing_lost(txn, begun, touched)
        if instant.action in WRITES:
            cancel_conflicting(txn, instant, touched)
        completed = txn.complete(instant, content, settled=begun.settled)
    _tidy(table, completed, metadata.paths(), None if begun.guard is not None else seen)
    assert completed.completed_at is not None
    return Commit(
        requested_at=completed.requested_at,
        completed_at=completed.completed_at,
        action=completed.action,
        inserted=sum(status.inserted for status in statuses),
        updated=sum(status.updated for status in statuses),
        deleted=sum(status.deleted for status in statuses),
        files=len(stats),
        bytes=sum(stat.size for stat in stats),
    )


def _tidy(
    table: OpenTable, completed: Instant, named: frozenset[str], seen: frozenset[str] | None
) -> None:
    """Remove the markers of files that were dealt with: those `seen` by the reconciliation, or, of
    a plan (None), what others who worked on it in vain announced as well. The commit has landed, so
    a failure here must not look like a failed write; the next write removes what is left."""
    storage, at = table.storage, completed.requested_at
    try:
        if seen is None:
            seen = frozenset(markers.list_announced(storage, at))
            for path in sorted(seen - named):
                storage.delete(path)
        markers.remove_markers(storage, at, of=seen)
        completion.remove_completions(storage, at, keep_finalized=True)
    except StorageError as error:
        _log.warning("markers of %s stay until the next write: %s", completed, error)


def _reconcile(
    table: OpenTable, instant: Instant, accepted: frozenset[str], *, run: int | None
) -> frozenset[str]:
    """Delete what repeated attempts left, and say what had been announced by then; a delete that
    fails fails the write (P15).

    Of a plan only what `run` itself left: it may have been given up, and another be at it (R4).
    """
    announced = markers.list_announced(table.storage, instant.requested_at)
    for path in announced:
        if path not in accepted and (run is None or run_of(path) == run):
            table.storage.delete(path)
    return frozenset(announced)


def _ensure_guard(txn: Transaction, begun: Begun) -> None:
    """R1: nobody took the plan over since this execution began."""
    storage, at = txn.table.storage, begun.instant.requested_at
    if latest_guard(storage, at) != begun.guard:
        raise InstantCancelled(
            f"{begun.instant} was taken over by another job, which took this one for dead.",
            where=storage.root,
            safe="nothing of this attempt is visible",
            next_step=shell_command("timeline", storage.root),
        )


def _ensure_nothing_lost(txn: Transaction, begun: Begun, touched: Touched) -> None:
    """What a write has read, to rewrite it or to compute rows from it, must still be all there is,
    and be there (txn/conflicts.py)."""
    ensure_none_undone(txn.table, begun, txn.timeline)
    if not begun.looks_up:
        touched = replace(touched, grown=frozenset())
    verdict = judge_write(txn.table, begun, touched, txn.timeline)
    if isinstance(verdict, Refuse):
        raise WriteConflict(
            f"{verdict.instant} changed {len(verdict.places)} file group(s) that this write "
            f"rewrote or built upon, for example {verdict.places[0]}.",
            where=txn.table.storage.root,
            safe="nothing of this write is visible",
            next_step="write again, or let that happen by itself: "
            "hoodie.write.num.retries.on.conflict.failures",
        )


def judge_write(table: OpenTable, begun: Begun, touched: Touched, now: Timeline) -> Verdict:
    """Whether a write that touched `touched` may commit on the timeline `now`."""
    mine = Mine(
        touched,
        table.sharing.mode,
        is_computed=begun.seen is not None,
        is_planned=begun.guard is not None,
    )
    others: Iterable[Theirs] = list_others(table.storage, begun, now, mine)
    if table.write_options.index.is_global:
        mine = replace(mine, touched=touched.across_partitions())
        others = (replace(o, touched=o.touched.across_partitions()) for o in others)
    return judge(mine, others)


def ensure_none_undone(table: OpenTable, begun: Begun, now: Timeline) -> None:
    """`WriteConflict` if a write that `begun` builds on was rolled back since, or restored away."""
    undone = undone_since(begun.timeline, now)
    if begun.seen is not None:
        undone += undone_since(begun.seen, now)
    if undone:  # or archived, which looks the same on the timeline
        archived = find_archived(table.storage, frozenset(i.identity for i in undone))
        undone = tuple(i for i in undone if i.identity not in archived)
    if undone:
        raise WriteConflict(
            f"{undone[0]}, which this write was built upon, was undone meanwhile.",
            where=table.storage.root,
            safe="nothing of this write is visible",
            next_step="write again, or let that happen by itself: "
            "hoodie.write.num.retries.on.conflict.failures",
        )


def list_others(storage: Storage, begun: Begun, now: Timeline, mine: Mine) -> Iterator[Theirs]:
    """What others did since `mine` began or was computed, as far as it may stand against it."""
    fresh = set(completed_since(begun.timeline, now))
    for other in completed_since(begun.seen or begun.timeline, now):
        if may_stand_against(mine, other):
            metadata = load_commit_metadata(storage, other)
            yield Theirs(other, touched_by(metadata), other in fresh, _rearranges(metadata))
    for other, content in _archived_since(storage, begun, now).contents.items():
        if other.action in WRITES and may_stand_against(mine, other):
            metadata = decode_write(content, other, f"{layout.HISTORY} {other}")
            is_fresh = str(other.completed_at) > _last_completion(begun.timeline)
            yield Theirs(other, touched_by(metadata), is_fresh, _rearranges(metadata))
    for plan in planned_since(begun.timeline, now):
        if may_stand_against(mine, plan):
            groups = load_compaction_plan(storage, plan).groups()
            yield Theirs(plan, Touched(rewritten=groups), is_compaction=True)


def _rearranges(metadata: CommitMetadata) -> bool:
    return metadata.compacted or metadata.operation in REARRANGING


def _archived_since(storage: Storage, begun: Begun, now: Timeline) -> History:
    """What completed since and was archived since. Archiving takes the oldest, so that nothing was
    while the oldest that was seen is still active."""
    seen = begun.seen or begun.timeline
    first = next(iter(seen.instants), None)
    if first is not None and now.find(first) is not None:
        return History()
    return load_archived_after(storage, _last_completion(seen))


def _last_completion(timeline: Timeline) -> str:
    """Completions appear in their order (P3): what completed later than this was not seen."""
    return max((str(instant.completed_at) for instant in timeline.completed()), default="")


def _without_metadata(values: Mapping[str, str]) -> dict[str, str]:
    return {key: "" if key in _METADATA_KEYS else value for key, value in values.items()}


def ensure_metadata_table_true(txn: Transaction, *, may_drop: bool) -> None:
    """A metadata table that misses a commit hides rows from other engines without a word, so a
    table that lists one is refused, or its list is emptied first."""
    data = txn.table.storage.read(layout.PROPERTIES)
    if not decode_table_config(data, layout.PROPERTIES).metadata_partitions:
        return
    if may_drop and txn.table.write_options.on_metadata_table is OnMetadataTable.DROP:
        txn.change_properties(_without_metadata, "metadata table dropped by lentic")
        return
    raise UnsupportedFormat(
        "The table has a metadata table, which this release cannot keep true.",
        where=txn.table.storage.root,
        safe="nothing was committed; reading works",
        next_step='open the table with options={"lentic.metadata.on_write": "drop"} (readers then '
        "list files), and let other writers set hoodie.metadata.enable=false",
    )
