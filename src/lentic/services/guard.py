"""Execute a plan alone (RFC-79, "Changes to compaction/cluster plan execution").

A heartbeat tells others that somebody is at it; the guard, taken in the same transaction, tells who
it is. Where a heartbeat was given up although its owner only slept, the owner wakes to a later
guard and completes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack

from lentic.coordination.guards import remove_guards
from lentic.coordination.heartbeat import load_heartbeat
from lentic.engine import Engine
from lentic.errors import ConfigError, Conflict, PlanBusy
from lentic.format.names import State
from lentic.format.times import RequestedAt
from lentic.services.outcome import AlreadyCommitted, Committed, Outcome
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_timeline
from lentic.txn.transaction import OpenTable, transaction
from lentic.write import markers
from lentic.write.alive import staying_alive
from lentic.write.commit import Begun, Commit

RunPlan = Callable[[Begun, tuple[str, ...]], Commit]
"""Carries a plan out, after deleting the files that earlier executions announced."""


def execute_plan(table: OpenTable, engine: Engine, plan: Instant, run: RunPlan) -> Outcome:
    """Execute `plan`, alone. `PlanBusy` while another does; its completed instant if one did.

    Numbers are those of the RFC's steps. It reads the plan before its transaction, which is only
    safe if it is read again inside, so here 1 comes after 2.
    """
    at = plan.requested_at
    _await_news(table, at)
    with ExitStack() as held:
        with transaction(table) as txn:  # 2
            now = txn.timeline.find(plan)  # 1
            if now is None:
                raise _no_such(table, plan)
            if now.is_completed:
                return AlreadyCommitted(now)
            _ensure_no_active_heartbeat(table, now)  # 3
            # Before the guard is taken: of whoever takes it later, nothing is among these (R4).
            leftovers = markers.list_announced(table.storage, at)
            number = txn.take_guard(now)
            alive = staying_alive(table, engine, at, epoch=txn.epoch)
            heart = held.enter_context(alive)  # 5
            instant = now if now.state is State.INFLIGHT else txn.start(now)
            begun = Begun(instant, txn.timeline, epoch=txn.epoch, guard=number)  # 6
        try:
            run(begun, leftovers)  # 7
        except Exception as error:
            if not isinstance(error, Conflict):
                heart.ensure_alive()  # else it failed because it was stopped
            raise
        # 8: `held` ends the heartbeat, on success or failure
    remove_guards(table.storage, at)
    done = load_timeline(table.storage).find(plan)
    assert done is not None
    return Committed(done)


def _await_news(table: OpenTable, at: RequestedAt) -> None:
    """If the plan has a heartbeat, watch it until it changes, or long enough to give it up.

    A living executor is known within a beat, a dead one within its time to live; without waiting a
    process that looks once and ends would never learn either.
    """
    first = load_heartbeat(table.storage, at)
    while first and not table.watch.has_expired(at, first):
        table.world.clock.sleep(table.pulse.beat_s / 2)
        if load_heartbeat(table.storage, at) != first:
            return


def _ensure_no_active_heartbeat(table: OpenTable, plan: Instant) -> None:
    """`PlanBusy` if somebody's heartbeat is there and has not expired. Who ends in good order takes
    the heartbeat away, and who dies leaves it, so that none means nobody."""
    content = load_heartbeat(table.storage, plan.requested_at)
    if not content or table.watch.has_expired(plan.requested_at, content):
        return
    raise PlanBusy(
        f"{plan} is being executed by {_owner(content)}.",
        where=table.storage.root,
        safe="nothing was changed by this call",
        next_step=f"wait; its heartbeat expires {table.pulse.ttl_ms / 1000:g} s after it stops",
    )


def _owner(content: bytes) -> str:
    """Who gives the signs of life, if they are ours; Apache Hudi's say nothing."""
    try:
        fields = json.loads(content)
        return f"{fields['host']}:{fields['pid']}"
    except (ValueError, KeyError, TypeError):
        return "another engine"


def _no_such(table: OpenTable, plan: Instant) -> ConfigError:
    return ConfigError(
        f"There is no {plan.action} plan at {plan.requested_at}.",
        where=table.storage.root,
        safe="nothing was written",
        next_step=f"lentic timeline {table.storage.root}",
    )
