"""Bringing columns from anywhere to the table's schema, without losing a value."""

from __future__ import annotations

import pyarrow as pa

from lentic.errors import Corrupt


def align(rows: pa.RecordBatch, schema: pa.Schema, where: str) -> pa.RecordBatch:
    """`rows` with exactly the columns and types of `schema`: by name, absent ones null.

    `Corrupt` if a value does not fit, or a column that may not be null is absent.
    """
    columns = []
    for wanted in schema:
        index = rows.schema.get_field_index(wanted.name)
        if index < 0:
            if not wanted.nullable:
                raise Corrupt(f"Column {wanted.name} is absent but may not be null.", where=where)
            columns.append(pa.nulls(rows.num_rows, wanted.type))
            continue
        column = rows.column(index)
        if column.type != wanted.type:
            try:
                column = _cast(column, wanted.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise Corrupt(
                    f"Column {wanted.name} of type {rows.schema.field(index).type} does not read "
                    f"as {wanted.type}: {error}",
                    where=where,
                ) from error
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_float32(column.type) and pa.types.is_float64(wanted):
        # By its text, as Apache Hudi reads it: 0.1 stays 0.1, which its bits would not.
        column = column.cast(pa.string())
    return column.cast(wanted)


def align_table(rows: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
    """The same for a whole table."""
    batches = [align(batch, schema, where) for batch in rows.to_batches()]
    return pa.Table.from_batches(batches, schema=schema)
