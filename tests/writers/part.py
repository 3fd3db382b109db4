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
from lentic.engine import LocalEngine
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
    """One player's part. `engine` is "local" or "spark", with so many `tasks` at once; `pace_s` is
    the pause between turns, unless one is to begin `every_s`. With a `core` it stays on that one of
    the machine's, without Spark in one thread."""

    name: str
    table: str
    ledger: str
    stop: str
    options: dict[str, str] = field(default_factory=dict)
    engine: str = "local"
    duration_s: float = 60.0
    pace_s: float = 0.05
    every_s: float = 0.0
    core: int | None = None
    tasks: int = 1
    shape: Shape = field(default_factory=Shape)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def turns(self) -> Iterator[None]:
        """One yield per turn, with a pause between two."""
        parent, end = os.getppid(), time.monotonic() + self.duration_s
        while not Path(self.stop).exists() and time.monotonic() < end and os.getppid() == parent:
            begun = time.monotonic()
            yield
            rest = begun + self.every_s - time.monotonic() if self.every_s else self.pace_s
            time.sleep(max(0.0, rest))


def parse_part(text: str) -> Part:
    fields = json.loads(text)
    return Part(**{**fields, "shape": Shape(**fields["shape"])})


def my_part() -> tuple[Part, Ledger]:
    """The part of this process, and its ledger."""
    part = parse_part(sys.argv[1])
    if part.core is not None:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[part.core % len(cores)]})
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
        spark = lentic.spark.session(f"lentic-{part.name}", f"local[{part.tasks}]", _SPARK)
    for _ in part.turns():
        try:
            table = lentic.open(part.table, options=part.options, spark=spark)
            if part.core is not None and spark is None:
                table = Table(table._opened, LocalEngine(threads=1))
        except Unavailable as error:
            ledger.add(FAILED, name=part.name, what="open", error=repr(error))
            continue
        ledger.add(READY)
        return Opened(table, spark)
    return None
