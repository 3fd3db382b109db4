"""lentic and Apache Hudi write one table under one lock on ZooKeeper: each waits for the other."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import lentic
from lentic.errors import LockTimeout
from lentic.txn.transaction import transaction
from tests.interop.operations import BUCKETS, Shape, Story, batch
from tests.interop.readers import ApacheHudi
from tests.rows import PARTITIONS
from tests.zookeeper_locks import await_queue
from tests.zookeeper_server import ZooKeeperServer

BASE_PATH = "/hudi/locks"

pytestmark = pytest.mark.interop


@dataclass(slots=True)
class LockedStory(Story):
    """A story in which all writers use the same lock."""

    lock: Mapping[str, str] = field(default_factory=dict)

    def open(self, **options: str) -> lentic.Table:
        return lentic.open(self.path, options={**self.lock, **options})


@pytest.fixture
def story(tmp_path: Path, apache_hudi: ApacheHudi, zookeeper: ZooKeeperServer) -> LockedStory:
    begun = LockedStory.begin(
        str(tmp_path / "t"), Shape("MERGE_ON_READ", BUCKETS, "ts"), apache_hudi, is_thorough=False
    )
    assert isinstance(begun, LockedStory)
    begun.lock = {
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock."
        "ZookeeperBasedLockProvider",
        "hoodie.write.lock.zookeeper.url": zookeeper.hosts,
        "hoodie.write.lock.zookeeper.port": zookeeper.hosts.rpartition(":")[2],
        "hoodie.write.lock.zookeeper.base_path": BASE_PATH,
        "hoodie.write.lock.zookeeper.lock_key": tmp_path.name,
        "hoodie.write.lock.wait_time_ms": "60000",
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.clean.failed.writes.policy": "LAZY",
    }
    return begun


def test_they_take_turns_wait_for_each_other_and_write_at_once(
    story: LockedStory, apache_hudi: ApacheHudi, zookeeper: ZooKeeperServer
) -> None:
    path = f"{BASE_PATH}/{story.lock['hoodie.write.lock.zookeeper.lock_key']}"
    together = {**story.lock, "hoodie.metadata.enable": "false"}
    story.upsert(batch(0, 40, 1))
    before = _acquisitions(zookeeper, path)
    story.hudi_writes("upsert", batch(20, 60, 2), together)
    assert _acquisitions(zookeeper, path) > before, "Hudi took the lock, and this one"
    story.upsert(batch(30, 70, 3))

    with ThreadPoolExecutor(1) as hudis_thread, ThreadPoolExecutor(1) as our_thread:
        with transaction(story.open()._opened):
            options = story.shape.hudi_options("upsert") | together
            theirs = hudis_thread.submit(apache_hudi.write, story.path, batch(50, 80, 4), options)
            await_queue(zookeeper, path, lambda names: len(names) == 2)
            assert not theirs.done()
        theirs.result()
        story.model.upsert(batch(50, 80, 4))

        with apache_hudi.locked(story.lock):
            impatient = story.open(**{"hoodie.write.lock.wait_time_ms": "200"})
            with pytest.raises(
                LockTimeout, match=r"held by '.+', which has asked for it \d+ s ago"
            ):
                impatient.upsert(batch(0, 10, 5))
            ours = our_thread.submit(story.open().upsert, batch(60, 90, 6))
            await_queue(zookeeper, path, lambda names: len(names) == 2)
            assert not ours.done()
        ours.result()
        story.model.upsert(batch(60, 90, 6))
        story.look("both waited")

        first, rest = batch(0, 90, 7, PARTITIONS[:1]), batch(0, 90, 7, PARTITIONS[1:])
        theirs = hudis_thread.submit(apache_hudi.write, story.path, first, options)
        ours = our_thread.submit(story.open().upsert, rest)
        theirs.result()
        ours.result()
        story.model.upsert(first)
        story.model.upsert(rest)
    story.look("both wrote at once")


def _acquisitions(zookeeper: ZooKeeperServer, path: str) -> int:
    """How often children came and went where the lock lies."""
    with zookeeper.client() as client:
        return int(client.get(path)[1].children_version)
