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
    """The plan had been completed before this call."""

    instant: Instant


Outcome = Committed | AlreadyCommitted
