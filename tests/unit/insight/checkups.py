"""How tests have a table examined, and read what was found."""

from __future__ import annotations

import json
from typing import Any

from lentic.insight.answers import Finding, Health
from tests.unit.insight.cases import Case


def examine(case: Case, **more: Any) -> Health:
    """Look, and make sure that looking changed nothing."""
    before = {file.path: file for file in case.storage.walk("")}
    health = case.table.doctor(**more)
    assert {file.path: file for file in case.storage.walk("")} == before
    json.dumps(health.to_json())
    return health


def finding(health: Health, code: str) -> Finding:
    found = health.of(code)
    assert found, f"no {code} among {[f.code for f in health.findings]}"
    return found[0]


def mends(found: Finding) -> str:
    assert found.remedy is not None
    return found.remedy.python
