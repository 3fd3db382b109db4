"""Options of plans that give way: whether a clustering may be cancelled, and when a clean does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from lentic.config.options import Option, Settings, parse_bool, parse_whole

_FOREVER = 10**9

CANCELLABLE = Option(
    "lentic.clustering.cancellable",
    parse_bool,
    True,
    "Whether new clustering plans may be cancelled: a write to their file groups then goes ahead, "
    "and the plan ends as aborted. false: such a write is refused until the plan has ended. Kept "
    "in each plan.",
    aliases=("hoodie.clustering.cancellable",),
)
CANCEL_AFTER_HOURS = Option(
    "lentic.clustering.cancel_after_hours",
    parse_whole(0, _FOREVER),
    0,
    "Hours after which a clean may cancel a cancellable plan that nobody executes; 0: never for "
    "that reason. Kept in each plan.",
    aliases=("hoodie.clustering.cancellation.policy.hours",),
)
CANCEL_AFTER_INSTANTS = Option(
    "lentic.clustering.cancel_after_instants",
    parse_whole(0, _FOREVER),
    0,
    "Writes completed since a cancellable plan was made after which a clean may cancel it if "
    "nobody executes it; 0: never for that reason. Kept in each plan.",
    aliases=("hoodie.clustering.cancellation.policy.instants",),
)
CANCEL_POLL_MS = Option(
    "lentic.clustering.cancel_poll_ms",
    parse_whole(10, _FOREVER),
    1_000,
    "How often a running clustering looks whether it was cancelled, so that it stops early.",
)
CLEAN_CANCELS = Option(
    "lentic.clean.cancels",
    parse_bool,
    True,
    "Whether a clean cancels plans whose policy says so, and aborts cancelled ones that nobody "
    "executes.",
    aliases=("hoodie.clean.cancels",),
)


@dataclass(frozen=True, slots=True)
class CancellationOptions:
    """Which plans may be cancelled, and by whom."""

    cancellable: bool
    after_hours: int
    after_instants: int
    poll_ms: int
    clean_cancels: bool

    @classmethod
    def parse(cls, settings: Settings) -> Self:
        return cls(
            cancellable=CANCELLABLE.of(settings),
            after_hours=CANCEL_AFTER_HOURS.of(settings),
            after_instants=CANCEL_AFTER_INSTANTS.of(settings),
            poll_ms=CANCEL_POLL_MS.of(settings),
            clean_cancels=CLEAN_CANCELS.of(settings),
        )


CANCELLATION: tuple[Option[Any], ...] = (
    CANCELLABLE,
    CANCEL_AFTER_HOURS,
    CANCEL_AFTER_INSTANTS,
    CANCEL_POLL_MS,
    CLEAN_CANCELS,
)
