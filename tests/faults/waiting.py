"""Waiting for something to become true: generous, but never for ever."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 180.0
_LOOK_EVERY_S = 0.05


def until(look: Callable[[], T | None], what: str, patience_s: float = PATIENCE_S) -> T:
    """The first answer of `look` that is neither None nor False; `AssertionError` if none comes."""
    end = time.monotonic() + patience_s
    while True:
        found = look()
        if found is not None and found is not False:
            return found
        assert time.monotonic() < end, f"waited {patience_s:.0f} s in vain for {what}"
        time.sleep(_LOOK_EVERY_S)
