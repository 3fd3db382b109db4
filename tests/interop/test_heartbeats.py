"""Apache Hudi takes a lentic writer's heartbeat for one: it leaves the living alone (R14)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import lentic
from lentic.engine import LocalEngine
from lentic.errors import Conflict
from lentic.format import layout
from lentic.format.names import Action
from lentic.table import Table
from tests.interop.operations import BUCKETS, Shape, Story, batch
from tests.interop.readers import ApacheHudi

pytestmark = pytest.mark.interop

NBCC = {"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}
LAZY = NBCC | {
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.clean.automatic": "true",
}


class _Meanwhile(LocalEngine):
    """Lets something happen after the rows are written and before they are committed."""

    __slots__ = ("act",)

    def __init__(self, act: Any) -> None:
        super().__init__(threads=1)
        object.__setattr__(self, "act", act)

    def shuffle(self, source: Any, shuffle: Any) -> list[str]:
        done = super().shuffle(source, shuffle)
        self.act()
        return done


def test_hudi_leaves_a_living_writer_alone_and_gives_a_dead_one_up(
    tmp_path: Path, apache_hudi: ApacheHudi
) -> None:
    path = str(tmp_path / "t")
    story = Story.begin(path, Shape("MERGE_ON_READ", BUCKETS, "ts"), apache_hudi, is_thorough=False)
    story.upsert(batch(0, 20, 1))
    options = story.shape.hudi_options("upsert") | LAZY | {"hoodie.metadata.enable": "false"}

    def hudi_writes(first: int, last: int, ts: int) -> None:
        apache_hudi.write(path, batch(first, last, ts), options)
        story.model.upsert(batch(first, last, ts))

    opened = lentic.open(path, options=NBCC)._opened
    Table(opened, _Meanwhile(lambda: hudi_writes(10, 30, 2))).upsert(batch(15, 40, 3))
    story.model.upsert(batch(15, 40, 3))
    assert [i for i in story.open().timeline() if i.action is Action.ROLLBACK] == []
    story.look("after both")

    def die_and_be_given_up() -> None:
        (file,) = opened.storage.list_files(layout.HEARTBEATS)
        long_ago = file.modified_ms / 1000 - 3600
        os.utime(Path(path, file.path), (long_ago, long_ago))
        hudi_writes(40, 50, 4)

    with pytest.raises(Conflict):
        Table(opened, _Meanwhile(die_and_be_given_up)).upsert(batch(0, 5, 5))
    assert [i for i in story.open().timeline() if i.action is Action.ROLLBACK]
    story.look("after the dead")
