"""The table lock as a file on a local disk: `flock`, with epoch and last time kept in the file.

The system frees the lock when its holder ends, so there is no lease that could run out under a
paused holder (R2). The content is one JSON object, padded to one disk sector so that a power cut
leaves the old or the new one. Content that cannot be read does not block: epoch and last time start
from nothing, and the caller takes the maximum over the timeline anyway.

Not reentrant: a thread that waits for a lock it holds waits until the time-out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from lentic.coordination.lock import Intent
from lentic.errors import Conflict, LockTimeout
from lentic.storage.file_lock import LockedFile, locked_file
from lentic.world import World

_SECTOR_BYTES = 512


@dataclass(frozen=True, slots=True)
class _Holder:
    """What the lock file says: who took the lock last, and what outlives them."""

    owner: str = ""
    host: str = ""
    pid: int = 0
    epoch: int = 0
    last_time: str = ""
    since_ms: int = 0


@dataclass(frozen=True, slots=True)
class FileLock:
    """A lock for all processes of one machine; `path` is a local file that is never deleted."""

    path: str
    world: World
    timeout_ms: int

    @contextmanager
    def hold(self) -> Iterator[_FileHeld]:
        with locked_file(
            self.path, self.timeout_ms / 1000, self.world.clock, self._timed_out
        ) as file:
            before = _decode_holder(file.read())
            holder = _Holder(
                owner=self.world.entropy.uuid(),
                host=self.world.process.host,
                pid=self.world.process.pid,
                epoch=before.epoch + 1,
                last_time=before.last_time,
                since_ms=self.world.clock.now_ms(),
            )
            file.write(_encode_holder(holder))
            held = _FileHeld(self.path, file, holder)
            try:
                yield held
            finally:
                held.end()

    def _timed_out(self, content: bytes) -> LockTimeout:
        holder = _decode_holder(content)
        who, advice = "by another process", "look for running writers of this table"
        if holder.pid:
            age_s = max(0, self.world.clock.now_ms() - holder.since_ms) / 1000
            who = f"by process {holder.pid} on {holder.host}, for {age_s:.0f} s"
            advice = f"look what it does: ps -fp {holder.pid}"
        return LockTimeout(
            f"The table lock was not free within {self.timeout_ms / 1000:g} s; it is held {who}.",
            where=self.path,
            safe="nothing was changed; the lock frees itself when its holder ends",
            next_step=f"wait and repeat the call, or {advice}; do not delete the lock file",
        )


class _FileHeld:
    """Proof of holding a `FileLock`."""

    can_be_lost = False

    def __init__(self, path: str, file: LockedFile, holder: _Holder) -> None:
        self._path = path
        self._file: LockedFile | None = file
        self._holder = holder

    @property
    def epoch(self) -> int:
        return self._holder.epoch

    @property
    def last_time(self) -> str:
        return self._holder.last_time

    def save_last_time(self, time: str) -> None:
        self.ensure_held()
        assert self._file is not None
        self._holder = replace(self._holder, last_time=str(time))
        self._file.write(_encode_holder(self._holder))

    def ensure_held(self) -> None:
        if self._file is None or not self._file.is_in_place():
            raise Conflict(
                "The table lock is no longer held: its file was deleted, or its block has ended.",
                where=self._path,
                safe="nothing was changed after the lock was lost",
                next_step="repeat the call; never delete the lock file while writers run",
            )

    def publish(self, intent: Intent) -> bool:
        self.ensure_held()
        return False

    def settle(self) -> None:
        pass

    def end(self) -> None:
        """From here on nothing is held."""
        self._file = None


def _encode_holder(holder: _Holder) -> bytes:
    text = json.dumps(asdict(holder)).encode()
    return text.ljust(_SECTOR_BYTES - 1) + b"\n"


def _decode_holder(content: bytes) -> _Holder:
    """What can be read of the content; the rest is as if nobody had ever held the lock."""
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        return _Holder()
    if not isinstance(fields, dict):
        return _Holder()
    return _Holder(
        owner=_text(fields.get("owner")),
        host=_text(fields.get("host")),
        pid=_number(fields.get("pid")),
        epoch=_number(fields.get("epoch")),
        last_time=_digits(fields.get("last_time")),
        since_ms=_number(fields.get("since_ms")),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) and value.isprintable() else ""


def _digits(value: Any) -> str:
    return value if isinstance(value, str) and value.isascii() and value.isdigit() else ""


def _number(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 1 << 63 else 0
