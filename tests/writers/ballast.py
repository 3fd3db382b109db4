"""Rows that make a table large enough for its clustering to take a while, among the writers' own.

They lie beside the hot keys: sorted by key, the rows of every hot key follow it, so that each file
of a table loaded in this order holds hot keys, and each write comes to each of these file groups.
Checks of what writers wrote leave them out; `n` tells them apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.writers.workload import HOT, KEY, SCHEMA, Shape, WriteId, make_batch

LOAD = "load"
WIDE = SCHEMA.append(pa.field(LOAD, pa.string()))
WRITER = "ballast"
_BALLAST = HOT - 1
NO_BALLAST = f"n > {_BALLAST}"
"""The filter that leaves them out."""


@dataclass(frozen=True, slots=True)
class Ballast:
    """How many rows there are for each hot key, and how many bytes each of them has."""

    rows: int
    width: int


def make_load(write: WriteId, shape: Shape, ballast: Ballast, seed: int) -> pa.Table:
    """The first write to a table: a write as any other, with the ballast."""
    first = make_batch(write, shape)
    nothing = pa.nulls(first.num_rows, pa.string())
    parts = [first.append_column(WIDE.field(LOAD), nothing)]
    rng = np.random.default_rng(seed)
    for number, key in enumerate(shape.hot_keys()):
        parts.append(_rows(f"p{number % shape.partitions}", key, ballast, rng))
    return pa.concat_tables(parts)


def keys_of(rows: pa.Table) -> set[str]:
    """The keys of the ballast in the rows."""
    return set(rows.filter(pc.equal(rows.column("n"), _BALLAST)).column(KEY).to_pylist())


def _rows(partition: str, hot: str, ballast: Ballast, rng: np.random.Generator) -> pa.Table:
    texts = [rng.bytes(ballast.width // 2).hex() for _ in range(ballast.rows)]
    columns = [
        [f"{hot}~{number:06d}" for number in range(ballast.rows)],
        [partition] * ballast.rows,
        [0] * ballast.rows,
        [WRITER] * ballast.rows,
        [0] * ballast.rows,
        [_BALLAST] * ballast.rows,
        texts,
    ]
    return pa.table([pa.array(column) for column in columns], schema=WIDE)
