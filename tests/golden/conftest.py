"""The golden tables, unpacked once for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.archive import TABLES, unpack


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that holds every golden table under its name."""
    root = tmp_path_factory.mktemp("golden")
    unpack(TABLES, root)
    return root
