"""The Apache Hudi session that the interop tests share.

Where Hudi cannot be run its tests are skipped with the reason, so that a bare machine can run the
suite; `LENTIC_INTEROP=require` makes that a failure, for runs that must not pass without it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.interop.readers import ApacheHudi
from tests.interop.setup_hudi import HudiInstall, HudiUnavailable, ensure_hudi
from tests.interop.tally import Tally

_TALLY = pytest.StashKey[Tally]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "interop: needs Apache Hudi on Spark (slow to start)")
    config.stash[_TALLY] = Tally()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if (tally := config.stash[_TALLY]) != Tally():
        terminalreporter.write_line(str(tally))


@pytest.fixture(scope="session")
def tally(pytestconfig: pytest.Config) -> Tally:
    """Counts the histories, for the line at the end of the run."""
    return pytestconfig.stash[_TALLY]


@pytest.fixture(scope="session")
def apache_hudi() -> Iterator[ApacheHudi]:
    """Apache Hudi on Spark, started once for all tests."""
    install = _install()
    if isinstance(install, str):
        if os.environ.get("LENTIC_INTEROP") == "require":
            pytest.fail(install, pytrace=False)
        pytest.skip(install)
    with ApacheHudi(install) as hudi:
        yield hudi


def _install() -> HudiInstall | str:
    """The installation, or the line that says why there is none."""
    try:
        return ensure_hudi()
    except HudiUnavailable as missing:
        return f"Apache Hudi is not available: {missing}"
