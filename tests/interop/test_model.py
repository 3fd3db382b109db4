"""The tables of tests/model, read by Apache Hudi when a run is over.

LENTIC_MODEL_RUNS=500        runs without Spark (3 unless told)
LENTIC_MODEL_SPARK_RUNS=50   runs on Spark (2)

The first run of all is the simplest, which is to do nothing at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.interop.compare import ensure_same_rows
from tests.interop.readers import ApacheHudi
from tests.model.machine import TableMachine, play

RUNS = int(os.environ.get("LENTIC_MODEL_RUNS", "3"))
SPARK_RUNS = int(os.environ.get("LENTIC_MODEL_SPARK_RUNS", "2"))


def _reader(hudi: ApacheHudi, read: list[str]) -> Callable[[str, pa.Table], None]:
    def compare(path: str, expected: pa.Table) -> None:
        ensure_same_rows(hudi.rows(path), expected, ["day", "id"], "Apache Hudi", "the model")
        read.append(path)

    return compare


@pytest.mark.interop
def test_apache_hudi_reads_what_the_model_holds(apache_hudi: ApacheHudi) -> None:
    read: list[str] = []

    class Machine(TableMachine):
        at_end = staticmethod(_reader(apache_hudi, read))

    play(Machine, RUNS, steps=12)
    print(f"\nApache Hudi read {len(read)} tables of the local engine as the model has them")
    assert read


@pytest.mark.interop
def test_apache_hudi_reads_what_the_model_holds_of_spark(
    apache_hudi: ApacheHudi, spark: SparkSession
) -> None:
    read: list[str] = []

    class Machine(TableMachine):
        at_end = staticmethod(_reader(apache_hudi, read))

    Machine.spark = spark
    play(Machine, SPARK_RUNS, steps=6)
    print(f"\nApache Hudi read {len(read)} tables of the Spark engine as the model has them")
    assert read
