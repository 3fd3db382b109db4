"""How old a plan is, whoever's clock is wrong (G9).

Its requested time is the scheduler's, and may be hours off; the observer's clock may be, too. So
the storage has to agree: it dates the plan's file and a file that is written now by one clock, its
own. Both must say that the time has passed. A clock that is behind can only make a plan younger.
"""

from __future__ import annotations

from collections.abc import Iterable

from lentic.errors import Corrupt
from lentic.format import layout
from lentic.format.names import State
from lentic.format.times import parse_epoch_ms
from lentic.timeline.instant import Instant
from lentic.txn.transaction import OpenTable


def list_older(table: OpenTable, plans: Iterable[Instant], age_ms: int) -> tuple[Instant, ...]:
    """Those of `plans` that were made at least `age_ms` ago, by both clocks."""
    found = tuple(plans)
    if not age_ms or not found:
        return found
    now_ms = table.world.clock.now_ms()
    found = tuple(p for p in found if _requested_ms(table, p, now_ms) <= now_ms - age_ms)
    if found:
        now_ms = _storage_now_ms(table)
        found = tuple(p for p in found if _dated_ms(table, p, now_ms) <= now_ms - age_ms)
    return found


def _requested_ms(table: OpenTable, plan: Instant, now_ms: int) -> int:
    try:
        return parse_epoch_ms(plan.requested_at, table.config.zone)
    except Corrupt:  # a name that is no time: it tells no age
        return now_ms


def _dated_ms(table: OpenTable, plan: Instant, now_ms: int) -> int:
    """When the plan was published, on the storage's clock."""
    requested = Instant(plan.requested_at, plan.action, State.REQUESTED)
    info = table.storage.info(layout.timeline_file(requested.file_name))
    return now_ms if info is None else info.modified_ms


def _storage_now_ms(table: OpenTable) -> int:
    """What the storage's clock says now: the date it gives to a new file."""
    path = layout.clock_probe(table.world.entropy.uuid())
    table.storage.put_if_absent(path, b"")
    try:
        info = table.storage.info(path)
        return 0 if info is None else info.modified_ms
    finally:
        table.storage.delete(path)
