"""Do one duty for a table, and say how it ended. The services do the work; here is which, and what
came of it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from lentic.coordination.heartbeat import load_heartbeat
from lentic.engine import Engine
from lentic.errors import Conflict, LenticError, PlanBusy
from lentic.format import layout
from lentic.format.clean import decode_clean_metadata
from lentic.format.names import Action
from lentic.format.plan_window import PlanWindow
from lentic.format.times import RequestedAt
from lentic.runner.decide import Duty, Seen, Service, Verb, is_dead_write
from lentic.runner.events import Result, Work, say_error
from lentic.services import catalog
from lentic.services.abort import execute_abort
from lentic.services.archive import archive_timeline
from lentic.services.clean import clean_files
from lentic.services.end_cancelled import end_cancelled
from lentic.services.failed_writes import roll_back_picked
from lentic.services.outcome import Aborted, AlreadyCommitted, Committed, Outcome
from lentic.services.schedule import OnLook
from lentic.services.signs_of_life import is_executed
from lentic.timeline.instant import WRITES, Instant
from lentic.timeline.reader import load_commit_metadata, load_timeline
from lentic.timeline.timeline import Timeline
from lentic.txn.transaction import OpenTable


@dataclass(frozen=True, slots=True)
class Performed:
    """How a duty ended, of which instant it was, and what it made."""

    result: Result
    instant: str = ""
    work: Work = field(default_factory=Work)
    note: str = ""
    looked: PlanWindow | None = None
    """What a planner looked at for it."""


@dataclass(slots=True)
class _Known:
    """What is known by now of a duty under way, and told however it ends."""

    at: RequestedAt | None
    looked: PlanWindow | None = None

    def look(self, window: PlanWindow) -> None:
        self.looked = window


def perform(table: OpenTable, engine: Engine, duty: Duty) -> Performed:
    """Do `duty`. Whatever goes wrong becomes a result: one table must not stop the others."""
    known = _Known(duty.at)
    try:
        done = _perform(table, engine, duty, known)
    except Exception as error:
        at = _find_clean(table) if duty.service is Service.CLEAN else known.at
        done = Performed(_result_of(error), str(at or ""), note=say_error(error))
    return replace(done, looked=known.looked)


def _find_clean(table: OpenTable) -> RequestedAt | None:
    """The clean that was under way: it stays pending. None if that cannot be read, either."""
    with suppress(Exception):
        for clean in load_timeline(table.storage).pending(Action.CLEAN):
            return clean.requested_at
    return None


def _result_of(error: Exception) -> Result:
    match error:
        case PlanBusy():
            return Result.BUSY
        case Conflict():
            return Result.CONFLICT
        case _:
            return Result.FAILED


def _perform(table: OpenTable, engine: Engine, duty: Duty, known: _Known) -> Performed:
    if duty.verb is Verb.ROLL_BACK:
        return _roll_back(table)
    if duty.verb is Verb.ABORT:
        assert duty.at is not None
        ended = execute_abort(table, engine, duty.at, waits=False)
        return Performed(_result(ended), str(duty.at))
    if duty.verb is Verb.EXECUTE:
        assert duty.at is not None
        return _execute(table, engine, duty.at)
    if duty.service is Service.CLEAN:
        return _clean(table, engine, known.look)
    if duty.service is Service.ARCHIVE:
        return _archive(table)
    known.at = catalog.SERVICES[duty.service.value].schedule(table, on_look=known.look)
    return Performed(Result.NOTHING) if known.at is None else _execute(table, engine, known.at)


def _execute(table: OpenTable, engine: Engine, at: RequestedAt) -> Performed:
    # Without this look, who comes second would wait for the first one's next sign of life.
    if is_executed(table, at):
        return Performed(Result.BUSY, str(at), note="another worker executes it")
    outcome = catalog.execute(table, engine, at)
    return Performed(_result(outcome), str(at), _written(table, [outcome]))


def _roll_back(table: OpenTable) -> Performed:
    def pick(timeline: Timeline) -> tuple[Instant, ...]:
        return tuple(i for i in timeline.pending(*WRITES) if _has_failed(table, i))

    before = _undoing(table)
    undone = roll_back_picked(table, pick)
    work = Work(instants=len(undone))
    if not undone and _undoing(table) == before:
        return Performed(Result.NOTHING)
    return Performed(Result.DONE, _last(undone), work)


def _has_failed(table: OpenTable, instant: Instant) -> bool:
    at = instant.requested_at
    content = load_heartbeat(table.storage, at)
    seen = Seen(instant, bool(content), table.watch.has_expired(at, content))
    return is_dead_write(seen, is_shared=table.sharing.mode.is_shared)


def _undoing(table: OpenTable) -> tuple[Instant, ...]:
    return load_timeline(table.storage).pending(Action.ROLLBACK, Action.RESTORE)


def _clean(table: OpenTable, engine: Engine, on_look: OnLook) -> Performed:
    # Clean's part in cancelling plans: those that wait for longer than their policy allows.
    aborted = end_cancelled(table, engine)
    run = clean_files(table, engine, on_look=on_look)
    deleted = sum(_count_deleted(table, outcome) for outcome in run.cleans)
    work = Work(deleted=deleted, strays=len(run.orphans), instants=len(aborted))
    note = f"aborted {', '.join(plan.requested_at for plan in aborted)}" if aborted else ""
    if not run.cleans:
        return Performed(Result.NOTHING if work == Work() else Result.DONE, work=work, note=note)
    cleaned = _last([outcome.instant for outcome in run.cleans])
    return Performed(_result(run.cleans[-1]), cleaned, work, note)


def _archive(table: OpenTable) -> Performed:
    moved = archive_timeline(table)
    if not moved:
        return Performed(Result.NOTHING)
    return Performed(Result.DONE, _last(moved), Work(instants=len(moved)))


def _result(outcome: Outcome) -> Result:
    match outcome:
        case Committed():
            return Result.DONE
        case AlreadyCommitted():
            return Result.ALREADY
        case Aborted():
            return Result.ABORTED


def _last(instants: Iterable[Instant]) -> str:
    return max((str(instant.requested_at) for instant in instants), default="")


def _written(table: OpenTable, outcomes: Iterable[Outcome]) -> Work:
    """What completed executions wrote; nothing where that cannot be read: the work is done."""
    work = Work()
    for outcome in outcomes:
        if not isinstance(outcome, Committed):
            continue
        with suppress(LenticError):
            stats = load_commit_metadata(table.storage, outcome.instant).stats
            work = Work(
                rows=sum(stat.writes for stat in stats),
                files=len(stats),
                bytes=sum(stat.size for stat in stats),
                first_files=sum(stat.prev_commit is None for stat in stats),
                partitions=len({stat.partition for stat in stats}),
            )
    return work


def _count_deleted(table: OpenTable, outcome: Outcome) -> int:
    if not isinstance(outcome, Committed):
        return 0
    path = layout.timeline_file(outcome.instant.file_name)
    with suppress(LenticError):
        return len(decode_clean_metadata(table.storage.read(path), path).deleted)
    return 0
