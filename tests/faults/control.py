"""Gates: places in a write where an attempt waits until the test has done its harm.

Test and workers meet in a directory. For a gate called `g`:

    g.here.json   an attempt stands at the gate: its process, task and number
    g.go          it may go on
    g.open        a gate that is shut at first is now in use
    ended/<task>-<number>.json   a handle ended: with an error, or with its texts

A gate holds one attempt and lets all others pass.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from lentic.engine import Attempt
from lentic.errors import StorageError
from tests.faults.processes import is_alive
from tests.faults.waiting import until


class Point(StrEnum):
    """Where in an attempt. The order is that of an attempt's life."""

    START = "at the start"
    BEFORE_MARKER = "before the begin marker"
    BEFORE_DATA = "before the data file"
    IN_DATA = "in the data file"
    AFTER_DATA = "after the data file"
    BEFORE_COMPLETION = "before the completion marker"
    AFTER_COMPLETION = "after the completion marker"
    END = "before the result"


@dataclass(frozen=True, slots=True)
class Gate:
    """Holds the attempt that comes to `point` after `passes` others have.

    `like`: only another attempt at the same task as the one that stands at the gate of that name.
    `shut`: not in use before the test opens it. `breaks`: holds nobody, but fails attempts at
    all other tasks, once one stands at the gate `like`.
    """

    name: str
    point: Point
    passes: int = 0
    like: str = ""
    shut: bool = False
    breaks: bool = False


@dataclass(frozen=True, slots=True)
class Caught:
    """An attempt at a gate."""

    pid: int
    task: int
    number: int


@dataclass(frozen=True, slots=True)
class Control:
    """Both sides of the gates; a picklable value."""

    directory: str
    gates: tuple[Gate, ...] = ()

    # --- in a worker -------------------------------------------------------------------------

    def come_to(self, point: Point, attempt: Attempt) -> None:
        """Wait here if a gate says so."""
        for gate in self.gates:
            if gate.point is point:
                self._pass(gate, attempt)

    def note_end(self, attempt: Attempt, error: str | None, texts: list[str]) -> None:
        """Say that a handle has ended."""
        ended = self._file("ended", f"{attempt.task}-{attempt.number}.json")
        _create(ended, {"error": error, "texts": texts})

    def _pass(self, gate: Gate, attempt: Attempt) -> None:
        if gate.shut and not self._file(f"{gate.name}.open").exists():
            return
        if gate.breaks:
            self._break(gate, attempt)
        elif self._is_meant(gate, attempt):
            here = Caught(os.getpid(), attempt.task, attempt.number)
            if _create(self._file(f"{gate.name}.here.json"), asdict(here)):
                until(self._file(f"{gate.name}.go").exists, f"the gate {gate.name} to open")

    def _is_meant(self, gate: Gate, attempt: Attempt) -> bool:
        if gate.like:
            first = self.caught(gate.like)
            is_same_task = first is not None and first.task == attempt.task
            return is_same_task and first != Caught(os.getpid(), attempt.task, attempt.number)
        passed = self._file("passed", gate.name)
        return all(not _create(passed / str(number), {}) for number in range(gate.passes))

    def _break(self, gate: Gate, attempt: Attempt) -> None:
        first = self.caught(gate.like)
        if first is not None and first.task != attempt.task:
            raise StorageError(f"Task {attempt.task} is made to fail.")

    # --- in the test -------------------------------------------------------------------------

    def wait_for(self, gate: str) -> Caught:
        """Wait until an attempt stands at the gate."""
        return until(lambda: self.caught(gate), f"an attempt at the gate {gate}")

    def caught(self, gate: str) -> Caught | None:
        """Who stands, or stood, at the gate."""
        found = _load(self._file(f"{gate}.here.json"))
        return None if found is None else Caught(**found)

    def release(self, gate: str) -> None:
        """Let the attempt at the gate go on."""
        self._file(f"{gate}.go").touch()

    def open(self, gate: str) -> None:
        """Put a gate in use that was shut."""
        self._file(f"{gate}.open").touch()

    def wait_for_end(self, caught: Caught) -> str | None:
        """Wait until the attempt's handle has ended; the kind of its error, if it had one.

        "killed" if its process ended first.
        """
        path = self._file("ended", f"{caught.task}-{caught.number}.json")

        def look() -> dict[str, Any] | None:
            alive = is_alive(caught.pid)
            found = _load(path)
            return found if found or alive else {"error": "killed"}

        error: str | None = until(look, f"the end of {caught}")["error"]
        return error

    def _file(self, *names: str) -> Path:
        return Path(self.directory, *names)


def _create(path: Path, content: dict[str, Any]) -> bool:
    """Create the file with its whole content; False if it is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{os.getpid()}.tmp"
    temporary.write_text(json.dumps(content))
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
    return True


def _load(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return found
