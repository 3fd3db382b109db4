"""A process that writes to some tables in turn until it is told to end. `python -m`.

Before each write it notes what it is about to write, and after it that it is committed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

import lentic
from lentic.errors import LenticError

SCHEMA = pa.schema([("id", pa.string()), ("at", pa.int64()), ("day", pa.string())])


@dataclass(frozen=True, slots=True)
class Task:
    """Which tables, with which options; `folder` is where it tells and is told things."""

    tables: list[str]
    folder: str
    options: dict[str, str]
    rows: int
    pause_s: float

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def file(self, kind: str) -> Path:
        return Path(self.folder) / kind


def batch(number: int, rows: int) -> pa.Table:
    """Rows of the commit's own, and one that every commit writes."""
    ids = [f"k{number}-{row}" for row in range(rows - 1)] + ["shared"]
    days = [f"d{row % 2}" for row in range(rows - 1)] + ["d0"]
    return pa.table([ids, [number] * rows, days], schema=SCHEMA)


def main() -> None:
    task = Task(**json.loads(sys.argv[1]))
    tables = [lentic.open(path, options=task.options) for path in task.tables]
    parent, number = os.getppid(), 0
    with task.file("written").open("a") as written:
        while not task.file("end").exists() and os.getppid() == parent:
            for table in tables:
                told = {"table": table.path, "number": number}
                try:
                    table.upsert(batch(number, task.rows))
                    told["error"] = ""
                except LenticError as error:
                    told["error"] = f"{type(error).__name__}: {error.what}"
                print(json.dumps(told), file=written, flush=True)
            number += 1
            time.sleep(task.pause_s)


if __name__ == "__main__":
    main()
