"""Requests to cancel a plan: `.hoodie/.cancel/<requested_at>`, each says who asked, and why.

Once a request is there its plan cannot complete, and there is no way back: it ends as aborted, and
then the request goes. `timeline.store` makes and removes them; this module reads.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from lentic.errors import MissingFile
from lentic.format import layout
from lentic.format.times import RequestedAt
from lentic.storage.base import Storage


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """Who wants a plan to end, `host:pid`, and why."""

    by: str
    why: str


def encode_cancel_request(request: CancelRequest) -> bytes:
    return json.dumps({"by": request.by, "why": request.why}).encode()


def is_cancelled(storage: Storage, at: RequestedAt) -> bool:
    """Whether the plan at `at` was asked to end and has not ended yet."""
    return storage.info(layout.cancel_request(at)) is not None


def list_cancelled(storage: Storage) -> frozenset[RequestedAt]:
    """The plans for which a request lies there; perhaps of some that have ended meanwhile."""
    names = (file.name for file in storage.list_files(layout.CANCEL))
    return frozenset(RequestedAt(name) for name in names if name.isascii() and name.isdigit())


def load_cancel_request(storage: Storage, at: RequestedAt) -> CancelRequest | None:
    """The request to cancel the plan at `at`, or None. That it is there says all that matters, so
    one that does not read is one by somebody unknown."""
    try:
        fields = json.loads(storage.read(layout.cancel_request(at)))
        return CancelRequest(str(fields["by"]), str(fields["why"]))
    except MissingFile:
        return None
    except (ValueError, KeyError, TypeError, RecursionError):
        return CancelRequest("somebody", "not said")
