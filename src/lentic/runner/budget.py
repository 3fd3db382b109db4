"""How much one cycle may take on. Pure.

A budget ends a cycle, it does not end work: what is under way is finished, and what did not fit
comes first in a later cycle. Undoing is always allowed, since others wait for it. So that one plan
alone is no larger than a cycle may write, new plans are limited through the options of services.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lentic.config.services import ServiceOptions
from lentic.runner.decide import Duty, Verb

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Spent:
    """What a cycle has taken on so far."""

    bytes: int = 0
    seconds: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.bytes + other.bytes, self.seconds + other.seconds)


@dataclass(frozen=True, slots=True)
class Budget:
    """Bytes that a cycle may write and seconds it may work; 0 is without limit."""

    bytes_max: int = 0
    seconds_max: float = 0.0

    def allows(self, duty: Duty, spent: Spent) -> bool:
        """Whether `duty` may begin."""
        if duty.verb in (Verb.ROLL_BACK, Verb.ABORT):
            return True
        has_bytes = not self.bytes_max or spent.bytes < self.bytes_max
        has_seconds = not self.seconds_max or spent.seconds < self.seconds_max
        return has_bytes and has_seconds

    def limit(self, options: ServiceOptions) -> ServiceOptions:
        """The same options, with plans no larger than the budget."""
        if not self.bytes_max:
            return options
        compaction, clustering = options.compaction, options.clustering
        group_bytes = min(clustering.group_bytes, max(1024, self.bytes_max))
        groups = min(clustering.groups, max(1, self.bytes_max // group_bytes))
        return replace(
            options,
            # A compaction's limit counts what is read, too, which is about as much again.
            compaction=replace(
                compaction, io_mb=min(compaction.io_mb, max(1, 2 * self.bytes_max // _MIB))
            ),
            clustering=replace(clustering, group_bytes=group_bytes, groups=groups),
        )
