"""What all planners share: which partitions to look at, and who is planned for already.

A planner looks at what changed since the last plan of its service (RFC-83): `look` says where, by
the rule of `view.changed_partitions`, and `settle` what the next one has to know. In this order,
under one lock (R12): a time, the timeline anew, the look, the plan with exact names. A planner that
finds nothing to do publishes no plan; if its look was a long one it leaves a note instead.

A file group is in one pending plan at most, whatever kind of plan it is. A compaction puts all logs
into a base file; a log compaction, planned before that and finished after it, would put old rows on
top of the new base file. So each planner leaves out what `planned_groups` gives, under the lock
under which it publishes, and carries it to the next plan.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lentic.errors import Corrupt, MissingFile
from lentic.format import layout
from lentic.format.names import Action, requested_at_of
from lentic.format.plan_window import (
    EDGE_KEY,
    WINDOW_KEY,
    Look,
    PlanWindow,
    decode_window,
    encode_window,
)
from lentic.format.plans import CompactionOperation, CompactionPlan
from lentic.format.times import CompletedAt, RequestedAt
from lentic.services.plan_windows import (
    Subject,
    list_plans,
    list_savepoints,
    load_aborted,
    load_changes,
    load_floor,
    load_start,
)
from lentic.storage.base import FileInfo, Storage
from lentic.timeline.history import load_archived_edge
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_clustered_groups, load_compaction_plan
from lentic.timeline.timeline import Timeline
from lentic.txn.conflicts import Group
from lentic.txn.transaction import Transaction
from lentic.view.changed_partitions import (
    Doubt,
    changed_partitions,
    digest_options,
    find_floor,
    find_last,
    find_undecided,
    order_carry,
)
from lentic.view.files import FileSlice
from lentic.view.listing import load_partition_files, load_table_files
from lentic.view.table_view import TableFiles, Writes, build_view

_log = logging.getLogger(__name__)

_WORTH_A_NOTE = 10
"""Writes to read, or partitions, before a look in vain is noted for the next planner's sake."""

OnLook = Callable[[PlanWindow], None]
"""Is told what a planner looked at, also where there was nothing to plan."""


@dataclass(frozen=True, slots=True)
class Looked:
    """Where a planner has to look. `partitions` is None for the whole table."""

    window: PlanWindow
    partitions: frozenset[str] | None
    writes: int = 0
    """Whose metadata had to be read to know."""
    base: PlanWindow | None = None
    waiting: tuple[str, ...] = ()
    """What earlier plans left undone, oldest first."""
    left: frozenset[str] = frozenset()
    """What would have to be looked at and is not: it stays undone."""

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to look at, not even what was left undone."""
        return self.partitions is not None and not self.partitions

    @property
    def is_long(self) -> bool:
        """Whether it takes so much that the next planner should not have to do it again."""
        if self.partitions is None:
            return True
        return max(self.writes, len(self.partitions)) >= _WORTH_A_NOTE

    def without(self, passed_over: Callable[[str], bool]) -> Looked:
        """The same but for partitions that the service, as it is told to, will never have anything
        to do with. What was left there stays left, for whoever is told something else."""
        left = self.left.union(filter(passed_over, self.waiting))
        if self.partitions is None:
            return replace(self, left=left)
        kept = frozenset(p for p in self.partitions if not passed_over(p))
        return replace(self, partitions=kept, left=left)


# --- a window -----------------------------------------------------------------------------------


def begin_planning(txn: Transaction) -> RequestedAt:
    """The time of a plan; what completed before it is on the transaction's timeline (R12)."""
    at = RequestedAt(txn.next_time())
    txn.reload()
    return at


def look(
    storage: Storage,
    timeline: Timeline,
    at: RequestedAt,
    subject: Subject,
    upto: CompletedAt | None = None,
) -> Looked:
    """Where a plan made at `at` has to look to see all that changed before `upto`, or before `at`
    if that is None: where something completed since the last plan, and what that left undone."""
    hi = CompletedAt(at) if upto is None else upto
    plans = list_plans(storage, timeline, subject.action)
    archived_upto = load_archived_edge(storage)
    is_clean = subject.action is Action.CLEAN  # which is never undone, and waits for savepoints
    window = PlanWindow(
        at=at,
        kind=Look.INCREMENTAL,
        lo=CompletedAt(""),
        hi=hi,
        relies=() if is_clean else tuple(plan.requested_at for plan in plans),
        last=find_last(timeline, hi),
        floor=find_floor(timeline, at, hi),
        undecided=find_undecided(timeline, hi),
        options=digest_options(subject.options),
        savepoints=list_savepoints(timeline) if is_clean else (),
    )
    found = _look_at_changes(storage, timeline, subject, window, plans, archived_upto)
    if not isinstance(found, Doubt):
        return found
    floor = load_floor(storage, timeline, at, hi, archived_upto)
    return replace(_look_at_all(replace(window, floor=floor), found.why), waiting=found.carry)


def _look_at_changes(
    storage: Storage,
    timeline: Timeline,
    subject: Subject,
    window: PlanWindow,
    plans: Sequence[Instant],
    archived_upto: RequestedAt,
) -> Looked | Doubt:
    if not subject.is_incremental:
        return Doubt("planning by what changed is switched off")
    start = load_start(storage, timeline, subject, plans, archived_upto)
    if isinstance(start, Doubt):
        return start
    changes = load_changes(storage, timeline, start.base, window.hi, archived_upto)
    if isinstance(changes, Doubt):
        return replace(changes, carry=start.carry)
    try:
        changed = changed_partitions(changes.writes, subject.operation, storage.root)
        aborted = load_aborted(storage, subject.action, start.aborted)
    except (Corrupt, MissingFile) as error:
        return Doubt(f"what a plan left undone does not read: {error.what}", start.carry)
    window = replace(
        window,
        lo=start.base.hi,
        plans=start.base.plans + 1,
        floor=min((window.floor, *changes.late)),
        undecided=tuple(sorted({*window.undecided, *changes.late})),
    )
    partitions = changed | aborted | {*start.carry}
    return Looked(window, partitions, len(changes.writes), start.base, start.carry)


def look_again_at_all(looked: Looked, why: str) -> Looked:
    """The whole table after all."""
    everything = _look_at_all(looked.window, why)
    return replace(everything, waiting=looked.waiting, left=looked.left)


def look_at_chosen(due: Looked, names: Iterable[str]) -> Looked:
    """The partitions that the caller names, where the look at `due` would be in order.

    The next plan of ours goes on as if there had been none. Another engine's goes on from whatever
    plan is the last, so that this one passes on where a look was due, as far as it is known.
    """
    chosen, at, hi = frozenset(names), due.window.at, due.window.hi
    window = PlanWindow(at, Look.CHOSEN, hi, hi, floor=due.window.floor)
    seen = due.partitions or frozenset()
    left = seen.union(due.waiting, due.left) - chosen
    return Looked(window, chosen, waiting=due.waiting, left=left)


def _look_at_all(window: PlanWindow, why: str) -> Looked:
    full = replace(window, kind=Look.FULL, lo=CompletedAt(""), why=why, plans=0)
    return Looked(full, None)


def load_looked_at(storage: Storage, timeline: Timeline, looked: Looked) -> TableFiles:
    """The files that lie where a planner has to look, and the writes that made them."""
    if looked.is_idle:
        return TableFiles((), {}, frozenset())
    if looked.partitions is None:
        return load_table_files(storage, timeline)
    return load_partition_files(storage, timeline, looked.partitions)


def describe_look(
    looked: Looked,
    files: TableFiles | None = None,
    *,
    carry: Iterable[str] = (),
    recent: Iterable[str] = (),
) -> PlanWindow:
    """What the next planner has to know of this look; `files` are what was found."""
    total = None
    if looked.partitions is None and files is not None:
        total = len({file.directory for file in files.files if requested_at_of(file.name)})
    return replace(
        looked.window,
        carry=order_carry(looked.waiting, looked.left.union(carry)),
        recent=tuple(recent),
        considered=(total or 0) if looked.partitions is None else len(looked.partitions),
        total=total,
    )


def tell_look(action: Action, window: PlanWindow, on_look: OnLook | None) -> None:
    """Say what was looked at, and why so much."""
    _log.info("planning %s: %s", action, window)
    if on_look is not None:
        on_look(window)


def note_look(txn: Transaction, looked: Looked, action: Action, window: PlanWindow) -> None:
    """Where no plan is published that would say what was looked at: note it, if it was much."""
    if looked.is_long and window.kind is not Look.CHOSEN:
        noted = replace(window, plans=max(0, window.plans - 1))
        txn.note_window(action, encode_window(noted).encode())


def window_extra(window: PlanWindow) -> dict[str, str]:
    """What the extra metadata of a plan says of its window."""
    return {WINDOW_KEY: encode_window(window)}


def completed_extra(
    plan: Mapping[str, str], where: str, *, dropped: Iterable[str] = ()
) -> dict[str, str]:
    """What that of the clean or commit says which completes the plan with this extra metadata;
    `dropped` are partitions in which something of the plan was left undone."""
    try:
        window = decode_window(plan[WINDOW_KEY], where)
    except (KeyError, Corrupt):
        return {}  # the next planner will look at the whole table
    return window_extra(replace(window, dropped=tuple(sorted({*dropped}))))


def commit_extra(
    plan: Mapping[str, str], at: RequestedAt, *, dropped: Iterable[str] = ()
) -> dict[str, str]:
    """The same for a commit, which names the right edge of the window besides, as RFC-83 asks, if
    all that changed before it was looked at."""
    found = completed_extra(plan, str(at), dropped=dropped)
    if not found or decode_window(found[WINDOW_KEY], str(at)).kind is Look.CHOSEN:
        return found
    return {EDGE_KEY: str(at), **found}


# --- who is planned for -------------------------------------------------------------------------


def planned_groups(
    storage: Storage, timeline: Timeline, *, but: Instant | None = None
) -> frozenset[Group]:
    """Partition and file id of every file group that a pending plan names, but for one plan's."""
    own = but.identity if but else None
    plans = (i for i in timeline.pending(*_PLANS) if i.identity != own)
    return frozenset(group for plan in plans for group in _groups_of(storage, plan))


_PLANS = (Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING)


def _groups_of(storage: Storage, plan: Instant) -> frozenset[Group]:
    if plan.action is Action.CLUSTERING:
        return load_clustered_groups(storage, plan)
    return load_compaction_plan(storage, plan).groups()


def makers(plan: CompactionPlan) -> frozenset[RequestedAt]:
    """The instants that made the files that the plan names."""
    names = (name for op in plan.operations for name in (*op.log_files, op.base_file or ""))
    return frozenset(at for name in names if (at := requested_at_of(name)))


def load_planned_slice(
    storage: Storage, operation: CompactionOperation, writes: Writes
) -> FileSlice:
    """Exactly the files the plan names (R12), none found by listing; `writes` made them."""
    names = [*([operation.base_file] if operation.base_file else []), *operation.log_files]
    files = [_found(storage, layout.data_file(operation.partition, name)) for name in names]
    groups = build_view(files, writes)
    if len(groups) != 1 or len(groups[0].slices) != 1 or len(groups[0].latest.paths) != len(names):
        raise MissingFile(
            f"The plan of file group {operation.file_id} names files that no commit made.",
            where=storage.root,
            safe="nothing was committed; the plan stays",
            next_step="roll the plan back and schedule again",
        )
    return groups[0].latest


def _found(storage: Storage, path: str) -> FileInfo:
    if (info := storage.info(path)) is None:
        raise MissingFile(
            "A file that the plan names is gone.",
            where=path,
            safe="nothing was committed; the plan stays",
            next_step="roll the plan back and schedule again",
        )
    return info
