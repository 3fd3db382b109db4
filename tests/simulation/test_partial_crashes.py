"""Partial updates and their compaction, killed at every storage call: whole, or not at all."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lentic.coordination.lock import LockProvider
from lentic.storage.base import Storage
from lentic.testing.checkers import check_table, list_leftovers
from lentic.testing.crash_sweep import CrashRun, Flow, Scene, set_scene, sweep
from lentic.testing.tables import create_on, open_on
from lentic.world import World

SCHEMA = pa.schema(
    [("id", pa.string()), *((name, pa.int64()) for name in ("a_ts", "a", "b_ts", "b"))]
)
FIRST = {"k": (5, 50), "l": (5, 51)}
SECOND = {"k": (4, 0), "l": (6, 61), "n": (1, 12)}  # late, newer, new
Row = tuple[Any, ...]
BEFORE: dict[str, Row] = {"k": (5, 50, 1, 1), "l": (5, 51, None, None)}
AFTER: dict[str, Row] = BEFORE | {"l": (6, 61, None, None), "n": (1, 12, None, None)}


def upsert(source: str, values: dict[str, tuple[int, int]]) -> Flow:
    def flow(storage: Storage, world: World, lock: LockProvider) -> None:
        columns = list(zip(*((key, *value) for key, value in values.items()), strict=True))
        names = ("id", f"{source}_ts", source)
        rows = pa.table(list(map(list, columns)), names=list(names))
        open_on(storage, world, lock).upsert(rows, partial=True)

    return flow


def read(run: CrashRun) -> dict[str, Row]:
    rows = open_on(run.storage, run.world, run.lock).read().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows), run
    return {row["id"]: tuple(row.values())[1:] for row in rows}


def scene(table_type: str) -> Scene:
    def setup(storage: Storage, world: World, lock: LockProvider) -> None:
        options = {
            "hoodie.table.name": "t",
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.type": table_type,
            "hoodie.bucket.index.num.buckets": 1,
            "lentic.partial.groups": "a_ts:a;b_ts:b",
        }
        create_on(storage, SCHEMA, options)
        upsert("a", FIRST)(storage, world, lock)
        upsert("b", {"k": (1, 1)})(storage, world, lock)

    return set_scene(setup)


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_a_killed_partial_update_is_seen_whole_or_not_at_all(table_type: str) -> None:
    seen_as = set()
    for run in sweep(upsert("a", SECOND), scene(table_type)):
        seen = read(run)
        assert seen in (BEFORE, AFTER), run
        assert check_table(run.storage) == [], run
        upsert("b", {"k": (2, 2)})(run.storage, run.world, run.lock)
        assert read(run) == seen | {"k": (5, 50, 2, 2)}, run
        assert check_table(run.storage) == [] and list_leftovers(run.storage) == [], run
        seen_as.add(len(seen))
    assert seen_as == {2, 3}


def test_a_killed_compaction_of_partial_rows_changes_no_row() -> None:
    def compact(storage: Storage, world: World, lock: LockProvider) -> None:
        open_on(storage, world, lock).compact()

    for run in sweep(compact, scene("MERGE_ON_READ")):
        assert read(run) == BEFORE, run
        upsert("a", SECOND)(run.storage, run.world, run.lock)
        assert read(run) == AFTER, run
        compact(run.storage, run.world, run.lock)
        assert read(run) == AFTER, run
        assert check_table(run.storage) == [], run
