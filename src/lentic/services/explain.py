"""A dry run: what a service would do now, and what stands in its way.

The service itself is asked, with a lock that notes the plan instead of publishing it: nothing is
written, and what is explained is byte for byte what would be carried out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

from lentic.coordination.lock import Intent
from lentic.engine import LocalEngine
from lentic.format import layout
from lentic.format.clean import decode_clean_plan
from lentic.format.clustering_plan import ClusteringPlan, decode_clustering_plan
from lentic.format.names import Action, State, parse_instant_file, requested_at_of
from lentic.format.plan_window import PlanWindow, decode_plan_window, encode_window
from lentic.format.plans import decode_compaction_plan, decode_rollback_plan
from lentic.format.restore import decode_restore_plan
from lentic.format.times import RequestedAt
from lentic.services.abort import execute_abort
from lentic.services.archive import list_due
from lentic.services.catalog import find_service
from lentic.services.plans import load_standing
from lentic.services.protected import compaction_inputs
from lentic.services.restore import publish_restore
from lentic.services.savepoint import load_savepoints, make_savepoint, remove_savepoint
from lentic.services.undo_completed import roll_back_instant
from lentic.services.upkeep import load_upkeep
from lentic.storage.base import Storage
from lentic.timeline.cancel_requests import is_cancelled
from lentic.timeline.instant import WRITES, Instant
from lentic.timeline.reader import load_clustering_plan, load_commit_metadata, load_timeline
from lentic.timeline.timeline import Timeline
from lentic.txn.cancellation import request_cancel
from lentic.txn.transaction import OpenTable, transaction
from lentic.view.listing import load_table_files
from lentic.write import markers


@dataclass(frozen=True, slots=True)
class Step:
    """One kind of thing that would be done. `rows` is None where only reading would tell."""

    what: str
    files: int
    bytes: int = 0
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a service would do; no step means that there is nothing to do."""

    service: str
    steps: tuple[Step, ...] = ()
    conflicts: tuple[str, ...] = ()
    pending: RequestedAt | None = None
    """The plan that is explained, if it is on the timeline already."""
    window: PlanWindow | None = None
    """Where it looked for something to do, and why, if it did look."""

    def to_json(self) -> dict[str, Any]:
        return {
            "service": self.service,
            "pending": self.pending,
            "steps": [{name: getattr(s, name) for name in Step.__slots__} for s in self.steps],
            "conflicts": list(self.conflicts),
            "window": None if self.window is None else json.loads(encode_window(self.window)),
        }

    def __str__(self) -> str:
        looked = [] if self.window is None else [f"  {self.window}"]
        if not self.steps:
            nothing = f"{self.service}: there is nothing to do"
            return "\n".join([nothing, *self._say_conflicts(), *looked])
        lines = [f"{self.service}" + (f", planned at {self.pending}" if self.pending else "")]
        for step in self.steps:
            rows = "" if step.rows is None else f", {step.rows} rows"
            lines.append(f"  {step.what}: {step.files} file(s), {step.bytes} bytes{rows}")
        return "\n".join([*lines, *self._say_conflicts(), *looked])

    def _say_conflicts(self) -> list[str]:
        return [f"  conflict: {conflict}" for conflict in self.conflicts]


def explain_service(table: OpenTable, name: str, given: Mapping[str, Any]) -> Explanation:
    """What the service would do now; nothing is done.

    Besides those that work by plans: "archive", and "rollback", "restore", "savepoint",
    "remove_savepoint", "cancel" and "abort" with `requested_at`. "clean" takes `wait` as it does,
    and "abort" the reason `why` for which the plan is cancelled first.
    """
    if name in _OTHERS:
        return _OTHERS[name](table, **given)
    return _explain_planned(table, name, given)


def _explain_planned(table: OpenTable, name: str, given: Mapping[str, Any]) -> Explanation:
    service = find_service(name, given)
    looks: list[PlanWindow] = []
    drafted = draft(table, lambda dry: service.schedule(dry, on_look=looks.append, **given))
    window = looks[-1] if looks else None
    if drafted is None:
        return Explanation(name, window=window)
    if isinstance(drafted, Intent):
        found = _describe(table, name, service.action, drafted.path, drafted.content, None)
        return replace(found, window=window)
    plan = Instant(drafted, service.action, State.REQUESTED)
    path = layout.timeline_file(plan.file_name)
    content = table.storage.read(path)
    found = _describe(table, name, service.action, path, content, drafted)
    return replace(found, window=decode_plan_window(content, path))


def _explain_clean(table: OpenTable, *, wait: bool = False, **given: Any) -> Explanation:
    """All of a run: what it ends and undoes first, what it cleans, what it sweeps."""
    found = _explain_planned(table, "clean", given)
    ahead = load_upkeep(table, waits=wait)
    storage, timeline = table.storage, load_timeline(table.storage)
    before = [Step(f"cancel {plan}, which waits for too long", 0) for plan in ahead.cancels]
    for what, instants in (("abort", ahead.aborts), ("roll back", ahead.undoes)):
        for instant in instants:
            left = markers.list_announced(storage, instant.requested_at)
            before.append(_measure(storage, timeline, f"{what} {instant}", left))
    before += [Step(f"finish {instant}", 0) for instant in ahead.finishes]
    swept = [_measure(storage, timeline, "delete orphans", ahead.orphans)] if ahead.orphans else []
    busy = (f"{plan} is cancelled and left to {owner}, its executor" for plan, owner in ahead.busy)
    return replace(
        found,
        steps=(*before, *found.steps, *swept),
        conflicts=(*found.conflicts, *busy),
    )


def _explain_archive(table: OpenTable) -> Explanation:
    due = list_due(table, load_timeline(table.storage))
    return Explanation("archive", (Step("archive instants", len(due)),) if due else ())


def _explain_rollback(table: OpenTable, requested_at: str) -> Explanation:
    at = RequestedAt(requested_at)
    drafted = draft(table, lambda dry: roll_back_instant(dry, at).requested_at)
    if not isinstance(drafted, Intent) or not drafted.path.endswith(".rollback.requested"):
        return Explanation("rollback", (Step("finish a rollback that was begun", 0),))
    storage, timeline = table.storage, load_timeline(table.storage)
    plan = decode_rollback_plan(drafted.content, root=storage.root, where=drafted.path)
    return Explanation("rollback", (_measure(storage, timeline, "delete", plan.files),))


def _explain_restore(table: OpenTable, requested_at: str) -> Explanation:
    at = RequestedAt(requested_at)

    def schedule(dry: OpenTable) -> RequestedAt:
        with transaction(dry) as txn:
            return publish_restore(txn, at).requested_at

    drafted = draft(table, schedule)
    assert isinstance(drafted, Intent), drafted
    storage, timeline = table.storage, load_timeline(table.storage)
    plan = decode_restore_plan(drafted.content, drafted.path)
    files = [path for paths in (plan.files or {}).values() for path in paths]
    undo = Step("undo instants", len(plan.undone))
    return Explanation("restore", (undo, _measure(storage, timeline, "delete", files)))


def _explain_savepoint(table: OpenTable, requested_at: str | None = None) -> Explanation:
    at = None if requested_at is None else RequestedAt(requested_at)

    def schedule(dry: OpenTable) -> RequestedAt:
        return make_savepoint(dry, at).requested_at

    drafted = draft(table, schedule)
    if not isinstance(drafted, Intent):
        return Explanation("savepoint", pending=drafted)
    name = parse_instant_file(drafted.path.rpartition("/")[2])
    assert name is not None, drafted.path
    storage, timeline = table.storage, load_timeline(table.storage)
    completed_at = timeline.completions()[name.requested_at]
    groups = load_table_files(storage, timeline).groups(completed_at)
    files = [path for group in groups for path in group.latest.paths]
    return Explanation("savepoint", (_measure(storage, timeline, "keep", files),))


def _explain_cancel(table: OpenTable, requested_at: str) -> Explanation:
    at = RequestedAt(requested_at)
    drafted = draft(table, lambda dry: request_cancel(dry, at))
    if not isinstance(drafted, Intent):
        return Explanation("cancel")
    storage, timeline = table.storage, load_timeline(table.storage)
    plan = load_clustering_plan(storage, Instant(at, Action.CLUSTERING, State.REQUESTED))
    return Explanation(
        "cancel", (_measure(storage, timeline, "give up rewriting", _clustered(plan)),)
    )


def _explain_abort(table: OpenTable, requested_at: str, why: str = "") -> Explanation:
    """With a reason the plan is cancelled first, unless it is."""
    at = RequestedAt(requested_at)
    if why and not is_cancelled(table.storage, at):
        return _explain_cancel_and_abort(table, at)

    def end(dry: OpenTable) -> RequestedAt:
        return execute_abort(dry, LocalEngine(), at).instant.requested_at

    if not isinstance(draft(table, end), Intent):
        return Explanation("abort")
    storage, timeline = table.storage, load_timeline(table.storage)
    left = markers.list_announced(storage, at)
    return Explanation("abort", (_measure(storage, timeline, "delete", left),))


def _explain_cancel_and_abort(table: OpenTable, at: RequestedAt) -> Explanation:
    cancelled = _explain_cancel(table, at)
    if not cancelled.steps:  # it has ended, or somebody was faster
        return Explanation("abort")
    storage, timeline = table.storage, load_timeline(table.storage)
    left = _measure(storage, timeline, "delete", markers.list_announced(storage, at))
    now = load_standing(table, timeline, Instant(at, Action.CLUSTERING, State.REQUESTED))
    busy = (f"{now.owner} executes it, and ends it once it is cancelled",) if now.is_alive else ()
    return Explanation("abort", (*cancelled.steps, left), busy)


def _explain_remove_savepoint(table: OpenTable, requested_at: str) -> Explanation:
    at = RequestedAt(requested_at)

    def remove(dry: OpenTable) -> None:
        remove_savepoint(dry, at)  # in which nothing is deleted

    draft(table, remove)
    storage, timeline = table.storage, load_timeline(table.storage)
    found = [saved for saved in load_savepoints(storage, timeline) if saved.requested_at == at]
    files = [path for saved in found for path in saved.files]
    return Explanation("remove_savepoint", (_measure(storage, timeline, "let go of", files),))


_OTHERS: Mapping[str, Callable[..., Explanation]] = {
    "clean": _explain_clean,
    "archive": _explain_archive,
    "rollback": _explain_rollback,
    "restore": _explain_restore,
    "savepoint": _explain_savepoint,
    "remove_savepoint": _explain_remove_savepoint,
    "cancel": _explain_cancel,
    "abort": _explain_abort,
}


# --- a lock that only takes notes ---------------------------------------------------------------


class _Noted(Exception):
    """The service has decided what to publish."""

    def __init__(self, intent: Intent) -> None:
        super().__init__(intent.path)
        self.intent = intent


class _Reading:
    """A storage that is only read. What every transaction tidies up first stays as it is; whatever
    else would be written ends the dry run."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def delete(self, path: str) -> bool:
        return False

    def replace(self, path: str, data: bytes) -> None:
        """Nothing is replaced."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        raise _Noted(Intent(path, data))


class _DryHeld:
    """Held by nobody; good for reading the timeline and for one decision that is not made."""

    epoch = 0
    last_time = ""
    can_be_lost = False

    def save_last_time(self, time: str) -> None:
        """No time is issued."""

    def ensure_held(self) -> None:
        """Nothing is changed that would need it."""

    def publish(self, intent: Intent) -> bool:
        raise _Noted(intent)

    def settle(self) -> None:
        """Nothing was decided."""


class _DryLock:
    @contextmanager
    def hold(self) -> Iterator[_DryHeld]:
        yield _DryHeld()


def draft(
    table: OpenTable, schedule: Callable[[OpenTable], RequestedAt | None]
) -> Intent | RequestedAt | None:
    """What `schedule` would publish, the plan that it found instead, or None. Nothing is done."""
    reading = cast(Storage, _Reading(table.storage))
    try:
        return schedule(replace(table, lock=_DryLock(), storage=reading))
    except _Noted as noted:
        return noted.intent


# --- plans in words -----------------------------------------------------------------------------


def _describe(
    table: OpenTable,
    name: str,
    action: Action,
    path: str,
    content: bytes,
    pending: RequestedAt | None,
) -> Explanation:
    storage, timeline = table.storage, load_timeline(table.storage)
    own = parse_instant_file(path.rpartition("/")[2])
    if action is Action.CLEAN:
        doomed = decode_clean_plan(content, root=storage.root, where=path).files
        steps: tuple[Step, ...] = (_measure(storage, timeline, "delete", doomed),)
        return Explanation(name, steps, (), pending)
    if action is Action.CLUSTERING:
        clustering = decode_clustering_plan(content, storage.root, path)
        inputs = _clustered(clustering)
        outputs = sum(group.outputs for group in clustering.groups)
    else:
        compaction = decode_compaction_plan(content, path)
        inputs, outputs = compaction_inputs(compaction), len(compaction.operations)
    read = _measure(storage, timeline, "read", inputs)
    conflicts = _writers(storage, timeline, inputs, own.requested_at if own else None)
    return Explanation(name, (read, replace(read, what="write", files=outputs)), conflicts, pending)


def _clustered(plan: ClusteringPlan) -> frozenset[str]:
    slices = (part for group in plan.groups for part in group.slices)
    return frozenset(path for part in slices for path in part.paths)


def _measure(storage: Storage, timeline: Timeline, what: str, paths: Iterable[str]) -> Step:
    wanted = frozenset(paths)
    folders = {path.rpartition("/")[0] for path in wanted}
    listed = (file for folder in folders for file in storage.list_files(folder))
    size = sum(file.size for file in listed if file.path in wanted)
    return Step(what, len(wanted), size, _rows(storage, timeline, wanted))


def _rows(storage: Storage, timeline: Timeline, wanted: frozenset[str]) -> int | None:
    """Rows in the files, by the commits that made them; None if one of those is archived."""
    makers = {requested_at_of(path.rpartition("/")[2]) for path in wanted}
    writes = [instant for instant in timeline.writes() if instant.requested_at in makers]
    if len(writes) < len(makers):
        return None
    stats = (stat for write in writes for stat in load_commit_metadata(storage, write).stats)
    return sum(stat.writes for stat in stats if stat.path in wanted)


def _writers(
    storage: Storage, timeline: Timeline, inputs: frozenset[str], own: RequestedAt | None
) -> tuple[str, ...]:
    """Writes under way that have announced files of the same groups."""
    groups = {_group_of(path) for path in inputs}
    found = []
    for write in timeline.pending(*WRITES):
        announced = markers.list_announced(storage, write.requested_at)
        both = groups & {_group_of(path) for path in announced}
        if both and write.requested_at != own:
            found.append(f"{write} is writing to {len(both)} of these file groups")
    return tuple(found)


def _group_of(path: str) -> tuple[str, str]:
    partition, _, name = path.rpartition("/")
    return partition, name.removeprefix(".").partition("_")[0]
