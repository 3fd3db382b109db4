"""Servers for the tests of storage and locks: an S3-compatible one, Apache Curator's client."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lentic.config.zookeeper import ZooKeeperOptions
from lentic.coordination import zookeeper as sessions
from lentic.coordination.lock_zookeeper import ZooKeeperLock
from lentic.storage.local import LocalStorage
from lentic.world import Process, real_world
from tests.zookeeper_locks import WAIT_MS, Locks
from tests.zookeeper_server import Curator, ZooKeeperServer, run_curator


@pytest.fixture(scope="session")
def s3_options() -> Iterator[tuple[tuple[str, str], ...]]:
    moto_server = pytest.importorskip("moto.server")
    serving = pytest.importorskip("werkzeug.serving")
    app = moto_server.DomainDispatcherApplication(moto_server.create_backend_app)
    # One request at a time: a real store checks and creates in one step, the stand-in does not.
    server = serving.make_server("127.0.0.1", 0, app, request_handler=_quiet_handler(serving))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    options = {
        "endpoint": f"http://127.0.0.1:{server.server_port}",
        "region": "us-east-1",
        "access_key_id": "test-key",
        "secret_access_key": "test-secret",
        "allow_http": "true",
    }
    client = pytest.importorskip("boto3").client(
        "s3",
        endpoint_url=options["endpoint"],
        region_name="us-east-1",
        aws_access_key_id="test-key",
        aws_secret_access_key="test-secret",
    )
    client.create_bucket(Bucket="lake")
    yield tuple(options.items())
    server.shutdown()
    server.server_close()
    thread.join()


def _quiet_handler(serving: Any) -> type:
    return type("Quiet", (serving.WSGIRequestHandler,), {"log": lambda self, *args: None})


@pytest.fixture
def locks(
    zookeeper: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Locks]:
    """Locks of one table; `session_ms` tells sessions apart."""

    def make(
        *, timeout_ms: int = WAIT_MS, session_ms: int = 30_000, hosts: str = zookeeper.hosts
    ) -> ZooKeeperLock:
        key = re.sub(r"\W", "-", request.node.name)
        options = ZooKeeperOptions(hosts, f"/lentic/locks/{key}", session_ms, 15_000)
        world = replace(real_world(), process=Process("host-7", 4121))
        return ZooKeeperLock(LocalStorage(str(tmp_path / "table")), world, timeout_ms, options)

    yield make
    sessions._close_all()


@pytest.fixture(scope="module")
def curator(zookeeper: ZooKeeperServer) -> Iterator[Curator]:
    with run_curator(zookeeper.hosts) as running:
        yield running
