"""The archived timeline: instants that left the active one, in Parquet files under a manifest.

`_version_` names the current `manifest_N`, which lists the files that count; anything else in the
folder is ignored. If `_version_` does not read, the greatest manifest counts, as Hudi does it. What
the manifest names must be there and whole: a missing piece is an error, never "not archived".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from lentic.errors import Corrupt, MissingFile
from lentic.format import layout
from lentic.format.names import Action, State
from lentic.format.times import CompletedAt, RequestedAt
from lentic.storage.base import Storage
from lentic.timeline.instant import Instant

_MANIFEST = re.compile(r"manifest_(\d{1,9})")
_DATA_FILE = re.compile(r"\d+_\d+_\d+\.parquet")
_COLUMNS = ["instantTime", "completionTime", "action", "metadata"]


@dataclass(frozen=True, slots=True)
class History:
    """Archived instants by requested time, oldest first, with the content of completed files."""

    instants: tuple[Instant, ...] = ()
    contents: Mapping[Instant, bytes] = field(default_factory=dict)


def load_history(storage: Storage) -> History:
    """The whole archived timeline; empty if nothing was ever archived."""
    names = {file.name: file for file in storage.list_files(layout.HISTORY)}
    manifest = _current_manifest(storage, names.keys())
    listed = _listed_files(storage, manifest) if manifest else []
    _ensure_none_forgotten(storage, names.keys(), [name for name, _ in listed])
    contents: dict[Instant, bytes] = {}
    for name, length in listed:
        path = f"{layout.HISTORY}/{name}"
        if name not in names:
            raise MissingFile(f"The manifest {manifest} names a file that is gone.", where=path)
        if names[name].size != length:
            raise Corrupt(
                f"The file has {names[name].size} bytes, its manifest says {length}.", where=path
            )
        contents.update(_decode_instants(storage.read(path), path))
    ordered = sorted(contents, key=lambda instant: (instant.requested_at, instant.action))
    return History(tuple(ordered), contents)


def _current_manifest(storage: Storage, names: Iterable[str]) -> str | None:
    """The newest manifest; one that `_version_` does not name yet lists what the older one lists
    and more. `Corrupt` if the one it names is gone."""
    found = {name: int(m[1]) for name in names if (m := _MANIFEST.fullmatch(name))}
    newest = max(found.values(), default=0)
    try:
        wanted = int(storage.read(f"{layout.HISTORY}/_version_"))
    except (MissingFile, ValueError):
        wanted = newest
    if newest < wanted:
        raise _manifest_gone(f"{layout.HISTORY}/manifest_{wanted}")
    return max(found, key=found.__getitem__) if found else None


def _ensure_none_forgotten(storage: Storage, names: Iterable[str], listed: list[str]) -> None:
    """A file that is newer than all that are listed was either written by an archival that died
    before its manifest, and its instants are still active, or its manifest is gone."""
    newest = max((name.split("_")[1] for name in listed), default="")
    files = [name for name in names if _DATA_FILE.fullmatch(name) and name not in listed]
    later = [name for name in files if name.split("_")[0] > newest]
    if not later:
        return
    active = {
        file.name.partition(".")[0].partition("_")[0]
        for file in storage.list_files(layout.TIMELINE)
    }
    for name in later:
        if name.split("_")[0] not in active:
            raise _manifest_gone(f"{layout.HISTORY}/{name}")


def _manifest_gone(where: str) -> Corrupt:
    return Corrupt(
        "The manifest of the archived timeline is gone.",
        where=where,
        safe="nothing was read; the current rows of a table do not need it as a rule",
        next_step="bring the file back from a copy of the table",
    )


def _listed_files(storage: Storage, manifest: str) -> list[tuple[str, int]]:
    path = f"{layout.HISTORY}/{manifest}"
    try:
        files = json.loads(storage.read(path))["files"]
        listed = [(str(file["fileName"]), int(file["fileLen"])) for file in files]
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise Corrupt(f"The manifest does not decode: {error!r}", where=path) from error
    for name, _ in listed:
        if not _DATA_FILE.fullmatch(name):
            raise Corrupt(
                f"The manifest names {name!r}, which is no file of a history.", where=path
            )
    return listed


def _decode_instants(data: bytes, where: str) -> dict[Instant, bytes]:
    try:
        rows = pq.read_table(
            pa.BufferReader(data),
            columns=_COLUMNS,
            use_threads=False,
            page_checksum_verification=True,
        )
        found = {}
        for row in rows.to_pylist():
            instant = Instant(
                RequestedAt.parse(row["instantTime"]),
                Action(row["action"]),
                State.COMPLETED,
                CompletedAt.parse(row["completionTime"]),
            )
            if str(instant.completed_at) <= str(instant.requested_at):
                raise ValueError(f"{instant} completed before it was requested")
            found[instant] = bytes(memoryview(row["metadata"] or b""))
    except (
        pa.ArrowException,
        OSError,
        ValueError,
        KeyError,
        AttributeError,
        TypeError,
        Corrupt,
    ) as error:
        raise Corrupt(f"Archived instants do not decode: {error}", where=where) from error
    times = [instant.requested_at for instant in found]
    name = where.rpartition("/")[2]
    if not times or not name.startswith(f"{min(times)}_{max(times)}_"):
        raise Corrupt("The file does not hold the instants that its name says.", where=where)
    return found
