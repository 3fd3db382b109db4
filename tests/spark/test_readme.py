"""The README's Python runs as it stands."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lentic

README = Path(__file__).resolve().parents[2] / "README.md"


@pytest.mark.spark
def test_the_ten_lines_of_python_run(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    [code] = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    rows = [("a", 1.5, "monday", datetime(2026, 1, 1, tzinfo=UTC))]
    frame = spark.createDataFrame(rows, "id string, amount double, day string, at timestamp")
    exec(compile(code, str(README), "exec"), {"df": frame})
    assert lentic.open("lake/orders").read().num_rows == 1
