"""A file that one holder at a time may read and write: `flock` on an open file.

The operating system frees the lock when its holder ends, however it ends, so there is no lease to
expire and nothing to clean up. The lock belongs to the open file, hence it also excludes threads of
one process. Network file systems do not all keep this promise; it is meant for local disks.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lentic.errors import LockTimeout, StorageError
from lentic.world import Clock

_CONTENT_BYTES_MAX = 64 * 1024
_WAIT_S_MIN = 0.001
_WAIT_S_MAX = 0.05


class LockedFile:
    """The content of a locked file. Valid only inside the `with` block that gave it."""

    def __init__(self, path: str, handle: int) -> None:
        self._path = path
        self._handle = handle

    def read(self) -> bytes:
        """The whole content, up to 64 KiB."""
        return os.pread(self._handle, _CONTENT_BYTES_MAX, 0)

    def write(self, data: bytes) -> None:
        """Put `data` in place of the content, durably.

        Not atomic for a power cut, unless `data` is as long as the content and fits one sector.
        """
        assert len(data) <= _CONTENT_BYTES_MAX
        try:
            done = 0
            while done < len(data):
                done += os.pwrite(self._handle, data[done:], done)
            os.ftruncate(self._handle, len(data))
            os.fsync(self._handle)
        except OSError as error:
            raise _failed("write", self._path, error) from error

    def is_in_place(self) -> bool:
        """Whether the path still names this file. If not, others may lock the new one."""
        return _is_same_file(self._handle, self._path)


@contextmanager
def locked_file(
    path: str,
    timeout_s: float,
    clock: Clock,
    busy: Callable[[bytes], LockTimeout],
) -> Iterator[LockedFile]:
    """Hold the lock on the file at `path`, made with its directories if need be.

    After `timeout_s` in vain the error is what `busy` makes of the content the holder left there.
    """
    handle = _acquire(path, timeout_s, clock, busy)
    try:
        yield LockedFile(path, handle)
    finally:
        os.close(handle)


def _acquire(
    path: str, timeout_s: float, clock: Clock, busy: Callable[[bytes], LockTimeout]
) -> int:
    deadline = clock.monotonic() + timeout_s
    wait_s = _WAIT_S_MIN
    while True:
        handle = _open(path)
        try:
            if _is_locked_now(handle) and _is_same_file(handle, path):
                return handle
            content = os.pread(handle, _CONTENT_BYTES_MAX, 0)
        except OSError as error:
            os.close(handle)
            raise _failed("lock", path, error) from error
        os.close(handle)
        left_s = deadline - clock.monotonic()
        if left_s <= 0:
            raise busy(content)
        clock.sleep(min(wait_s, left_s))
        wait_s = min(wait_s * 2, _WAIT_S_MAX)


def _open(path: str) -> int:
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o664)
    except OSError as error:
        raise _failed("open", path, error) from error


def _is_locked_now(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_same_file(handle: int, path: str) -> bool:
    """Whether `path` names the open file: a deleted lock file is no lock any more."""
    try:
        there = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(handle), there)


def _failed(verb: str, path: str, error: OSError) -> StorageError:
    return StorageError(
        f"Cannot {verb} the lock file {path!r}: {os.strerror(error.errno or 0)}.",
        where=path,
        safe="the lock is not held and nothing was changed under it",
        next_step="give this user access to the directory and free disk space, then try again",
    )
