"""Clean: delete what nobody reads any more, by a plan with exact names.

Steps: plan and publish in one transaction; delete the named files, in any order and as often as
need be; complete. A clean that died at any of them is finished by the next one before anything new
is planned, and two at once do the same twice: files that are gone are no error, names never come
back, and one of the two completes. A delete that fails leaves the clean pending.

Folders. Other engines find partitions by a file in their folder, and take a partition that a plan
names with all that is in it by then, the files of a writer who just came too. So our plans name no
partition. Once a clean's files are gone, and under the lock on a timeline without any pending
write, a partition that holds nothing but that file loses it: who writes to it later has first to
request an instant, and makes the file anew before each data file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from lentic.engine import Attempt, Engine, LocalEngine
from lentic.errors import ConfigError, MissingFile, shell_command
from lentic.format import layout
from lentic.format.clean import CleanMetadata, CleanPlan, encode_clean_metadata, encode_clean_plan
from lentic.format.names import Action, State
from lentic.format.times import RequestedAt
from lentic.progress import Stage
from lentic.services.clean_draft import draft_clean
from lentic.services.end_cancelled import end_cancelled
from lentic.services.failed_writes import clean_up_failed_writes, sweep_ended
from lentic.services.orphans import is_sweep_due, sweep_orphans
from lentic.services.outcome import AlreadyCommitted, Committed, Outcome
from lentic.services.protected import load_protected
from lentic.services.schedule import OnLook, begin_planning, completed_extra
from lentic.storage.base import FileInfo, Storage
from lentic.timeline.instant import WRITES, Instant
from lentic.timeline.reader import load_clean_plan, load_timeline
from lentic.timeline.timeline import Timeline
from lentic.txn.transaction import OpenTable, Transaction, transaction
from lentic.view.listing import load_table_files
from lentic.write.commit import ensure_metadata_table_true

_WRITING = (*WRITES, Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING)
_FILES_PER_TASK = 100


@dataclass(frozen=True, slots=True)
class CleanRun:
    """What a run of the cleaner did: plans aborted, writes undone, rollbacks and restores of others
    finished, cleans completed, orphans removed."""

    aborted: tuple[Instant, ...] = ()
    undone: tuple[Instant, ...] = ()
    finished: tuple[Instant, ...] = ()
    cleans: tuple[Outcome, ...] = ()
    orphans: tuple[str, ...] = ()


def run_clean(table: OpenTable, engine: Engine | None = None, *, waits: bool = False) -> CleanRun:
    """End cancelled plans, undo failed writes, finish cleans that were begun, clean what may go,
    sweep orphans if that is due; with `waits` in any case, for it may take its time."""
    aborted = end_cancelled(table, engine or LocalEngine(), waits=waits)
    begun = load_timeline(table.storage).pending(Action.ROLLBACK, Action.RESTORE)
    undone = clean_up_failed_writes(table, waits=waits)
    finished = _list_finished(table.storage, begun) if begun else ()
    sweeps = waits and table.services.clean.sweeps_orphans
    cleaned = clean_files(table, engine, sweeps=sweeps)
    return replace(cleaned, aborted=aborted, undone=undone, finished=finished)


def _list_finished(storage: Storage, begun: Iterable[Instant]) -> tuple[Instant, ...]:
    """Those of `begun` that have completed since."""
    timeline = load_timeline(storage)
    found = (timeline.find(instant) for instant in begun)
    return tuple(now for now in found if now is not None and now.is_completed)


def clean_files(
    table: OpenTable,
    engine: Engine | None = None,
    *,
    sweeps: bool = False,
    on_look: OnLook | None = None,
) -> CleanRun:
    """The same without a look at plans and writes. `sweeps`: orphans are swept though it may not
    be due."""
    begun = [i.requested_at for i in load_timeline(table.storage).pending(Action.CLEAN)]
    cleans = [execute_clean(table, at, engine) for at in begun]
    if at := schedule_clean(table, on_look=on_look):
        cleans.append(execute_clean(table, at, engine))
    sweep_ended(table)
    orphans = sweep_orphans(table) if sweeps or is_sweep_due(table) else ()
    return CleanRun(cleans=tuple(cleans), orphans=orphans)


def schedule_clean(table: OpenTable, *, on_look: OnLook | None = None) -> RequestedAt | None:
    """Publish a plan and return its time; None if nothing may go. A clean that is pending already
    is returned instead."""
    with transaction(table) as txn:
        if pending := txn.timeline.pending(Action.CLEAN):
            return pending[0].requested_at
        at = begin_planning(txn)
        plan = draft_clean(txn, at, on_look)
        if plan is None:
            return None
        ensure_metadata_table_true(txn, may_drop=True)
        content = encode_clean_plan(plan, table.storage.root)
        return txn.request_at(at, Action.CLEAN, content).requested_at


def execute_clean(table: OpenTable, at: RequestedAt, engine: Engine | None = None) -> Outcome:
    """Delete what the plan at `at` names, and complete it. Safe to repeat, and to do twice at once.

    What a savepoint made since the plan holds on to stays, and so does what a restore brought back.
    """
    started = table.world.clock.monotonic()
    clean = Instant(at, Action.CLEAN, State.REQUESTED)
    with transaction(table) as txn:
        now = _find(txn, clean)
        if now.is_completed:
            return AlreadyCommitted(now)
        ensure_metadata_table_true(txn, may_drop=False)
        plan = load_clean_plan(table.storage, now)
        held = _held_now(table.storage, txn.timeline, now)
        if now.state is State.REQUESTED:
            txn.start(now)
    files = tuple(path for path in plan.files if path not in held)
    _delete(table.storage, files, engine)
    with transaction(table) as txn:
        now = _find(txn, clean)
        if now.is_completed:
            return AlreadyCommitted(now)
        ensure_metadata_table_true(txn, may_drop=False)
        left = {path.rpartition("/")[0] for path in plan.files if path in held}
        metadata = CleanMetadata(
            requested_at=at,
            policy=plan.policy,
            deleted=files,
            retained=plan.retained[0] if plan.retained else None,
            last_completed=plan.last_completed,
            partitions=_remove_empty_partitions(txn, plan),
            took_ms=round((table.world.clock.monotonic() - started) * 1000),
            extra={**plan.extra, **completed_extra(plan.extra, str(now), dropped=left)},
        )
        return Committed(txn.complete(now, encode_clean_metadata(metadata)))


def _held_now(storage: Storage, timeline: Timeline, clean: Instant) -> frozenset[str]:
    """What a plan may name and its execution must leave alone."""
    held = load_protected(storage, timeline)
    restores = (i for i in timeline.instants if i.action is Action.RESTORE)
    if any(clean.requested_at < restore.requested_at for restore in restores):
        groups = load_table_files(storage, timeline).groups()
        held |= {path for group in groups for path in group.latest.paths}
    return held


@dataclass(frozen=True, slots=True)
class DeleteFiles:
    """Deletes some files per call, those that are there; a picklable value for engines."""

    storage: Storage

    def __call__(self, attempt: Attempt, paths: tuple[str, ...]) -> str:
        for path in paths:
            self.storage.delete(path)
        return str(len(paths))


def _delete(storage: Storage, files: tuple[str, ...], engine: Engine | None) -> None:
    work = DeleteFiles(storage)
    if engine is None:
        work(Attempt(0, 0), files)
        return
    starts = range(0, len(files), _FILES_PER_TASK)
    tasks = [files[start : start + _FILES_PER_TASK] for start in starts]
    engine.run(work, tasks, Stage("cleaning"))


def _find(txn: Transaction, clean: Instant) -> Instant:
    now = txn.timeline.find(clean)
    if now is None:
        raise ConfigError(
            f"There is no clean plan at {clean.requested_at}.",
            where=txn.table.storage.root,
            safe="nothing was deleted",
            next_step=shell_command("timeline", txn.table.storage.root, "--all"),
        )
    return now


def _remove_empty_partitions(txn: Transaction, plan: CleanPlan) -> tuple[str, ...]:
    """Take the partition's own file out of folders in which nothing else is left."""
    if txn.timeline.pending(*_WRITING):
        return ()  # it may be about to write there, and have seen that the file is there
    cleaned = {*plan.partitions, *(path.rpartition("/")[0] for path in plan.files)} - {""}
    return tuple(p for p in sorted(cleaned) if _remove_if_empty(txn.table.storage, p))


def _remove_if_empty(storage: Storage, partition: str) -> bool:
    own = layout.partition_metadata(partition)
    if _has_others(storage.walk(partition), own):
        return False
    try:
        content = storage.read(own)
    except MissingFile:
        return True
    storage.delete(own)
    if _has_others(storage.walk(partition), own):
        # Whoever holds the lock now began to write here while we slept without it.
        storage.put_if_absent(own, content)
        return False
    storage.prune(partition)
    return True


def _has_others(files: Iterable[FileInfo], own: str) -> bool:
    return any(file.path != own for file in files)
