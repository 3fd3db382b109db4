"""When plans may be cancelled, by whom, and how often it happened (HUDI-7946).

A plan says itself whether it may be cancelled, and after how many hours or completed writes a clean
does it; that is asked of plans which nobody executes.
"""

from __future__ import annotations

from lentic.config.cancellation import CancellationOptions
from lentic.errors import ConfigError, MissingFile
from lentic.format import layout
from lentic.format.cancellable import HOUR_S, Cancellation, group_key
from lentic.format.names import Action, State
from lentic.format.properties import decode_properties
from lentic.format.times import is_before
from lentic.services.plan_age import list_older
from lentic.services.signs_of_life import await_news, is_executed
from lentic.storage.base import Storage
from lentic.timeline.cancel_requests import list_cancelled
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_clustering_claim, load_timeline
from lentic.timeline.timeline import Timeline
from lentic.txn.transaction import OpenTable, Transaction

_PROPERTY = "lentic.cancellation"
"""In hoodie.properties: plans of this table may be cancelled and aborted (R18)."""


def choose_cancellation(
    options: CancellationOptions,
    cancellable: bool | None,
    hours: float | None,
    instants: int | None,
) -> Cancellation:
    """What a new plan says: as it was asked for, else as the options say."""
    if (hours or 0) < 0 or (instants or 0) < 0:
        raise ConfigError(
            "A policy of less than nothing was asked for.",
            safe="nothing was written",
            next_step="cancel_after_hours and cancel_after_instants are 0 or more; None is never",
        )
    asked = options.cancellable if cancellable is None else cancellable
    if not asked and (hours is not None or instants is not None):
        raise ConfigError(
            "A time to cancel the plan was given, and that it may not be cancelled.",
            safe="nothing was written",
            next_step="leave cancel_after_hours and cancel_after_instants out, or cancellable=True",
        )
    if not asked:
        return Cancellation()
    return Cancellation(
        cancellable=True,
        after_hours=(options.after_hours or None) if hours is None else float(hours),
        after_instants=(options.after_instants or None) if instants is None else instants,
    )


def declare_cancellation(txn: Transaction) -> None:
    """Say in the table's properties, once, that its plans may end as aborted."""
    values = decode_properties(txn.table.storage.read(layout.PROPERTIES), layout.PROPERTIES)
    if values.get(_PROPERTY) != "true":
        txn.change_properties(lambda now: {**now, _PROPERTY: "true"}, "written by lentic")


def load_cancel_counts(storage: Storage, timeline: Timeline) -> dict[str, int]:
    """How often in a row plans for each file group were cancelled, as far as it is known: a plan
    carries on what was known when it was made, and one that completes ends the row."""
    counts: dict[str, int] = {}
    plans = [*timeline.aborted(Action.CLUSTERING)]
    first = min((plan.requested_at for plan in plans), default=None)
    done = timeline.completed(Action.REPLACECOMMIT) if first else ()
    plans += [i for i in done if first and i.requested_at > first and _was_planned(storage, i)]
    for plan in sorted(plans, key=lambda plan: plan.requested_at):
        claim = load_clustering_claim(storage, plan)
        for key in (group_key(*group) for group in claim.groups):
            before = max(counts.get(key, 0), claim.cancellation.cancelled.get(key, 0))
            counts[key] = before + 1 if plan.is_aborted else 0
    return {key: count for key, count in counts.items() if count}


def _was_planned(storage: Storage, done: Instant) -> bool:
    """Whether a replacement was a clustering: then it has a plan."""
    plan = Instant(done.requested_at, Action.CLUSTERING, State.REQUESTED)
    return storage.info(layout.timeline_file(plan.file_name)) is not None


def list_due(table: OpenTable, *, waits: bool = False) -> tuple[Instant, ...]:
    """Plans that nobody executes, nobody has cancelled, and whose own policy says it is time.

    Without `waits` a heartbeat that this process has not watched for long enough counts as living.
    """
    timeline = load_timeline(table.storage)
    pending = timeline.pending(Action.CLUSTERING)
    if not pending:
        return ()
    known = list_cancelled(table.storage)
    return tuple(
        plan
        for plan in pending
        if plan.requested_at not in known
        and is_met(table, timeline, plan)
        and not _is_executed(table, plan, waits=waits)
    )


def _is_executed(table: OpenTable, plan: Instant, *, waits: bool) -> bool:
    if waits:
        await_news(table, plan.requested_at)
    return is_executed(table, plan.requested_at)


def is_met(table: OpenTable, timeline: Timeline, plan: Instant) -> bool:
    """Whether the plan's own policy says that a clean may cancel it."""
    try:
        said = load_clustering_claim(table.storage, plan).cancellation
    except MissingFile:
        return False  # it ended since the timeline was loaded
    if said.is_met(writes=count_writes_since(timeline, plan), age_s=0):
        return True
    if not said.cancellable or said.after_hours is None:
        return False
    # Of its age both clocks must be sure (G9).
    return bool(list_older(table, (plan,), int(said.after_hours * HOUR_S * 1_000)))


def count_writes_since(timeline: Timeline, plan: Instant) -> int:
    """How many writes completed after the plan was made."""
    times = (write.completed_at for write in timeline.writes())
    return sum(at is not None and is_before(plan.requested_at, at) for at in times)
