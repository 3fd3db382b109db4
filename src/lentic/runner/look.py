"""One look at a table: what is on its timeline, and which signs of life there are. Reads only.

A look at a table on which nothing has happened and nothing is pending is one listing. What was read
for a state of the timeline is kept with the digest of that listing; heartbeats alone are read each
time, because to see that one has stopped means to look again. Sightings are kept by the table's
`Watch`, which outlives a look.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lentic.coordination.heartbeat import load_heartbeat
from lentic.errors import Corrupt
from lentic.format import layout
from lentic.format.names import Action
from lentic.format.times import RequestedAt, parse_epoch_ms
from lentic.runner.decide import Facts, Seen
from lentic.services.due import Situation
from lentic.services.situation import load_situation, pick_last_clustering
from lentic.timeline.cancel_requests import list_cancelled
from lentic.timeline.instant import PLANS, Instant
from lentic.timeline.reader import load_is_removable, load_timeline
from lentic.txn.transaction import OpenTable


@dataclass(frozen=True, slots=True)
class Known:
    """What was read for one state of the timeline. `removable` says so of each pending plan."""

    digest: str
    properties: bytes
    now: Situation
    removable: Mapping[RequestedAt, bool] = field(default_factory=dict)


def look(table: OpenTable, known: Known | None) -> Known:
    """What is known of the table now. `known` is from the look before; the same comes back if the
    timeline is the same."""
    names = sorted(file.name for file in table.storage.list_files(layout.TIMELINE))
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()
    if known is not None and known.digest == digest:
        # Time has passed all the same, and options may go by it.
        return replace(known, now=replace(known.now, now_ms=table.world.clock.now_ms()))
    properties = table.storage.read(layout.PROPERTIES)
    timeline = load_timeline(table.storage)
    plans = timeline.pending(*PLANS)
    now = load_situation(table, timeline, clusters=False)
    # By the names that are known: it is asked of every table, and should cost nothing.
    now = replace(
        now, last_clustering=pick_last_clustering(timeline, frozenset(names).__contains__)
    )
    before = known.removable if known else {}
    return Known(
        digest=digest,
        properties=properties,
        now=now,
        removable={
            plan.requested_at: (
                before[plan.requested_at]
                if plan.requested_at in before
                else load_is_removable(table.storage, plan)
            )
            for plan in plans
        },
    )


def load_facts(table: OpenTable, known: Known) -> Facts:
    """What is known of the table, with the signs of life that are there now."""
    pending = known.now.timeline.pending()
    # A request is made for a plan that is pending, and without changing the timeline.
    plans = known.now.timeline.pending(Action.CLUSTERING)
    cancelled = list_cancelled(table.storage) if plans else frozenset()
    table.watch.forget_all_but(frozenset(instant.requested_at for instant in pending))
    return Facts(
        now=known.now,
        pending=tuple(_see(table, known, instant, cancelled) for instant in pending),
        is_shared=table.sharing.mode.is_shared,
    )


def _see(
    table: OpenTable, known: Known, instant: Instant, cancelled: frozenset[RequestedAt]
) -> Seen:
    at = instant.requested_at
    content = load_heartbeat(table.storage, at)
    is_silent = table.watch.has_expired(at, content)
    return Seen(
        instant=instant,
        has_heartbeat=bool(content),
        is_silent=is_silent,
        silent_s=table.watch.silent_s(at),
        age_s=_age_s(known.now, at),
        is_removable=known.removable.get(at, False),
        is_cancelled=instant.action is Action.CLUSTERING and at in cancelled,
    )


def _age_s(now: Situation, at: RequestedAt) -> float:
    try:
        return max(0.0, (now.now_ms - parse_epoch_ms(at, now.zone)) / 1000)
    except Corrupt:  # another engine's time
        return 0.0
