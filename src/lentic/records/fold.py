"""Several changes -> fewer that do the same to whatever is below and above them. Pure.

Of each key one change is left: the winner among them (`records.merge`), with its own ordering value
and its own `_hoodie_*` columns. A row that came after a hard delete stays without it: a base row,
or a change that comes later, meets such a row by its ordering value as it meets any other. A hard
delete that won stays one. Rows that are partial, or decided by column groups, are not for here:
each of their columns has won by a value of its own, which one row cannot say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lentic.records.merge import Change, Deletes, plain, reduce_changes


@dataclass(frozen=True, slots=True)
class Folded:
    """What is left of a series of changes: rows and deletes, no key in both."""

    rows: pa.Table
    deletes: Deletes

    @property
    def is_writable(self) -> bool:
        """Whether a log can hold it: not where another engine ordered a delete by some of the
        ordering fields only."""
        values = self.deletes.ordering or ()
        return all(one.is_valid().equals(values[0].is_valid()) for one in values)


def fold_changes(changes: Sequence[Change], schema: pa.Schema, ordering: tuple[str, ...]) -> Folded:
    """The changes that stand for `changes`, which are in merge order and whole."""
    net = reduce_changes(changes, schema, ordering)
    rows = net.rows.take(pa.array(np.sort(net.row_of[net.row_of >= 0])))
    bare = pa.array(net.row_of < 0)
    values = zip(ordering, net.ordering, strict=True)
    given = tuple(plain(v.filter(bare), schema.field(name).type) for name, v in values)
    return Folded(rows, Deletes(net.keys.filter(bare), given or None))
