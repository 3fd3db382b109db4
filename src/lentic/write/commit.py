"""The one door to COMPLETED: reconcile, describe, complete.

Everything is derived from the one set of statuses the driver collected (R8): what may stay on
storage, and what the commit metadata names. Readers see the write at the moment the completed file
appears, which happens inside one transaction together with the checks that license it (R1).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lentic.config.groups import OnMetadataTable
from lentic.errors import StorageError, UnsupportedFormat, WriteConflict
from lentic.format import layout
from lentic.format.commit_metadata import CommitMetadata, encode_commit_metadata
from lentic.format.names import Action
from lentic.format.properties import decode_properties, encode_properties
from lentic.format.table_config import decode_table_config
from lentic.format.times import CompletedAt, RequestedAt
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_commit_metadata
from lentic.timeline.timeline import Timeline
from lentic.txn.conflicts import completed_since, overlapping_groups
from lentic.txn.transaction import OpenTable, Transaction, transaction
from lentic.write import markers
from lentic.write.status import WriteStatus

_log = logging.getLogger(__name__)

_METADATA_KEYS = ("hoodie.table.metadata.partitions", "hoodie.table.metadata.partitions.inflight")


@dataclass(frozen=True, slots=True)
class Commit:
    """What a write did. Counts are in records, `bytes` is what was written.

    On MERGE_ON_READ an upsert appends without reading, so every record that goes into an existing
    file group counts as updated.
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
    """A write under way: its instant, and the timeline it builds on."""

    instant: Instant
    timeline: Timeline


def begin_write(table: OpenTable, action: Action) -> Begun:
    """(nothing) -> INFLIGHT, in one transaction."""
    with transaction(table) as txn:
        _ensure_metadata_table_true(txn, may_drop=True)
        instant = txn.start(txn.request(action))
        return Begun(instant, txn.timeline)


def commit_write(
    table: OpenTable,
    begun: Begun,
    statuses: Sequence[WriteStatus],
    *,
    operation: str,
    extra: Mapping[str, str],
    compacted: bool = False,
) -> Commit:
    """INFLIGHT -> COMPLETED with exactly the files that `statuses` name.

    `WriteConflict` if the write replaced base files that someone else changed since it began.
    """
    instant = begun.instant
    stats = tuple(status.stat for status in statuses)
    metadata = CommitMetadata(operation=operation, compacted=compacted, stats=stats, extra=extra)
    _reconcile(table, instant, metadata.paths())
    content = encode_commit_metadata(metadata)
    with transaction(table) as txn:
        _ensure_metadata_table_true(txn, may_drop=False)
        if instant.action is Action.COMMIT:
            _ensure_nothing_lost(txn, begun, metadata)
        completed = txn.complete(instant, content)
    _remove_markers(table, completed)
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


def _remove_markers(table: OpenTable, completed: Instant) -> None:
    """Tidy up. The commit has landed, so a failure here must not look like a failed write; the next
    write removes what is left."""
    try:
        markers.remove_markers(table.storage, completed.requested_at)
    except StorageError as error:
        _log.warning("markers of %s stay until the next write: %s", completed, error)


def _reconcile(table: OpenTable, instant: Instant, accepted: frozenset[str]) -> None:
    """Delete what repeated attempts left; a delete that fails fails the write (P15)."""
    for path in markers.list_announced(table.storage, instant.requested_at):
        if path not in accepted:
            table.storage.delete(path)


def _ensure_nothing_lost(txn: Transaction, begun: Begun, mine: CommitMetadata) -> None:
    others = completed_since(begun.timeline, txn.timeline)
    theirs = {other: load_commit_metadata(txn.table.storage, other) for other in others}
    for other, groups in overlapping_groups(mine, theirs).items():
        raise WriteConflict(
            f"{other} changed {len(groups)} file group(s) that this write rewrote, for example "
            f"{groups[0]}.",
            where=txn.table.storage.root,
            safe="nothing of this write is visible",
            next_step="write again",
        )


def _ensure_metadata_table_true(txn: Transaction, *, may_drop: bool) -> None:
    """A metadata table that misses a commit hides rows from other engines without a word, so a
    table that lists one is refused, or its list is emptied first."""
    data = txn.table.storage.read(layout.PROPERTIES)
    if not decode_table_config(data, layout.PROPERTIES).metadata_partitions:
        return
    if may_drop and txn.table.write_options.on_metadata_table is OnMetadataTable.DROP:
        values = decode_properties(data, layout.PROPERTIES)
        emptied = {key: "" if key in _METADATA_KEYS else values[key] for key in values}
        txn.replace_properties(encode_properties(emptied, "metadata table dropped by lentic"))
        return
    raise UnsupportedFormat(
        "The table has a metadata table, which this release cannot keep true.",
        where=txn.table.storage.root,
        safe="nothing was committed; reading works",
        next_step='open the table with options={"lentic.metadata.on_write": "drop"} (readers then '
        "list files), and let other writers set hoodie.metadata.enable=false",
    )
