"""Which file groups take new keys: small ones first, up to the target size, then new ones. Pure.

The driver decides this once, from counts, before any row moves. A row's own place then follows from
a hash of its key alone, so that the same row goes to the same group however often it is sent (R8).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lentic.format.bucket import hash_codes

_FULL = 2**32
# Spreads hash codes that lie close together over the whole range (Fibonacci hashing).
_SPREAD = 0x9E3779B1


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large files may become, in bytes; `row` is what one row takes."""

    target: int
    small: int
    row: float

    @property
    def rows(self) -> int:
        """Rows of a file of the target size."""
        return max(1, int(self.target / self.row))


@dataclass(frozen=True, slots=True)
class SmallFile:
    """A file group that may take more rows."""

    file_id: str
    size: int


@dataclass(frozen=True, slots=True)
class Choice:
    """The groups of one partition that take new keys, and the share of hash values each gets."""

    file_ids: tuple[str, ...]
    below: tuple[int, ...]
    """Per group: it takes hash values below this one that the groups before it do not."""

    def choose(self, keys: pa.Array) -> npt.NDArray[np.int64]:
        """Per key, the index of its group."""
        spread = (hash_codes(keys).astype(np.uint32) * np.uint32(_SPREAD)).astype(np.int64)
        chosen: npt.NDArray[np.int64] = np.searchsorted(np.array(self.below), spread, side="right")
        return chosen


def assign_groups(
    new: Mapping[str, int],
    small: Mapping[str, Iterable[SmallFile]],
    sizes: Sizes,
    make_file_id: Callable[[], str],
) -> dict[str, Choice]:
    """For each partition with new rows, the groups that take them."""
    return {
        partition: _choice(rows, small.get(partition, ()), sizes, make_file_id)
        for partition, rows in sorted(new.items())
        if rows
    }


def _choice(
    rows: int, small: Iterable[SmallFile], sizes: Sizes, make_file_id: Callable[[], str]
) -> Choice:
    takes: list[tuple[str, float]] = []
    left = rows
    for file in sorted(small, key=lambda file: (file.size, file.file_id)):
        room = int((sizes.target - file.size) / sizes.row)
        if left and file.size < sizes.small and room > 0:
            takes.append((file.file_id, min(left, room)))
            left -= min(left, room)
    if left:
        groups = math.ceil(left / sizes.rows)
        takes += [(make_file_id(), left / groups) for _ in range(groups)]
    ends = np.cumsum([share for _, share in takes]) / rows * _FULL
    below = [int(end) for end in ends[:-1]]
    return Choice(tuple(file_id for file_id, _ in takes), (*below, _FULL))
