"""Operators' questions about tables that Apache Hudi wrote: every one has an answer."""

from __future__ import annotations

from pathlib import Path

import pytest

import lentic
from lentic.errors import UnsupportedFormat
from lentic.format.names import requested_at_of
from tests.golden.cases import list_cases

TABLES = sorted({case.table for case in list_cases()})


@pytest.mark.parametrize("name", TABLES)
def test_a_check_up_of_a_golden_table_finds_no_error(name: str, golden: Path) -> None:
    table = lentic.open(str(golden / name))
    for everything in (False, True):
        health = table.doctor(everything=everything)
        assert [f.says for f in health.findings if f.severity.value == "error"] == []


@pytest.mark.parametrize("name", TABLES)
def test_every_instant_and_file_of_a_golden_table_is_explained(name: str, golden: Path) -> None:
    table = lentic.open(str(golden / name))
    instants = [*table.timeline(), *table.history()]
    for instant in instants:
        assert table.why(str(instant.requested_at), kind="instant").reasons
    shown = {path for part in table.file_slices() for path in part.paths}
    root = Path(table.path)
    files = [str(f.relative_to(root)) for f in root.rglob("*") if requested_at_of(f.name)]
    for path in [path for path in files if not path.startswith(".hoodie")]:
        answer = table.why(path)
        assert answer.reasons and (answer.fact("visible") == "yes") == (path in shown), path


@pytest.mark.parametrize("name", TABLES)
def test_a_row_that_readers_see_is_found_by_its_key(name: str, golden: Path) -> None:
    table = lentic.open(str(golden / name))
    try:
        rows = table.read(meta=True).slice(0, 3).to_pylist()
    except UnsupportedFormat:
        return
    for row in rows:
        if key := row.get("_hoodie_record_key"):
            answer = table.why(key, kind="key", partition=row["_hoodie_partition_path"])
            assert answer.fact("visible") == "yes", key
            won = [version.commit for version in answer.versions if version.won]
            assert row["_hoodie_commit_time"] in won
