"""Names of timeline files, base files and log files, both ways.

    <requested_at>.<action>.requested        REQUESTED
    <requested_at>.<action>.inflight         INFLIGHT; of a commit, <requested_at>.inflight
    <requested_at>_<completed_at>.<action>   COMPLETED
    <requested_at>.clustering.aborted        ABORTED, which other engines ignore

    <file_id>_<write_token>_<requested_at>.parquet                base file
    .<file_id>_<requested_at>.log.<version>_<write_token>[.cdc]   log file

Parsing loses nothing: whatever parses is formatted back to the same name. Names are single path
segments; the name types refuse anything else (`InvalidPath`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from lentic.errors import InvalidPath, UnsupportedFormat
from lentic.format.times import CompletedAt, RequestedAt

_remembered = lru_cache(maxsize=1 << 14)
"""Every look at the table meets the names of the last look again."""


class Action(StrEnum):
    """What an instant does to the table."""

    COMMIT = "commit"
    DELTACOMMIT = "deltacommit"
    COMPACTION = "compaction"
    LOGCOMPACTION = "logcompaction"
    REPLACECOMMIT = "replacecommit"
    CLUSTERING = "clustering"
    CLEAN = "clean"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    RESTORE = "restore"
    INDEXING = "indexing"
    SCHEMACOMMIT = "schemacommit"


class State(StrEnum):
    """How far an instant has come."""

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"
    ABORTED = "aborted"


_COMPLETES_AS = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOGCOMPACTION: Action.DELTACOMMIT,
    Action.CLUSTERING: Action.REPLACECOMMIT,
}


def completed_action(action: Action) -> Action:
    """The action in the name of the completed file: a finished compaction is a commit."""
    return _COMPLETES_AS.get(action, action)


def _extensions() -> dict[tuple[Action, State], str]:
    legal = {}
    for action in Action:
        legal[action, State.INFLIGHT] = f"{action}.inflight"
        if action is not Action.SAVEPOINT:
            legal[action, State.REQUESTED] = f"{action}.requested"
        if completed_action(action) is action:
            legal[action, State.COMPLETED] = str(action)
    legal[Action.COMMIT, State.INFLIGHT] = "inflight"
    legal[Action.CLUSTERING, State.ABORTED] = "clustering.aborted"
    return legal


_EXTENSIONS = _extensions()
_KINDS = {extension: kind for kind, extension in _EXTENSIONS.items()}
_INSTANT = re.compile(r"([0-9]+)(?:_([0-9]+))?\.([a-z.]+)")

_FILE_ID = r"[A-Za-z0-9-]+"
_LOG_FILE_ID = r"[A-Za-z0-9_-]+"
_BASE_TOKEN = r"[A-Za-z0-9-]+"
_LOG_TOKEN = r"[0-9]+-[0-9]+-[0-9]+"
_EXTENSION = r"parquet|orc|hfile|lance"
_VERSION = r"0|[1-9][0-9]{0,8}"
_SUFFIX = r"(?:\.cdc)?"
_BASE_FILE = re.compile(rf"({_FILE_ID})_({_BASE_TOKEN})_([0-9]+)\.({_EXTENSION})")
_LOG_FILE = re.compile(rf"\.({_LOG_FILE_ID})_([0-9]+)\.log\.({_VERSION})_({_LOG_TOKEN})({_SUFFIX})")


@dataclass(frozen=True, slots=True)
class InstantFile:
    """One file of the timeline. `completed_at` is set exactly when the state is COMPLETED."""

    requested_at: RequestedAt
    action: Action
    state: State
    completed_at: CompletedAt | None = None


@_remembered
def parse_instant_file(name: str) -> InstantFile | None:
    """The timeline file of that name, or None for a name that is none and is to be ignored.

    `UnsupportedFormat` for a completed file without a completion time, the form of table versions
    before 8: to ignore it would hide the rows it committed.
    """
    found = _INSTANT.fullmatch(name)
    kind = _KINDS.get(found[3]) if found else None
    if found is None or kind is None:
        return None
    action, state = kind
    is_completed = state is State.COMPLETED
    if is_completed and found[2] is None:
        raise UnsupportedFormat(
            f"Timeline file {name} completed without a completion time, as in table versions "
            "before 8.",
            safe="nothing was read or written",
            next_step="upgrade the table to version 8 or 9 with Apache Hudi",
        )
    if not is_completed and found[2] is not None:
        return None
    completed_at = CompletedAt(found[2]) if is_completed else None
    return InstantFile(RequestedAt(found[1]), action, state, completed_at)


def format_instant_file(file: InstantFile) -> str:
    """The name of the timeline file."""
    extension = _EXTENSIONS.get((file.action, file.state))
    assert extension is not None, f"a {file.action} has no {file.state} file"
    assert (file.completed_at is not None) == (file.state is State.COMPLETED), file
    times = f"{file.requested_at}_{file.completed_at}" if file.completed_at else file.requested_at
    return f"{times}.{extension}"


@dataclass(frozen=True, slots=True)
class BaseFileName:
    """Name of a base file: the whole of a file group as of `requested_at`."""

    file_id: str
    write_token: str
    requested_at: RequestedAt
    extension: str = "parquet"

    def __post_init__(self) -> None:
        _ensure(_FILE_ID, "file id", self.file_id)
        _ensure(_BASE_TOKEN, "write token", self.write_token)
        _ensure("[0-9]+", "requested time", self.requested_at)
        _ensure(_EXTENSION, "extension", self.extension)

    def __str__(self) -> str:
        return format_base_file(self)


@dataclass(frozen=True, slots=True)
class LogFileName:
    """Name of a log file: changes to a file group that the instant `requested_at` wrote."""

    file_id: str
    requested_at: RequestedAt
    version: int
    write_token: str
    suffix: str = ""

    def __post_init__(self) -> None:
        _ensure(_LOG_FILE_ID, "file id", self.file_id)
        _ensure("[0-9]+", "requested time", self.requested_at)
        _ensure(_VERSION, "log version", str(self.version))
        _ensure(_LOG_TOKEN, "write token", self.write_token)
        _ensure(_SUFFIX, "suffix", self.suffix)

    def __str__(self) -> str:
        return format_log_file(self)


def _ensure(pattern: str, what: str, text: str) -> None:
    if re.fullmatch(pattern, text) is None:
        raise InvalidPath(f"{text!r} cannot be the {what} in a file name.")


@_remembered
def parse_base_file(name: str) -> BaseFileName | None:
    """The base file of that name, or None for any other name."""
    found = _BASE_FILE.fullmatch(name)
    if found is None:
        return None
    return BaseFileName(found[1], found[2], RequestedAt(found[3]), found[4])


def format_base_file(file: BaseFileName) -> str:
    """The name of the base file."""
    return f"{file.file_id}_{file.write_token}_{file.requested_at}.{file.extension}"


@_remembered
def parse_log_file(name: str) -> LogFileName | None:
    """The log file of that name, or None for any other name."""
    found = _LOG_FILE.fullmatch(name)
    if found is None:
        return None
    return LogFileName(found[1], RequestedAt(found[2]), int(found[3]), found[4], found[5])


def format_log_file(file: LogFileName) -> str:
    """The name of the log file."""
    return f".{file.file_id}_{file.requested_at}.log.{file.version}_{file.write_token}{file.suffix}"


def requested_at_of(file_name: str) -> RequestedAt | None:
    """The instant that made a data file, or None if the name is no data file's."""
    parsed = parse_base_file(file_name) or parse_log_file(file_name)
    return parsed.requested_at if parsed else None


def run_of(path: str) -> int | None:
    """The run whose attempt a data file is, by its write token `task-run-attempt`."""
    name = path.rpartition("/")[2]
    parsed = parse_base_file(name) or parse_log_file(name)
    parts = parsed.write_token.split("-") if parsed else []
    return int(parts[1]) if len(parts) == 3 and parts[1].isdigit() else None
