"""The two table types store differently and mean the same: any history reads alike."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lentic.errors import InvalidRecord
from lentic.query.snapshot import read_rows
from lentic.records.merge import IS_DELETED
from lentic.services.compaction import execute_compaction, schedule_compaction
from lentic.txn.transaction import OpenTable
from tests.unit.builders import SCHEMA, by_key, new_table
from tests.unit.write.attempts import ENGINE, upsert

FLAGGED = SCHEMA.append(pa.field(IS_DELETED, pa.bool_()))

Row = tuple[str, int | None, bool]


def _tables(ordering: str) -> dict[str, OpenTable]:
    return {
        name: new_table(
            schema=FLAGGED, table_type=kind, ordering=ordering, partition_by="", buckets=2
        )
        for name, kind in {
            "rewritten": "COPY_ON_WRITE",
            "appended": "MERGE_ON_READ",
            "compacted": "MERGE_ON_READ",
        }.items()
    }


def _write(tables: dict[str, OpenTable], number: int, batch: list[Row]) -> None:
    made = [
        {"id": key, "v": value, "day": f"batch {number}", IS_DELETED: gone}
        for key, value, gone in batch
    ]
    for name, table in tables.items():
        upsert(table, pa.Table.from_pylist(made, schema=FLAGGED))
        if name == "compacted" and (at := schedule_compaction(table)):
            execute_compaction(table, ENGINE, at)


def _rows(table: OpenTable) -> dict[str, dict[str, Any]]:
    return by_key(read_rows(table, ENGINE))


ROWS = st.tuples(st.sampled_from("abcd"), st.none() | st.integers(0, 3), st.booleans())


@given(st.lists(st.lists(ROWS, min_size=1, max_size=5), min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_without_ordering_every_way_of_storing_reads_alike(batches: list[list[Row]]) -> None:
    tables = _tables("")
    for number, batch in enumerate(batches):
        _write(tables, number, batch)
    found = {name: _rows(table) for name, table in tables.items()}
    assert found["rewritten"] == found["appended"] == found["compacted"]


@given(
    st.lists(
        st.lists(ROWS.map(lambda row: (row[0], row[1], False)), min_size=1, max_size=5),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=40, deadline=None)
def test_with_ordering_every_way_of_storing_reads_alike(batches: list[list[Row]]) -> None:
    tables = _tables("v")
    for number, batch in enumerate(batches):
        _write(tables, number, batch)
    found = {name: _rows(table) for name, table in tables.items()}
    assert found["rewritten"] == found["appended"] == found["compacted"]


UNIQUE = st.lists(ROWS, min_size=1, max_size=5, unique_by=lambda row: row[0])


@given(st.lists(UNIQUE, min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_with_ordering_and_deletes_rewriting_reads_like_compacting(
    batches: list[list[Row]],
) -> None:
    """Both forget a delete's ordering with the row they remove; a log keeps it until compaction."""
    tables = _tables("v")
    for number, batch in enumerate(batches):
        _write(tables, number, batch)
    assert _rows(tables["rewritten"]) == _rows(tables["compacted"])


@pytest.mark.parametrize("kind", ["rewritten", "appended", "compacted"])
def test_a_key_deleted_and_written_again_in_one_batch_is_refused(kind: str) -> None:
    """Engines do not agree on what it would mean once it lies in logs."""
    tables = {kind: _tables("v")[kind]}
    _write(tables, 0, [("a", 3, False)])
    with pytest.raises(InvalidRecord, match="Key a is deleted"):
        _write(tables, 1, [("a", None, True), ("a", 1, False)])
    assert _rows(tables[kind])["a"]["v"] == 3
