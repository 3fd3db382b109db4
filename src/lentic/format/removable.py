"""Whether a plan goes when its execution fails, as a write does, or stays until one succeeds.

A plan says so itself, under one key of its own extra metadata, so that whoever meets it judges the
same, whatever their options are. Compaction plans always stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lentic.config.services import REMOVABLE
from lentic.format.avro import Fields, decode_container
from lentic.format.names import Action

REMOVABLE_KEY = REMOVABLE.key

_EXTRA: Mapping[Action, Callable[[Fields], Fields]] = {
    Action.LOGCOMPACTION: lambda plan: plan,
    Action.CLUSTERING: lambda plan: plan.record("clusteringPlan"),
}
"""Which record of a requested file holds the plan's extra metadata."""

REMOVABLE_ACTIONS = tuple(_EXTRA)
"""Actions whose plans may be removable."""


def decode_is_removable(data: bytes, action: Action, where: str) -> bool:
    """Whether the plan in `<requested_at>.<action>.requested` is removable."""
    if action not in _EXTRA:
        return False
    record = decode_container(data, where) or {}
    extra = _EXTRA[action](Fields(record, where)).text_map("extraMetadata")
    return extra.get(REMOVABLE_KEY, "").lower() == "true"
