"""Servers for the tests of storage and locks: an S3-compatible one, Apache Curator's client."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lentic.config.zookeeper import ZooKeeperOptions
from lentic.coordination.lock_zookeeper import ZooKeeperLock
from lentic.storage.local import LocalStorage
from lentic.world import Process, real_world
from tests.storage.s3_server import running_s3
from tests.zookeeper_locks import WAIT_MS, Locks
from tests.zookeeper_server import Curator, ZooKeeperServer, run_curator


@pytest.fixture(scope="session")
def s3_options() -> Iterator[tuple[tuple[str, str], ...]]:
    with running_s3() as options:
        yield tuple(options.items())


@pytest.fixture
def locks(zookeeper: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest) -> Locks:
    """Locks of one table; `session_ms` tells sessions apart."""

    def make(
        *, timeout_ms: int = WAIT_MS, session_ms: int = 30_000, hosts: str = zookeeper.hosts
    ) -> ZooKeeperLock:
        key = re.sub(r"\W", "-", request.node.name)
        options = ZooKeeperOptions(hosts, f"/lentic/locks/{key}", session_ms, 15_000)
        world = replace(real_world(), process=Process("host-7", 4121))
        return ZooKeeperLock(LocalStorage(str(tmp_path / "table")), world, timeout_ms, options)

    return make


@pytest.fixture(scope="module")
def curator(zookeeper: ZooKeeperServer) -> Iterator[Curator]:
    with run_curator(zookeeper.hosts) as running:
        yield running
