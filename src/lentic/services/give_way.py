"""Clusterings give way to writes: a plan goes when a write lands in a file group of it.

The plan is taken off the timeline in the transaction in which the write completes, so that no
engine can execute it after that: it would bring the rows back that the plan has seen. A plan under
which rows stay in their file group (buckets) is only in the way of whoever rewrites the group; logs
that come later belong to the next slice.
"""

from __future__ import annotations

import logging

from lentic.errors import LenticError
from lentic.format.names import Action
from lentic.services.rollback import Undo, execute_undo, plan_undo
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_clustering_plan
from lentic.txn.conflicts import Touched
from lentic.txn.transaction import OpenTable, Transaction

_log = logging.getLogger(__name__)


class GivenWay:
    """The plans that gave way to one write; what they left is removed once the write has landed."""

    def __init__(self) -> None:
        self._undos: list[Undo] = []

    def __call__(self, txn: Transaction, touched: Touched) -> None:
        """End every pending clustering that a write which did `touched` cannot stand beside."""
        for plan in txn.timeline.pending(Action.CLUSTERING):
            if _is_in_the_way(txn, plan, touched):
                _log.warning("%s gives way to a write to its file groups", plan)
                self._undos.append(plan_undo(txn, plan))
                txn.remove(plan)

    def tidy(self, table: OpenTable) -> None:
        """Delete what executions of these plans have written. The write has landed, so a failure
        here must not look like a failed write; the next one finishes the rollbacks."""
        for undo in self._undos:
            try:
                execute_undo(table, undo, None)
            except LenticError as error:
                _log.warning("%s is left to the next write: %s", undo.rollback, error)


def _is_in_the_way(txn: Transaction, plan: Instant, touched: Touched) -> bool:
    found = load_clustering_plan(txn.table.storage, plan)
    mine = touched.rewritten | touched.ended if found.stays else touched.groups
    return bool(mine & found.file_groups())
