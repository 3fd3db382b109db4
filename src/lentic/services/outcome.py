"""How the execution of a plan ended."""

from __future__ import annotations

from dataclasses import dataclass

from lentic.timeline.instant import Instant


@dataclass(frozen=True, slots=True)
class Committed:
    """This call completed the plan."""

    instant: Instant


@dataclass(frozen=True, slots=True)
class AlreadyCommitted:
    """The plan is completed, and not by this call: it came late, or was overtaken."""

    instant: Instant


@dataclass(frozen=True, slots=True)
class Aborted:
    """The plan was cancelled and has ended: no row was changed, nothing of it is left."""

    instant: Instant


Outcome = Committed | AlreadyCommitted | Aborted
