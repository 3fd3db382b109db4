"""Partial updates as other engines read them.

Apache Hudi 1.2 and hudi-rs 0.5 know partial log blocks and no column groups. They read what lentic
reads, before a compaction and after it, late rows included: a writer lets late values give way to
the stored ones before it logs them. One thing they cannot tell before a compaction: that two
writers who did not see each other inserted the same key. Its rows are stored whole, and these
engines take for null what a row does not carry. The last test shows that, and that a compaction
ends it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lentic
from lentic.engine import LocalEngine
from lentic.format.names import Action
from lentic.ingest.flow import prepare
from lentic.storage.local import LocalStorage
from lentic.table import Table
from lentic.testing.checkers import check_table
from lentic.write.commit import begin_write
from lentic.write.operations import Operation, Request
from lentic.write.run import run_write
from tests.interop.compare import RowsDiffer, ensure_same_rows
from tests.interop.readers import ApacheHudi, hudi_rs_rows
from tests.partial_join import DDL, GROUPS, KEY, batches, reference
from tests.rfc.claims import says

pytestmark = pytest.mark.interop


def ensure_all_read(expected: pa.Table, table: Table, hudi: ApacheHudi) -> None:
    for name, rows in (
        ("lentic", table.read()),
        ("Apache Hudi", hudi.rows(table.path)),
        ("hudi-rs", hudi_rs_rows(table.path)),
    ):
        ensure_same_rows(expected, rows, KEY, "expected", name)


@says("rfc66.join")
def test_a_three_source_join_equals_that_of_spark_sql_as_apache_hudi_reads_it_too(
    tmp_path: Path, spark: SparkSession, apache_hudi: ApacheHudi
) -> None:
    """A three-source partial-update join with late and out-of-order data equals the reference
    computed by a Spark SQL join, before and after compaction, also as read by Apache Hudi."""
    table = lentic.create(
        str(tmp_path / "t"),
        DDL,
        key="id",
        partition_by="region",
        buckets=2,
        options={"lentic.partial.groups": GROUPS},
    )
    sent = list(batches(seed=3))
    late = 0
    for number, (_, rows) in enumerate(sent):
        done = table.upsert(rows, partial=True)
        late += rows.num_rows - done.inserted - done.updated
        if number == len(sent) // 2:
            ensure_all_read(reference(spark, sent[: number + 1]), table, apache_hudi)
            table.compact()
    assert late > 30, "data came late"
    expected = reference(spark, sent)
    assert any(part.logs for part in table.file_slices())
    ensure_all_read(expected, table, apache_hudi)
    table.compact()
    assert not any(part.logs for part in table.file_slices())
    ensure_all_read(expected, table, apache_hudi)
    assert check_table(LocalStorage(table.path)) == []


SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.string()),
        ("ts", pa.int64()),
        ("a_ts", pa.int64()),
        ("a", pa.string()),
        ("b_ts", pa.int64()),
        ("b", pa.float64()),
    ]
)
TWO = {"lentic.partial.groups": "a_ts:a;b_ts:b"}


def some(*given: dict[str, Any]) -> pa.Table:
    rows = [{"id": "k", "region": "north", **row} for row in given]
    return pa.Table.from_pylist(rows, pa.schema([f for f in SCHEMA if f.name in rows[0]]))


@pytest.mark.parametrize("ordering", [None, "ts"])
def test_other_engines_read_deletes_and_keys_that_come_back(
    ordering: str | None, tmp_path: Path, apache_hudi: ApacheHudi
) -> None:
    """A key that comes back after a delete in a slice with partial rows is more than Apache Hudi
    1.2 can read from logs, so that the write makes a base file."""
    table = lentic.create(
        str(tmp_path / "t"),
        SCHEMA,
        key="id",
        partition_by="region",
        ordering=ordering,
        buckets=1,
        options=TWO,
    )
    table.upsert(
        some({"ts": 1, "a_ts": 5, "a": "a"}, {"id": "l", "ts": 1, "a_ts": 1, "a": "l"}),
        partial=True,
    )
    table.upsert(some({"ts": 2, "b_ts": 5, "b": 1.5}), partial=True)
    table.upsert(some({"ts": 2, "a_ts": 4, "a": "late", "b_ts": 6, "b": None}), partial=True)
    ensure_all_read(table.read(), table, apache_hudi)
    table.delete(some({}))
    assert table.read().num_rows == 1
    ensure_all_read(table.read(), table, apache_hudi)
    table.upsert(some({"ts": 1, "b_ts": 1, "b": 7.0}), partial=True)
    back = some({"ts": 1, "a_ts": None, "a": None, "b_ts": 1, "b": 7.0})
    ensure_same_rows(back, table.read(filter="id = 'k'"), KEY, "expected", "lentic")
    ensure_all_read(table.read(), table, apache_hudi)
    whole = some({"ts": 9, "a_ts": 1, "a": "new", "b_ts": None, "b": None})
    table.upsert(whole)
    assert table.read(filter="id = 'k'").column("b").to_pylist() == [7.0]
    ensure_all_read(table.read(), table, apache_hudi)
    table.compact()
    ensure_all_read(table.read(), table, apache_hudi)


def test_other_engines_need_a_compaction_where_writers_did_not_see_each_other_insert(
    tmp_path: Path, apache_hudi: ApacheHudi
) -> None:
    table = lentic.create(
        str(tmp_path / "t"),
        SCHEMA,
        key="id",
        partition_by="region",
        ordering="ts",
        buckets=1,
        options=TWO | {"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"},
    )
    opened, engine = table._opened, LocalEngine(threads=1)
    running = []
    for rows in (some({"ts": 1, "a_ts": 1, "a": "a"}), some({"ts": 2, "b_ts": 2, "b": 2.0})):
        prepared = prepare(opened, engine, rows, Request(Operation.UPSERT, partial=True))
        running.append((rows, prepared, begin_write(opened, Action.DELTACOMMIT)))
    for rows, prepared, begun in reversed(running):
        run_write(opened, engine, rows, prepared, begun)
    expected = some({"ts": 2, "a_ts": 1, "a": "a", "b_ts": 2, "b": 2.0})
    ensure_same_rows(expected, table.read(), KEY, "expected", "lentic")
    for rows in (apache_hudi.rows(table.path), hudi_rs_rows(table.path)):
        with pytest.raises(RowsDiffer):
            ensure_same_rows(expected, rows, KEY)
    table.compact()
    ensure_all_read(expected, table, apache_hudi)
