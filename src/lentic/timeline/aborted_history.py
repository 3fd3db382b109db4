"""Aborted plans that have left the active timeline: their times, in `.hoodie/.aborted.json`.

Other engines take whatever their history holds for committed, so these are kept apart from it
(R13). The newest are enough: the list is there for people, and for a sleeper that wakes up and
makes a file of such a plan anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from lentic.errors import Corrupt, MissingFile
from lentic.format import layout
from lentic.format.names import Action, State
from lentic.format.times import RequestedAt
from lentic.storage.base import Storage
from lentic.timeline.instant import Instant

_KEPT = 1_000


def load_aborted(storage: Storage) -> tuple[Instant, ...]:
    """The aborted plans that are not on the active timeline any more, oldest first."""
    try:
        data = storage.read(layout.ABORTED)
    except MissingFile:
        return ()
    return _decode_aborted(data)


def add_aborted(before: bytes, instants: Iterable[Instant], epoch: int) -> bytes:
    """The content of the list, with the newest of those it had and `instants`. Whoever rewrites it
    in an epoch of the lock makes a content of their own."""
    known = _decode_aborted(before) if before else ()
    times = sorted({str(instant.requested_at) for instant in (*known, *instants)})
    return json.dumps({"aborted": times[-_KEPT:], "epoch": epoch}).encode()


def _decode_aborted(data: bytes) -> tuple[Instant, ...]:
    try:
        times = json.loads(data)["aborted"]
        if not all(isinstance(at, str) and at.isascii() and at.isdigit() for at in times):
            raise ValueError("a time that is none")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Corrupt(
            f"The list of aborted plans does not read: {error}.",
            where=layout.ABORTED,
            safe="rows do not depend on it",
            next_step="delete the file; it is made anew",
        ) from error
    return tuple(_aborted(RequestedAt(at)) for at in times)


def _aborted(at: RequestedAt) -> Instant:
    return Instant(at, Action.CLUSTERING, State.ABORTED)
