"""Tables with column groups, rows that carry some columns, and what readers see of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lentic.engine import LocalEngine
from lentic.table import Table
from tests.unit.builders import new_table
from tests.unit.verbs import KINDS, MOR

GROUPS = "a_ts:a,aa;b_ts:b;c_ts:c"
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("day", pa.string()),
        *((name, pa.int64()) for name in ("a_ts", "a", "aa", "b_ts", "b", "c_ts", "c", "x")),
    ]
)
Row = dict[str, Any]


def make(kind: str = f"{MOR} 2", *, schema: pa.Schema = SCHEMA, **options: Any) -> Table:
    table_type, buckets = KINDS[kind]
    given_options = {"lentic.partial.groups": GROUPS} | {
        key.replace("__", "."): value for key, value in options.items()
    }
    ordering = str(given_options.pop("ordering", ""))
    opened = new_table(
        table_type=table_type,
        buckets=buckets,
        schema=schema,
        ordering=ordering,
        options=given_options,
    )
    return Table(opened, LocalEngine(threads=1))


def some(*rows: Row, schema: pa.Schema = SCHEMA) -> pa.Table:
    """Rows with the columns of the first."""
    columns = [field for field in schema if field.name in rows[0]]
    return pa.Table.from_pylist(list(rows), pa.schema(columns))


def row(key: str, **values: Any) -> Row:
    return {"id": key, "day": "mon", **values}


def state(table: Table) -> dict[str, Row]:
    """What is set of each row."""
    rows = table.read().to_pylist()
    found = {r["id"]: {n: v for n, v in r.items() if v is not None} for r in rows}
    assert len(found) == len(rows), "a key came twice"
    return found


def ensure_are(table: Table, *rows: Row) -> None:
    """The table has these rows, before a compaction and after it."""
    expected = {r["id"]: r for r in rows}
    assert state(table) == expected
    if table.config.table_type.value == MOR:
        table.compact()
        assert state(table) == expected, "a compaction changes no row"
