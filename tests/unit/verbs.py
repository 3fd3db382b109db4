"""Tables of both types with and without buckets, and what readers see of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from lentic.engine import LocalEngine
from lentic.table import Table
from lentic.write.commit import Commit
from tests.unit.builders import SCHEMA, new_table, rows

MOR, COW = "MERGE_ON_READ", "COPY_ON_WRITE"
KINDS = {f"{kind} {n}": (kind, n) for kind in (MOR, COW) for n in (2, None)}
EVERY = pytest.mark.parametrize("kind", KINDS)
BUCKETED = pytest.mark.parametrize("kind", [k for k, (_, n) in KINDS.items() if n])
JOINED = pytest.mark.parametrize("kind", [k for k, (_, n) in KINDS.items() if not n])


def make_table(
    kind: str, *, ordering: str = "", schema: pa.Schema = SCHEMA, **options: Any
) -> Table:
    table_type, buckets = KINDS[kind]
    given = {key.replace("__", "."): value for key, value in options.items()}
    opened = new_table(
        table_type=table_type, buckets=buckets, ordering=ordering, schema=schema, options=given
    )
    return Table(opened, LocalEngine(threads=1))


def found(table: Table, **question: Any) -> Counter[tuple[str, Any, str]]:
    """Every row that a reader sees; a Counter, for a row may be there twice."""
    return Counter((r["id"], r["v"], r["day"]) for r in table.read(**question).to_pylist())


def are(table: Table, *given: tuple[str, Any, str]) -> None:
    """The table has these rows, before a compaction and after it."""
    assert found(table) == Counter(given)
    if table.config.table_type.value == MOR:
        table.compact()
        assert found(table) == Counter(given), "a compaction changes no row"


def counts(done: Commit) -> tuple[int, int, int]:
    return done.inserted, done.updated, done.deleted


def groups(table: Table) -> set[tuple[str, str]]:
    return {(s.group.partition, s.group.file_id) for s in table.file_slices()}


FIRST = (("a", 1, "mon"), ("b", 2, "mon"), ("c", 3, "tue"))


def loaded(kind: str, **options: Any) -> Table:
    table = make_table(kind, **options)
    table.upsert(rows(*FIRST))
    return table
