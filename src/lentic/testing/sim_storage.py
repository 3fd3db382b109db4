"""The storage of a simulation: every call goes over the stage, which may switch actors or crash.

Effects are those of one shared `MemoryStorage`. What a crash leaves of a call is decided here:

- Every call but a stream is atomic: it had its effect (`after`) or not (`before`, `torn`).
- A stream is two calls, `open_output` and `close_output`. Killed in between, or `before` the close,
  it leaves nothing, as an object store would; `torn` leaves a part of what was written under the
  final name, as a disk would, for every stream the actor has open at that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Protocol, TypeVar

from lentic.errors import StorageError
from lentic.storage.base import FileInfo, Versioned
from lentic.storage.memory import MemoryStorage, Output

T = TypeVar("T")


class Crash(BaseException):
    """This actor was killed. Not an `Exception`: no handler of the tested code may survive it."""


class Stage(Protocol):
    """What a simulated storage or lock asks of the scheduler."""

    def call(self, op: str, path: str, effect: Callable[[], T]) -> T:
        """Let others run, then have the effect, unless the actor crashes here."""

    def add_stream(self, tear: Callable[[], object]) -> Callable[[], None]:
        """Call `tear` should the running actor be torn; the result takes that back."""


class SimStorage:
    """A view on `memory` for the actors of one simulation."""

    def __init__(self, memory: MemoryStorage, stage: Stage) -> None:
        self._memory = memory
        self._stage = stage

    @property
    def root(self) -> str:
        return self._memory.root

    def read(self, path: str) -> bytes:
        return self._stage.call("read", path, lambda: self._memory.read(path))

    def open_input(self, path: str) -> IO[bytes]:
        return self._stage.call("open_input", path, lambda: self._memory.open_input(path))

    def info(self, path: str) -> FileInfo | None:
        return self._stage.call("info", path, lambda: self._memory.info(path))

    def list_files(self, directory: str) -> list[FileInfo]:
        return self._stage.call("list_files", directory, lambda: self._memory.list_files(directory))

    def walk(self, directory: str) -> list[FileInfo]:
        return self._stage.call("walk", directory, lambda: self._memory.walk(directory))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return self._stage.call(
            "put_if_absent", path, lambda: self._memory.put_if_absent(path, data)
        )

    def replace(self, path: str, data: bytes) -> None:
        self._stage.call("replace", path, lambda: self._memory.replace(path, data))

    def read_version(self, path: str) -> Versioned | None:
        return self._stage.call("read_version", path, lambda: self._memory.read_version(path))

    def put_if_match(self, path: str, data: bytes, version: str | None) -> str | None:
        return self._stage.call(
            "put_if_match", path, lambda: self._memory.put_if_match(path, data, version)
        )

    def delete(self, path: str) -> bool:
        return self._stage.call("delete", path, lambda: self._memory.delete(path))

    def prune(self, directory: str) -> None:
        self._memory.prune(directory)

    @contextmanager
    def open_output(self, path: str) -> Iterator[IO[bytes]]:
        file = Output()
        forget = self._stage.add_stream(lambda: self._tear(path, file.content()))
        try:
            self._stage.call("open_output", path, lambda: self._ensure_free(path))
            yield file
            self._stage.call("close_output", path, lambda: self._finish(path, file.content()))
        finally:
            forget()

    def _ensure_free(self, path: str) -> None:
        if self._memory.info(path) is not None:
            raise StorageError(f"Cannot create {path!r}: File exists.", where=path)

    def _finish(self, path: str, data: bytes) -> None:
        if not self._memory.put_if_absent(path, data):
            raise StorageError(f"Cannot create {path!r}: File exists.", where=path)

    def _tear(self, path: str, data: bytes) -> None:
        self._memory.put_if_absent(path, data[: len(data) // 2])
