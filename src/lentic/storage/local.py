"""Files on a POSIX file system.

Invariants:

- A name made by `put_if_absent` or `replace` holds whole content from the moment it is visible:
  the bytes go to a temporary file `.lentic-<random>.tmp` in the same directory, are synced, and the
  file then gets its name by `link` (which refuses an existing name) or `rename`. A crash leaves at
  worst a temporary file, which no listing shows.
- What returned is durable: file and directory are synced, and so is each directory newly made.
  Deletes are not synced; after a power cut a deleted file may be back.
- No symbolic link leads out of the root. The check resolves real paths before each call; it guards
  against links that are there, not against somebody swapping directories during the call.
- Hadoop's local file system keeps a checksum beside each file (`.<name>.crc`) and refuses a file
  that does not match it. So the checksum goes away before its file is written, replaced or deleted.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any, TypeVar

from lentic.errors import InvalidPath, MissingFile, StorageError
from lentic.storage.base import FileInfo, checked_directory, checked_path

T = TypeVar("T")

_FILE_MODE = 0o664  # less the umask; never writable by everybody
_DIRECTORY_MODE = 0o775
_READ_BUFFER_BYTES = 64 * 1024
_WRITE_BUFFER_BYTES = 256 * 1024
_DIRECTORY_TRIES = 10

# What an operator can do, by cause. Anything else is explained by its own text.
_GIVE_ACCESS = "give this user access to the file and its directory, then repeat the call"
_NEED_LINKS = "creating a file only once needs a file system with hard links"
_NEXT_STEPS = {
    errno.EACCES: _GIVE_ACCESS,
    errno.EPERM: f"{_GIVE_ACCESS}; {_NEED_LINKS}",
    errno.EOPNOTSUPP: _NEED_LINKS,
    errno.EEXIST: "choose a name that no other attempt uses: an output is never written twice",
    errno.EROFS: "mount the file system writable, then repeat the call",
    errno.ENOSPC: "free disk space, then repeat the call",
    errno.EDQUOT: "raise the disk quota or free space, then repeat the call",
    errno.EMFILE: "raise the limit of open files (ulimit -n), then repeat the call",
    errno.EIO: "check the disk (dmesg), then repeat the call",
}
_CHANGING_VERBS = ("create", "write", "delete")
_NOTHING_CHANGED = "nothing was changed"
_WHOLE_OR_NOTHING = (
    "the name holds its old content, the whole new content or nothing; look before you repeat"
)


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """The files under the directory `root`, which need not exist yet."""

    root: str

    def read(self, path: str) -> bytes:
        with _reported("read", path), open(self._existing(path), "rb", buffering=0) as file:
            return file.read()

    def open_input(self, path: str) -> IO[bytes]:
        with _reported("read", path):
            raw = _Input(self._existing(path), path)
        return io.BufferedReader(raw, _READ_BUFFER_BYTES)

    def info(self, path: str) -> FileInfo | None:
        try:
            with _reported("look at", path):
                status = os.stat(self._existing(path))
        except MissingFile:
            return None
        return _file_info(path, status) if stat.S_ISREG(status.st_mode) else None

    def list_files(self, directory: str) -> list[FileInfo]:
        return sorted(
            (info for info in self._entries(directory) if isinstance(info, FileInfo)),
            key=lambda info: info.path,
        )

    def list_folders(self, directory: str) -> list[str]:
        return sorted(entry for entry in self._entries(directory) if isinstance(entry, str))

    def walk(self, directory: str) -> list[FileInfo]:
        found: list[FileInfo] = []
        waiting = [directory]
        while waiting:
            for entry in self._entries(waiting.pop()):
                if isinstance(entry, FileInfo):
                    found.append(entry)
                else:
                    waiting.append(entry)
        return sorted(found, key=lambda info: info.path)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        with _reported("create", path):
            return self._make_file(path, lambda target: _link_if_absent(target, path, data))

    def replace(self, path: str, data: bytes) -> None:
        with _reported("write", path):
            self._make_file(path, lambda target: _put_in_place(target, data))

    @contextmanager
    def open_output(self, path: str) -> Iterator[IO[bytes]]:
        with _reported("create", path):
            target, handle = self._make_file(path, _open_new)
        raw = _Output(handle, path)
        file = io.BufferedWriter(raw, _WRITE_BUFFER_BYTES)
        try:
            yield file
            with _reported("write", path):
                file.close()
                _sync_directory(os.path.dirname(target))
        except BaseException:
            raw.abandon()
            with suppress(OSError):
                file.close()
            with suppress(OSError):
                os.unlink(target)
            raise

    def delete(self, path: str) -> bool:
        with _reported("delete", path):
            parent, _, name = checked_path(path).rpartition("/")
            target = os.path.join(self._inside(parent), name)
            _drop_checksum(target)
            try:
                os.unlink(target)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return False
        return True

    def prune(self, directory: str) -> None:
        with suppress(OSError, StorageError):
            top = self._inside(checked_path(directory))
            for found, _, _ in os.walk(top, topdown=False):
                with suppress(OSError):  # which it is, of a directory that holds anything
                    os.rmdir(found)

    def _entries(self, directory: str) -> Iterator[FileInfo | str]:
        """The files of one directory as `FileInfo`, its directories as paths.

        A directory reached by a link inside the root is left out: its files have a path of their
        own. A link that leads outside is refused rather than left out, lest rows go missing.
        """
        prefix = f"{checked_directory(directory)}/" if directory else ""
        with _reported("list", directory or self.root):
            try:
                entries = list(os.scandir(self._inside(directory)))
            except (FileNotFoundError, NotADirectoryError):
                return
            for entry in entries:
                if is_hidden(entry.name):
                    continue
                path = prefix + entry.name
                if entry.is_symlink():
                    self._inside(path)
                if entry.is_file():
                    try:
                        status = entry.stat()
                    except FileNotFoundError:
                        continue  # deleted since the directory was read
                    yield _file_info(path, status)
                elif entry.is_dir(follow_symlinks=False):
                    yield path

    def _existing(self, path: str) -> str:
        """The absolute path of a file to read, every link resolved."""
        return self._inside(checked_path(path))

    def _make_file(self, path: str, make: Callable[[str], T]) -> T:
        """What `make` gives for the absolute path of a file to write.

        Another process may take the directory for one that nobody needs (`prune`) before there is
        anything in it. A store without directories knows no such thing, so then it is made again.
        """
        for _ in range(_DIRECTORY_TRIES):
            with suppress(FileNotFoundError):
                return make(self._ready_for(path))
        return make(self._ready_for(path))

    def _ready_for(self, path: str) -> str:
        """The absolute path of a file to write, its directory resolved and made if need be."""
        parent, _, name = checked_path(path).rpartition("/")
        directory = self._inside(parent)
        _make_directory(directory)
        return os.path.join(directory, name)

    def _inside(self, path: str) -> str:
        """The real path of `path`; `InvalidPath` if links lead it out of the root."""
        real_root = os.path.realpath(self.root)
        real = os.path.realpath(os.path.join(real_root, path))
        if real != real_root and not real.startswith(os.path.join(real_root, "")):
            raise InvalidPath(
                f"Path {path!r} leads out of the table through a symbolic link.",
                where=self.root,
                safe="nothing was read, written or deleted there",
                next_step="replace the link by a real directory or file",
            )
        return real


def is_hidden(name: str) -> bool:
    """Whether listings leave the name out: temporary files of ours and checksums of Hadoop."""
    return name.startswith(".") and (
        name.endswith(".crc") or (name.startswith(".lentic-") and name.endswith(".tmp"))
    )


class _Input(io.FileIO):
    """A file to read whose failures are `StorageError`."""

    def __init__(self, real_path: str, path: str) -> None:
        super().__init__(real_path, "rb")
        self._path = path

    def readinto(self, buffer: Any, /) -> int:
        with _reported("read", self._path):
            return super().readinto(buffer)

    def readall(self) -> bytes:
        with _reported("read", self._path):
            return super().readall()


class _Output(io.FileIO):
    """A file to write whose failures are `StorageError`; durable when closed, by whomever."""

    def __init__(self, handle: int, path: str) -> None:
        super().__init__(handle, "wb")
        self._path = path
        self._abandoned = False

    def abandon(self) -> None:
        """Swallow what buffers above still want to write: the file is about to be removed."""
        self._abandoned = True

    def write(self, data: Any, /) -> int:
        if self._abandoned:
            return len(data)
        with _reported("write", self._path):
            return super().write(data)

    def close(self) -> None:
        with _reported("write", self._path):
            try:
                if not self.closed and not self._abandoned:
                    os.fsync(self.fileno())
            finally:
                super().close()


def _file_info(path: str, status: os.stat_result) -> FileInfo:
    return FileInfo(path, status.st_size, status.st_mtime_ns // 1_000_000)


def _is_file_there(target: str, path: str) -> bool:
    """Whether the name is taken by a file; a directory of that name is an error."""
    try:
        mode = os.lstat(target).st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    return True


def _link_if_absent(target: str, path: str, data: bytes) -> bool:
    if _is_file_there(target, path):
        return False  # spares the loser of an old race the write
    with _temporary_file(target, data) as temporary:
        _drop_checksum(target)
        try:
            os.link(temporary, target, follow_symlinks=False)
        except FileExistsError:
            _is_file_there(target, path)
            return False
    _sync_new(target)
    return True


def _put_in_place(target: str, data: bytes) -> None:
    with _temporary_file(target, data) as temporary:
        _drop_checksum(target)
        os.replace(temporary, target)
    _sync_new(target)


def _open_new(target: str) -> tuple[str, int]:
    _drop_checksum(target)
    return target, os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)


def _sync_new(target: str) -> None:
    """Make the name of a new file durable. Without its directory the file has gone, too, and must
    not be made again: somebody saw and deleted it."""
    with suppress(FileNotFoundError):
        _sync_directory(os.path.dirname(target))


@contextmanager
def _temporary_file(target: str, data: bytes) -> Iterator[str]:
    """A synced file with `data` beside `target`, gone when the block ends."""
    name = f".lentic-{os.urandom(8).hex()}.tmp"
    temporary = os.path.join(os.path.dirname(target), name)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
    try:
        with open(handle, "wb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
            os.fsync(handle)
        yield temporary
    finally:
        # After a rename it has gone; one that stays behind is never listed and does no harm.
        with suppress(OSError):
            os.unlink(temporary)


def _drop_checksum(target: str) -> None:
    """Remove Hadoop's checksum of `target`, if there is one."""
    directory, name = os.path.split(target)
    try:
        os.unlink(os.path.join(directory, f".{name}.crc"))
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:  # then no such file can exist
            raise


def _make_directory(directory: str) -> None:
    """Make the directory and those above it, each durable in its parent."""
    try:
        os.mkdir(directory, _DIRECTORY_MODE)
    except FileExistsError:
        if not os.path.isdir(directory):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), directory) from None
        return
    except FileNotFoundError:
        _make_directory(os.path.dirname(directory))
        with suppress(FileExistsError):
            os.mkdir(directory, _DIRECTORY_MODE)
    _sync_directory(os.path.dirname(directory))


def _sync_directory(directory: str) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _reported(verb: str, path: str) -> Iterator[None]:
    """Turn an `OSError` of the block into an error of ours that helps."""
    try:
        yield
    except OSError as error:
        if verb in ("read", "look at") and isinstance(
            error, FileNotFoundError | NotADirectoryError
        ):
            raise MissingFile(
                f"There is no file {path!r}.",
                where=path,
                safe=_NOTHING_CHANGED,
                next_step="reload the table and try again: the file may have been cleaned",
            ) from error
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise StorageError(
            f"Cannot {verb} {path!r}: {reason}.",
            where=path,
            safe=_WHOLE_OR_NOTHING if verb in _CHANGING_VERBS else _NOTHING_CHANGED,
            next_step=_NEXT_STEPS.get(error.errno or 0, "repeat the call"),
        ) from error
