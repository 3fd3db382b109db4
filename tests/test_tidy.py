"""The tree keeps the house rules of `tests/tidy.py`; a failure names file, line and fix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tidy import CHECKS, Finding

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_tree_is_tidy(check: Callable[[Path], list[Finding]]) -> None:
    findings = check(ROOT)
    assert not findings, "\n" + "\n".join(str(finding) for finding in findings)
