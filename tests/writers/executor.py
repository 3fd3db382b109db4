"""A process that executes one plan, or cleans up after those who did. `python -m`.

It tells in a file how that ended. With a gate it says so when the plan's files are written, and
waits there until it is let go: alive, but no further.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import lentic
from lentic.engine import LocalEngine
from lentic.errors import LenticError
from lentic.format.times import RequestedAt
from lentic.services.compaction import execute_compaction
from lentic.services.failed_writes import clean_up_failed_writes
from lentic.services.log_compaction import execute_log_compaction
from lentic.txn.transaction import OpenTable

LONGEST_S = 120.0
CLEAN = "clean"


@dataclass(frozen=True, slots=True)
class Task:
    """What to do: execute a plan of this action at this time, or `CLEAN`. `folder` is where the
    process tells and is told things, under its name."""

    name: str
    table: str
    folder: str
    action: str
    at: str
    options: dict[str, str]
    has_gate: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def file(self, kind: str) -> Path:
        return Path(self.folder) / f"{self.name}.{kind}"


class GatedEngine(LocalEngine):
    """Stands at the gate when its tasks are done."""

    __slots__ = ("task",)

    def __init__(self, task: Task) -> None:
        super().__init__(threads=1)
        object.__setattr__(self, "task", task)

    def run(self, *given: Any, **more: Any) -> list[str]:
        done = super().run(*given, **more)
        if self.task.has_gate:
            self.task.file("at-gate").touch()
            parent, end = os.getppid(), time.monotonic() + LONGEST_S
            while not self.task.file("go").exists():
                if time.monotonic() > end or os.getppid() != parent:
                    os._exit(3)  # whoever let it wait is gone
                time.sleep(0.02)
        return done


def perform(task: Task) -> str:
    """How it ended, as the name of an outcome or an error."""
    table = lentic.open(task.table, options=task.options)._opened
    if task.action == CLEAN:
        undone = clean_up_failed_writes(table, waits=True)
        return ",".join(str(instant.requested_at) for instant in undone)
    run: Callable[[OpenTable, GatedEngine, RequestedAt], object] = (
        execute_compaction if task.action == "compaction" else execute_log_compaction
    )
    return type(run(table, GatedEngine(task), RequestedAt(task.at))).__name__


def main() -> None:
    task = Task(**json.loads(sys.argv[1]))
    try:
        told = perform(task)
    except LenticError as error:
        told = type(error).__name__
    written = task.file("writing")
    written.write_text(told)
    written.rename(task.file("told"))


if __name__ == "__main__":
    main()
