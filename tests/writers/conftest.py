"""An object store that several processes share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.storage.s3_server import running_s3


@pytest.fixture(scope="module")
def s3_options() -> Iterator[dict[str, str]]:
    with running_s3() as options:
        yield options
