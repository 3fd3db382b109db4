"""Attempts at shares of a write, made by hand."""

from __future__ import annotations

from lentic.format import layout
from lentic.format.names import BaseFileName
from lentic.storage.base import Storage
from lentic.write import completion
from lentic.write.completion import Share
from lentic.write.status import WriteStatus
from tests.unit.builders import requested, stat, time

AT = requested(1)
SHARE = Share("p", "fg", task=0)
FOLDER = f".hoodie/.completion/{time(1)}"


def path_of(number: int, share: Share = SHARE) -> str:
    """Where the attempt of that number at the share puts its file."""
    token = f"{share.task}-7{share.round}-{number}"
    return layout.data_file(share.partition, str(BaseFileName(share.file_id, token, AT)))


def status_of(path: str, size: int = 10) -> WriteStatus:
    return WriteStatus(stat(path, size=size), 1, 2, 3)


def write(storage: Storage, number: int, share: Share = SHARE) -> WriteStatus:
    """The data file of one attempt, durable, and its status."""
    status = status_of(path_of(number, share))
    assert storage.put_if_absent(status.stat.path, b"0123456789")
    return status


def attempt(storage: Storage, number: int, share: Share = SHARE) -> tuple[WriteStatus, ...]:
    """One attempt as a handle makes it, without the finalize marker."""
    found = completion.find_completed(storage, AT, share)
    if found is not None:
        return found
    return completion.complete(storage, AT, share, [write(storage, number, share)])


def forge(body: object) -> bytes:
    """A file whose checksum is right whatever the body says."""
    return completion._seal(completion._canonical(body))
