"""What files of the archived timeline say, remembered in this process.

Such a file never changes, so what was decoded once holds for as long as the file is listed with the
same length and time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from lentic.format.lsm import ArchivedTimes, HistoryName, HistoryReader
from lentic.storage.base import FileInfo, Storage
from lentic.timeline.bounded_cache import BoundedCache

T = TypeVar("T")

_BYTES_MAX = 64 * 1024 * 1024
_ROW_BYTES = 400
"""About what the times of one instant take."""


_cache = BoundedCache(_BYTES_MAX)


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
