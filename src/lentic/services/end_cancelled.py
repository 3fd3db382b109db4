"""Clean's part in cancelling plans (HUDI-7946, "Optional feature"), in the two steps of the design.

Whoever executes a plan ends it when it was cancelled. Should nobody come, a clean does, so that no
plan stays on the timeline for ever. What somebody executes is left to them.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from lentic.engine import Engine
from lentic.errors import Conflict, PlanBusy, PlanCompleted, Refused
from lentic.services.abort import execute_abort
from lentic.services.cancel_policy import list_due
from lentic.timeline.cancel_requests import list_cancelled
from lentic.timeline.instant import Instant
from lentic.txn.cancellation import request_cancel
from lentic.txn.transaction import OpenTable, transaction

_log = logging.getLogger(__name__)


def end_cancelled(table: OpenTable, engine: Engine, *, waits: bool = False) -> tuple[Instant, ...]:
    """Cancel what has waited for too long, abort what was cancelled; the plans that were aborted.

    Without `waits` a plan whose executor died is left until this process has watched its heartbeat
    for long enough.
    """
    if not table.services.cancellation.clean_cancels:
        return ()
    for plan in list_due(table, waits=waits):  # 1
        with suppress(Conflict, Refused):  # it ended while we looked, or others see to it
            request_cancel(table, plan.requested_at, why="it waited for longer than its policy")
    ended: list[Instant] = []
    for at in sorted(list_cancelled(table.storage)):  # 2
        try:
            ended.append(execute_abort(table, engine, at, waits=waits).instant)
        except PlanBusy as error:
            _log.info("a cancelled plan is left to its executor: %s", error.what)
        except (PlanCompleted, Refused):
            _discard_ended(table)
        except Conflict as error:  # somebody else ends it
            _log.info("a cancelled plan is left to others: %s", error.what)
    return tuple(ended)


def _discard_ended(table: OpenTable) -> None:
    """Take requests away whose plan has ended, by a rollback or restore or before the request: who
    lost the lock may have made one late."""
    # Listed first: a plan is on the timeline before anybody cancels it, so that one which is not
    # pending afterwards has ended, however long this sleeps and whoever has the lock by then (C5).
    found = list_cancelled(table.storage)
    with transaction(table) as txn:
        pending = {plan.requested_at for plan in txn.timeline.pending()}
        for at in found - pending:
            txn.discard_cancel(at)
