"""Each kind of damage is run once, and its figures are printed at the end of the tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fuzz.runner import Tally, run_all

_TALLIES = pytest.StashKey[dict[str, Tally]]()


@pytest.fixture(scope="session")
def fuzzed(request: pytest.FixtureRequest) -> Callable[[str], Tally]:
    """The verdicts on all cases of a kind."""
    tallies = request.config.stash.setdefault(_TALLIES, {})

    def run(kind: str) -> Tally:
        if kind not in tallies:
            tallies[kind] = run_all(kind)
        return tallies[kind]

    return run


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """One line per kind: how many cases ran, and what came of them."""
    for tally in config.stash.get(_TALLIES, {}).values():
        terminalreporter.write_line(f"fuzz {tally.summary()}")
