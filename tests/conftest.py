"""What all tests share: the Spark session, made the way users make theirs, and no deadlines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from lentic.coordination import zookeeper as sessions
from lentic.spark import session
from tests.zookeeper_server import ZooKeeperServer

# How fast a machine is says nothing about whether the code is right.
settings.register_profile("lentic", deadline=None)
settings.load_profile("lentic")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all tests that ask for it."""
    running = session("lentic-tests", "local[2]", {"spark.driver.memory": "2g"})
    yield running
    running.stop()


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """One ZooKeeper for all tests that ask for it; each uses paths of its own."""
    server = ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"))
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture(autouse=True)
def no_zookeeper_session_outlives_its_test() -> Iterator[None]:
    """Its thread draws from Python's own dice while it waits, which Hypothesis takes for a strategy
    that does so, in whatever test runs by then."""
    yield
    sessions._close_all()
