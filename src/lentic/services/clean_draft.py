"""What a clean would delete, drafted under the lock: where to look, what lies there, the plan.

A file may go once the retention edge has passed the write that put another in its place. So what is
new to a clean lies where something completed between the edge of the last clean and its own.
Besides, what only a pending plan kept from going is looked at again, and after a savepoint was
removed the whole table is: nobody knows any more what it held.
"""

from __future__ import annotations

from dataclasses import replace

from lentic.config.retention import CleanOptions
from lentic.format.clean import CleanPlan
from lentic.format.names import Action
from lentic.format.times import RequestedAt
from lentic.services.clean_plan import Held, find_edge, find_retained, plan_clean_upto
from lentic.services.plan_windows import Subject
from lentic.services.protected import list_half_saved, load_holders
from lentic.services.schedule import (
    OnLook,
    describe_look,
    load_looked_at,
    look,
    note_look,
    tell_look,
    window_extra,
)
from lentic.timeline.reader import load_to_hide
from lentic.txn.transaction import Transaction


def draft_clean(txn: Transaction, at: RequestedAt, on_look: OnLook | None) -> CleanPlan | None:
    """What a clean at `at` would delete; None if nothing may go."""
    storage, timeline, table = txn.table.storage, txn.timeline, txn.table
    options = table.services.clean
    if timeline.pending(Action.RESTORE) or load_to_hide(storage, timeline):
        return None  # it is being decided which writes there are
    retained = find_retained(timeline, options, at, table.config.zone)
    edge = find_edge(timeline, options, at, retained)
    if edge is None:
        return None
    subject = Subject(Action.CLEAN, "", _policy(options), options.incremental)
    looked = look(storage, timeline, at, subject, edge)
    files = load_looked_at(storage, timeline, looked)

    def held() -> Held:
        holders = load_holders(storage, timeline)
        saved = {path for path, by in holders.items() if any(i.is_completed for i in by)}
        return Held(frozenset(saved), frozenset(holders) | list_half_saved(timeline, files))

    plan, waiting = plan_clean_upto(files, timeline, options, held, edge=edge, retained=retained)
    window = describe_look(looked, files, carry=waiting)
    tell_look(Action.CLEAN, window, on_look)
    if plan is None:
        note_look(txn, looked, Action.CLEAN, window)
        return None
    return replace(plan, extra={**plan.extra, **window_extra(window)})


def _policy(options: CleanOptions) -> dict[str, object]:
    """What decides which files may go."""
    return {
        "policy": options.policy,
        "commits": options.commits,
        "hours": options.hours,
        "versions": options.versions,
    }
