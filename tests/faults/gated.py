"""A table's storage and engine with gates in them. What is tested stays as it is.

Both are values that Spark carries to its workers; this module is on their path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import IO, Any

import pyarrow as pa

from lentic.engine import Attempt, Handle, Shuffle
from lentic.errors import LenticError
from lentic.format import layout
from lentic.spark.engine import SparkEngine
from lentic.storage.base import FileInfo
from lentic.storage.local import LocalStorage
from tests.faults.control import Control, Point

_COMPLETED = ".completed.json"
_FINALIZED = ".finalized.json"


@dataclass(slots=True)
class _Here:
    """What is going on in this process: a worker's attempt, or what the driver has to do before
    and after it creates a file."""

    attempt: Attempt | None = None
    before: Callable[[str], None] | None = None
    after: Callable[[str], None] | None = None


HERE = _Here()


@dataclass(frozen=True, slots=True)
class GatedStorage(LocalStorage):
    """`blind`: workers never see the finalize marker. It shows that the tests would find out."""

    control: Control
    blind: bool = False

    def info(self, path: str) -> FileInfo | None:
        if self.blind and HERE.attempt is not None and path.endswith(_FINALIZED):
            return None
        return LocalStorage.info(self, path)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        is_completion = path.startswith(layout.COMPLETIONS) and path.endswith(_COMPLETED)
        if is_completion:
            self._come_to(Point.BEFORE_COMPLETION)
        elif path.startswith(layout.TEMP):
            self._come_to(Point.BEFORE_MARKER)
        if HERE.before is not None:
            HERE.before(path)
        done = LocalStorage.put_if_absent(self, path, data)
        if HERE.after is not None:
            HERE.after(path)
        if is_completion:
            self._come_to(Point.AFTER_COMPLETION)
        return done

    @contextmanager
    def open_output(self, path: str) -> Iterator[IO[bytes]]:
        self._come_to(Point.BEFORE_DATA)
        with LocalStorage.open_output(self, path) as file:
            yield file
            file.flush()
            self._come_to(Point.IN_DATA)
        self._come_to(Point.AFTER_DATA)

    def _come_to(self, point: Point) -> None:
        if HERE.attempt is not None:
            self.control.come_to(point, HERE.attempt)


@dataclass(frozen=True, slots=True)
class GatedHandle:
    """A handle that tells when it begins and how it ends."""

    handle: Handle
    control: Control

    def __call__(self, attempt: Attempt, batches: Iterator[pa.RecordBatch]) -> Iterator[str]:
        HERE.attempt = attempt
        try:
            self.control.come_to(Point.START, attempt)
            texts = list(self.handle(attempt, batches))
            self.control.come_to(Point.END, attempt)
        except LenticError as error:
            self.control.note_end(attempt, type(error).__name__, [])
            raise
        finally:
            HERE.attempt = None
        self.control.note_end(attempt, None, texts)
        return iter(texts)


class GatedEngine(SparkEngine):
    """Runs handles with gates."""

    def __init__(self, spark: Any, control: Control) -> None:
        super().__init__(spark)
        self.control = control

    def shuffle(self, source: Any, shuffle: Shuffle) -> list[str]:
        handle = GatedHandle(shuffle.handle, self.control)
        return super().shuffle(source, replace(shuffle, handle=handle))
