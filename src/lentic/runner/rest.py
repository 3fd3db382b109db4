"""How long a duty rests after it failed, or after it turned out that there was nothing to do. Pure.

Failures double the rest, from seconds to an hour, and chance takes up to half of it off, so that
processes which failed together do not come back together. Where there was nothing to do there will
be nothing until the timeline changes, or a while has passed: some services also go by the clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

FIRST_S = 10.0
LONGEST_S = 3_600.0
IDLE_S = 600.0
CHANCES = 1_000
"""Out of how many the chance is drawn."""


def plan_rest_s(failures: int, chance: int) -> float:
    """The rest after so many failures in a row; `chance` is below `CHANCES`."""
    assert failures >= 1 and 0 <= chance < CHANCES
    whole = min(LONGEST_S, FIRST_S * 2.0 ** min(failures - 1, 30))
    return whole * (1 - chance / (2 * CHANCES))


@dataclass(frozen=True, slots=True)
class Rest:
    """A rest until a moment of the monotonic clock; with a digest, only while that is the
    timeline's."""

    until_s: float
    failures: int = 0
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Rests:
    """The rests of one table's duties, by their name."""

    by_name: Mapping[str, Rest] = field(default_factory=dict)

    def after_failure(self, name: str, now_s: float, chance: int) -> Rests:
        known = self.by_name.get(name)
        failures = 1 + (known.failures if known else 0)
        return self._with(name, Rest(now_s + plan_rest_s(failures, chance), failures))

    def after_nothing(self, name: str, now_s: float, digest: str) -> Rests:
        return self._with(name, Rest(now_s + IDLE_S, digest=digest))

    def after_success(self, name: str) -> Rests:
        return Rests({other: rest for other, rest in self.by_name.items() if other != name})

    def resting(self, now_s: float, digest: str) -> frozenset[str]:
        """The duties that rest now, the timeline being what it is."""
        return frozenset(
            name
            for name, rest in self.by_name.items()
            if now_s < rest.until_s and rest.digest in ("", digest)
        )

    def waits_s(self, now_s: float) -> dict[str, float]:
        """How long each duty that failed still rests."""
        left = {name: rest.until_s - now_s for name, rest in self.by_name.items() if rest.failures}
        return {name: wait for name, wait in left.items() if wait > 0}

    def _with(self, name: str, rest: Rest) -> Rests:
        return Rests({**self.by_name, name: rest})
