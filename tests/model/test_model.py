"""The table against a dict of rows, on both engines.

LENTIC_MODEL_RUNS=500        runs without Spark (25 unless told)
LENTIC_MODEL_SPARK_RUNS=50   runs on Spark (2)
"""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from tests.model.machine import TableMachine, play

RUNS = int(os.environ.get("LENTIC_MODEL_RUNS", "25"))
SPARK_RUNS = int(os.environ.get("LENTIC_MODEL_SPARK_RUNS", "2"))


def test_without_spark_a_table_is_a_dict_of_rows() -> None:
    play(TableMachine, RUNS, steps=12)


def test_on_spark_a_table_is_a_dict_of_rows(spark: SparkSession) -> None:
    class OnSpark(TableMachine):
        pass

    OnSpark.spark = spark
    play(OnSpark, SPARK_RUNS, steps=6)
