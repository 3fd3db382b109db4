"""Objects in S3, Google Cloud Storage, Azure or memory, through `obstore`.

Invariants:

- An object appears whole or not at all; an upload that is given up leaves nothing to see.
- `put_if_absent` knows its own writes. A request may take effect although its reply is lost, and a
  repeated request then finds the name taken, by itself. So each call marks its object with a nonce
  in the user metadata, and whenever the outcome is not plain, the nonce is read back (R15).
- No secret leaves: `repr`, `root` and errors show neither options nor user info nor query strings.

Uploads that a killed process left half-way cost space, unseen; a lifecycle rule of the bucket that
removes incomplete multipart uploads after a day takes care of them.
"""

from __future__ import annotations

import io
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO, Any, cast
from urllib.parse import urlsplit, urlunsplit

import obstore
from obstore.exceptions import BaseError, UnauthenticatedError
from obstore.exceptions import PermissionDeniedError as DeniedError
from obstore.store import MemoryStore, from_url

from lentic.errors import ConfigError, LenticError, MissingFile, StorageError
from lentic.storage.base import FileInfo, Versioned, checked_directory, checked_path

_NONCE_KEY = "lenticnonce"  # Azure allows letters and digits only
_READ_AHEAD_BYTES = 1024 * 1024
_CLIENT_OPTIONS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "proxy_url",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)
_TELLABLE_OPTIONS = ("endpoint", "region", "allow_http", "timeout")
# obstore raises builtins (FileNotFoundError, NotImplementedError, ValueError) beside its own tree.
_FAILURES = (BaseError, OSError, NotImplementedError, ValueError)

_stores: dict[tuple[str, tuple[tuple[str, str], ...]], Any] = {}
_stores_lock = threading.Lock()


@dataclass(frozen=True, slots=True, repr=False)
class ObjectStorage:
    """The objects under a URL such as `s3://bucket/prefix`; `options` go to obstore."""

    url: str
    options: tuple[tuple[str, str], ...] = field(default=())

    def __repr__(self) -> str:
        return f"ObjectStorage({self.root!r})"

    @property
    def root(self) -> str:
        return _without_secrets(self.url)

    def read(self, path: str) -> bytes:
        with self._reported("read", checked_path(path)):
            return bytes(obstore.get(self._store(), path).bytes())

    def open_input(self, path: str) -> IO[bytes]:
        with self._reported("read", checked_path(path)):
            size = obstore.head(self._store(), path)["size"]
        return cast("IO[bytes]", _Input(self, path, size))

    def read_range(self, path: str, *, start: int, length: int) -> bytes:
        """`length` bytes from `start` on; `length` is at least 1."""
        with self._reported("read", path):
            return bytes(obstore.get_range(self._store(), path, start=start, length=length))

    def info(self, path: str) -> FileInfo | None:
        with self._reported("look at", checked_path(path)):
            try:
                return _file_info(obstore.head(self._store(), path))
            except FileNotFoundError:
                return None

    def list_files(self, directory: str) -> list[FileInfo]:
        prefix = checked_directory(directory) or None
        with self._reported("list", directory or self.root):
            found = obstore.list_with_delimiter(self._store(), prefix)["objects"]
        return sorted(map(_file_info, found), key=lambda info: info.path)

    def list_folders(self, directory: str) -> list[str]:
        prefix = checked_directory(directory) or None
        with self._reported("list", directory or self.root):
            found = obstore.list_with_delimiter(self._store(), prefix)["common_prefixes"]
        return sorted(path.rstrip("/") for path in found)

    def walk(self, directory: str) -> list[FileInfo]:
        prefix = checked_directory(directory) or None
        with self._reported("list", directory or self.root):
            found = obstore.list(self._store(), prefix, chunk_size=1000).collect()
        return sorted(map(_file_info, found), key=lambda info: info.path)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        nonce = os.urandom(16).hex()
        # A second attempt is safe: should both take effect, the nonce tells that they are one.
        for is_last in (False, True):
            try:
                self._create(checked_path(path), data, nonce)
                return True
            except (DeniedError, UnauthenticatedError, NotImplementedError) as error:
                raise self._error("create", path, error) from None
            except _FAILURES as error:
                # "Exists already" is no proof either: the library says so on 409 too, by which a
                # store tells that requests met, and nobody may have created anything.
                holder = self._nonce_at(path)
                if holder is not None:
                    return holder == nonce
                if is_last:
                    raise self._error("create", path, error) from None
        raise AssertionError("unreachable")

    def replace(self, path: str, data: bytes) -> None:
        with self._reported("write", checked_path(path)):
            obstore.put(self._store(), path, data, mode="overwrite", use_multipart=False)

    def read_version(self, path: str) -> Versioned | None:
        with self._reported("read", checked_path(path)):
            try:
                found = obstore.get(self._store(), path)
                return Versioned(bytes(found.bytes()), _version(found.meta))
            except FileNotFoundError:
                return None

    def put_if_match(self, path: str, data: bytes, version: str | None) -> str | None:
        mode: Any = "create" if version is None else {"e_tag": version}
        try:
            made = obstore.put(
                self._store(), checked_path(path), data, mode=mode, use_multipart=False
            )
            return _version(made)
        except (DeniedError, UnauthenticatedError, NotImplementedError) as error:
            raise self._error("change", path, error) from None
        except _FAILURES as error:
            # The library repeats requests: one that took effect may be refused the second time.
            now = self.read_version(path)
            if now is not None and now.data == data:
                return now.version
            if (now.version if now else None) != version:
                return None  # whatever became of the request, it cannot match any more
            raise self._error("change", path, error) from None

    @contextmanager
    def open_output(self, path: str) -> Iterator[IO[bytes]]:
        with self._reported("create", checked_path(path)):
            upload = _Upload(self, path, obstore.open_writer(self._store(), path))
        try:
            yield cast("IO[bytes]", upload)
        except BaseException as error:
            upload.abandon(error)
            raise
        upload.finish()

    def delete(self, path: str) -> bool:
        if self.info(path) is None:
            return False
        with self._reported("delete", path):
            try:
                obstore.delete(self._store(), path)
            except FileNotFoundError:
                return False
        return True

    def prune(self, directory: str) -> None:
        checked_path(directory)

    def _create(self, path: str, data: bytes, nonce: str) -> None:
        marks: Any = {_NONCE_KEY: nonce}
        obstore.put(self._store(), path, data, mode="create", attributes=marks)

    def _nonce_at(self, path: str) -> str | None:
        """The nonce of the object at `path`, "" if it has none, None if there is no object."""
        with self._reported("read back", path):
            try:
                return str(obstore.get(self._store(), path).attributes.get(_NONCE_KEY, ""))
            except FileNotFoundError:
                return None

    def _store(self) -> Any:
        """The client, made once per process: connections are shared, and pickles stay small."""
        with _stores_lock:
            store = _stores.get((self.url, self.options))
            if store is None:
                store = _stores[(self.url, self.options)] = self._connect()
            return store

    def _connect(self) -> Any:
        if self.url.startswith("memory:"):
            return MemoryStore()
        client, config = _split_options(dict(self.options))
        connect: Any = from_url  # its types know each option by name
        try:
            return connect(self.url, config=config, client_options=client)
        except BaseException as error:
            # The library panics (a BaseException) on some wrong options.
            if isinstance(error, KeyboardInterrupt | SystemExit | LenticError):
                raise
            raise ConfigError(
                f"Cannot use this storage: {self._tellable(error)}",
                where=self.root,
                safe="nothing was read or written",
                next_step="check the URL and the storage options (names as in obstore)",
            ) from None

    @contextmanager
    def _reported(self, verb: str, path: str) -> Iterator[None]:
        try:
            yield
        except _FAILURES as error:
            raise self._error(verb, path, error) from None

    def _error(self, verb: str, path: str, error: BaseException) -> StorageError:
        where = f"{self.root.rstrip('/')}/{path}" if path != self.root else path
        if isinstance(error, FileNotFoundError):
            return MissingFile(
                f"There is no object {path!r}.",
                where=where,
                safe="nothing was changed",
                next_step="reload the table and try again: the file may have been cleaned",
            )
        next_step = "check that the network and the store are up, then repeat the call"
        if isinstance(error, DeniedError | UnauthenticatedError):
            next_step = "check the credentials and the bucket policy, then repeat the call"
        is_changing = verb in ("create", "change", "write", "delete", "read back")
        return StorageError(
            f"Cannot {verb} {path!r}: {self._tellable(error)}",
            where=where,
            safe="the outcome is unknown: the object is whole, old or absent; delete nothing "
            "and look before you repeat"
            if is_changing
            else "nothing was changed",
            next_step=next_step,
        )

    def _tellable(self, error: BaseException) -> str:
        """The first line of an error, freed from anything that may be a secret."""
        text = str(error).partition("\n")[0]
        for key, value in self.options:
            if len(value) > 3 and not key.lower().endswith(_TELLABLE_OPTIONS):
                text = text.replace(value, "***")
        text = re.sub(r"://[^/@\s]+@", "://", text)
        return re.sub(r"\?[^\s]*", "?***", text)


class _Input(io.RawIOBase):
    """A seekable reader by ranges: big reads go straight through, small ones read ahead."""

    def __init__(self, storage: ObjectStorage, path: str, size: int) -> None:
        self._storage, self._path, self._size = storage, path, size
        self._position = 0
        self._window_start, self._window = 0, b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"negative position {base + offset}")
        self._position = base + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        left = max(self._size - self._position, 0)
        wanted = left if size is None or size < 0 else min(size, left)
        data = self._fetch(wanted) if wanted else b""
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        return self.read(-1)

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _fetch(self, wanted: int) -> bytes:
        start = self._position - self._window_start
        if not 0 <= start <= start + wanted <= len(self._window):
            length = min(max(wanted, _READ_AHEAD_BYTES), self._size - self._position)
            data = self._storage.read_range(self._path, start=self._position, length=length)
            if wanted >= _READ_AHEAD_BYTES:
                return data
            self._window_start, self._window, start = self._position, data, 0
        return self._window[start : start + wanted]


class _Upload(io.RawIOBase):
    """A stream into one new object, which appears when the upload is finished."""

    def __init__(self, storage: ObjectStorage, path: str, writer: Any) -> None:
        self._storage, self._path, self._writer = storage, path, writer
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        if self.closed:
            raise ValueError("write to closed file")
        view = memoryview(data).cast("B")
        with self._storage._reported("write", self._path):
            self._writer.write(view)
        self._position += len(view)
        return len(view)

    def finish(self) -> None:
        """Make the object appear."""
        with self._storage._reported("write", self._path):
            self._writer.close()
        self.close()

    def abandon(self, error: BaseException) -> None:
        """Throw away what was sent. Failing to do so leaves parts that nobody can see."""
        with suppress(*_FAILURES):
            self._writer.__exit__(type(error), error, error.__traceback__)
        self.close()


def _file_info(meta: Mapping[str, Any]) -> FileInfo:
    return FileInfo(meta["path"], meta["size"], int(meta["last_modified"].timestamp() * 1000))


def _version(meta: Mapping[str, Any]) -> str:
    """What a conditional request calls the version of an object; without one nothing is safe."""
    if not meta.get("e_tag"):
        raise ConfigError(
            "This store gives its objects no e-tags, so nothing can be changed under a condition.",
            safe="nothing was changed",
            next_step="choose another lock: hoodie.write.lock.provider",
        )
    return str(meta["e_tag"])


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _split_options(options: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The options of the HTTP client, and those of the store itself."""
    client: dict[str, Any] = {}
    config: dict[str, str] = {}
    for key, value in options.items():
        name = re.sub(r"^(aws|azure|google)_", "", key.lower())
        if name in _CLIENT_OPTIONS:
            client[name] = value
        else:
            config[key] = value
    return client, config
