"""Files in the memory of this process, with the guarantees of a real storage.

For tests, examples and the simulation. Content is a `dict` under one lock; a stream appears whole
when its block ends. The value pickles by name: within one process every copy sees the same files,
and another process, which cannot, is told so.
"""

from __future__ import annotations

import io
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from lentic.errors import MissingFile, StorageError
from lentic.storage.base import FileInfo, Versioned, checked_directory, checked_path

_alive: weakref.WeakValueDictionary[str, MemoryStorage] = weakref.WeakValueDictionary()


class MemoryStorage:
    """A private set of files. `now_ms` dates them; without it they are numbered in order.

    `root` is what it calls itself, if files that name the root must not differ from run to run.
    """

    def __init__(self, now_ms: Callable[[], int] | None = None, *, root: str = "") -> None:
        self._name = os.urandom(8).hex()
        self._root = root or f"memory://{self._name}"
        self._files: dict[str, tuple[bytes, int, str]] = {}
        self._versions = itertools.count(1)
        self._lock = threading.RLock()
        self._now_ms = now_ms or itertools.count(1).__next__
        _alive[self._name] = self

    def __reduce__(self) -> tuple[object, ...]:
        return (_find, (self._name,))

    @property
    def root(self) -> str:
        return self._root

    def read(self, path: str) -> bytes:
        with self._lock:
            found = self._files.get(checked_path(path))
        if found is None:
            raise MissingFile(
                f"There is no file {path!r}.",
                where=path,
                safe="nothing was changed",
                next_step="reload the table and try again: the file may have been cleaned",
            )
        return found[0]

    def open_input(self, path: str) -> IO[bytes]:
        return io.BytesIO(self.read(path))

    def info(self, path: str) -> FileInfo | None:
        with self._lock:
            found = self._files.get(checked_path(path))
        return None if found is None else FileInfo(path, len(found[0]), found[1])

    def list_files(self, directory: str) -> list[FileInfo]:
        directory = checked_directory(directory)
        return self._list(lambda path: path.rpartition("/")[0] == directory)

    def list_folders(self, directory: str) -> list[str]:
        prefix = f"{checked_directory(directory)}/" if directory else ""
        below = (file.path.removeprefix(prefix) for file in self.walk(directory))
        return sorted({prefix + path.partition("/")[0] for path in below if "/" in path})

    def walk(self, directory: str) -> list[FileInfo]:
        prefix = f"{checked_directory(directory)}/" if directory else ""
        return self._list(lambda path: path.startswith(prefix))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        with self._lock:
            if checked_path(path) in self._files:
                return False
            self._set(path, data)
            return True

    def replace(self, path: str, data: bytes) -> None:
        with self._lock:
            self._set(checked_path(path), data)

    def read_version(self, path: str) -> Versioned | None:
        with self._lock:
            found = self._files.get(checked_path(path))
        return None if found is None else Versioned(found[0], found[2])

    def put_if_match(self, path: str, data: bytes, version: str | None) -> str | None:
        with self._lock:
            found = self._files.get(checked_path(path))
            if (found[2] if found else None) != version:
                return None
            return self._set(path, data)

    def _set(self, path: str, data: bytes) -> str:
        version = str(next(self._versions))
        self._files[path] = (bytes(data), self._now_ms(), version)
        return version

    @contextmanager
    def open_output(self, path: str) -> Iterator[IO[bytes]]:
        if self.info(path) is not None:
            raise _taken(path)
        file = Output()
        yield file
        if not self.put_if_absent(path, file.content()):
            raise _taken(path)

    def delete(self, path: str) -> bool:
        with self._lock:
            return self._files.pop(checked_path(path), None) is not None

    def prune(self, directory: str) -> None:
        checked_path(directory)

    def _list(self, is_wanted: Callable[[str], bool]) -> list[FileInfo]:
        with self._lock:
            return [
                FileInfo(path, len(self._files[path][0]), self._files[path][1])
                for path in sorted(filter(is_wanted, self._files))
            ]


class Output(io.BytesIO):
    """A buffer whose content outlives `close`, for callers that close what they are given."""

    def __init__(self) -> None:
        super().__init__()
        self._final = b""

    def content(self) -> bytes:
        """Everything written so far."""
        return self._final if self.closed else self.getvalue()

    def close(self) -> None:
        if not self.closed:
            self._final = self.getvalue()
        super().close()


def _taken(path: str) -> StorageError:
    return StorageError(
        f"Cannot create {path!r}: File exists.",
        where=path,
        safe="the existing file was not changed",
        next_step="choose a name that no other attempt uses: an output is never written twice",
    )


def _find(name: str) -> MemoryStorage:
    """The storage of that name in this process."""
    found = _alive.get(name)
    if found is None:
        raise StorageError(
            f"Memory storage {name} lives in another process.",
            next_step="use a directory or an object store when work is spread over processes",
        )
    return found
