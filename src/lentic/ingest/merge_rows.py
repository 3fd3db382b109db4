"""What the clauses of a merge make of joined rows. Pure; the same in every engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc

from lentic.engine import MATCHED, SOURCE, TARGET
from lentic.errors import InvalidRecord
from lentic.query.expression import Scope, evaluate
from lentic.query.expression_values import Expression
from lentic.write.placement import DELETE_FLAG


class Effect(StrEnum):
    """What a clause does to the rows it takes."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


@dataclass(frozen=True, slots=True)
class Clause:
    """One WHEN of a merge. `values` are the columns it sets; None: all that the source has."""

    effect: Effect
    condition: Expression | None
    values: tuple[tuple[str, Expression], ...] | None = None

    @property
    def takes_matched(self) -> bool:
        return self.effect is not Effect.INSERT


@dataclass(frozen=True, slots=True)
class MergeRows:
    """Joined rows -> rows to write, with a flag for those to delete. A picklable value.

    `schema` is the table's, `source` and `target` are the columns of either side. The first clause
    whose condition is true takes a row; a row that none takes changes nothing.
    """

    clauses: tuple[Clause, ...]
    schema: pa.Schema
    source: frozenset[str]
    target: frozenset[str]

    @property
    def made(self) -> pa.Schema:
        """The schema of the rows that come out."""
        return self.schema.append(pa.field(DELETE_FLAG, pa.bool_()))

    def __call__(self, joined: pa.RecordBatch) -> pa.RecordBatch:
        rows = pa.Table.from_batches([joined])
        parts: list[pa.Table] = []
        for clause in self.clauses:
            taken = self._taken(clause, rows)
            if chosen := rows.filter(taken):
                parts.append(self._apply(clause, chosen))
            rows = rows.filter(pc.invert(taken))
        made = pa.concat_tables([self.made.empty_table(), *parts]).combine_chunks()
        return made.to_batches()[0] if made.num_rows else _no_rows(self.made)

    def _taken(self, clause: Clause, rows: pa.Table) -> pa.ChunkedArray:
        matched = rows.column(MATCHED)
        fits = matched if clause.takes_matched else pc.invert(matched)
        if clause.condition is None:
            return fits
        # A condition may divide by what is zero elsewhere: it is asked for the rows it is about.
        candidates = rows.filter(fits)
        holds = evaluate(clause.condition, candidates, self.scope(clause).resolve)
        holds = pc.fill_null(holds, False)
        positions = pc.indices_nonzero(fits).filter(holds)
        chosen = pc.is_in(pa.array(range(rows.num_rows), pa.uint64()), value_set=positions)
        return pa.chunked_array([chosen])

    def _apply(self, clause: Clause, rows: pa.Table) -> pa.Table:
        values = dict(clause.values or ())
        columns = []
        for field in self.schema:
            if field.name in values:
                found = evaluate(values[field.name], rows, self.scope(clause).resolve)
            else:
                found = self._carried(clause, field.name, rows)
            columns.append(_as_stored(found, field, rows.num_rows))
        flag = pa.repeat(pa.scalar(clause.effect is Effect.DELETE), rows.num_rows)
        return pa.table([*columns, flag], schema=self.made)

    def _carried(self, clause: Clause, name: str, rows: pa.Table) -> pa.ChunkedArray | None:
        """The value of a column that the clause does not set by an expression."""
        from_source = clause.values is None and clause.effect is not Effect.DELETE
        if from_source and name in self.source:
            return rows.column(SOURCE + name)
        if clause.takes_matched and name in self.target:
            return rows.column(TARGET + name)
        return None

    def scope(self, clause: Clause) -> Scope:
        """The columns that the clause's expressions may use: an insert has no row of the table."""
        sides = {"source": {name: SOURCE + name for name in self.source}}
        if clause.takes_matched:
            sides["target"] = {name: TARGET + name for name in self.target}
        return Scope(sides)


def _as_stored(
    found: pa.ChunkedArray | pa.Array | None, field: pa.Field, count: int
) -> pa.ChunkedArray | pa.Array:
    if found is None:
        return pa.nulls(count, field.type)
    if found.type == field.type:
        return found
    try:
        return found.cast(field.type)
    except pa.ArrowInvalid as error:
        raise InvalidRecord(
            f"Column {field.name} got a value that {field.type} cannot hold: {error}",
            safe="nothing was committed",
            next_step=f"cast the expression for {field.name}",
        ) from error


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    arrays: Sequence[pa.Array] = [pa.array([], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(list(arrays), schema=schema)
