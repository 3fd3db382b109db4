"""The merge builder: rows meet the table's by key, and clauses say what becomes of each.

    t.merge(rows)
     .when_matched_delete(condition="source.gone")
     .when_matched_update({"amount": "target.amount + source.amount"})
     .when_not_matched_insert()
     .execute()

Rows match by the table's key columns, and by its partition columns as far as the rows have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lentic.engine import SOURCE, TARGET, Engine, Join
from lentic.errors import ConfigError, SchemaMismatch
from lentic.format.table_config import TableConfig
from lentic.ingest.flow import required_columns, retrying, write
from lentic.ingest.merge_rows import Clause, Effect, MergeRows
from lentic.query.expression import Expression, ensure_resolves, parse_expression
from lentic.query.snapshot import read_rows
from lentic.timeline.reader import load_timeline
from lentic.txn.transaction import OpenTable
from lentic.view.schema import load_table_schema
from lentic.write.commit import Commit
from lentic.write.evolve import evolve
from lentic.write.fit import reads_as
from lentic.write.operations import Operation, Request
from lentic.write.placement import key_rules

Values = Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class MergeBuilder:
    """A merge in the making. Each `when_*` returns a new builder with one clause more; the first
    clause whose condition holds takes a row. Nothing happens before `execute`."""

    table: OpenTable
    engine: Engine
    rows: Any
    clauses: tuple[Clause, ...] = ()

    def when_matched_update(
        self, values: Values = None, *, condition: str | None = None
    ) -> MergeBuilder:
        """Update rows whose key is there: the columns of `values` by expressions, or all columns
        that the source has. Other columns stay."""
        return self._with(Effect.UPDATE, values, condition)

    def when_matched_delete(self, *, condition: str | None = None) -> MergeBuilder:
        """Delete rows whose key is there."""
        return self._with(Effect.DELETE, None, condition)

    def when_not_matched_insert(
        self, values: Values = None, *, condition: str | None = None
    ) -> MergeBuilder:
        """Insert rows whose key is not there: columns by expressions, or as the source has them.
        Other columns are null."""
        return self._with(Effect.INSERT, values, condition)

    def execute(self) -> Commit:
        """Carry the merge out, as one commit.

        `WriteConflict` if someone else changed the same file groups between reading and writing.
        """
        if not self.clauses:
            raise ConfigError(
                "The merge has no clause.",
                safe="nothing was written",
                next_step="add .when_matched_update() or .when_not_matched_insert()",
            )
        return retrying(self.table, self.engine, self._execute)

    def _execute(self) -> Commit:
        table = self.table
        seen = load_timeline(table.storage)
        stored = load_table_schema(table.storage, seen, table.config)
        plan = plan_merge(table.config, stored, self.engine.schema(self.rows), self.clauses)
        target = read_rows(table, self.engine, columns=sorted(plan.target))
        on = _match_columns(table.config, plan.source)
        made = self.engine.join(self.rows, target, Join(on, plan, plan.made))
        request = Request(Operation.UPSERT, flagged=True)
        return write(table, self.engine, made, request, seen=seen)

    def _with(self, effect: Effect, values: Values, condition: str | None) -> MergeBuilder:
        clause = Clause(
            effect,
            parse_expression(condition) if condition is not None else None,
            _parse_values(values) if values is not None else None,
        )
        return replace(self, clauses=(*self.clauses, clause))


def _parse_values(values: object) -> tuple[tuple[str, Expression], ...]:
    if not isinstance(values, Mapping) or not all(isinstance(v, str) for v in values.values()):
        raise ConfigError(
            "The values of a merge are a dict of column names and expressions.",
            safe="nothing was written",
            next_step='such as {"amount": "target.amount + source.amount", "note": "\'seen\'"}',
        )
    return tuple((name, parse_expression(text)) for name, text in values.items())


def plan_merge(
    config: TableConfig, stored: pa.Schema, given: pa.Schema, clauses: tuple[Clause, ...]
) -> MergeRows:
    """What the clauses mean for this table and these rows; refuses what they cannot mean. Pure."""
    source = frozenset(given.names)
    takes_all = any(c.values is None and c.effect is not Effect.DELETE for c in clauses)
    schema = stored
    if takes_all:
        fixed = [stored.field(n) for n in required_columns(config) if n not in source]
        schema = evolve(stored, pa.schema([*given, *fixed]), required=required_columns(config))
    for clause in clauses:
        _ensure_sensible(clause, config, schema, source)
    plan = MergeRows(clauses, schema, source, frozenset(stored.names))
    sides = ((SOURCE, given), (TARGET, stored))
    joined = pa.schema([f.with_name(side + f.name) for side, fields in sides for f in fields])
    for clause in clauses:
        resolve = plan.scope(clause).resolve
        if clause.condition is not None:
            found = ensure_resolves(clause.condition, joined, resolve)
            _ensure_type("A condition", found, pa.bool_())
        for name, value in clause.values or ():
            found = ensure_resolves(value, joined, resolve)
            _ensure_type(f"The value for {name}", found, schema.field(name).type)
    return plan


def _ensure_type(what: str, found: pa.DataType, wanted: pa.DataType) -> None:
    are_numbers = all(map(_is_number, (found, wanted)))
    if not (pa.types.is_null(found) or are_numbers or reads_as(found, wanted)):
        raise SchemaMismatch(
            f"{what} is {found} and must be {wanted}.",
            safe="nothing was written",
            next_step="cast(… as TYPE)",
        )


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _ensure_sensible(
    clause: Clause, config: TableConfig, schema: pa.Schema, source: frozenset[str]
) -> None:
    fixed = key_rules(config).columns
    for name, _ in clause.values or ():
        if name not in schema.names:
            raise SchemaMismatch(
                f"The merge sets column {name}, which the table does not have.",
                safe="nothing was written",
                next_step=f"choose among {', '.join(schema.names)}",
            )
        if clause.effect is Effect.UPDATE and name in fixed:
            raise ConfigError(
                f"The merge would change {name}, which says which record a row is and where.",
                safe="nothing was written",
                next_step=f"leave {name} out, or delete the row and insert another",
            )
    if clause.effect is Effect.INSERT:
        named = {name for name, _ in clause.values} if clause.values is not None else source
        if absent := [name for name in fixed if name not in named]:
            raise SchemaMismatch(
                f"The insert of the merge gives no {absent[0]}.",
                safe="nothing was written",
                next_step=f"set it: when_not_matched_insert({{{absent[0]!r}: ...}})",
            )


def _match_columns(config: TableConfig, source: frozenset[str]) -> tuple[str, ...]:
    if absent := [name for name in config.key_fields if name not in source]:
        raise SchemaMismatch(
            f"The rows to merge lack key column {absent[0]}.",
            safe="nothing was written",
            next_step=f"add {absent[0]}",
        )
    partition = (name for name in config.partition_fields if name in source)
    return tuple(dict.fromkeys((*config.key_fields, *partition)))
