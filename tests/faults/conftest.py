"""The cluster, and how many faults of which kind there were: one line each, and the total."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.faults.cluster import Cluster, running_cluster

_COUNTS = pytest.StashKey[Counter[str]]()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A Spark cluster, gone with all its processes when the module's tests are."""
    if sys.platform != "linux":
        pytest.skip("two workers on one machine need the addresses and /proc of Linux")
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def count_fault(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Call it once a fault has been done and everything was as it must be."""
    counts = pytestconfig.stash.setdefault(_COUNTS, Counter())

    def count(what: str) -> None:
        counts[what] += 1

    return count


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    counts = config.stash.get(_COUNTS, Counter())
    for what, number in sorted(counts.items()):
        terminalreporter.write_line(f"faults {number:4} {what}")
    if counts:
        terminalreporter.write_line(f"faults {counts.total():4} in all, nothing lost or left over")
