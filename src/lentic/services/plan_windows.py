"""Storage -> where a planner's window begins, and what completed in it (`view.changed_partitions`).

The newest live plan says so itself, in its extra metadata; where a planner found nothing to do and
published none, a note may say it. Once the last plan was archived, the history is asked. Reads
only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lentic.errors import Corrupt, MissingFile
from lentic.format import layout
from lentic.format.clustering_plan import decode_clustering_claim
from lentic.format.commit_metadata import CommitMetadata
from lentic.format.names import Action, State, completed_action, parse_instant_file
from lentic.format.plan_window import (
    PlanWindow,
    decode_missing,
    decode_plan_window,
    decode_window,
)
from lentic.format.restore import decode_undone
from lentic.format.times import CompletedAt, RequestedAt, is_before
from lentic.storage.base import Storage
from lentic.timeline.history import (
    find_archived,
    last_archived_completion,
    load_archived_after,
    load_archived_last,
)
from lentic.timeline.instant import WRITES, Instant
from lentic.timeline.reader import decode_write, load_commit_metadata, load_rollback_target
from lentic.timeline.timeline import Timeline
from lentic.view.changed_partitions import (
    Doubt,
    Fates,
    Now,
    Start,
    digest_options,
    find_floor,
    find_start,
    list_completed,
    needs_history,
    was_complete,
    why_undone,
)

_UNDER_WAY = CompletedAt("9" * 17)
_ARCHIVED_LOOK = 50
"""How many archived instants are searched for the service's last plan."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The service that is planned. `options` are those that say what is worth planning: when one
    of them changes, what was passed over may be worth it now."""

    action: Action
    operation: str
    """What its own commits call themselves; "" if it makes none."""
    options: Mapping[str, object]
    is_incremental: bool = True


def list_plans(storage: Storage, timeline: Timeline, action: Action) -> tuple[Instant, ...]:
    """The live plans of a service: what is pending or completed and has a plan's file."""
    files = (parse_instant_file(file.name) for file in storage.list_files(layout.TIMELINE))
    planned = {
        file.requested_at
        for file in files
        if file and file.action is action and file.state is State.REQUESTED
    }
    return tuple(i for i in _list_live(timeline, action) if i.requested_at in planned)


def load_start(
    storage: Storage,
    timeline: Timeline,
    subject: Subject,
    plans: Sequence[Instant],
    archived_upto: RequestedAt,
) -> Start | Doubt:
    """Where the next window begins, given the live plans and how far archiving has gone."""
    restores = (i for i in timeline.instants if i.action is Action.RESTORE)
    now = Now(
        options=digest_options(subject.options),
        fates=lambda relies: _find_fates(storage, timeline, subject.action, relies, archived_upto),
        is_undone=lambda at: _is_undone(storage, timeline, at, archived_upto),
        rolled_back=lambda after: _list_rolled_back(storage, timeline, after),
        restored_at=max((i.completed_at or _UNDER_WAY for i in restores), default=None),
        savepoints=frozenset(list_savepoints(timeline)),
    )
    try:
        return find_start(_windows(storage, subject, plans, archived_upto), now)
    except (Corrupt, MissingFile) as error:
        return Doubt(f"what became of earlier plans and writes does not read: {error.what}")


def list_savepoints(timeline: Timeline) -> tuple[RequestedAt, ...]:
    """The savepoints there are, or are being made."""
    return tuple(i.requested_at for i in timeline.instants if i.action is Action.SAVEPOINT)


def load_floor(
    storage: Storage,
    timeline: Timeline,
    at: RequestedAt,
    hi: CompletedAt,
    archived_upto: RequestedAt,
) -> RequestedAt:
    """`find_floor`, where a write may have been archived already that completed at `hi` or later:
    our archiving leaves it where it is, but others go by requested times alone."""
    floor = find_floor(timeline, at, hi)
    if not archived_upto or str(hi) == str(at):
        return floor
    try:
        is_past = last_archived_completion(storage) < hi
    except (MissingFile, Corrupt):
        is_past = False
    return floor if is_past else min(floor, archived_upto)


@dataclass(frozen=True, slots=True)
class Changes:
    """The metadata of the writes that completed since a plan and before another, and of no others.
    `late` are writes that completed after that and have been archived all the same: whoever could
    have archived one since the plan before makes its planner look into the history."""

    writes: tuple[CommitMetadata, ...]
    late: tuple[RequestedAt, ...] = ()


def load_changes(
    storage: Storage,
    timeline: Timeline,
    base: PlanWindow,
    hi: CompletedAt,
    archived_upto: RequestedAt,
) -> Changes | Doubt:
    """What completed since `base` and before `hi`."""
    found = [load_commit_metadata(storage, i) for i in list_completed(timeline, base.hi, hi)]
    if not needs_history(base, archived_upto):
        return Changes(tuple(found))
    late: list[RequestedAt] = []
    known = {instant.identity for instant in timeline.instants}
    try:
        history = load_archived_after(storage, f"{int(base.hi) - 1:017d}")
        for instant, content in history.contents.items():
            where = f"{layout.HISTORY} {instant}"
            assert instant.completed_at is not None, instant
            if instant.action is Action.RESTORE and is_before(base.at, instant.completed_at):
                return Doubt(f"the table was restored at {instant.completed_at}")
            if instant.action is Action.ROLLBACK and base.at < instant.requested_at:
                targets = (one.requested_at for one in decode_undone(content, where))
                if undone := next((t for t in targets if was_complete(base, t)), None):
                    return Doubt(why_undone(undone))
            if instant.action not in WRITES or instant.identity in known:
                continue
            if instant.completed_at < hi:
                found.append(decode_write(content, instant, where))
            else:
                late.append(instant.requested_at)
    except (MissingFile, Corrupt):
        return Doubt("the archived timeline does not read")
    return Changes(tuple(found), tuple(late))


def load_aborted(
    storage: Storage, action: Action, aborted: Iterable[RequestedAt]
) -> frozenset[str]:
    """The partitions of plans that were aborted and that later ones had counted on."""
    found: set[str] = set()
    for at in aborted:
        path = layout.timeline_file(Instant(at, action, State.ABORTED).file_name)
        data = storage.read(path)
        found |= {partition for partition, _ in decode_clustering_claim(data, path).groups}
        if window := decode_plan_window(data, path):
            found |= {*window.carry}
    return frozenset(found)


def _list_rolled_back(
    storage: Storage, timeline: Timeline, after: RequestedAt
) -> Iterator[RequestedAt]:
    for rollback in timeline.instants:
        if rollback.action is Action.ROLLBACK and after < rollback.requested_at:
            if target := load_rollback_target(storage, rollback):
                yield target
            elif rollback.is_completed:  # who archives it has taken its plan away
                path = layout.timeline_file(rollback.file_name)
                yield from (one.requested_at for one in decode_undone(storage.read(path), path))


def _list_live(timeline: Timeline, action: Action) -> tuple[Instant, ...]:
    """Instants that are pending or completed and may be plans of the service."""
    done = completed_action(action)
    live = (i for i in timeline.instants if i.is_pending or i.is_completed)
    return tuple(i for i in live if i.action in (action, done))


def _find_fates(
    storage: Storage,
    timeline: Timeline,
    action: Action,
    relies: tuple[RequestedAt, ...],
    archived_upto: RequestedAt,
) -> Fates:
    live = {i.requested_at for i in _list_live(timeline, action)}
    ended = {i.requested_at for i in timeline.aborted(action)}
    missing = [at for at in relies if at not in live]
    done = completed_action(action)
    old = frozenset((at, done) for at in missing if at not in ended and at <= archived_upto)
    archived = {at for at, _ in find_archived(storage, old)} if old else set()
    return Fates(
        aborted=tuple(at for at in missing if at in ended),
        gone=tuple(at for at in missing if at not in ended and at not in archived),
    )


def _is_undone(
    storage: Storage, timeline: Timeline, at: RequestedAt, archived_upto: RequestedAt
) -> bool:
    if any(write.requested_at == at for write in timeline.writes()):
        return False
    identities = frozenset((at, action) for action in WRITES)
    return at > archived_upto or not find_archived(storage, identities)


# --- what earlier plans say ---------------------------------------------------------------------


def _windows(
    storage: Storage, subject: Subject, plans: Sequence[Instant], archived_upto: RequestedAt
) -> Iterator[PlanWindow | Doubt]:
    """What the live plans of the service have looked at, and what was noted, newest first."""
    note = _load_note(storage, subject.action)
    for plan in reversed(plans):
        if note is not None and plan.requested_at < note.at:
            yield note
            note = None
        yield _load_plan_window(storage, plan, subject.action)
    if note is not None:
        yield note
    if archived_upto:
        yield from _archived_windows(storage, subject)


def _load_note(storage: Storage, action: Action) -> PlanWindow | None:
    """The note, if there is one that reads: without it more is looked at, and nothing is lost."""
    path = layout.planned(action)
    try:
        return decode_window(storage.read(path).decode(), path)
    except (MissingFile, Corrupt, UnicodeDecodeError):
        return None


def _load_plan_window(storage: Storage, plan: Instant, action: Action) -> PlanWindow | Doubt:
    # A clean says when it completes what it left where it was; others say so in a commit, which
    # lies in the next window.
    is_said = plan.is_completed and action is Action.CLEAN
    file = plan if is_said else Instant(plan.requested_at, action, State.REQUESTED)
    path = layout.timeline_file(file.file_name)
    try:
        data = storage.read(path)
        window = decode_plan_window(data, path)
        missing = () if window else decode_missing(data, path)
    except (MissingFile, Corrupt):
        return Doubt(f"the plan at {plan.requested_at} does not read")
    if window is None:
        return Doubt(f"the plan at {plan.requested_at} does not say what it looked at", missing)
    return window


def _archived_windows(storage: Storage, subject: Subject) -> Iterator[PlanWindow | Doubt]:
    """The same for plans that were completed and archived."""
    action, own = completed_action(subject.action), subject.operation
    try:
        found = load_archived_last(storage, action, _ARCHIVED_LOOK)
        for instant in reversed(found.instants):
            where, content = f"{layout.HISTORY} {instant}", found.contents[instant]
            if own and decode_write(content, instant, where).operation != own:
                continue
            window = decode_plan_window(content, where)
            yield window or Doubt(f"the archived {instant} does not say what it looked at")
    except (MissingFile, Corrupt):
        yield Doubt("the archived timeline does not read")
