"""The only writer of instant files. Every function asks for the proof that the lock is held.

Files are created with put-if-absent and never change (P2). A lost reply is resolved by reading
back (R15): the name holds a time that was issued to this holder of the lock and to nobody else, and
the content is compared byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable

from lentic.coordination.guards import latest_guard
from lentic.coordination.lock import Held, Intent
from lentic.errors import Conflict, MissingFile, OutcomeUnknown, StorageError
from lentic.format import layout
from lentic.format.names import Action, State
from lentic.format.times import CompletedAt, RequestedAt
from lentic.storage.base import ConditionalStorage, Storage
from lentic.timeline.instant import Instant


def request(
    storage: Storage, held: Held, action: Action, at: RequestedAt, content: bytes
) -> Instant:
    """(nothing) -> REQUESTED, with the plan as content (empty for writes)."""
    instant = Instant(at, action, State.REQUESTED)
    _create(storage, held, instant, content)
    return instant


def start(storage: Storage, held: Held, instant: Instant, content: bytes = b"") -> Instant:
    """REQUESTED -> INFLIGHT."""
    inflight = instant.at(State.INFLIGHT)
    _create(storage, held, inflight, content)
    return inflight


def complete(
    storage: Storage, held: Held, instant: Instant, at: CompletedAt, content: bytes
) -> Instant:
    """INFLIGHT -> COMPLETED: the one moment at which readers begin to see the action.

    `OutcomeUnknown` if the storage failed and reading back failed too.
    """
    completed = instant.at(State.COMPLETED, at)
    _create(storage, held, completed, content)
    return completed


def remove_pending(storage: Storage, held: Held, instant: Instant) -> None:
    """INFLIGHT or REQUESTED -> (nothing); the furthest state goes first, so that a crash in between
    leaves a shorter but legal history. Does nothing where the files are gone."""
    assert not instant.is_completed, instant
    for state in (State.INFLIGHT, State.REQUESTED):
        held.ensure_held()
        file = Instant(instant.requested_at, instant.action, state)
        storage.delete(layout.timeline_file(file.file_name))


def request_cancel(storage: Storage, held: Held, at: RequestedAt, content: bytes) -> None:
    """From here on the plan at `at` cannot complete: decided like a change of the timeline, so that
    whoever lost the lock promises nothing."""
    decide(storage, held, layout.cancel_request(at), content)


def discard_cancel(storage: Storage, held: Held, at: RequestedAt) -> None:
    """Take the request to cancel a plan away that has ended. Does nothing where it is gone."""
    held.ensure_held()
    storage.delete(layout.cancel_request(at))


def abort(storage: Storage, held: Held, plan: Instant, content: bytes) -> Instant:
    """REQUESTED or INFLIGHT -> ABORTED, with the plan as content. Other engines take a requested
    file for pending whatever lies beside it, so the files of the earlier states go."""
    aborted = plan.at(State.ABORTED)
    _create(storage, held, aborted, content)
    remove_pending(storage, held, plan)
    return aborted


def save(storage: Storage, held: Held, of: RequestedAt, at: CompletedAt, content: bytes) -> Instant:
    """(nothing) -> INFLIGHT -> COMPLETED for the savepoint of the write requested at `of`."""
    inflight = Instant(of, Action.SAVEPOINT, State.INFLIGHT)
    _create(storage, held, inflight, b"")
    return complete(storage, held, inflight, at, content)


def remove_savepoint(storage: Storage, held: Held, savepoint: Instant) -> None:
    """A savepoint in any state -> (nothing). Its completed file goes first: what remains protects
    nothing. Does nothing where the files are gone."""
    assert savepoint.action is Action.SAVEPOINT, savepoint
    inflight = Instant(savepoint.requested_at, Action.SAVEPOINT, State.INFLIGHT)
    for file in dict.fromkeys((savepoint, inflight)):
        held.ensure_held()
        storage.delete(layout.timeline_file(file.file_name))


def hide(storage: Storage, held: Held, instant: Instant) -> None:
    """COMPLETED -> INFLIGHT, for a write that a published plan undoes. From here on readers do not
    see it. Safe to repeat, even for whoever lost the lock: the plan has decided it, and the name
    holds a time that is issued once."""
    assert instant.is_completed, instant
    held.ensure_held()
    storage.delete(layout.timeline_file(instant.file_name))


def take_guard(storage: Storage, held: Held, at: RequestedAt) -> int:
    """The number of a new guard of the plan at `at`: decided like a change of the timeline, so that
    whoever lost the lock takes none."""
    number = latest_guard(storage, at) + 1
    decide(storage, held, layout.guard(at, number), b"")
    return number


def _create(storage: Storage, held: Held, instant: Instant, content: bytes) -> None:
    decide(storage, held, layout.timeline_file(instant.file_name), content)


def decide(storage: Storage, held: Held, path: str, content: bytes) -> None:
    is_shared = held.publish(Intent(path, content))
    try:
        created = storage.put_if_absent(path, content)
        if not created and is_shared:
            # While we slept, the next holder of the lock may have carried our decision out (R2).
            created = storage.read(path) == content
    except StorageError as error:
        created = _read_back(storage, path, content, error, is_shared=is_shared)
    held.settle()
    if not created:
        raise Conflict(
            f"File {path.rpartition('/')[2]} exists already: another writer that does not hold "
            "this table's lock made it.",
            where=storage.root,
            safe="nothing was committed by this call",
            next_step="let all writers use the same lock, then start over",
        )


def revise(storage: Storage, held: Held, path: str, change: Callable[[bytes], bytes]) -> None:
    """Rewrite a file that is not of the timeline and lasts, from `b""` if there is none.

    Where the lock may be lost, only if nobody else has rewritten it since it was read: a sleeper
    must not take back what the next holder has done (R2). `change` must make of any content one
    that the file never had. A storage without conditions is trusted to a holder who was not told
    of a loss.
    """
    held.ensure_held()
    if not (held.can_be_lost and isinstance(storage, ConditionalStorage)):
        try:
            before = storage.read(path)
        except MissingFile:
            before = b""
        storage.replace(path, change(before))
        return
    found = storage.read_version(path)
    data, version = (found.data, found.version) if found else (b"", None)
    if storage.put_if_match(path, change(data), version) is None:
        raise Conflict(
            f"{path.rpartition('/')[2]} was rewritten by another writer: the table lock is no "
            "longer held.",
            where=storage.root,
            safe="the file is as the other writer left it",
            next_step="repeat the call",
        )


def _read_back(
    storage: Storage, path: str, content: bytes, cause: StorageError, *, is_shared: bool
) -> bool:
    try:
        return storage.read(path) == content
    except MissingFile:
        if not is_shared:
            raise cause from None
        what = "an instant file was being created; the next writer will create it"
    except StorageError:
        what = "an instant file was being created; it may be there or not"
    raise OutcomeUnknown(
        f"The storage failed while {what}.",
        where=path,
        safe="reading; do not delete data files of this instant",
        next_step="when the storage answers again, look: lentic timeline <table>",
    ) from cause
