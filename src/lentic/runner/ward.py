"""One table in the care of a runner: open, looked at, known from one cycle to the next.

Tables stay open. What was seen of heartbeats outlives a cycle, so that who is dead is known a time
to live after the first look, and not after a wait each time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from lentic.engine import Engine
from lentic.errors import LenticError
from lentic.format import layout
from lentic.format.table_config import decode_table_config
from lentic.format.times import RequestedAt
from lentic.runner.budget import Budget
from lentic.runner.decide import Duty, Facts
from lentic.runner.find import Place
from lentic.runner.look import Known, load_facts, look
from lentic.runner.rest import Rests
from lentic.runner.stop import StoppableEngine
from lentic.txn.transaction import OpenTable

Open = Callable[[Place], tuple[OpenTable, Engine]]

LOOK = "look"
"""The name under which a table that cannot be opened or looked at rests."""


@dataclass(slots=True)
class Ward:
    """A table, and what this process remembers of it."""

    place: Place
    opened: OpenTable | None = None
    engine: StoppableEngine | None = None
    known: Known | None = None
    duties: tuple[Duty, ...] = ()
    rests: Rests = field(default_factory=Rests)
    deferred: dict[str, int] = field(default_factory=dict)
    served: int = 0
    seen_after: int = -1
    """How many actions this process had done when it looked last."""
    cancelled: set[RequestedAt] = field(default_factory=set)

    @property
    def digest(self) -> str:
        return self.known.digest if self.known else ""

    def look(self, open_table: Open, budget: Budget) -> Facts:
        """See what is so now; opens the table if it is not open, or is another by now."""
        known = self._look(open_table, budget)
        assert self.opened is not None
        self.known = known
        return load_facts(self.opened, known)

    def _look(self, open_table: Open, budget: Budget) -> Known:
        for _ in range(2):
            table = self._open(open_table, budget)
            known = look(table, self.known)
            if known is self.known or _is_same_table(table, known.properties):
                return known
            self.close()
        raise LenticError(
            "The table's properties change all the time.",
            where=self.place.name,
            safe="nothing was done",
            next_step="it is looked at again later",
        )

    def close(self) -> None:
        """Forget the table as it was opened."""
        self.opened = self.engine = self.known = None

    def _open(self, open_table: Open, budget: Budget) -> OpenTable:
        if self.opened is None:
            opened, engine = open_table(self.place)
            self.opened = replace(opened, services=budget.limit(opened.services))
            self.engine = StoppableEngine(engine)
        return self.opened


def _is_same_table(table: OpenTable, properties: bytes) -> bool:
    """Whether the table is still what it was opened as: it may have been made anew."""
    now = decode_table_config(properties, layout.PROPERTIES)
    return replace(now, buckets=table.config.buckets) == table.config
