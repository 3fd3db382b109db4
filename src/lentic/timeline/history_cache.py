"""What files of the archived timeline say, remembered in this process.

Such a file never changes, so what was decoded once holds for as long as the file is listed with the
same length and time. The memory is bounded: what was not asked for longest goes first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from lentic.format.lsm import ArchivedTimes, HistoryName, HistoryReader
from lentic.storage.base import FileInfo, Storage

T = TypeVar("T")

_BYTES_MAX = 64 * 1024 * 1024
_ROW_BYTES = 400
"""About what the times of one instant take."""


class _Cache:
    """Values by key, up to a total weight."""

    def __init__(self, weight_max: int) -> None:
        self._max = weight_max
        self._weight = 0
        self._values: OrderedDict[object, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: object, load: Callable[[], T], weigh: Callable[[T], int]) -> T:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                found: T = self._values[key][0]
                return found
        value = load()
        with self._lock:
            if key not in self._values:
                self._values[key] = value, weigh(value)
                self._weight += self._values[key][1]
            while self._weight > self._max:
                self._weight -= self._values.popitem(last=False)[1][1]
        return value


_cache = _Cache(_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class CachedFile:
    """One file of archived instants, as it was listed."""

    storage: Storage
    name: HistoryName
    info: FileInfo

    def times(self) -> tuple[tuple[ArchivedTimes, ...], ...]:
        """The times of its instants, by row group."""
        return _cache.get(
            (self.storage, self.info),
            lambda: self._read(lambda reader: reader.read_times()),
            lambda groups: _ROW_BYTES * sum(map(len, groups)),
        )

    def metadata(self, group: int) -> tuple[bytes, ...]:
        """The content of the completed files of one row group."""
        return _cache.get(
            (self.storage, self.info, group),
            lambda: self._read(lambda reader: reader.read_metadata(group)),
            lambda contents: _ROW_BYTES + sum(map(len, contents)),
        )

    def _read(self, read: Callable[[HistoryReader], T]) -> T:
        with self.storage.open_input(self.info.path) as source:
            return read(HistoryReader(source, self.name, self.info.path))
