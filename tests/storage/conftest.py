"""An S3-compatible server for the tests of object storage."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.storage.s3_server import running_s3


@pytest.fixture(scope="session")
def s3_options() -> Iterator[tuple[tuple[str, str], ...]]:
    with running_s3() as options:
        yield tuple(options.items())
