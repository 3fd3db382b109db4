"""What files of the archived timeline say, remembered in this process.

Such a file never changes, so what was decoded once holds for as long as the file is listed with the
same length and time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from typing import TypeVar

from lentic.format.lsm import ArchivedTimes, HistoryName, HistoryReader
from lentic.format.times import CompletedAt
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

    def last_completion(self) -> CompletedAt:
        """The latest completion time of its instants."""
        return _cache.get(
            (self.storage, self.info, "last"),
            lambda: self._read(lambda reader: reader.read_last_completion()),
            lambda _: _ROW_BYTES,
        )

    def metadata(self, groups: Sequence[int]) -> tuple[tuple[bytes, ...], ...]:
        """The content of the completed files of some row groups. The file is opened once at most,
        however many they are."""
        with ExitStack() as opened:

            @cache
            def reader() -> HistoryReader:
                source = opened.enter_context(self.storage.open_input(self.info.path))
                return HistoryReader(source, self.name, self.info.path)

            return tuple(
                _cache.get(
                    (self.storage, self.info, group),
                    partial(self._read_metadata, reader, group),
                    lambda contents: _ROW_BYTES + sum(map(len, contents)),
                )
                for group in groups
            )

    @staticmethod
    def _read_metadata(reader: Callable[[], HistoryReader], group: int) -> tuple[bytes, ...]:
        return reader().read_metadata(group)

    def _read(self, read: Callable[[HistoryReader], T]) -> T:
        with self.storage.open_input(self.info.path) as source:
            return read(HistoryReader(source, self.name, self.info.path))
