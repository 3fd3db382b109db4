"""Values that cost something to make and never change, remembered in this process.

The memory is bounded by weight, not by number: what was not asked for longest goes first. Who goes
through more than fits, again and again in the same order, finds nothing remembered; so a bound must
hold all that one flow asks for more than once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class BoundedCache:
    """Values by key, up to a total weight. A key stands for one value for ever."""

    def __init__(self, weight_max: int) -> None:
        self._max = weight_max
        self._weight = 0
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, load: Callable[[], T], weigh: Callable[[T], int]) -> T:
        """What is known under `key`, or what `load` gives, which is known from now on."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                found: T = self._values[key][0]
                return found
        value = load()
        weight = weigh(value)
        if weight > self._max:
            return value  # it would drive out all others, and then itself
        with self._lock:
            if key not in self._values:
                self._values[key] = value, weight
                self._weight += weight
            while self._weight > self._max:
                self._weight -= self._values.popitem(last=False)[1][1]
        return value
