"""Bytes at paths under one table root: the protocol every backend keeps, and its guarantees.

Paths are relative to the root, `/`-separated, and checked at this boundary: no path leaves the
root. A backend knows nothing of tables, timelines or Parquet. The guarantees stated on the methods
are what the protocols above rely on; `lentic.testing.storage_contract` tests each of them.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import IO, Protocol, runtime_checkable

from lentic.errors import InvalidPath

_SEGMENT_BYTES_MAX = 255
# Control characters, the other system's separator, and halves of characters.
_UNWANTED = re.compile("[\\x00-\\x1f\\x7f\\\\\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One file as the storage lists it."""

    path: str
    size: int
    modified_ms: int

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def directory(self) -> str:
        return self.path.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class Versioned:
    """A file's content, and what the storage calls this version of it."""

    data: bytes
    version: str


class Storage(Protocol):
    """Files under one root. Every method may raise `StorageError`; paths may raise `InvalidPath`.

    An instance is a picklable value, so that it can travel to the workers of a cluster.
    """

    @property
    def root(self) -> str:
        """Where the root is, as users write it (a local path or a URL without secrets)."""

    def read(self, path: str) -> bytes:
        """The whole content; `MissingFile` if there is none."""

    def open_input(self, path: str) -> IO[bytes]:
        """A seekable reader over the content; `MissingFile` if there is none."""

    def info(self, path: str) -> FileInfo | None:
        """Size and time of the file, or None if there is none."""

    def list_files(self, directory: str) -> list[FileInfo]:
        """The files directly in `directory`, sorted by path; empty if there is no such directory.

        Sees every file whose creation returned before the call (list-after-write).
        """

    def walk(self, directory: str) -> list[FileInfo]:
        """The files at any depth under `directory`, sorted by path; "" is the whole root."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create the file with this content, or return False if it exists already.

        Atomic: of several callers one gets True, and no reader ever sees partial content.
        Durable: after True the file survives a crash of the machine.
        """

    def replace(self, path: str, data: bytes) -> None:
        """Create or overwrite. Readers see the old content or the new, never a mixture. Durable."""

    def open_output(self, path: str) -> AbstractContextManager[IO[bytes]]:
        """Write a new file as a stream; durable once the `with` block ends without an exception.

        The name must be the caller's alone (it carries a write token). A crash inside the block may
        leave nothing, a part, or (object stores) nothing at all; an exception removes the part.
        """

    def delete(self, path: str) -> bool:
        """Remove the file; False if there was none. Never an error because it is gone."""

    def prune(self, directory: str) -> None:
        """Forget `directory` and those beneath it as far as they hold no files.

        Only a matter of tidiness, where a backend has directories at all; never an error, but for a
        path that is none (`InvalidPath`).
        """


class FolderStorage(Storage, Protocol):
    """A storage in which one can look for tables."""

    def list_folders(self, directory: str) -> list[str]:
        """The folders directly in `directory` that hold anything, sorted, as paths; none if there
        is no such directory."""


@runtime_checkable
class ConditionalStorage(Storage, Protocol):
    """A storage that can also change a file on the condition that nobody else has."""

    def read_version(self, path: str) -> Versioned | None:
        """The whole content and its version, or None if there is no file."""

    def put_if_match(self, path: str, data: bytes, version: str | None) -> str | None:
        """Replace `version` of the file (None: no file yet) and return the new version, or return
        None if it is not the present one any more.

        `data` must be unlike any other content the file ever has, a nonce in it will do: where a
        reply is lost, the content read back tells whether the change took place (R15). A
        `StorageError` means that this could not be told.
        """


def checked_path(path: str) -> str:
    """`path` itself, if it names something strictly inside the root; else `InvalidPath`.

    The empty path is the root and is legal only for listings, which ask `checked_directory`.
    """
    if not path:
        raise InvalidPath("An empty path names no file.")
    return checked_directory(path)


def checked_directory(path: str) -> str:
    """Like `checked_path`, but the root itself ("") is allowed."""
    if not path:
        return path
    if _UNWANTED.search(path):
        raise InvalidPath(f"Path {path!r} holds a character that names should not have.")
    for segment in path.split("/"):
        if segment in ("", ".", ".."):
            raise InvalidPath(
                f"Path {path!r} would leave the table or is not in plain form.",
                safe="nothing was read or written",
            )
        if len(segment.encode()) > _SEGMENT_BYTES_MAX:
            raise InvalidPath(f"Path segment {segment[:40]!r}… is longer than 255 bytes.")
    return path
