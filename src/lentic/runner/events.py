"""What the runner did, as one value per action, and as one line of text or JSON. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from lentic.errors import LenticError
from lentic.progress import Measure, format_measure

_NOTE_MAX = 500
_PART_MAX = 200


class Result(StrEnum):
    """How an action ended."""

    DONE = "done"
    ALREADY = "already"
    """Another worker had done it."""
    ABORTED = "aborted"
    """The plan was cancelled, and is rid of."""
    NOTHING = "nothing"
    """It was due, and there was nothing to do."""
    BUSY = "busy"
    """Another worker is at it."""
    CONFLICT = "conflict"
    """It gave way to somebody else's write."""
    FAILED = "failed"
    STOPPED = "stopped"
    """It was stopped: this process was told to end, or the time for one action was over."""

    @property
    def rests(self) -> bool:
        """Whether the next try should wait."""
        return self in (Result.FAILED, Result.CONFLICT, Result.STOPPED, Result.ABORTED)


@dataclass(frozen=True, slots=True)
class Work:
    """What an action made: rows, files and bytes written, or files deleted, instants moved or
    undone, strays swept. `first_files` are those that began a file group."""

    rows: int = 0
    files: int = 0
    bytes: int = 0
    first_files: int = 0
    partitions: int = 0
    deleted: int = 0
    instants: int = 0
    strays: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """One action on one table. `at_ms` is when it ended; `worker` is host and process."""

    at_ms: int
    worker: str
    table: str
    action: str
    result: Result
    instant: str = ""
    seconds: float = 0.0
    work: Work = field(default_factory=Work)
    note: str = ""


def say_error(error: Exception) -> str:
    """What went wrong as the note of one line: its kind, what, where, and what to do next. Of a
    long one the end of what is left out, and not where and what to do."""
    kind = f"{type(error).__name__}: "
    if not isinstance(error, LenticError):
        return kind + str(error)
    rest = f" [{_one_line(error.where, _PART_MAX)}]" if error.where else ""
    rest += f"; next: {_one_line(error.next_step, _PART_MAX)}" if error.next_step else ""
    return kind + _one_line(error.what, _NOTE_MAX - len(kind) - len(rest)) + rest


def format_text(event: Event) -> str:
    """One line for people."""
    took = f"{event.seconds:.2f} s"
    parts = [_time(event.at_ms), event.table, event.action, event.instant, event.result, took]
    parts += [_format_work(event.work), _one_line(event.note)]
    return "  ".join(part for part in parts if part)


def format_json(event: Event) -> str:
    """One line for machines: a JSON object with the same keys every time."""
    fields = {
        "time": _time(event.at_ms),
        "worker": event.worker,
        "table": event.table,
        "action": event.action,
        "instant": event.instant or None,
        "outcome": event.result.value,
        "seconds": round(event.seconds, 3),
        "rows": event.work.rows,
        "files": event.work.files,
        "bytes": event.work.bytes,
        "deleted": event.work.deleted,
        "instants": event.work.instants,
        "note": _one_line(event.note) or None,
    }
    return json.dumps(fields)


def _format_work(work: Work) -> str:
    counts = ((work.deleted + work.strays, "file"), (work.instants, "instant"))
    verbs = ("deleted", "")
    parts = [format_measure(Measure(work.rows, work.files, work.bytes))]
    parts += [
        f"{count:,} {word}{'s' * (count != 1)} {verb}".rstrip()
        for (count, word), verb in zip(counts, verbs, strict=True)
        if count
    ]
    return ", ".join(part for part in parts if part)


def _time(at_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _one_line(text: str, most: int = _NOTE_MAX) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
