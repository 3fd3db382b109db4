"""A clustering process: plans and executes one clustering after the other. `python -m`.

Its ledger tells of each plan when it was made, when work on it began and ended, and what came of
it.
"""

from __future__ import annotations

from typing import Any

from lentic.errors import Conflict
from lentic.table import Table
from tests.writers.ledger import BUSY, SERVICE, Ledger
from tests.writers.part import Part, my_part, open_table

PLANNED, WORKING, WORKED = "planned", "working", "worked"


class TellingEngine:
    """An engine that tells when it works."""

    def __init__(self, engine: Any, ledger: Ledger) -> None:
        self._engine = engine
        self._ledger = ledger

    def run(self, *given: Any, **more: Any) -> list[str]:
        self._ledger.add(WORKING)
        try:
            done: list[str] = self._engine.run(*given, **more)
        finally:
            self._ledger.add(WORKED)
        return done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def main() -> None:
    part, ledger = my_part()
    opened = open_table(part, ledger)
    if opened is None:
        return
    table = Table(opened.table._opened, TellingEngine(opened.table._engine, ledger))
    for _ in part.turns():
        cluster(part, ledger, table)


def cluster(part: Part, ledger: Ledger, table: Table) -> None:
    """One clustering, from its plan to its end."""
    try:
        at = table.schedule("clustering", sort_by="id")
        if at is None:
            return
        ledger.add(PLANNED, at=str(at))
        outcome = table.execute(at)
    except Conflict as error:
        ledger.add(BUSY, name=part.name, what="cluster", error=repr(error))
        return
    ledger.add(SERVICE, name=part.name, outcome=type(outcome).__name__, at=str(at))


if __name__ == "__main__":
    main()
