"""Work on Spark ends when another thread says so, and the session goes on."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lentic.engine import Attempt
from lentic.spark.engine import SparkEngine

pytestmark = pytest.mark.spark
PATIENCE_S = 30


def _wait_long(attempt: Attempt, folder: str) -> str:
    Path(folder, "begun").touch()
    time.sleep(PATIENCE_S)
    return "nobody stopped me"


def test_work_on_spark_can_be_stopped(spark: SparkSession, tmp_path: Path) -> None:
    engine = SparkEngine(spark)

    def stop_it(stop: Any) -> None:
        for _ in range(PATIENCE_S * 20):
            if (tmp_path / "begun").exists():
                break
            time.sleep(0.05)
        stop()

    with engine.stoppable() as stop:
        stopper = threading.Thread(target=stop_it, args=(stop,))
        stopper.start()
        with pytest.raises(Exception, match="cancel|Cancel|CANCEL"):
            engine.run(_wait_long, [str(tmp_path)])
        stopper.join()
    assert engine.run(lambda attempt, n: str(n), [1, 2]) == ["1", "2"]
