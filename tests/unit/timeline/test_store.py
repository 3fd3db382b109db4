"""The only writer of instant files: put-if-absent, under the lock, and sure of what happened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from lentic.coordination.lock import Intent
from lentic.errors import Conflict, MissingFile, OutcomeUnknown, StorageError
from lentic.format.layout import timeline_file
from lentic.format.names import Action, State
from lentic.storage.base import Storage
from lentic.storage.memory import MemoryStorage
from lentic.timeline import store
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_timeline
from tests.rfc.claims import says
from tests.unit.builders import FailingStorage, completed, put_instant, requested, time


@dataclass
class Lock:
    """A lock that can be lost after some checks."""

    checks_left: int = 1_000
    can_be_lost: bool = True
    epoch: int = 1
    last_time: str = ""

    def publish(self, intent: Intent) -> bool:
        self.ensure_held()
        return False

    def settle(self) -> None:
        pass

    def save_last_time(self, time: str) -> None:
        self.last_time = time

    def ensure_held(self) -> None:
        self.checks_left -= 1
        if self.checks_left < 0:
            raise Conflict("The lease ran out.")


INFLIGHT = Instant(requested(1), Action.DELTACOMMIT, State.INFLIGHT)


def _request(storage: Storage, held: Lock, content: bytes) -> Instant:
    return store.request(storage, held, Action.DELTACOMMIT, requested(1), content)


def _start(storage: Storage, held: Lock, content: bytes) -> Instant:
    instant = Instant(requested(1), Action.DELTACOMMIT, State.REQUESTED)
    return store.start(storage, held, instant, content)


def _complete(storage: Storage, held: Lock, content: bytes) -> Instant:
    return store.complete(storage, held, INFLIGHT, completed(2), content)


Step = Callable[[Storage, Lock, bytes], Instant]
STEPS = pytest.mark.parametrize("step", [_request, _start, _complete])
PATHS: dict[Step, str] = {
    _request: timeline_file(f"{time(1)}.deltacommit.requested"),
    _start: timeline_file(f"{time(1)}.deltacommit.inflight"),
    _complete: timeline_file(f"{time(1)}_{time(2)}.deltacommit"),
}


@STEPS
def test_a_step_creates_the_file_of_its_state_with_its_content(step: Step) -> None:
    storage = MemoryStorage()
    made = step(storage, Lock(), b"content")
    assert timeline_file(made.file_name) == PATHS[step]
    assert storage.read(PATHS[step]) == b"content"
    assert load_timeline(storage).instants == (made,)


@says("P2")
@STEPS
@pytest.mark.parametrize("content", [b"theirs", b"mine"])
def test_a_file_that_is_there_already_is_a_conflict_and_stays_as_it_is(
    step: Step, content: bytes
) -> None:
    storage = MemoryStorage()
    storage.put_if_absent(PATHS[step], content)
    with pytest.raises(Conflict) as caught:
        step(storage, Lock(), b"mine")
    assert storage.read(PATHS[step]) == content
    assert PATHS[step].rpartition("/")[2] in caught.value.what
    assert "lock" in caught.value.next_step


@STEPS
def test_nothing_is_written_without_the_lock(step: Step) -> None:
    storage = FailingStorage()
    with pytest.raises(Conflict, match="lease"):
        step(storage, Lock(checks_left=0), b"content")
    assert storage.calls == []


@STEPS
def test_a_lost_reply_is_read_back_and_counts_as_created(step: Step) -> None:
    storage = FailingStorage()
    storage.fail_after = lambda op, path: op == "put_if_absent"
    made = step(storage, Lock(), b"content")
    assert timeline_file(made.file_name) == PATHS[step]
    assert storage.inner.read(PATHS[step]) == b"content"


@STEPS
def test_a_put_that_never_arrived_gives_its_own_error_and_leaves_nothing(step: Step) -> None:
    storage = FailingStorage()
    storage.fail_before = lambda op, path: op == "put_if_absent"
    with pytest.raises(StorageError, match="put_if_absent was lost on the way") as caught:
        step(storage, Lock(), b"content")
    assert not isinstance(caught.value, MissingFile)
    assert storage.inner.walk("") == []


@STEPS
@pytest.mark.parametrize("arrived", [True, False])
def test_when_reading_back_fails_too_the_outcome_is_unknown(step: Step, arrived: bool) -> None:
    storage = FailingStorage()
    if arrived:
        storage.fail_after = lambda op, path: op == "put_if_absent"
    storage.fail_before = lambda op, path: op == "read" or (op == "put_if_absent" and not arrived)
    with pytest.raises(OutcomeUnknown) as caught:
        step(storage, Lock(), b"content")
    assert caught.value.where == PATHS[step]
    assert "do not delete" in caught.value.safe
    assert isinstance(caught.value.__cause__, StorageError)
    assert ("delete", PATHS[step]) not in storage.calls


@STEPS
def test_a_lost_reply_over_another_writers_file_is_a_conflict(step: Step) -> None:
    storage = FailingStorage()
    storage.inner.put_if_absent(PATHS[step], b"theirs")
    storage.fail_after = lambda op, path: op == "put_if_absent"
    with pytest.raises(Conflict):
        step(storage, Lock(), b"mine")
    assert storage.inner.read(PATHS[step]) == b"theirs"


def test_a_compaction_completes_as_a_commit() -> None:
    storage = MemoryStorage()
    inflight = Instant(requested(1), Action.COMPACTION, State.INFLIGHT)
    done = store.complete(storage, Lock(), inflight, completed(2), b"x")
    assert done.action is Action.COMMIT
    assert storage.read(timeline_file(f"{time(1)}_{time(2)}.commit")) == b"x"


@says("P2")
def test_a_completed_instant_can_be_neither_completed_again_nor_removed() -> None:
    done = INFLIGHT.at(State.COMPLETED, completed(2))
    with pytest.raises(AssertionError):
        store.complete(MemoryStorage(), Lock(), done, completed(3), b"")
    with pytest.raises(AssertionError):
        store.remove_pending(MemoryStorage(), Lock(), done)


@pytest.mark.parametrize("known_as", [State.REQUESTED, State.INFLIGHT])
def test_removing_takes_the_furthest_state_first(known_as: State) -> None:
    storage = FailingStorage()
    put_instant(storage.inner, INFLIGHT)
    other = Instant(requested(7), Action.DELTACOMMIT, State.INFLIGHT)
    put_instant(storage.inner, other)
    instant = Instant(requested(1), Action.DELTACOMMIT, known_as)
    store.remove_pending(storage, Lock(), instant)
    assert storage.calls == [("delete", PATHS[_start]), ("delete", PATHS[_request])]
    assert load_timeline(storage.inner).instants == (other,)


def test_removing_twice_does_nothing_the_second_time() -> None:
    storage = MemoryStorage()
    put_instant(storage, INFLIGHT)
    store.remove_pending(storage, Lock(), INFLIGHT)
    store.remove_pending(storage, Lock(), INFLIGHT)
    assert storage.walk("") == []


def test_a_lock_lost_while_removing_leaves_a_legal_history() -> None:
    storage = MemoryStorage()
    put_instant(storage, INFLIGHT)
    with pytest.raises(Conflict):
        store.remove_pending(storage, Lock(checks_left=1), INFLIGHT)
    (left,) = load_timeline(storage).instants
    assert left.state is State.REQUESTED


# What is rewritten: the table's properties, the list of aborted plans


class _Rewritten(MemoryStorage):
    """The holder sleeps before it writes; the next holder rewrites the file meanwhile."""

    def put_if_match(self, path: str, data: bytes, version: str | None) -> str | None:
        super().replace(path, b"theirs")
        return super().put_if_match(path, data, version)

    def replace(self, path: str, data: bytes) -> None:
        assert data != b"mine", "whoever may have lost the lock rewrites on a condition only"
        super().replace(path, data)


@pytest.mark.parametrize("before", [None, b"old"])
def test_who_lost_the_lock_does_not_take_back_what_the_next_holder_rewrote(
    before: bytes | None,
) -> None:
    storage = _Rewritten()
    if before:
        storage.replace("file", before)
    with pytest.raises(Conflict, match="file was rewritten by another"):
        store.revise(storage, Lock(), "file", lambda found: b"mine")
    assert storage.read("file") == b"theirs"


@pytest.mark.parametrize("can_be_lost", [False, True])
@pytest.mark.parametrize("wrap", [MemoryStorage, FailingStorage])
def test_a_file_is_rewritten_from_what_it_was(
    wrap: Callable[[], Storage], can_be_lost: bool
) -> None:
    storage = wrap()
    lock = Lock(can_be_lost=can_be_lost)
    store.revise(storage, lock, "file", lambda found: found + b"1")
    store.revise(storage, lock, "file", lambda found: found + b"2")
    assert storage.read("file") == b"12"
    with pytest.raises(Conflict):
        store.revise(storage, Lock(checks_left=0), "file", lambda found: b"late")
    assert storage.read("file") == b"12"
