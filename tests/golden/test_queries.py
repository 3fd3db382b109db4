"""Every query of every golden table gives what Apache Hudi read, on Spark and without.

Snapshots are compared in full: names, order and types of all columns, the `_hoodie_*` ones
included, and every value. Of the other queries Hudi's answer holds some columns only.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lentic
from tests.golden.canonical import canonical_rows, ensure_same_columns, ensure_same_rows
from tests.golden.cases import Case, Cleaned, answer, expected_fields, list_cases
from tests.golden.changes import ensure_same_changes

ENGINES = ("alone", pytest.param("spark", marks=pytest.mark.spark))


@pytest.fixture
def opened(case: Case, engine: str, golden: Path, request: pytest.FixtureRequest) -> lentic.Table:
    """The table of the case on the engine asked for."""
    spark = request.getfixturevalue("spark") if engine == "spark" else None
    return lentic.open(str(golden / case.table), spark=spark)


@pytest.mark.parametrize("case", list_cases(), ids=str)
@pytest.mark.parametrize("engine", ENGINES)
def test_the_answer_is_hudis(case: Case, engine: str, opened: lentic.Table) -> None:
    before = _files(opened)
    expected = answer(case)
    if isinstance(expected, Cleaned):
        _ensure_refused(opened, expected)
    elif case.kind == "cdc":
        ensure_same_changes(_ask(opened, case), expected)
    else:
        rows = _ask(opened, case)
        if case.kind == "snapshot":
            ensure_same_columns(rows.schema, expected_fields(case.table), nulls=engine == "alone")
        ensure_same_rows(canonical_rows(rows, expected[0] if expected else None), expected)
    assert _files(opened) == before, "a query changed the table"


def _ask(table: lentic.Table, case: Case) -> pa.Table:
    entry = case.entry
    match case.kind:
        case "snapshot":
            return _arrow(table.read(meta=True))
        case "read_optimized":
            return _arrow(table.read(mode="read_optimized", meta=True))
        case "incremental":
            after, upto = entry["begin_completion_exclusive"], entry["end_completion_inclusive"]
            return _arrow(table.changes(after=after, upto=upto, meta=True))
        case "time_travel":
            return _arrow(table.read(as_of=entry["as_of"], meta=True))
        case "cdc":
            return _arrow(table.changes(kind="cdc"))
    raise AssertionError(case)


def _ensure_refused(table: lentic.Table, cleaned: Cleaned) -> None:
    """The error is ours and names the earliest time that can be read, which then can be."""
    with pytest.raises(lentic.LenticError) as refusal:
        _arrow(table.read(as_of=cleaned.asked, meta=True))
    named = re.findall(r"\b\d{17}\b", str(refusal.value))
    later = [time for time in named if time > cleaned.asked]
    assert later, f"no later time is named: {refusal.value}"
    assert _arrow(table.read(as_of=min(later))).num_rows > 0


def _arrow(rows: Any) -> pa.Table:
    return rows if isinstance(rows, pa.Table) else rows.toArrow()


def _files(table: lentic.Table) -> list[tuple[str, int, int]]:
    found = [path for path in Path(table.path).rglob("*") if path.is_file()]
    return sorted((str(f), f.stat().st_size, f.stat().st_mtime_ns) for f in found)
