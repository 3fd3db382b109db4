"""What a plan says about being cancelled, under keys of its own extra metadata.

A plan says so itself, so that whoever meets it judges the same, whatever their options are. What
cannot be read as said counts as not said: such a plan is not cancellable.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

CANCELLABLE_KEY = "lentic.plan.cancellable"
HOURS_KEY = "lentic.plan.cancel_after_hours"
INSTANTS_KEY = "lentic.plan.cancel_after_instants"
CANCELLED_KEY = "lentic.plan.cancelled"
CANCELLED_BY_KEY = "lentic.plan.cancelled_by"
CANCELLED_WHY_KEY = "lentic.plan.cancelled_why"
HOUR_S = 3_600
KEYS = (
    CANCELLABLE_KEY,
    HOURS_KEY,
    INSTANTS_KEY,
    CANCELLED_KEY,
    CANCELLED_BY_KEY,
    CANCELLED_WHY_KEY,
)


@dataclass(frozen=True, slots=True)
class Cancellation:
    """Whether a plan may be cancelled, when a clean does it, and how often that happened before."""

    cancellable: bool = False
    after_hours: float | None = None
    after_instants: int | None = None
    cancelled: Mapping[str, int] = field(default_factory=dict)
    """By `partition/file_id`: how many plans for the file group were cancelled in a row."""
    by: str = ""
    """Who cancelled the plan, once it is aborted; "" if that was not kept."""
    why: str = ""

    def is_met(self, *, writes: int, age_s: float) -> bool:
        """Whether a clean may cancel the plan once `writes` completed since and it is so old."""
        if not self.cancellable:
            return False
        is_old = self.after_hours is not None and age_s >= self.after_hours * HOUR_S
        return is_old or (self.after_instants is not None and writes >= self.after_instants)


def encode_cancellation(found: Cancellation) -> dict[str, str]:
    """The entries for the plan's extra metadata."""
    extra: dict[str, str] = {}
    if found.cancellable:
        extra[CANCELLABLE_KEY] = "true"
    if found.after_hours is not None:
        extra[HOURS_KEY] = f"{found.after_hours:g}"
    if found.after_instants is not None:
        extra[INSTANTS_KEY] = str(found.after_instants)
    if found.cancelled:
        extra[CANCELLED_KEY] = json.dumps(dict(sorted(found.cancelled.items())))
    return extra | encode_canceller(found.by, found.why)


def encode_canceller(by: str, why: str) -> dict[str, str]:
    """The entries of a plan that is aborted, for whoever asks later."""
    return {CANCELLED_BY_KEY: by, CANCELLED_WHY_KEY: why} if by else {}


def decode_cancellation(extra: Mapping[str, str]) -> Cancellation:
    """What the plan's extra metadata says."""
    return Cancellation(
        cancellable=extra.get(CANCELLABLE_KEY, "").lower() == "true",
        after_hours=_number(extra.get(HOURS_KEY)),
        after_instants=None if (n := _number(extra.get(INSTANTS_KEY))) is None else int(n),
        cancelled=_counts(extra.get(CANCELLED_KEY, "{}")),
        by=extra.get(CANCELLED_BY_KEY, ""),
        why=extra.get(CANCELLED_WHY_KEY, ""),
    )


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _counts(text: str) -> dict[str, int]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: count for key, count in found.items() if isinstance(count, int) and count > 0}


def group_key(partition: str, file_id: str) -> str:
    """How a file group is named in `Cancellation.cancelled`."""
    return f"{partition}/{file_id}" if partition else file_id
