"""A ledger: what one process meant to do, did and saw, as JSON lines outside the table.

A line is on disk before `add` returns, so what a process says before a step is known even if it is
killed in the step. A kill may tear the last line; whoever goes on with the ledger starts a new one.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

Entry = dict[str, Any]

BEGIN, INTENT, OUTCOME, SIGHT, WINDOW, SERVICE = (
    "begin",
    "intent",
    "outcome",
    "sight",
    "window",
    "service",
)
BUSY, FAILED, READY = "busy", "failed", "ready"
FROZEN, KILLED = "frozen", "killed"


class Ledger:
    """A ledger that is open for writing; one process at a time."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")
        self.add(BEGIN, pid=os.getpid())

    def add(self, kind: str, **fields: Any) -> None:
        """Write one line, with the time of a clock that all processes of the machine share."""
        line = json.dumps({"kind": kind, "ns": time.monotonic_ns(), **fields}) + "\n"
        os.write(self._file, line.encode())
        os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)


def load_entries(path: Path) -> list[Entry]:
    """All entries of a ledger, in order; one that does not exist is empty.

    Only the last line before an end may be torn: anything else that cannot be read is an error.
    """
    if not path.exists():
        return []
    entries: list[Entry] = []
    torn = False
    for line in path.read_bytes().split(b"\n"):
        if not line:
            continue
        try:
            entry = json.loads(line)
        except ValueError:
            assert not torn, f"{path} has two torn lines in a row"
            torn = True
            continue
        assert not torn or entry["kind"] == BEGIN, f"{path} has a torn line in the middle"
        torn = False
        entries.append(entry)
    return entries
