"""Changes in a window that lies in the active timeline, over files that are older than it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lentic


@pytest.fixture
def table(tmp_path: Path) -> lentic.Table:
    return lentic.create(
        str(tmp_path / "t"), "id string, v int, ts int", key="id", ordering="ts", buckets=1
    )


def upsert(table: lentic.Table, *given: tuple[str, int, int]) -> lentic.Commit:
    columns = [list(column) for column in zip(*given, strict=True)]
    return table.upsert(pa.table(columns, schema=table.schema))


def archive(table: lentic.Table, commit: lentic.Commit) -> None:
    """Moves the completed write from the active timeline to the history."""
    timeline = Path(table.path) / ".hoodie" / "timeline"
    (completed,) = timeline.glob(f"{commit.requested_at}_*")
    row = {
        "instantTime": [commit.requested_at],
        "completionTime": [commit.completed_at],
        "action": [completed.suffix[1:]],
        "metadata": [completed.read_bytes()],
    }
    history = timeline / "history"
    history.mkdir(exist_ok=True)
    file = history / f"{commit.requested_at}_{commit.requested_at}_0.parquet"
    pq.write_table(pa.table(row), file)
    listed = {"files": [{"fileName": file.name, "fileLen": file.stat().st_size}]}
    (history / "manifest_1").write_text(json.dumps(listed))
    (history / "_version_").write_text("1")
    for left in timeline.glob(f"{commit.requested_at}*"):
        left.unlink()


def test_a_late_row_loses_to_one_whose_write_is_archived(table: lentic.Table) -> None:
    first = upsert(table, ("a", 1, 9), ("b", 1, 9))
    second = upsert(table, ("c", 2, 9))
    upsert(table, ("a", 3, 5), ("b", 3, 10))
    archive(table, first)
    assert [row["v"] for row in table.read().sort_by("id").to_pylist()] == [1, 3, 2]
    changed = table.changes(after=second.completed_at)
    assert changed.to_pylist() == [{"id": "b", "v": 3, "ts": 10}]


def test_what_a_row_was_before_is_found_though_its_write_is_archived(table: lentic.Table) -> None:
    first = upsert(table, ("a", 1, 1))
    second = upsert(table, ("c", 2, 1))
    upsert(table, ("a", 3, 2))
    archive(table, first)
    (change,) = table.changes(after=second.completed_at, kind="cdc").to_pylist()
    assert (change["op"], change["before"]) == ("u", {"id": "a", "v": 1, "ts": 1})


def test_a_change_has_no_row_before_or_after_also_where_a_column_may_not_be_null(
    tmp_path: Path,
) -> None:
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), ("v", pa.int32())])
    table = lentic.create(str(tmp_path / "t"), schema, key="id")
    table.upsert(pa.table([["a"], [1]], schema=schema))
    table.delete(pa.table({"id": ["a"]}))
    found = table.changes(kind="cdc").to_pylist()
    assert [(one["op"], one["before"], one["after"]) for one in found] == [
        ("i", None, {"id": "a", "v": 1}),
        ("d", {"id": "a", "v": 1}, None),
    ]
