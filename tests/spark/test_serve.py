"""`lentic serve` on a Spark master."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import lentic
from lentic.cli.main import app

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.string()), ("at", pa.int64())])


def test_services_run_on_the_master_that_is_named(tmp_path: Path, spark: SparkSession) -> None:
    table = lentic.create(str(tmp_path / "t"), SCHEMA, key="id", ordering="at", buckets=2)
    for number in range(6):
        table.upsert(pa.table([[f"k{number}"], [number]], schema=SCHEMA))
    jobs = spark.sparkContext.statusTracker()
    before = set(jobs.getJobIdsForGroup(None))
    done = CliRunner().invoke(
        app, ["serve", str(tmp_path), "--once", "--json", "--spark", "local[2]"]
    )
    assert done.exit_code == 0, done.output
    (told,) = map(json.loads, done.stdout.splitlines())
    assert (told["action"], told["outcome"], told["rows"]) == ("compaction", "done", 6)
    assert set(jobs.getJobIdsForGroup(None)) - before, "nothing ran on Spark"
    assert table.verify() == []
    assert table.read().num_rows == 6
