"""A reader: looks at the table over and over. `python -m` with its part.

Three kinds of reads take turns: all rows as of the newest moment it knows; all rows of now, whose
moment lies between the newest before the read and the newest after; and the changes since the last
time.
"""

from __future__ import annotations

import time
from itertools import cycle
from typing import Any

import pyarrow as pa

from lentic.errors import Unavailable
from lentic.table import Table
from tests.writers.ballast import NO_BALLAST
from tests.writers.history import encode_seen
from tests.writers.ledger import FAILED, SIGHT, WINDOW, Ledger
from tests.writers.part import Part, my_part, open_table
from tests.writers.workload import COLUMNS, HOT, Seen, summarize

BEGINNING = "000"


def main() -> None:
    part, ledger = my_part()
    opened = open_table(part, ledger)
    if opened is None:
        return
    after = BEGINNING
    for _, kind in zip(part.turns(), cycle(("exact", "changes", "live")), strict=False):
        try:
            after = look(part, ledger, opened.table, kind, after)
        except Unavailable as error:
            ledger.add(FAILED, name=part.name, what=f"read {kind}", error=repr(error))


def look(part: Part, ledger: Ledger, table: Table, kind: str, after: str) -> str:
    """One read of this kind; up to where changes are known afterwards."""
    begun_ns = time.monotonic_ns()
    floor = newest(table)
    if not floor:
        return after
    if kind == "changes":
        found = table.changes(
            after=after, upto=floor, columns=COLUMNS, filter=NO_BALLAST, meta=True
        )
        rows = _arrow(found).to_pylist()
        own = sorted({(r["writer"], r["seq"]) for r in rows if r["n"] != HOT})
        ledger.add(WINDOW, reader=part.name, after=after, upto=floor, writes=own)
        return floor
    as_of = floor if kind == "exact" else None
    seen = see(table, as_of)
    ceiling = floor if kind == "exact" else newest(table)
    sight = {"begun_ns": begun_ns, "floor": floor, "ceiling": ceiling, "seen": encode_seen(seen)}
    ledger.add(SIGHT, reader=part.name, **sight)
    return after


def see(table: Table, as_of: str | None) -> Seen:
    """The whole table at a moment, or now."""
    rows = table.read(as_of=as_of, columns=COLUMNS, filter=NO_BALLAST, meta=True)
    return summarize(_arrow(rows))


def newest(table: Table) -> str:
    """The newest completion time, empty if nothing has completed."""
    return max((str(i.completed_at) for i in table.timeline() if i.completed_at), default="")


def _arrow(rows: Any) -> pa.Table:
    return rows if isinstance(rows, pa.Table) else rows.toArrow()


if __name__ == "__main__":
    main()
