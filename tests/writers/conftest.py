"""An object store that several processes share, Apache Hudi as a judge, and a line per play."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from tests.interop.readers import ApacheHudi
from tests.interop.setup_hudi import HudiUnavailable, ensure_hudi
from tests.storage.s3_server import running_s3

_LINES = pytest.StashKey[list[str]]()


@pytest.fixture(scope="module")
def s3_options() -> Iterator[dict[str, str]]:
    with running_s3() as options:
        yield options


@pytest.fixture(scope="module")
def apache_hudi() -> Iterator[ApacheHudi]:
    try:
        install = ensure_hudi()
    except HudiUnavailable as missing:
        if os.environ.get("LENTIC_INTEROP") == "require":
            pytest.fail(f"Apache Hudi is not available: {missing}", pytrace=False)
        pytest.skip(f"Apache Hudi is not available: {missing}")
    with ApacheHudi(install) as hudi:
        yield hudi


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Call it with what a play came to, once everything was as it must be."""
    lines = request.config.stash.setdefault(_LINES, [])

    def add(line: str) -> None:
        lines.append(f"writers  {request.node.name}: {line}")

    return add


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for line in config.stash.get(_LINES, []):
        terminalreporter.write_line(line)
