"""What a plan has looked at: the record from which the next plan of its service goes on (RFC-83).

The record stands in the plan's extra metadata, and in that of the commit or clean that completes
it, as JSON under a key of our own. What the design asks for besides, `earliestInstantToRetain` in
the plan and `earliestCommitToRetain` in the commit, is written for others to see and never read
back: the names are those of a clean's retention, which is something else.

A window is an interval of completion times, `lo` inclusive and `hi` exclusive. What completed in it
was looked at when the plan was made, at `at`; every partition that was seen and not wholly planned
is in `carry`. A full look has "" for `lo`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from lentic.errors import Corrupt
from lentic.format.avro import Fields, decode_container
from lentic.format.layout import is_data_path
from lentic.format.times import CompletedAt, RequestedAt

WINDOW_KEY = "lentic.plan.window"
"""Where extra metadata holds the record."""

EDGE_KEY = "earliestCommitToRetain"
"""Where the extra metadata of a commit names the right edge of its plan's window."""


_NEVER = RequestedAt("")


class Look(StrEnum):
    """How much of the table a planner looked at."""

    FULL = "full"
    INCREMENTAL = "incremental"
    CHOSEN = "chosen"
    """The partitions that the caller named, whatever had changed."""


@dataclass(frozen=True, slots=True)
class PlanWindow:
    """One look at the table. See the module for `lo`, `hi` and `carry`."""

    at: RequestedAt
    kind: Look
    lo: CompletedAt
    hi: CompletedAt
    why: str = ""
    """What made a full look necessary."""
    carry: tuple[str, ...] = ()
    relies: tuple[RequestedAt, ...] = ()
    """Plans of the service that were live, and so answered for what they had taken on."""
    last: RequestedAt = _NEVER
    """The write that had completed last before `hi`. We undo writes from the last one on."""
    floor: RequestedAt = _NEVER
    """No write that was requested earlier can complete at `hi` or later."""
    undecided: tuple[RequestedAt, ...] = ()
    """Writes and plans that had been requested by `at` and complete at `hi` or later, if they do.
    All others that were requested by then had ended."""
    options: str = ""
    """Digest of the options that say what is worth planning."""
    plans: int = 0
    """How many plans were made since the last full look."""
    considered: int = 0
    total: int | None = None
    """Partitions that were looked at, and how many there are if that was known."""
    savepoints: tuple[RequestedAt, ...] = ()
    """Of a clean: those that held on to files."""
    recent: tuple[str, ...] = ()
    """Of a clustering of the newest partitions: which they were."""
    dropped: tuple[str, ...] = ()
    """Where the execution did not do all that the plan says; only in what completed it."""

    def __str__(self) -> str:
        of = "" if self.total is None else f" of {self.total}"
        why = f": {self.why}" if self.why else ""
        return f"{self.kind} look at {self.considered}{of} partition(s){why}"


def encode_window(window: PlanWindow) -> str:
    """The record as JSON; what is empty is left out."""
    values = {item.name: getattr(window, item.name) for item in fields(window)}
    kept = {name: value for name, value in values.items() if value not in ("", (), None)}
    return json.dumps(kept, sort_keys=True, separators=(",", ":"))


def decode_window(text: str, where: str) -> PlanWindow:
    """The record that `encode_window` made; `Corrupt` for anything else."""
    try:
        values: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"The window of a plan does not decode: {error!r}", where=where) from error
    if not isinstance(values, dict) or not {"at", "kind", "hi"} <= values.keys():
        raise Corrupt("The window of a plan lacks an edge.", where=where)
    found = Fields(values, where)
    if found.text("kind") not in tuple(Look):
        raise Corrupt(f"A window of kind {found.text('kind')!r}.", where=where)
    return PlanWindow(
        at=found.requested_at("at"),
        kind=Look(found.text("kind")),
        lo=CompletedAt.parse(found.text("lo")) if found.text("lo") else CompletedAt(""),
        hi=CompletedAt.parse(found.text("hi")),
        why=found.text("why"),
        carry=_partitions(found, "carry"),
        relies=_times(found, "relies"),
        last=found.requested_at("last") if found.text("last") else _NEVER,
        floor=found.requested_at("floor"),
        undecided=_times(found, "undecided"),
        options=found.text("options"),
        plans=found.number("plans"),
        considered=found.number("considered"),
        total=found.number("total") if "total" in values else None,
        savepoints=_times(found, "savepoints"),
        recent=_partitions(found, "recent"),
        dropped=_partitions(found, "dropped"),
    )


def _times(found: Fields, name: str) -> tuple[RequestedAt, ...]:
    return tuple(RequestedAt.parse(text) for text in found.texts(name))


def _partitions(found: Fields, name: str) -> tuple[str, ...]:
    names = found.texts(name)
    for partition in names:
        if partition and not is_data_path(partition):
            raise Corrupt(
                f"The window of a plan names {partition!r}, no partition.", where=found.where
            )
    return names


def decode_plan_window(data: bytes, where: str) -> PlanWindow | None:
    """The record in a plan, or in the metadata of what completed it; None if there is none."""
    text = _open(data, where).text_map("extraMetadata").get(WINDOW_KEY)
    return None if text is None else decode_window(text, where)


def decode_missing(data: bytes, where: str) -> tuple[str, ...]:
    """The partitions that a plan without the record, another engine's, says it left undone."""
    return _partitions(_open(data, where), "missingSchedulePartitions")


def _open(data: bytes, where: str) -> Fields:
    record = Fields(decode_container(data, where) or {}, where)
    return record.record("clusteringPlan") if "clusteringPlan" in record.values else record
