"""A write as users call it: clean up after the dead, write, and clean up after ourselves."""

from __future__ import annotations

from typing import Any

from lentic.engine import Engine
from lentic.errors import OutcomeUnknown, Refused
from lentic.services.rollback import roll_back, roll_back_failed_writes, withdraw
from lentic.txn.transaction import OpenTable
from lentic.write.commit import Commit
from lentic.write.operations import begin_upsert, ensure_writable, run_upsert


def upsert(table: OpenTable, engine: Engine, source: Any) -> Commit:
    """Upsert `source`; on any failure nothing of it is visible, now or later.

    The one exception is `OutcomeUnknown`: the commit may have landed, so nothing is cleaned up.
    """
    ensure_writable(table, engine, source)
    roll_back_failed_writes(table)
    begun = begin_upsert(table)
    try:
        return run_upsert(table, engine, source, begun)
    except OutcomeUnknown:
        raise
    except Refused:
        withdraw(table, begun.instant)
        raise
    except Exception:
        roll_back(table, begun.instant)
        raise
