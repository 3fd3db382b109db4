"""The rows that writers write, so made that every read tells which writes it saw.

Every row carries who wrote it: writer, number of the write (`seq`) and its own number in it (`n`).
A write has rows of two kinds:

    own   keys that no other write has: whether the write was seen, whole, and once
    hot   keys that every write has, with an ordering value that is not the order of the writes, and
          is often the same for two of them: who won, which follows from the writes that were seen

All of it is a pure function of (writer, seq), so nothing but these two need be remembered.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

KEY, PARTITION, ORDERING, COMMIT = "id", "part", "ts", "_hoodie_commit_time"

SCHEMA = pa.schema(
    [
        (KEY, pa.string()),
        (PARTITION, pa.string()),
        (ORDERING, pa.int64()),
        ("writer", pa.string()),
        ("seq", pa.int64()),
        ("n", pa.int64()),
    ]
)
COLUMNS = (*SCHEMA.names, COMMIT)
"""What a read must give: with `meta=True`, to tell the commit that a row came by."""

HOT = -1
_SPREAD = 8

WriteId = tuple[str, int]
"""Writer and seq."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a write is."""

    own: int = 6
    hot: int = 3
    partitions: int = 2

    def hot_keys(self) -> list[str]:
        return [f"hot-{number}" for number in range(self.hot)]


@dataclass(frozen=True, slots=True)
class Share:
    """What was seen of one write's own rows: how many, and by which commits they came."""

    rows: int
    commits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """The rows of one read, summed up. `doubled` keys occurred twice; `odd` ones in a row that
    nobody wrote. Equal digests mean equal rows, commit times included."""

    shares: Mapping[WriteId, Share]
    hot: Mapping[str, WriteId]
    doubled: tuple[str, ...]
    odd: tuple[str, ...]
    digest: str


def order_value(key: str, write: WriteId) -> int:
    """The ordering value of a hot key: rises with the writes, but not strictly."""
    writer, seq = write
    return seq + zlib.crc32(f"{key}/{writer}/{seq}".encode()) % _SPREAD


def make_batch(write: WriteId, shape: Shape) -> pa.Table:
    """The rows of one write."""
    writer, seq = write
    rows = [(own_key(write, n), f"p{n % shape.partitions}", seq, n) for n in range(shape.own)]
    for number, key in enumerate(shape.hot_keys()):
        rows.append((key, f"p{number % shape.partitions}", order_value(key, write), HOT))
    keys, parts, order, numbers = zip(*rows, strict=True)
    columns = [keys, parts, order, [writer] * len(rows), [seq] * len(rows), numbers]
    return pa.table([pa.array(column) for column in columns], schema=SCHEMA)


def own_key(write: WriteId, number: int) -> str:
    return f"{write[0]}-{write[1]:06d}-{number:02d}"


def summarize(rows: pa.Table) -> Seen:
    """Sum up the rows of a read, which has at least `COLUMNS`."""
    rows = rows.select(list(COLUMNS)).combine_chunks()
    is_hot = pc.equal(rows.column("n"), HOT)
    own, hot = rows.filter(pc.invert(is_hot)), rows.filter(is_hot)
    counted = rows.group_by(KEY).aggregate([([], "count_all")])
    doubled = counted.filter(pc.greater(counted.column("count_all"), 1))
    return Seen(
        shares=_shares(own),
        hot={
            key: (writer, seq)
            for key, writer, seq in zip(*_lists(hot, KEY, "writer", "seq"), strict=True)
        },
        doubled=tuple(sorted(doubled.column(KEY).to_pylist())),
        odd=(*_odd_own(own), *_odd_hot(hot)),
        digest=_digest(rows),
    )


def _shares(own: pa.Table) -> dict[WriteId, Share]:
    grouped = own.group_by(["writer", "seq"]).aggregate([([], "count_all"), (COMMIT, "distinct")])
    columns = _lists(grouped, "writer", "seq", "count_all", f"{COMMIT}_distinct")
    return {
        (writer, seq): Share(rows, tuple(sorted(commits)))
        for writer, seq, rows, commits in zip(*columns, strict=True)
    }


def _odd_own(own: pa.Table) -> list[str]:
    columns = zip(*_lists(own, KEY, "writer", "seq", "n", ORDERING), strict=True)
    return [
        key
        for key, writer, seq, number, order in columns
        if key != own_key((writer, seq), number) or order != seq
    ]


def _odd_hot(hot: pa.Table) -> list[str]:
    columns = zip(*_lists(hot, KEY, "writer", "seq", ORDERING), strict=True)
    return [key for key, writer, seq, order in columns if order != order_value(key, (writer, seq))]


def _digest(rows: pa.Table) -> str:
    ordered = rows.sort_by([(name, "ascending") for name in (KEY, COMMIT, "writer", "seq")])
    digest = hashlib.sha256()
    for column in _lists(ordered, *COLUMNS):
        digest.update(repr(column).encode())
    return digest.hexdigest()[:20]


def _lists(rows: pa.Table, *names: str) -> list[list[object]]:
    return [rows.column(name).to_pylist() for name in names]
