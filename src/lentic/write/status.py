"""What one task tells the driver about one file group it wrote. Crosses processes as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from lentic.errors import Corrupt
from lentic.format.commit_metadata import WriteStat


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """One file written, and what it did to its group's keys."""

    stat: WriteStat
    inserted: int
    updated: int
    deleted: int


def encode_status(status: WriteStatus) -> str:
    """JSON text of a status."""
    counts = [status.inserted, status.updated, status.deleted]
    return json.dumps({"stat": status.stat.to_json(), "counts": counts})


def decode_status(text: str) -> WriteStatus:
    """The status that `encode_status` wrote."""
    try:
        fields = json.loads(text)
        inserted, updated, deleted = (_whole(count) for count in fields["counts"])
        return WriteStatus(WriteStat.from_json(fields["stat"]), inserted, updated, deleted)
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"A write status does not decode: {error!r}") from error


def _whole(count: object) -> int:
    if type(count) is not int or count < 0:
        raise ValueError(f"{count!r} is no count")
    return count


def decode_statuses(texts: Iterable[str]) -> tuple[WriteStatus, ...]:
    """Statuses in the order of their paths, whatever order tasks finished in."""
    return tuple(sorted(map(decode_status, texts), key=lambda status: status.stat.path))
