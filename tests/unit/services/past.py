"""Tables whose past is protected, undone or gone back to, and what must hold of them after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from lentic.engine import LocalEngine
from lentic.format.avro import encode_container
from lentic.format.names import Action
from lentic.format.times import RequestedAt
from lentic.services.verify import verify_table
from lentic.testing.checkers import list_leftovers
from lentic.timeline.reader import load_timeline
from lentic.txn.transaction import OpenTable, transaction
from tests.unit.builders import new_table
from tests.unit.write.attempts import read_all

TYPES = pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
BUCKETS = pytest.mark.parametrize("buckets", [2, None])


def some_table(table_type: str = "MERGE_ON_READ", buckets: int | None = 2) -> OpenTable:
    return new_table(table_type=table_type, buckets=buckets)


def values(table: OpenTable) -> dict[str, Any]:
    """Column `v` by key."""
    return {key: row["v"] for key, row in read_all(table).items()}


def write_times(table: OpenTable) -> list[RequestedAt]:
    """The completed writes, in the order in which they completed."""
    return [write.requested_at for write in load_timeline(table.storage).writes()]


@dataclass(frozen=True)
class Then(LocalEngine):
    """Something else happens after the files are written and before the driver hears of them."""

    happens: Callable[[], object] = lambda: None

    def shuffle(self, *given: Any, **more: Any) -> list[str]:
        texts = LocalEngine.shuffle(self, *given, **more)
        self.happens()
        return texts


def ensure_sound(table: OpenTable) -> None:
    """The invariants hold, and nothing is pending or lies about."""
    assert verify_table(table.storage) == []
    assert list_leftovers(table.storage) == []
    assert load_timeline(table.storage).pending() == ()


def put_clean_plan(table: OpenTable, path: str) -> None:
    """A clean that is planned and going to delete `path`."""
    partition = path.rpartition("/")[0]
    file = {"filePath": f"{table.storage.root}/{path}", "isBootstrapBaseFile": False}
    record = {
        "earliestInstantToRetain": None,
        "lastCompletedCommitTimestamp": "",
        "policy": "KEEP_LATEST_COMMITS",
        "filesToBeDeletedPerPartition": None,
        "version": 2,
        "filePathsToBeDeletedPerPartition": {partition: [file]},
        "partitionsToBeDeleted": [],
        "extraMetadata": {},
    }
    with transaction(table) as txn:
        txn.request(Action.CLEAN, encode_container("HoodieCleanerPlan", record))
