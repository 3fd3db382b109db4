"""Which files of a table may go, by policy. Pure.

A policy that looks back names the oldest write to retain. The table stays readable as of that write
and as of every moment after it, and so does the state right before it, from which its changes are
told. Let `moment` be when that earlier state was complete. A file may go if it was complete at
`moment` and the latest slice of its group at that moment does not have it: the barrier of a group's
latest slice only rises, so that no later state has it either. All of a group goes that a
replacement had ended by then. Writes are counted and compared by when they completed.

What may be needed beyond that stays: names that plans and savepoints hold (R13), and whatever the
oldest write under way could be reading, which began on the state as of its request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass

from lentic.config.retention import CleanOptions, CleanPolicy
from lentic.format.clean import SAVEPOINTS_KEY, CleanPlan
from lentic.format.names import Action, parse_base_file, parse_log_file
from lentic.format.times import (
    CompletedAt,
    RequestedAt,
    Zone,
    format_time,
    is_before,
    is_upto,
    parse_epoch_ms,
)
from lentic.timeline.instant import WRITES, Instant
from lentic.timeline.timeline import Timeline
from lentic.view.files import FileGroupId
from lentic.view.table_view import TableFiles

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class _DataFile:
    """A file of a completed write, as its name tells it."""

    path: str
    group: FileGroupId
    requested_at: RequestedAt
    is_change_log: bool


def is_clean_due(timeline: Timeline, options: CleanOptions) -> bool:
    """Whether enough writes completed since the last clean was planned, and any could be cleaned
    after."""
    writes = timeline.writes()
    if options.policy is CleanPolicy.KEEP_LATEST_COMMITS and len(writes) <= options.commits:
        return False
    last = max((i.requested_at for i in timeline.completed(Action.CLEAN)), default=RequestedAt(""))
    since = [i for i in writes if i.completed_at and is_before(last, i.completed_at)]
    return len(since) >= options.trigger_commits


def find_retained(
    timeline: Timeline, options: CleanOptions, now: RequestedAt, zone: Zone
) -> Instant | None:
    """The oldest write as of which the table must stay readable; None if nothing may go, or if the
    policy does not look back."""
    writes = timeline.writes()
    if options.policy is CleanPolicy.KEEP_LATEST_COMMITS:
        index = len(writes) - options.commits
    elif options.policy is CleanPolicy.KEEP_LATEST_BY_HOURS:
        limit = format_time(parse_epoch_ms(now, zone) - options.hours * _HOUR_MS, zone)
        index = _count_upto(writes, CompletedAt(limit)) - 1
    else:
        return None
    index = min(index, len(_before_pending(timeline)) - 1)
    return writes[index] if index >= 0 else None


def find_edge(
    timeline: Timeline, options: CleanOptions, now: RequestedAt, retained: Instant | None
) -> CompletedAt | None:
    """What completed before this, and is not the latest of it, may go; None if nothing may."""
    if options.keeps_versions:
        first = min((i.requested_at for i in timeline.pending(*WRITES)), default=now)
        return CompletedAt(min(first, now))
    return retained.completed_at if retained else None


@dataclass(frozen=True, slots=True)
class Held:
    """Files that nobody may delete: those that stay for good unless a savepoint is removed, and
    those that plans need until they have ended."""

    by_savepoints: frozenset[str] = frozenset()
    by_plans: frozenset[str] = frozenset()


def plan_clean(
    files: TableFiles,
    timeline: Timeline,
    options: CleanOptions,
    protected: Set[str],
    *,
    now: RequestedAt,
    zone: Zone,
) -> CleanPlan | None:
    """What to delete of `files`, all that lies in the table; None if nothing may go."""
    retained = find_retained(timeline, options, now, zone)
    edge = find_edge(timeline, options, now, retained)
    if edge is None:
        return None
    held = Held(by_plans=frozenset(protected))
    found = plan_clean_upto(files, timeline, options, lambda: held, edge=edge, retained=retained)
    return found[0]


def plan_clean_upto(
    files: TableFiles,
    timeline: Timeline,
    options: CleanOptions,
    held: Callable[[], Held],
    *,
    edge: CompletedAt,
    retained: Instant | None,
) -> tuple[CleanPlan | None, tuple[str, ...]]:
    """What to delete of `files`, None if nothing may go; and the partitions with files that only a
    pending plan keeps from going. What is held is asked for only if anything could go."""
    moment = CompletedAt(f"{int(edge) - 1:017d}")
    kept = _latest_versions(files, options)
    if not _superseded(files, moment, kept):
        return None, ()
    found = held()
    free = _superseded(files, moment, kept | found.by_savepoints)
    doomed = _superseded(files, moment, kept | found.by_savepoints | found.by_plans)
    waiting = tuple(sorted({path.rpartition("/")[0] for path in free - doomed}))
    if not doomed:
        return None, waiting
    savepoints = ",".join(i.requested_at for i in timeline.completed(Action.SAVEPOINT))
    active = timeline.writes()  # none, if the last was undone and those before it are archived
    plan = CleanPlan(
        policy=str(options.policy),
        files=tuple(sorted(doomed)),
        retained=(retained.requested_at, retained.action) if retained else None,
        last_completed=active[-1].requested_at if active else None,
        extra={SAVEPOINTS_KEY: savepoints} if savepoints else {},
    )
    return plan, waiting


def _before_pending(timeline: Timeline) -> tuple[Instant, ...]:
    """The writes that had completed when the oldest write that is still pending was requested; all
    if none is."""
    writes = timeline.writes()
    first = min((i.requested_at for i in timeline.pending(*WRITES)), default=None)
    if first is None:
        return writes
    return tuple(i for i in writes if i.completed_at and is_before(i.completed_at, first))


def _count_upto(writes: Sequence[Instant], limit: CompletedAt) -> int:
    return sum(1 for i in writes if i.completed_at and i.completed_at <= limit)


def _latest_versions(files: TableFiles, options: CleanOptions) -> frozenset[str]:
    """The files of the slices that a policy keeps by number."""
    if not options.keeps_versions:
        return frozenset()
    slices = (part for group in files.groups() for part in group.slices[: options.versions])
    return frozenset(path for part in slices for path in part.paths)


def _superseded(files: TableFiles, moment: CompletedAt, kept: Set[str]) -> set[str]:
    """What no state as of `moment` or later shows, but for `kept`."""
    groups = files.groups(moment)
    latest = {path for group in groups for path in group.latest.paths}
    shown = {path for group in groups for part in group.slices for path in part.paths}
    ended = _ended_by(files, moment)
    complete = list(_complete_by(files, moment))
    doomed: set[str] = set()
    staying: set[tuple[FileGroupId, RequestedAt]] = set()
    for file in complete:
        if file.is_change_log:
            continue
        # A file that is not shown was written to a group that had ended. Once the replacement is
        # archived, what was begun under the same id later is another group: that stays.
        is_over = file.group in ended and is_upto(file.requested_at, ended[file.group])
        may_go = file.path not in latest if file.path in shown else is_over
        if may_go and file.path not in kept:
            doomed.add(file.path)
        else:
            staying.add((file.group, file.requested_at))
    # A change log tells of one write to one group and goes with the files of that write.
    doomed |= {
        file.path
        for file in complete
        if file.is_change_log
        and (file.group, file.requested_at) not in staying
        and file.path not in kept
    }
    return doomed


def _complete_by(files: TableFiles, moment: CompletedAt) -> Iterator[_DataFile]:
    """The files that writes which completed up to `moment` name and that are still there."""
    for file in files.files:
        base = parse_base_file(file.name)
        name = base or parse_log_file(file.name)
        if name is None:
            continue
        write = files.writes.get(name.requested_at)
        if write is None or moment < write.completed_at or file.path not in write.paths:
            continue
        group = FileGroupId(file.directory, name.file_id)
        is_change_log = base is None and file.name.endswith(".cdc")
        yield _DataFile(file.path, group, name.requested_at, is_change_log)


def _ended_by(files: TableFiles, moment: CompletedAt) -> dict[FileGroupId, CompletedAt]:
    """The groups that replacements up to `moment` ended, and when."""
    ended: dict[FileGroupId, CompletedAt] = {}
    for write in files.writes.values():
        if write.completed_at <= moment:
            for group in write.replaced:
                ended[group] = max(write.completed_at, ended.get(group, write.completed_at))
    return ended
