"""What a file of archived instants says of itself, so that who looks for a few reads a part. Pure.

In the footer stands, for each row group, which times and actions it has, and for the whole file,
which file groups its replacements ended. Of these there is a filter (Bloom): a group that is not in
it was ended by none; for one that is in it, the replacements have to be asked.

Only an index with the right checksum is believed, for a footer has none of its own. A file without
one, as other engines write it, is read as a whole.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from lentic.errors import Corrupt
from lentic.format.names import Action
from lentic.format.times import CompletedAt, RequestedAt

INDEX_KEY = "lentic.index"
"""The name of the index among the texts of a footer."""

_BITS_PER_GROUP = 16
_HASHES = 8
"""With these one group of two thousand seems to be in a filter and is not."""
_GROUPS_MAX = 100_000
"""More than these and there is no filter: a footer is read by everybody."""

_CHECKSUM = 8
"""Characters that the checksum of all the others takes, ahead of them."""

Ended = tuple[str, str]
"""Partition and file id of a group."""


@dataclass(frozen=True, slots=True)
class GroupSpan:
    """What the rows of one row group have in common."""

    first: RequestedAt
    last: RequestedAt
    done: CompletedAt
    """The latest completion."""
    actions: frozenset[Action]

    def covers(self, ordered: Sequence[str]) -> bool:
        """Whether one of these requested times, which are in order, lies between its own."""
        at = bisect_left(ordered, str(self.first))
        return at < len(ordered) and ordered[at] <= str(self.last)


@dataclass(frozen=True, slots=True)
class HistoryIndex:
    """The index of one file."""

    first: RequestedAt
    last: RequestedAt
    spans: tuple[GroupSpan, ...]
    ended: bytes | None
    """The filter of the groups that its replacements ended; None if nobody knows them."""

    def may_have_ended(self, groups: Set[Ended]) -> bool:
        """Whether a replacement in the file may have ended one of these file groups."""
        if self.ended is None:
            return True
        return bool(self.ended) and any(_is_in(self.ended, group) for group in groups)


def encode_index(spans: Sequence[GroupSpan], ended: Set[Ended] | None) -> str:
    """The index as text; `ended` is None if it is not known what the replacements ended."""
    known = ended is not None and len(ended) <= _GROUPS_MAX
    values = {
        "first": [span.first for span in spans],
        "last": [span.last for span in spans],
        "done": [span.done for span in spans],
        "actions": [",".join(sorted(span.actions)) for span in spans],
        "ended": base64.b64encode(_make_filter(ended)).decode() if known and ended else "",
        "isKnown": known,
    }
    text = json.dumps(values, separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x}{text}"


def decode_index(text: bytes) -> HistoryIndex | None:
    """The index; None if it does not read, or is not as it was written."""
    try:
        if zlib.crc32(text[_CHECKSUM:]) != int(text[:_CHECKSUM], 16):
            return None
        values = json.loads(text[_CHECKSUM:])
        actions = {text: frozenset(map(Action, text.split(","))) for text in {*values["actions"]}}
        spans = tuple(
            map(
                GroupSpan,
                map(RequestedAt, values["first"]),
                map(RequestedAt, values["last"]),
                map(CompletedAt, values["done"]),
                map(actions.__getitem__, values["actions"]),
            )
        )
        ended = base64.b64decode(values["ended"])
        return HistoryIndex(
            RequestedAt(min(values["first"])),
            RequestedAt(max(values["last"])),
            spans,
            ended if values["isKnown"] else None,
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, Corrupt):
        return None


def _make_filter(groups: Set[Ended]) -> bytes:
    bits = bytearray(len(groups) * _BITS_PER_GROUP // 8)
    for group in groups:
        for at in _places(group, 8 * len(bits)):
            bits[at // 8] |= 1 << at % 8
    return bytes(bits)


def _is_in(bits: bytes, group: Ended) -> bool:
    return all(bits[at // 8] >> at % 8 & 1 for at in _places(group, 8 * len(bits)))


def _places(group: Ended, size: int) -> Iterator[int]:
    digest = hashlib.blake2b("/".join(group).encode(), digest_size=16).digest()
    first, step = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big") | 1
    return ((first + number * step) % size for number in range(_HASHES))
