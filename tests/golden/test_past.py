"""Savepoints and restores that Apache Hudi left: read, written back, and gone back to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq

import lentic
from lentic.format.names import Action
from lentic.format.restore import (
    decode_restore_metadata,
    decode_restore_plan,
    encode_restore_metadata,
)
from lentic.format.savepoint import decode_savepoint, encode_savepoint
from lentic.services.restore import restore_table
from lentic.services.savepoint import load_savepoints
from lentic.storage.local import LocalStorage
from lentic.timeline.reader import load_timeline

WRITTEN_AT = "/data/lakehouse/tbl"
DROP = {"lentic.metadata.on_write": "drop"}


def _content(golden: Path, table: str, ending: str) -> bytes:
    (found,) = (golden / table / ".hoodie" / "timeline").glob(f"*{ending}")
    return found.read_bytes()


def test_a_savepoint_of_hudi_names_files_that_are_there_and_comes_back(golden: Path) -> None:
    for table in ("cow_savepoint_held", "cow_savepoint_restore"):
        metadata = decode_savepoint(_content(golden, table, ".savepoint"), table)
        assert len(metadata.files) == 3
        assert all((golden / table / path).is_file() for path in metadata.files)
        assert decode_savepoint(encode_savepoint(metadata), table) == metadata


def test_a_restore_of_hudi_tells_what_it_undid_and_comes_back(golden: Path) -> None:
    name = "cow_savepoint_restore"
    plan = decode_restore_plan(_content(golden, name, ".restore.requested"), name)
    done = decode_restore_metadata(_content(golden, name, ".restore"), f"{WRITTEN_AT}/{name}", name)
    assert [(u.requested_at, u.action) for u in plan.undone] == [
        (rollback.target, rollback.action) for rollback in done.rollbacks
    ]
    assert plan.files is None, "another engine's plan"
    assert all(len(rollback.deleted) == 3 for rollback in done.rollbacks)
    encoded = encode_restore_metadata(done, f"{WRITTEN_AT}/{name}")
    assert decode_restore_metadata(encoded, f"{WRITTEN_AT}/{name}", name) == done


def test_a_table_goes_back_to_a_savepoint_of_hudi(golden: Path, tmp_path: Path) -> None:
    path = tmp_path / "t"
    shutil.copytree(golden / "cow_savepoint_held", path)
    storage = LocalStorage(str(path))
    (savepoint,) = load_savepoints(storage, load_timeline(storage))
    table = lentic.open(str(path), options=DROP)
    restored = restore_table(table._opened, savepoint.requested_at)
    timeline = load_timeline(storage)
    assert restored.action is Action.RESTORE and restored.is_completed
    assert [write.requested_at for write in timeline.writes()] == [savepoint.requested_at]
    left = {str(file.relative_to(path)) for file in path.glob("p*/*.parquet")}
    assert left == savepoint.files
    assert table.verify() == []
    assert table.read().num_rows == sum(
        pq.read_metadata(path / file).num_rows for file in savepoint.files
    )
