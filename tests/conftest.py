"""What all tests share: the Spark session, made the way users make theirs, and no deadlines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from lentic.spark import session

# How fast a machine is says nothing about whether the code is right.
settings.register_profile("lentic", deadline=None)
settings.load_profile("lentic")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all tests that ask for it."""
    running = session("lentic-tests", "local[2]", {"spark.driver.memory": "2g"})
    yield running
    running.stop()
