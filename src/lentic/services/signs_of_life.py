"""Whether somebody executes a plan: what whoever wants to execute or abort it asks first (R14)."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from lentic.coordination.heartbeat import heartbeat_owner, load_heartbeat
from lentic.errors import PlanBusy
from lentic.format import layout
from lentic.format.times import RequestedAt
from lentic.timeline.instant import Instant
from lentic.txn.transaction import OpenTable

_log = logging.getLogger(__name__)
_TOLD_MAX = 3


def await_news(table: OpenTable, at: RequestedAt) -> None:
    """If the plan has a heartbeat, watch it until it changes, or long enough to give it up.

    A living executor is known within a beat, a dead one within its time to live; without waiting a
    process that looks once and ends would never learn either.
    """
    first = load_heartbeat(table.storage, at)
    if first:
        sight_all(table)
    if first and not table.watch.has_expired(at, first):
        tell_waiting(table, {at: first})
    while first and not table.watch.has_expired(at, first):
        table.world.clock.sleep(min(table.pulse.beat_s / 2, table.watch.left_s(at)))
        if load_heartbeat(table.storage, at) != first:
            return


def tell_waiting(table: OpenTable, watched: Mapping[RequestedAt, bytes]) -> None:
    """Say whose signs of life are waited for, by what their heartbeats said first, and for how
    long: who waits for minutes without a word is taken for stuck."""
    left_s = max(map(table.watch.left_s, watched))
    whose = [f"{at} ({heartbeat_owner(said)})" if said else at for at, said in watched.items()]
    more = f" and {len(whose) - _TOLD_MAX} more" if len(whose) > _TOLD_MAX else ""
    names = ", ".join(whose[:_TOLD_MAX]) + more
    _log.warning("waiting up to %g s for a sign of life of %s", round(left_s, 1), names)


def sight_all(table: OpenTable) -> None:
    """Begin to watch every heartbeat there is: who waits for one need not wait for each of the
    others again."""
    for file in table.storage.list_files(layout.HEARTBEATS):
        if file.name.isascii() and file.name.isdigit():
            at = RequestedAt(file.name)
            table.watch.has_expired(at, load_heartbeat(table.storage, at))


def is_executed(table: OpenTable, at: RequestedAt) -> bool:
    """Whether somebody's heartbeat is there and has not expired. Who ends in good order takes the
    heartbeat away, and who dies leaves it, so that none means nobody."""
    content = load_heartbeat(table.storage, at)
    return bool(content) and not table.watch.has_expired(at, content)


def ensure_not_executed(table: OpenTable, plan: Instant) -> None:
    """`PlanBusy` if somebody executes the plan."""
    if not is_executed(table, plan.requested_at):
        return
    owner = heartbeat_owner(load_heartbeat(table.storage, plan.requested_at))
    raise PlanBusy(
        f"{plan} is being executed by {owner}.",
        where=table.storage.root,
        safe="nothing was changed by this call",
        next_step=f"wait; its heartbeat expires {table.pulse.ttl_ms / 1000:g} s after it stops",
    )
