"""Which files make the archived timeline: their names and the manifest that lists them, both ways.

<min>_<max>_<level>.parquet  instants requested from `min` to `max`, both inclusive
manifest_<N>                 JSON: the files that count as of change N, each with its length
_version_                    N of the newest manifest
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from lentic.errors import Corrupt
from lentic.format.times import RequestedAt

_NAME = re.compile(r"([0-9]{1,32})_([0-9]{1,32})_([0-9]{1,4})\.parquet")
_MANIFEST = re.compile(r"manifest_([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class HistoryName:
    """The name of a file of archived instants."""

    first: RequestedAt
    last: RequestedAt
    level: int

    def __str__(self) -> str:
        return f"{self.first}_{self.last}_{self.level}.parquet"

    def overlaps(self, other: HistoryName) -> bool:
        """Whether an instant could be in both."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file that a manifest lists, and the length it says it has."""

    name: HistoryName
    length: int


def parse_history_name(name: str) -> HistoryName | None:
    """The name of a file of archived instants, or None for another file."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    return HistoryName(RequestedAt(found[1]), RequestedAt(found[2]), int(found[3]))


def parse_manifest_name(name: str) -> int | None:
    """The number of the manifest of that name, or None for another file."""
    found = _MANIFEST.fullmatch(name)
    return int(found[1]) if found else None


def format_manifest_name(number: int) -> str:
    return f"manifest_{number}"


def encode_manifest(files: Iterable[ListedFile]) -> bytes:
    """The manifest as JSON, laid out as Apache Hudi does."""
    entries = [{"fileName": str(file.name), "fileLen": file.length} for file in files]
    return json.dumps({"files": entries}, indent=2, separators=(",", " : ")).encode()


def decode_manifest(data: bytes, where: str) -> tuple[ListedFile, ...]:
    """The files that a manifest lists; `Corrupt` if it names anything that is none."""
    try:
        files = json.loads(data)["files"]
        listed = [(str(file["fileName"]), int(file["fileLen"])) for file in files]
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise Corrupt(f"The manifest does not decode: {error!r}", where=where) from error
    found = []
    for text, length in listed:
        name = parse_history_name(text)
        if name is None:
            raise Corrupt(
                f"The manifest names {text!r}, which is no file of a history.", where=where
            )
        found.append(ListedFile(name, length))
    return tuple(found)
