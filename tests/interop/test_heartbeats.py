"""Apache Hudi takes our heartbeat for one, and our lock object for a lock (R14, R2)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import lentic
from lentic.coordination.lock import Intent
from lentic.coordination.lock_storage import StorageLock
from lentic.engine import LocalEngine
from lentic.errors import Conflict
from lentic.format import layout
from lentic.format.names import Action
from lentic.storage.memory import MemoryStorage
from lentic.table import Table
from lentic.world import real_world
from tests.interop.operations import BUCKETS, Shape, Story, batch
from tests.interop.readers import ApacheHudi
from tests.rfc.claims import says

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


@says("rfc79.heartbeat.inference")
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


def test_hudis_storage_based_provider_reads_the_lock_object(apache_hudi: ApacheHudi) -> None:
    storage = MemoryStorage()
    world = real_world()
    before_ms = world.clock.now_ms()
    with StorageLock(storage, world, 1_000, 60_000).hold() as held:
        held.publish(Intent(layout.timeline_file("20240101000000000.commit.requested"), b"\x00"))
        seen = apache_hudi.lock_file(storage.read(layout.STORAGE_LOCK))
        assert not seen["expired"] and seen["owner"]
        assert seen["valid_until"] >= before_ms + 60_000
    assert apache_hudi.lock_file(storage.read(layout.STORAGE_LOCK))["expired"]
