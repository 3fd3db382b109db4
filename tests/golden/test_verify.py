"""Tables that Apache Hudi left in good order are sound: verifying gives no false alarm."""

from __future__ import annotations

from pathlib import Path

import pytest

import lentic
from tests.golden.cases import list_cases

TABLES = sorted({case.table for case in list_cases()})


@pytest.mark.parametrize("name", TABLES)
def test_a_golden_table_is_sound(name: str, golden: Path) -> None:
    assert lentic.open(str(golden / name)).verify() == []
