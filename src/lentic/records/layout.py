"""Rows -> the same rows in the order in which they are to lie, and cut into files."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lentic.config.clustering import Curve
from lentic.records.layout_curve import layout_order

_TAKE_ROWS = 1 << 20
_OFFSETS_MAX = (1 << 31) - 1
"""Bytes that an Arrow array of texts can hold with small offsets."""
_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def lay_out(rows: pa.Table, sort_by: tuple[str, ...], curve: Curve) -> pa.Table:
    """`rows` along the curve. Needs room for them once more, and for one column besides."""
    order = layout_order([rows.column(name) for name in sort_by], curve)
    return pa.table([_taken(column, order) for column in rows.columns], schema=rows.schema)


def _taken(column: pa.ChunkedArray, order: npt.NDArray[np.int64]) -> pa.ChunkedArray:
    kind = column.type
    if kind in _LARGE and column.nbytes > _OFFSETS_MAX:
        column = column.cast(_LARGE[kind])
    # In one piece: taking from many chunks looks the chunk up for every row.
    values = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    starts = range(0, len(order), _TAKE_ROWS)
    taken = [pc.take(values, pa.array(order[at : at + _TAKE_ROWS])) for at in starts]
    return pa.chunked_array([part.cast(kind) for part in taken], kind)


def cut(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[Iterator[pa.RecordBatch]]:
    """A stream as streams of `rows` rows, the last one shorter. Each must be used up before the
    next is asked for; none is empty."""
    assert rows > 0, rows
    full = (batch for batch in batches if batch.num_rows)
    held: pa.RecordBatch | None = next(full, None)

    def piece() -> Iterator[pa.RecordBatch]:
        nonlocal held
        left = rows
        while held is not None and left:
            head = held.slice(0, left)
            left -= head.num_rows
            rest = held.slice(head.num_rows)
            held = rest if rest.num_rows else next(full, None)
            yield head

    while held is not None:
        yield piece()
