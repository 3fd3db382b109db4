"""Orphans: data files that no commit names and no rollback knows of. They are swept late (R5).

Such a file is invisible to us from the beginning, but readers that list see it. An attempt that
wrote after its write had ended and died before it could tidy up leaves one. Files are listed before
the timeline is loaded: whoever writes a file has an instant on the timeline first, so that a maker
which is neither there nor in the history has ended. Nothing goes whose maker is pending or has
markers, which its own clean-up deals with, or that a plan, a savepoint or a rollback names.

Ages come from one clock, the storage's: a file written by the sweep itself shows its now, and stays
to tell when that was. A sweep lists the whole table, so that cleans, which cost what has changed
and no more, do not sweep each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from contextlib import suppress

from lentic.coordination.heartbeat import Pulse
from lentic.errors import MissingFile
from lentic.format import layout
from lentic.format.names import Action, requested_at_of
from lentic.format.times import RequestedAt
from lentic.services.protected import load_protected
from lentic.storage.base import FileInfo, Storage
from lentic.timeline.history import History, load_history
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_rollback_plan, load_rollback_target, load_timeline
from lentic.timeline.timeline import Timeline
from lentic.txn.transaction import OpenTable
from lentic.view.listing import load_writes
from lentic.view.table_view import Writes
from lentic.write import markers

_AGE_MS_MIN = 3_600_000
_LOOKS_MAX = 5


def is_sweep_due(table: OpenTable) -> bool:
    """Whether the last sweep is so long ago that a clean does another."""
    options = table.services.clean
    if not options.sweeps_orphans:
        return False
    last = table.storage.info(layout.SWEEP)
    if last is None:
        return True
    # This clock may be another than the storage's: one that goes wrong sweeps too often, not never.
    ago_ms = table.world.clock.now_ms() - last.modified_ms
    return not 0 <= ago_ms < options.sweep_minutes * 60_000


def sweep_orphans(table: OpenTable) -> tuple[str, ...]:
    """Delete the orphans that are old enough; their paths."""
    orphans = list_orphans(table)
    for path in orphans:
        table.storage.delete(path)
    return orphans


def orphan_age_ms(pulse: Pulse) -> int:
    """How old an orphan must be before it is swept."""
    return max(_AGE_MS_MIN, 2 * pulse.ttl_ms)


def list_orphans(table: OpenTable, *, now_ms: int | None = None) -> tuple[str, ...]:
    """The orphans that are older than an hour and than two times to live of a heartbeat.

    Whoever only wants to know says what time it is; else the storage is asked, by a new file.
    """
    for _ in range(_LOOKS_MAX - 1):
        with suppress(MissingFile):  # of a plan or rollback that ended while we looked
            return _look_for_orphans(table, now_ms)
    return _look_for_orphans(table, now_ms)


def _look_for_orphans(table: OpenTable, now_ms: int | None) -> tuple[str, ...]:
    storage = table.storage
    listed = [file for file in storage.walk("") if _is_data_file(file)]
    if listed and now_ms is None:
        now_ms = _ask_now_ms(storage)
    # Without a now nothing is old.
    age_ms = orphan_age_ms(table.pulse)
    old = [] if now_ms is None else [f for f in listed if now_ms - f.modified_ms > age_ms]
    if not old:
        return ()
    marked = markers.list_marked(storage)
    timeline = load_timeline(storage)
    if timeline.pending(Action.RESTORE):
        return ()  # it deletes what it takes back itself
    makers = frozenset(at for file in old if (at := requested_at_of(file.name)))
    known = {instant.requested_at for instant in timeline.instants}
    history = load_history(storage) if makers - known else History()
    writes = load_writes(storage, timeline, makers, history)
    ended = load_ended(storage, timeline, makers - marked, _oldest(history.instants))
    unnamed = plan_sweep(old, writes, ended)
    if not unnamed:
        return ()
    spoken_for = _spoken_for(storage, timeline)
    return tuple(path for path in unnamed if path not in spoken_for)


def plan_sweep(
    files: Iterable[FileInfo], writes: Writes, ended: Set[RequestedAt]
) -> tuple[str, ...]:
    """The files whose maker has ended without naming them."""

    def is_orphan(file: FileInfo) -> bool:
        at = requested_at_of(file.name)
        if at is None or at not in ended:
            return False
        return at not in writes or file.path not in writes[at].paths

    return tuple(file.path for file in files if is_orphan(file))


def load_ended(
    storage: Storage,
    timeline: Timeline,
    makers: Set[RequestedAt],
    oldest_archived: RequestedAt | None,
) -> frozenset[RequestedAt]:
    """Those of `makers` that can never complete any more, or have: what they left may go.

    One that is older than everything the timeline and the history know of may have been forgotten
    together with its commit. Unless a rollback tells of it, nobody can say what its files are.
    """
    pending = {instant.requested_at for instant in timeline.pending()}
    rollbacks = timeline.completed(Action.ROLLBACK)
    undone = {load_rollback_target(storage, rollback) for rollback in rollbacks}
    firsts = [at for at in (_oldest(timeline.instants), oldest_archived) if at is not None]
    oldest = min(firsts, default=None)
    return frozenset(
        at for at in makers - pending if at in undone or (oldest is not None and oldest <= at)
    )


def _oldest(instants: Iterable[Instant]) -> RequestedAt | None:
    return min((instant.requested_at for instant in instants), default=None)


def _spoken_for(storage: Storage, timeline: Timeline) -> frozenset[str]:
    """What plans and savepoints need, and what rollbacks are going to delete themselves."""
    rollbacks = timeline.pending(Action.ROLLBACK)
    deleted = (path for r in rollbacks for path in load_rollback_plan(storage, r).files)
    return load_protected(storage, timeline).union(deleted)


def _ask_now_ms(storage: Storage) -> int | None:
    """What the storage's clock says now; None if somebody removed the file that tells."""
    storage.replace(layout.SWEEP, b"")
    now = storage.info(layout.SWEEP)
    return None if now is None else now.modified_ms


def _is_data_file(file: FileInfo) -> bool:
    is_internal = file.path.startswith(layout.HOODIE + "/")
    return not is_internal and requested_at_of(file.name) is not None
