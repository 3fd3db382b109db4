"""What locks with a lease have in common: the state they keep, and the fence around it (R2).

The state is one JSON object in a cell that can be swapped: replaced on the condition that it is
still the version one has read. Whoever takes the lock swaps the cell, so from then on every swap of
the holder before fails. What a holder decides (an `Intent`) is stored by such a swap; what was
decided and perhaps not carried out is carried out by the next holder, before anything else.

Small contents lie in the state itself, others beside the lock, under a name of their own.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from lentic.coordination.lock import Intent
from lentic.errors import Conflict, Corrupt, MissingFile, OutcomeUnknown, StorageError
from lentic.format import layout
from lentic.storage.base import Storage, Versioned
from lentic.world import Process

_log = logging.getLogger(__name__)

_INLINE_BYTES_MAX = 16 * 1024
_SWAPS_MAX = 3


class Cell(Protocol):
    """A place for one state, wherever it lies."""

    @property
    def where(self) -> str:
        """What people call the place."""

    @property
    def lease_key(self) -> str:
        """The option that says how long a holder may be silent."""

    def read(self) -> Versioned | None:
        """The state and its version, or None if there never was one."""

    def swap(self, data: bytes, version: str | None) -> str | None:
        """As `ConditionalStorage.put_if_match`."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An intent as the state keeps it: the content itself, or where it was laid."""

    path: str
    digest: str
    content: bytes | None = None
    staged: str = ""


@dataclass(frozen=True, slots=True)
class LockState:
    """Who took the lock last, until when, and what outlives them."""

    owner: str = ""
    host: str = ""
    pid: int = 0
    epoch: int = 0
    swaps: int = 0
    last_time: str = ""
    since_ms: int = 0
    valid_until_ms: int = 0
    is_free: bool = True
    intent: Stored | None = None

    def taken(self, by: Process, *, owner: str, now_ms: int, valid_until_ms: int) -> LockState:
        """The state as the next holder begins with it; what was decided stays until it is done."""
        return replace(
            self,
            owner=owner,
            host=by.host,
            pid=by.pid,
            epoch=self.epoch + 1,
            swaps=0,
            since_ms=now_ms,
            valid_until_ms=valid_until_ms,
            is_free=False,
        )


def swap_surely(cell: Cell, data: bytes, version: str | None) -> str | None:
    """Swap, and where the outcome is not told, again: the same content is the same swap."""
    for _ in range(_SWAPS_MAX - 1):
        try:
            return cell.swap(data, version)
        except StorageError as error:
            _log.debug("the lock at %s is asked again: %s", cell.where, error)
    return cell.swap(data, version)


class FencedHeld:
    """Proof of holding a lock whose state lies in `cell`, which this holder swapped to `state`."""

    can_be_lost = True

    def __init__(
        self,
        cell: Cell,
        storage: Storage,
        state: LockState,
        version: str,
        lease_end_ms: Callable[[], int],
    ) -> None:
        self._cell = cell
        self._storage = storage
        self._state = state
        self._version = version
        self._lease_end_ms = lease_end_ms
        self._is_held = True

    @property
    def epoch(self) -> int:
        return self._state.epoch

    @property
    def last_time(self) -> str:
        return self._state.last_time

    def save_last_time(self, time: str) -> None:
        """Kept in hand until the next swap: no name appears without one."""
        self.ensure_held()
        self._state = replace(self._state, last_time=str(time))

    def ensure_held(self) -> None:
        if not self._is_held:
            raise _lost(self._cell)

    def publish(self, intent: Intent) -> bool:
        self.ensure_held()
        stored = _store(self._storage, intent, f"{self._state.owner}-{self._state.swaps}")
        self._swap(replace(self._state, intent=stored))
        return True

    def settle(self) -> None:
        if stored := self._state.intent:
            self._state = replace(self._state, intent=None)
            _unstage(self._storage, stored)

    def carry_out(self) -> None:
        """Do what a holder before has decided, if it is not done yet."""
        if stored := self._state.intent:
            _make(self._storage, stored)
            self.settle()

    def release(self) -> None:
        """Give the lock back. Should that fail it ends by itself, so it is no error."""
        if not self._is_held:
            return
        self._is_held = False
        state = replace(self._state, is_free=True, swaps=self._state.swaps + 1)
        try:
            self._cell.swap(encode_state(state), self._version)
        except StorageError as error:
            _log.warning("the lock at %s stays until its lease ends: %s", self._cell.where, error)

    def _swap(self, state: LockState) -> None:
        state = replace(state, swaps=state.swaps + 1, valid_until_ms=self._lease_end_ms())
        try:
            version = swap_surely(self._cell, encode_state(state), self._version)
            is_decided = version is not None or self._was_decided(state.intent)
        except StorageError as error:
            self._is_held = False
            raise OutcomeUnknown(
                "The storage did not say whether a change of the timeline was decided.",
                where=self._cell.where,
                safe="reading; do not delete data files of this write",
                next_step="when the storage answers again, look: lentic timeline <table>",
            ) from error
        if version is None:
            self._is_held = False
            if not is_decided:
                raise _lost(self._cell)
            # The reply was lost and the lease ended. The next holder carries it out, or has.
            self._state = replace(state, intent=None)
            return
        self._state, self._version = state, version

    def _was_decided(self, mine: Stored | None) -> bool:
        """Whether a swap that failed had taken place before somebody took the lock.

        The next holder keeps what was decided in the state until it is done; so it is still in the
        state, or else its file is there.
        """
        if mine is None:
            return False
        now = self._cell.read()
        if now is not None and decode_state(now.data, self._cell.where).intent == mine:
            return True
        try:
            return _digest(self._storage.read(mine.path)) == mine.digest
        except MissingFile:
            return False


def _lost(cell: Cell) -> Conflict:
    return Conflict(
        "The table lock is no longer held: its lease ran out and another writer took it, or its "
        "block has ended.",
        where=cell.where,
        safe="nothing was changed after the lock was lost",
        next_step=f"repeat the call; if this happens often, raise {cell.lease_key}",
    )


# --- what was decided ---------------------------------------------------------------------------


def _store(storage: Storage, intent: Intent, name: str) -> Stored:
    digest = _digest(intent.content)
    if len(intent.content) <= _INLINE_BYTES_MAX:
        return Stored(intent.path, digest, intent.content)
    staged = layout.staged_intent(name)
    storage.put_if_absent(staged, intent.content)
    return Stored(intent.path, digest, staged=staged)


def _make(storage: Storage, stored: Stored) -> None:
    content = stored.content
    if content is None:
        try:
            content = storage.read(stored.staged)
        except MissingFile:  # who laid it there has carried it out and tidied up
            return
        if _digest(content) != stored.digest:
            raise Corrupt(
                "What was decided under the table lock is not what was laid aside for it.",
                where=stored.staged,
                safe="nothing was written",
                next_step="look who else writes into the lock's folder",
            )
    storage.put_if_absent(stored.path, content)


def _unstage(storage: Storage, stored: Stored) -> None:
    if stored.staged:
        try:
            storage.delete(stored.staged)
        except StorageError as error:
            _log.warning("%s stays behind: %s", stored.staged, error)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# --- the state as text --------------------------------------------------------------------------


def encode_state(state: LockState) -> bytes:
    """The state as JSON. Its first three fields are all that Apache Hudi's storage-based provider
    looks at."""
    intent = None
    if stored := state.intent:
        content = None if stored.content is None else base64.b64encode(stored.content).decode()
        intent = {
            "path": stored.path,
            "digest": stored.digest,
            "content": content,
            "staged": stored.staged,
        }
    fields = {
        "expired": state.is_free,
        "validUntil": state.valid_until_ms,
        "owner": state.owner,
        "host": state.host,
        "pid": state.pid,
        "epoch": state.epoch,
        "swaps": state.swaps,
        "lastTime": state.last_time,
        "since": state.since_ms,
        "intent": intent,
    }
    return json.dumps(fields).encode()


def decode_state(data: bytes, where: str) -> LockState:
    """The state as it was stored, by us or, with three fields, by Apache Hudi."""
    try:
        fields = json.loads(data)
        return LockState(
            owner=_text(fields, "owner"),
            host=_text(fields, "host"),
            pid=_number(fields, "pid"),
            epoch=_number(fields, "epoch"),
            swaps=_number(fields, "swaps"),
            last_time=_text(fields, "lastTime"),
            since_ms=_number(fields, "since"),
            valid_until_ms=_number(fields, "validUntil"),
            is_free=fields["expired"] is True,
            intent=_decode_stored(fields.get("intent")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Corrupt(
            f"The table lock is not what a lock looks like: {error}",
            where=where,
            safe="nothing was changed",
            next_step="when no writer runs, delete the lock and repeat the call",
        ) from None


def _decode_stored(fields: Any) -> Stored | None:
    if fields is None:
        return None
    content, path = fields.get("content"), _text(fields, "path")
    staged = _text(fields, "staged")
    if not layout.is_decidable_path(path) or (staged and not layout.is_staged_path(staged)):
        raise ValueError("it names a file that is not the timeline's")
    try:
        decoded = None if content is None else base64.b64decode(content, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None
    if decoded is not None and _digest(decoded) != _text(fields, "digest"):
        raise ValueError("its content is not what its digest says")
    return Stored(path, _text(fields, "digest"), decoded, staged)


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str) or not (value.isprintable() or not value):
        raise ValueError(f"{name} is no text")
    return value


def _number(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name, 0)
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{name} is no number")
    return value
