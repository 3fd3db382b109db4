"""Whether a store really creates and changes objects under a condition, tried once per process.

Some stores accept conditional requests and ignore the condition. On those two writers could both
believe that they made the same file, so nobody may write there but one who is alone.
"""

from __future__ import annotations

import os
import threading

from lentic.storage.base import ConditionalStorage

_known: dict[str, bool] = {}
_known_lock = threading.Lock()


def keeps_conditions(storage: ConditionalStorage, directory: str) -> bool:
    """Whether a second creation and a change of another version are turned down."""
    with _known_lock:
        if (known := _known.get(storage.root)) is not None:
            return known
        path = f"{directory}/probe-{os.urandom(8).hex()}"
        try:
            kept = _try(storage, path)
        finally:
            storage.delete(path)
        _known[storage.root] = kept
        return kept


def _try(storage: ConditionalStorage, path: str) -> bool:
    first = storage.put_if_match(path, b"first", None)
    if first is None or storage.put_if_absent(path, b"second"):
        return False
    second = storage.put_if_match(path, b"third", first)
    return second is not None and storage.put_if_match(path, b"fourth", first) is None
