"""The Spark session of the tests, made the way users make theirs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lentic.spark import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all tests that ask for it."""
    running = session("lentic-tests", "local[2]", {"spark.driver.memory": "2g"})
    yield running
    running.stop()
