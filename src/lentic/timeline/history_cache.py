"""What files of the archived timeline say, remembered in this process.

Such a file never changes, so what was decoded once holds for as long as the file is listed with the
same length and time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from lentic.format.lsm import ArchivedTimes, HistoryReader
from lentic.format.lsm_index import Ended, GroupSpan, HistoryIndex
from lentic.format.lsm_names import HistoryName
from lentic.format.times import CompletedAt
from lentic.storage.base import FileInfo, Storage
from lentic.timeline.bounded_cache import BoundedCache

T = TypeVar("T")
Opened = Callable[[], HistoryReader]
MayHold = Callable[[GroupSpan], bool]

_BYTES_MAX = 64 * 1024 * 1024
_ROW_BYTES = 400
"""About what the times of one instant take."""
_GROUPS_AT_ONCE = 16
"""Row groups of which the content is read in one go: some megabytes."""


_cache = BoundedCache(_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class CachedFile:
    """One file of archived instants, as it was listed. It is opened once per call at most."""

    storage: Storage
    name: HistoryName
    info: FileInfo

    def times(self, may_hold: MayHold) -> dict[int, tuple[ArchivedTimes, ...]]:
        """The times of the instants by row group, of all that may hold what is looked for."""
        with self._opened() as reader:
            return self._times(reader, may_hold)

    def load(
        self, is_wanted: Callable[[ArchivedTimes], bool], may_hold: MayHold
    ) -> Iterator[tuple[ArchivedTimes, bytes]]:
        """The instants that are wanted, with the content of their completed files; `may_hold`
        tells in which row groups they may be."""
        with self._opened() as reader:
            times = self._times(reader, may_hold)
            groups = [group for group, own in times.items() if any(map(is_wanted, own))]
            for first in range(0, len(groups), _GROUPS_AT_ONCE):
                portion = groups[first : first + _GROUPS_AT_ONCE]
                for group, contents in zip(portion, self._metadata(reader, portion), strict=True):
                    for own, content in zip(times[group], contents, strict=True):
                        if is_wanted(own):
                            yield own, content

    def may_have_ended(self, groups: Set[Ended]) -> bool:
        """Whether a replacement in the file may have ended one of these file groups."""
        with self._opened() as reader:
            index = self._index(reader)
            return index is None or index.may_have_ended(groups)

    def last_completion(self) -> CompletedAt:
        """The latest completion time of its instants."""
        with self._opened() as reader:
            return self._remember(
                "last", lambda: reader().read_last_completion(), lambda _: _ROW_BYTES
            )

    def _times(self, reader: Opened, may_hold: MayHold) -> dict[int, tuple[ArchivedTimes, ...]]:
        index = self._index(reader)
        if index is None:
            return dict(enumerate(self._all_times(reader)))
        groups = [at for at, span in enumerate(index.spans) if may_hold(span)]
        found = self._remember_groups(
            "times",
            groups,
            lambda missing: reader().read_times_of(missing, index),
            lambda times: _ROW_BYTES * len(times),
        )
        return dict(zip(groups, found, strict=True))

    def _metadata(self, reader: Opened, groups: Sequence[int]) -> list[tuple[bytes, ...]]:
        return self._remember_groups(
            "metadata",
            groups,
            lambda missing: reader().read_metadata(missing),
            lambda contents: _ROW_BYTES + sum(map(len, contents)),
        )

    def _index(self, reader: Opened) -> HistoryIndex | None:
        return self._remember("index", lambda: reader().read_index(), _weigh_index)

    def _all_times(self, reader: Opened) -> tuple[tuple[ArchivedTimes, ...], ...]:
        return self._remember(
            "times",
            lambda: reader().read_times(),
            lambda groups: _ROW_BYTES * sum(map(len, groups)),
        )

    def _remember(self, part: str, load: Callable[[], T], weigh: Callable[[T], int]) -> T:
        return _cache.get((self.storage, self.info, part), load, weigh)

    def _remember_groups(
        self,
        part: str,
        groups: Sequence[int],
        load: Callable[[list[int]], Sequence[T]],
        weigh: Callable[[T], int],
    ) -> list[T]:
        keys = [(self.storage, self.info, part, group) for group in groups]
        return _cache.get_all(keys, lambda missing: load([key[-1] for key in missing]), weigh)

    @contextmanager
    def _opened(self) -> Iterator[Opened]:
        """What opens the file when it is first called."""
        with ExitStack() as opened:

            @cache
            def reader() -> HistoryReader:
                source = opened.enter_context(self.storage.open_input(self.info.path))
                return HistoryReader(source, self.name, self.info.path)

            yield reader


def _weigh_index(index: HistoryIndex | None) -> int:
    return _ROW_BYTES if index is None else _ROW_BYTES * len(index.spans) + len(index.ended or b"")
