"""What a player is told, as JSON on its command line, and when it has played long enough.

A player is a process of its own that works on the table until the stop file is there, its time is
up, or the process that started it has gone. It tells its ledger what it does.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import lentic
from lentic.errors import Unavailable
from lentic.table import Table
from tests.writers.ledger import FAILED, READY, Ledger
from tests.writers.workload import Shape

_SPARK = {
    "spark.driver.memory": "700m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.worker.reuse": "true",
}


@dataclass(frozen=True, slots=True)
class Part:
    """One player's part. `engine` is "local" or "spark"; `pace_s` is the pause between turns."""

    name: str
    table: str
    ledger: str
    stop: str
    options: dict[str, str] = field(default_factory=dict)
    engine: str = "local"
    duration_s: float = 60.0
    pace_s: float = 0.05
    shape: Shape = field(default_factory=Shape)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def turns(self) -> Iterator[None]:
        """One yield per turn, with a pause between two."""
        parent, end = os.getppid(), time.monotonic() + self.duration_s
        while not Path(self.stop).exists() and time.monotonic() < end and os.getppid() == parent:
            yield
            time.sleep(self.pace_s)


def parse_part(text: str) -> Part:
    fields = json.loads(text)
    return Part(**{**fields, "shape": Shape(**fields["shape"])})


def my_part() -> tuple[Part, Ledger]:
    """The part of this process, and its ledger."""
    part = parse_part(sys.argv[1])
    return part, Ledger(Path(part.ledger))


@dataclass(frozen=True, slots=True)
class Opened:
    """The table, and the session if there is one."""

    table: Table
    spark: Any

    def source(self, rows: pa.Table) -> Any:
        """Rows as the engine takes them."""
        return rows if self.spark is None else self.spark.createDataFrame(rows)


def open_table(part: Part, ledger: Ledger) -> Opened | None:
    """The table, on the engine the part asks for; None if the store failed until the time was up.

    The ledger says when it is open.
    """
    spark = None
    if part.engine == "spark":
        spark = lentic.spark.session(f"lentic-{part.name}", "local[1]", _SPARK)
    for _ in part.turns():
        try:
            table = lentic.open(part.table, options=part.options, spark=spark)
        except Unavailable as error:
            ledger.add(FAILED, name=part.name, what="open", error=repr(error))
            continue
        ledger.add(READY)
        return Opened(table, spark)
    return None
