"""Value expressions over rows: what they read, what type they have, what they come to.

An expression means to Arrow what its SQL (`to_sql`) means to Spark 4 in ANSI mode, its default.
Logic has three values. NaN equals itself and is greater than every number. A division by zero, an
overflow or a cast of what does not fit is an error and not a null, but only for rows that need it:
CASE, `if` and `coalesce` compute what they choose, AND and OR stop when they know, an operator does
not look at its right side (a division at its left) where the other is null. Spark holds to this
only where it likes: it may compute beforehand what occurs twice, regroup sums and products, or drop
what turns out not to matter. So one may fail where the other does not; values do not differ.

What cannot be the same cheaply is refused: `%` of decimals; products and quotients of the longest
decimals; `-` and `abs` of decimals with more than 34 digits; positions in `substring` and digits in
`round` that are no literals; comparing text with anything but text, save literals with dates, and
dates and times of different kinds with each other; and casts, as `expression_types` says. `lower`
and `upper` are the same but for letters newer than the Unicode of this Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lentic.errors import SchemaMismatch
from lentic.query.expression_compute import Rows, value_of
from lentic.query.expression_sql import Resolve as Resolve
from lentic.query.expression_sql import format_expression as format_expression
from lentic.query.expression_sql import to_sql as to_sql
from lentic.query.expression_text import parse_expression as parse_expression
from lentic.query.expression_values import Expression as Expression
from lentic.query.expression_values import columns_of as columns_of
from lentic.query.predicate_text import find_field, near_names

_BATCH_ROWS: Final = 65_536


@dataclass(frozen=True, slots=True)
class Scope:
    """The names that an expression can use: by qualifier, from name to column of the rows.

    `scope.resolve` is a `Resolve`. A name without a qualifier means the one side that has it.
    """

    sides: Mapping[str, Mapping[str, str]]

    def resolve(self, qualifier: str | None, name: str) -> str:
        """The column; `SchemaMismatch`, with the names that are near, if there is not just one."""
        if qualifier is not None and qualifier not in self.sides:
            raise SchemaMismatch(
                f"There is no {qualifier} row here to take {qualifier}.{name} from.",
                safe="nothing was read or written",
                next_step=f"use the columns of {' and '.join(self.sides)}",
            )
        asked = self.sides if qualifier is None else {qualifier: self.sides[qualifier]}
        holders = [side for side, names in asked.items() if name in names]
        if len(holders) == 1:
            return self.sides[holders[0]][name]
        if holders:
            raise SchemaMismatch(
                f"Column {name} is in {' and in '.join(holders)}.",
                safe="nothing was read or written",
                next_step=f"write {' or '.join(f'{side}.{name}' for side in holders)}",
            )
        known = list(dict.fromkeys(known for names in asked.values() for known in names))
        raise SchemaMismatch(
            f"There is no column {name} in {' or '.join(asked)}.",
            safe="nothing was read or written",
            next_step=near_names(name, known),
        )


def ensure_resolves(expression: Expression, schema: pa.Schema, resolve: Resolve) -> pa.DataType:
    """The type of the expression over rows of `schema`; no row is needed.

    `SchemaMismatch` for a column that is not there, with those that are near, and for types that do
    not go together.
    """
    held = {}
    for qualifier, name in sorted(columns_of(expression), key=str):
        whole = f"{qualifier}.{name}" if qualifier else name
        found = find_field(list(schema), resolve(qualifier, name), whole, "input")
        held[resolve(qualifier, name)] = pa.nulls(0, found.type)
    return value_of(expression, Rows(held, 0, resolve)).type


def evaluate(expression: Expression, rows: pa.Table, resolve: Resolve) -> pa.ChunkedArray:
    """The value of the expression for each row, of the type that `ensure_resolves` tells.

    What that refuses is refused before any row is looked at. `InvalidRecord` if there is no value
    for a row.
    """
    kind = ensure_resolves(expression, rows.schema, resolve)
    names = sorted({resolve(*column) for column in columns_of(expression)})
    found = []
    for start in range(0, rows.num_rows, _BATCH_ROWS):
        count = min(_BATCH_ROWS, rows.num_rows - start)
        held = {name: rows.column(name).slice(start, count).combine_chunks() for name in names}
        found.append(value_of(expression, Rows(held, count, resolve)))
    return pa.chunked_array(found, kind)
