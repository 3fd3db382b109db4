"""A compaction process: plans and executes one compaction after the other. `python -m`."""

from __future__ import annotations

from lentic.errors import Conflict, OutcomeUnknown, Unavailable
from lentic.table import Table
from tests.writers.ledger import BUSY, FAILED, SERVICE, Ledger
from tests.writers.part import Part, my_part, open_table


def main() -> None:
    part, ledger = my_part()
    opened = open_table(part, ledger)
    if opened is None:
        return
    for _ in part.turns():
        compact(part, ledger, opened.table)


def compact(part: Part, ledger: Ledger, table: Table) -> None:
    """One compaction, unless there is nothing to compact."""
    try:
        outcome = table.compact()
    except Conflict as error:  # another compactor, or a writer that planned before
        ledger.add(BUSY, name=part.name, what="compact", error=repr(error))
        return
    except (OutcomeUnknown, Unavailable) as error:
        ledger.add(FAILED, name=part.name, what="compact", error=repr(error))
        return
    if outcome is not None:
        told = type(outcome).__name__
        ledger.add(SERVICE, name=part.name, outcome=told, at=str(outcome.instant.requested_at))


if __name__ == "__main__":
    main()
