"""How far writes and services have come: a bar per stage on a terminal, nothing anywhere else.

An engine tells a `Watch` which tasks have ended and what they gave; the watch counts, and has the
count shown. Showing never harms the work: what fails here is not shown, and nothing is raised. A
`Progress` of None shows nothing and costs nothing. This is the only module below `cli` with rich.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Protocol

from rich import filesize
from rich import progress as rich_progress
from rich.console import Console


@dataclass(frozen=True, slots=True)
class Measure:
    """What work has made so far."""

    rows: int = 0
    files: int = 0
    bytes: int = 0

    def __add__(self, other: Measure) -> Measure:
        return Measure(self.rows + other.rows, self.files + other.files, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class Stage:
    """One pass over rows or files: its title, and what a text that a task gave says was made."""

    title: str
    measure: Callable[[str], Measure] | None = None


class Bar(Protocol):
    """A stage as it is shown. Calls do not overlap, and may come from any thread."""

    def show(self, done: int, total: int | None, made: Measure) -> None:
        """`done` of `total` tasks have ended; None: nobody knows yet how many there are."""

    def end(self) -> None:
        """The stage is over, well or not."""


class Progress(Protocol):
    """Where stages are shown, several at the same time if need be."""

    def begin(self, title: str, total: int | None) -> Bar:
        """A stage begins."""


class Watch:
    """Counts the tasks of one stage, in whatever threads they end."""

    def __init__(self, stage: Stage, total: int | None, bar: Bar | None) -> None:
        self._measure = stage.measure
        self._done, self._total, self._made = 0, total, Measure()
        self._bar = bar
        self._lock = Lock()

    @property
    def is_shown(self) -> bool:
        """Whether anybody looks; if not, there is no need to ask for counts."""
        return self._bar is not None

    def advance(self, texts: Iterable[str] = (), tasks: int = 1) -> None:
        """So many more tasks have ended, and gave these texts."""
        if self.is_shown:
            with self._lock, self._unharmed():
                made = map(self._measure, texts) if self._measure else ()
                self._made = sum(made, self._made)
                self._show(self._done + tasks, self._total)

    def reach(self, done: int, total: int) -> None:
        """So many tasks have ended of those that are known by now. Never goes back."""
        if self.is_shown:
            with self._lock, self._unharmed():
                self._show(max(done, self._done), max(total, done, self._total or 0) or None)

    def finish(self) -> None:
        """Every task has ended."""
        if self.is_shown:
            with self._lock, self._unharmed():
                total = max(self._total or 1, self._done)
                self._show(total, total)

    def _show(self, done: int, total: int | None) -> None:
        self._done, self._total = done, total
        if self._bar:
            self._bar.show(done, total, self._made)

    @contextmanager
    def _unharmed(self) -> Iterator[None]:
        try:
            yield
        except Exception:
            self._bar = None


@contextmanager
def watching(progress: Progress | None, stage: Stage, total: int | None) -> Iterator[Watch]:
    """Show a stage for as long as the block runs; not at all if it has no tasks."""
    bar: Bar | None = None
    if progress is not None and total != 0:
        with suppress(Exception):
            bar = progress.begin(stage.title, total)
    watch = Watch(stage, total, bar)
    try:
        yield watch
        watch.finish()
    finally:
        if bar is not None:
            with suppress(Exception):
                bar.end()


def bars() -> Progress | None:
    """Bars on standard error, if that is a terminal."""
    try:
        return _terminal() if sys.stderr.isatty() else None
    except (AttributeError, ValueError):  # there is no standard error, or it is closed
        return None


@cache
def _terminal() -> Bars:
    """One for the process, as its writes share one terminal."""
    return Bars(_Screen(stderr=True))


class _Screen(Console):
    def on_broken_pipe(self) -> None:
        """Say no more. What rich does otherwise is to close standard output and to exit."""
        self.quiet = True


class Bars:
    """Bars on one console; those of stages at the same time stand below each other."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = Lock()
        self._drawn: rich_progress.Progress | None = None
        self._under_way = 0

    def begin(self, title: str, total: int | None) -> Bar:
        with self._lock:
            drawn = self._drawn or _drawing(self._console)
            drawn.start()
            task = drawn.add_task(title, total=total, made="")
            self._drawn = drawn
            self._under_way += 1
            return _Bar(self, drawn, task)

    def end(self) -> None:
        """One of the stages is over; with the last one the display ends, and its bars stay."""
        with self._lock:
            self._under_way -= 1
            if self._drawn and not self._under_way:
                drawn, self._drawn = self._drawn, None
                drawn.stop()


@dataclass(frozen=True, slots=True)
class _Bar:
    bars: Bars
    drawn: rich_progress.Progress
    task: rich_progress.TaskID

    def show(self, done: int, total: int | None, made: Measure) -> None:
        self.drawn.update(self.task, completed=done, total=total, made=format_measure(made))

    def end(self) -> None:
        self.drawn.stop_task(self.task)
        self.bars.end()


def _drawing(console: Console) -> rich_progress.Progress:
    return rich_progress.Progress(
        rich_progress.TextColumn("{task.description:<17}", markup=False),
        rich_progress.BarColumn(bar_width=16),
        rich_progress.MofNCompleteColumn(),
        rich_progress.TextColumn("{task.fields[made]}", markup=False),
        rich_progress.TimeElapsedColumn(),
        console=console,
        # What others print stays where they print it: standard output may be a file.
        redirect_stdout=False,
        redirect_stderr=False,
    )


def format_measure(made: Measure) -> str:
    """What was made, for people: nothing about what there is none of."""
    counts = ((made.rows, "row"), (made.files, "file"))
    parts = [f"{count:,} {word}{'s' * (count != 1)}" for count, word in counts if count]
    if made.bytes:
        units = ["B", "KiB", "MiB", "GiB"]
        unit, suffix = filesize.pick_unit_and_suffix(made.bytes, units, 1024)
        parts.append(f"{made.bytes / unit:.{int(unit > 1)}f} {suffix}")
    return ", ".join(parts)
