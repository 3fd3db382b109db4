"""Savepoints: the files of the table as of one write, kept until the savepoint is removed.

Cleans never take what a savepoint names, archival does not go past it, and the table can be
restored to it. It is decided in one transaction, together with the look at what cleans took or are
going to take.
"""

from __future__ import annotations

from dataclasses import dataclass

from lentic.errors import Refused, shell_command
from lentic.format import layout
from lentic.format.names import Action
from lentic.format.savepoint import SavepointMetadata, decode_savepoint, encode_savepoint
from lentic.format.times import RequestedAt
from lentic.services.past_state import find_write, load_state
from lentic.storage.base import Storage
from lentic.timeline.instant import Instant
from lentic.timeline.timeline import Timeline
from lentic.txn.transaction import OpenTable, transaction


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A completed savepoint; its instant has the requested time of the write it protects."""

    instant: Instant
    metadata: SavepointMetadata

    @property
    def requested_at(self) -> RequestedAt:
        return self.instant.requested_at

    @property
    def files(self) -> frozenset[str]:
        """The files that must not be deleted, relative to the table."""
        return frozenset(self.metadata.files)


def load_savepoints(storage: Storage, timeline: Timeline) -> tuple[Savepoint, ...]:
    """Every savepoint there is, by the requested time of its write."""
    found = []
    for instant in timeline.completed(Action.SAVEPOINT):
        path = layout.timeline_file(instant.file_name)
        found.append(Savepoint(instant, decode_savepoint(storage.read(path), path)))
    return tuple(found)


def make_savepoint(
    table: OpenTable, at: RequestedAt | None = None, *, by: str = "", comment: str = ""
) -> Instant:
    """Protect the table as of the write requested at `at`, the latest if None.

    The savepoint that is there already is returned. `Refused` if there is no such completed write,
    or a clean took files of it or is going to.
    """
    with transaction(table) as txn:
        writes = txn.timeline.writes()
        if at is None and not writes:
            raise Refused(
                "The table has no completed write to protect.",
                where=table.storage.root,
                safe="nothing was changed",
                next_step="write to the table first",
            )
        write = writes[-1] if at is None else find_write(txn, at)
        found = _find(txn.timeline, write.requested_at)
        if found is not None and found.is_completed:
            return found
        assert write.completed_at is not None
        metadata = SavepointMetadata(
            files=load_state(txn, write.completed_at),
            by=by,
            comment=comment,
            made_ms=table.world.clock.now_ms(),
        )
        if found is not None:  # its maker died
            txn.remove_savepoint(found)
        return txn.save(write, encode_savepoint(metadata))


def remove_savepoint(table: OpenTable, at: RequestedAt) -> None:
    """Protect the table as of the write at `at` no more; `Refused` if nothing does."""
    with transaction(table) as txn:
        found = _find(txn.timeline, at)
        if found is None:
            raise Refused(
                f"There is no savepoint of {at}.",
                where=table.storage.root,
                safe="nothing was changed",
                next_step=shell_command("timeline", table.storage.root),
            )
        txn.remove_savepoint(found)


def _find(timeline: Timeline, at: RequestedAt) -> Instant | None:
    savepoints = (i for i in timeline.instants if i.action is Action.SAVEPOINT)
    return next((i for i in savepoints if i.requested_at == at), None)
