"""Values that cost something to make and never change, remembered in this process.

The memory is bounded by weight, not by number: what was not asked for longest goes first. Who goes
through more than fits, again and again in the same order, finds nothing remembered; so a bound must
hold all that one flow asks for more than once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class BoundedCache:
    """Values by key, up to a total weight. A key stands for one value for ever."""

    def __init__(self, weight_max: int) -> None:
        self._max = weight_max
        self._weight = 0
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, load: Callable[[], T], weigh: Callable[[T], int]) -> T:
        """What is known under `key`, or what `load` gives, which is known from now on."""
        (value,) = self.get_all((key,), lambda _: (load(),), weigh)
        return value

    def get_all(
        self,
        keys: Sequence[K],
        load: Callable[[list[K]], Sequence[T]],
        weigh: Callable[[T], int],
    ) -> list[T]:
        """The same for several keys; `load` is asked once for all that are not known."""
        found: dict[K, T] = {}
        with self._lock:
            for key in keys:
                if key in self._values:
                    self._values.move_to_end(key)
                    found[key] = self._values[key][0]
        if missing := [key for key in keys if key not in found]:
            for key, value in zip(missing, load(missing), strict=True):
                self._keep(key, value, weigh(value))
                found[key] = value
        return [found[key] for key in keys]

    def _keep(self, key: Hashable, value: object, weight: int) -> None:
        if weight > self._max:
            return  # it would drive out all others, and then itself
        with self._lock:
            if key not in self._values:
                self._values[key] = value, weight
                self._weight += weight
            while self._weight > self._max:
                self._weight -= self._values.popitem(last=False)[1][1]
