"""The pages under docs/ run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa

import lentic

DOCS = Path(__file__).resolve().parents[1] / "docs"


def test_the_page_on_reading_runs(tmp_path: Path) -> None:
    path = str(tmp_path / "orders")
    schema = "id string, amount double, day string"
    table = lentic.create(path, schema, key="id", partition_by="day", buckets=2)
    for n in (1, 2):
        days = [f"2026-01-0{n}"] * 2
        table.upsert(pa.table([[f"a{n}", f"b{n}"], [5.0, 15.0], days], schema=table.schema))
    names: dict[str, Any] = {"path": path}
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "reading.md").read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 4
    for code in blocks:
        exec(compile(code, "reading.md", "exec"), names)
    assert names["rows"].num_rows == 4
    assert names["some"].to_pylist() == [{"id": "b2", "amount": 15.0}]
    assert (names["fast"].num_rows, names["then"].num_rows) == (0, 2)
    assert (names["changed"].num_rows, names["everything"].num_rows, names["total"]) == (2, 4, 4)
