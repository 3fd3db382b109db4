"""Every share of a write counts once, and what counts was durable, is whole and is the share's."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lentic.coordination.lock import LockProvider
from lentic.errors import Corrupt, InstantCancelled, StorageError
from lentic.format import layout
from lentic.format.names import LogFileName
from lentic.storage.base import Storage
from lentic.storage.memory import MemoryStorage
from lentic.testing.crash_sweep import sweep
from lentic.world import World
from lentic.write import completion
from lentic.write.completion import Share
from lentic.write.status import WriteStatus
from tests.rfc.claims import says
from tests.unit.builders import (
    FailingStorage,
    WrappedStorage,
    base_file,
    data_paths,
    requested,
    time,
)
from tests.unit.write.shares import AT, FOLDER, SHARE, attempt, forge, path_of, status_of, write


def marker_path(storage: Storage, share: Share = SHARE) -> str:
    """The path of a share's completion marker, the only one there."""
    assert completion.find_completed(storage, AT, share) is not None
    (found,) = [f.path for f in storage.walk(FOLDER) if f.path.endswith(".completed.json")]
    return found


class Interrupted(WrappedStorage):
    """Has attempt 1 run in full just before one of its calls, counted from 1."""

    def __init__(self, inner: Storage, call: int) -> None:
        super().__init__(inner)
        self.call = call
        self.theirs: tuple[WriteStatus, ...] | None = None

    def before(self, op: str, path: str) -> None:
        if len(self.calls) + 1 == self.call:
            self.theirs = attempt(self.inner, 1)


# --- one share, several attempts ------------------------------------------------------------------


@says("robust.cm.end", "robust.cm.content")
def test_a_share_is_complete_once_an_attempt_said_so() -> None:
    storage = MemoryStorage()
    assert completion.find_completed(storage, AT, SHARE) is None
    mine = write(storage, 0)
    assert completion.complete(storage, AT, SHARE, [mine]) == (mine,)
    assert completion.find_completed(storage, AT, SHARE) == (mine,)
    assert completion.find_completed(storage, requested(2), SHARE) is None


@says("robust.cm.whole")
def test_a_share_may_have_several_files_or_none() -> None:
    storage = MemoryStorage()
    first, second = write(storage, 1), write(storage, 2)
    assert completion.complete(storage, AT, SHARE, [second, first]) == (first, second)
    assert completion.find_completed(storage, AT, SHARE) == (first, second)
    nothing = Share("p", "fg", task=1)
    assert completion.complete(storage, AT, nothing, []) == ()
    assert completion.find_completed(storage, AT, nothing) == ()


@says("robust.cm.3.lost", "robust.cm.key")
def test_the_second_attempt_removes_its_file_and_reports_the_first_ones() -> None:
    storage = MemoryStorage()
    winner, loser = write(storage, 0), write(storage, 1)
    assert completion.complete(storage, AT, SHARE, [winner]) == (winner,)
    assert completion.complete(storage, AT, SHARE, [loser]) == (winner,)
    assert data_paths(storage) == [winner.stat.path]


@says("S1", "R6")
def test_exactly_one_attempt_wins_wherever_the_other_one_cuts_in() -> None:
    """S1: two attempts, the second run in full before each storage call of the first."""
    call, winners = 0, set()
    while True:
        call += 1
        memory = MemoryStorage()
        storage = Interrupted(memory, call)
        mine = attempt(storage, 0)
        if storage.theirs is None:
            break
        assert mine == storage.theirs
        assert completion.find_completed(memory, AT, SHARE) == mine
        assert data_paths(memory) == [mine[0].stat.path]
        winners.add(mine[0].stat.path)
    assert winners == {path_of(1)}, "the one that ran in full was always first"
    assert call > 4


def test_exactly_one_attempt_counts_wherever_the_first_one_is_killed() -> None:
    """S2, S12: a repeated task takes over what was said, and else starts anew."""

    def flow(storage: Storage, _world: World, _lock: LockProvider) -> None:
        attempt(storage, 0)

    outcomes = set()
    for run in sweep(flow):
        found = attempt(run.storage, 1)
        assert completion.find_completed(run.storage, AT, SHARE) == found, run
        assert found[0].stat.path in data_paths(run.storage), run
        assert set(data_paths(run.storage)) <= {path_of(0), path_of(1)}
        outcomes.add(found[0].stat.path)
    assert outcomes == {path_of(0), path_of(1)}


@says("S10")
def test_a_loser_of_the_winners_name_does_not_delete_it() -> None:
    """S10: two drivers whose tokens are equal, or an attempt that says it twice."""
    storage = MemoryStorage()
    shared, extra = write(storage, 0), write(storage, 1)
    completion.complete(storage, AT, SHARE, [shared])
    assert completion.complete(storage, AT, SHARE, [shared]) == (shared,)
    assert completion.complete(storage, AT, SHARE, [extra, shared]) == (shared,)
    assert data_paths(storage) == [shared.stat.path]


@says("S12")
def test_an_attempt_whose_word_was_lost_on_the_way_back_is_found_complete() -> None:
    storage = FailingStorage()
    storage.fail_after = lambda op, path: op == "put_if_absent" and path.startswith(FOLDER)
    with pytest.raises(StorageError):
        attempt(storage, 0)
    storage.fail_after = lambda op, path: False
    assert attempt(storage, 1) == (status_of(path_of(0)),)
    assert data_paths(storage) == [path_of(0)]


def test_a_loser_that_cannot_delete_fails_and_its_repetition_succeeds() -> None:
    storage = FailingStorage()
    winner, loser = write(storage, 0), write(storage, 1)
    completion.complete(storage, AT, SHARE, [winner])
    storage.fail_before = lambda op, path: op == "delete"
    with pytest.raises(StorageError):
        completion.complete(storage, AT, SHARE, [loser])
    assert attempt(storage, 2) == (winner,)


def test_a_loser_deletes_nothing_when_the_winner_cannot_be_told_any_more() -> None:
    memory = MemoryStorage()
    completion.complete(memory, AT, SHARE, [write(memory, 0)])

    class Ending(WrappedStorage):
        def before(self, op: str, path: str) -> None:
            if op == "read":
                completion.remove_completions(memory, AT, keep_finalized=True)

    late = write(memory, 1)
    with pytest.raises(InstantCancelled, match="ended"):
        completion.complete(Ending(memory), AT, SHARE, [late])
    assert data_paths(memory) == [path_of(0), path_of(1)]


# --- the key --------------------------------------------------------------------------------------


@says("S8", "robust.cm.key")
def test_two_rounds_and_two_tasks_on_one_file_group_all_land() -> None:
    """S8: keyed by file id alone, the second handle would be skipped and its rows lost."""
    storage = MemoryStorage()
    shares = [Share("p", "fg", task, round) for task in (0, 1) for round in (0, 1)]
    found = [attempt(storage, 0, share) for share in shares]
    assert [statuses[0].stat.path for statuses in found] == [path_of(0, one) for one in shares]
    assert data_paths(storage) == sorted(path_of(0, share) for share in shares)


SHARES = st.builds(
    Share,
    st.sampled_from(["", "a", "a/b", "a/b/c", "A", "a%2Fb", "a\u2028b", "é" * 120, "a=1/b=2"]),
    st.sampled_from(["b", "fg", "1", "1-1", "fg-0", "0" * 100]),
    st.integers(0, 12),
    st.integers(0, 12),
)


@given(st.sets(SHARES, max_size=12))
@example({Share("a/b", "1", 1), Share("a", "b/1", 1), Share("a/b/1", "1", 0), Share("", "a/b", 1)})
@example({Share("p", "fg", 1, 11), Share("p", "fg", 11, 1), Share("p", "fg-1", 1, 1)})
def test_shares_never_collide_and_their_markers_have_plain_names(shares: set[Share]) -> None:
    storage = MemoryStorage()
    for share in shares:
        completion.complete(storage, AT, share, [])
    found = storage.walk(FOLDER)
    assert len({file.path.lower() for file in found}) == len(shares), "on any file system"
    assert all(file.directory == FOLDER and file.name.isascii() for file in found)


def test_a_marker_in_the_place_of_another_share_is_corrupt() -> None:
    storage = MemoryStorage()
    other = Share("p", "fg", task=0, round=1)
    attempt(storage, 0)
    data = storage.read(marker_path(storage))
    storage.put_if_absent(completion._completion_path(AT, other), data)
    with pytest.raises(Corrupt, match="round=0"):
        completion.find_completed(storage, AT, other)


def test_a_marker_in_the_place_of_another_instant_is_corrupt() -> None:
    storage = MemoryStorage()
    completion.complete(storage, AT, SHARE, [])
    data = storage.read(marker_path(storage))
    storage.put_if_absent(completion._completion_path(requested(2), SHARE), data)
    with pytest.raises(Corrupt, match="does not belong"):
        completion.find_completed(storage, requested(2), SHARE)


# --- durability and damage ------------------------------------------------------------------------


@says("S6")
@pytest.mark.parametrize("content", [None, b"", b"012345678", b"0123456789+"])
def test_a_file_that_is_not_as_its_marker_says_is_detected(content: bytes | None) -> None:
    """S6: the machine lost what it had not written through, though it kept the marker."""
    storage = MemoryStorage()
    attempt(storage, 0)
    storage.delete(path_of(0))
    if content is not None:
        storage.put_if_absent(path_of(0), content)
    with pytest.raises(Corrupt, match="not durable"):
        completion.find_completed(storage, AT, SHARE)
    late = write(storage, 1)
    with pytest.raises(Corrupt, match="not durable"):
        completion.complete(storage, AT, SHARE, [late])
    assert path_of(1) in data_paths(storage), "nothing is removed on the word of a broken marker"


@says("R6")
@pytest.mark.parametrize("content", [None, b"", b"012345678"])
def test_a_file_that_is_not_there_cannot_be_completed(content: bytes | None) -> None:
    storage = MemoryStorage()
    if content is not None:
        storage.put_if_absent(path_of(0), content)
    with pytest.raises(StorageError, match="not there|has"):
        completion.complete(storage, AT, SHARE, [status_of(path_of(0))])
    assert completion.find_completed(storage, AT, SHARE) is None


@says("S7")
def test_a_marker_cut_at_any_byte_is_corrupt() -> None:
    """S7."""
    storage = MemoryStorage()
    attempt(storage, 0)
    path = marker_path(storage)
    data = storage.read(path)
    for end in range(len(data)):
        storage.replace(path, data[:end])
        with pytest.raises(Corrupt):
            completion.find_completed(storage, AT, SHARE)
    storage.replace(path, data)
    assert completion.find_completed(storage, AT, SHARE) == (status_of(path_of(0)),)


@says("S7")
def test_a_marker_with_any_byte_changed_is_corrupt() -> None:
    storage = MemoryStorage()
    attempt(storage, 0)
    path = marker_path(storage)
    data = storage.read(path)
    for at in range(len(data)):
        for damaged in (data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], data + data[at:]):
            storage.replace(path, damaged)
            with pytest.raises(Corrupt):
                completion.find_completed(storage, AT, SHARE)


@pytest.mark.parametrize("body", [None, [], 1, {}, {"requested_at": time(1)}, {"share": {}}])
def test_a_marker_that_says_something_else_is_corrupt(body: object) -> None:
    storage = MemoryStorage()
    storage.put_if_absent(completion._completion_path(AT, SHARE), forge(body))
    with pytest.raises(Corrupt):
        completion.find_completed(storage, AT, SHARE)


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"\xff", b'{"a":NaN'])
def test_a_marker_that_is_no_json_is_corrupt_though_its_checksum_is_right(content: bytes) -> None:
    storage = MemoryStorage()
    storage.put_if_absent(completion._completion_path(AT, SHARE), completion._seal(content))
    with pytest.raises(Corrupt):
        completion.find_completed(storage, AT, SHARE)


@pytest.mark.parametrize(
    "forged",
    [
        {"path": "../outside.parquet"},
        {"path": "/etc/passwd"},
        {"path": layout.PROPERTIES},
        {"path": f".hoodie/timeline/{time(1)}_{time(2)}.commit"},
        {"path": ""},
        {"path": "p/notes.txt"},
        {"path": base_file(2, 3).path},
        {"path": base_file(1, 2, partition="q").path},
        {"path": base_file(1, 2, partition="q").path, "partition": "q"},
        {"file_id": "other"},
        {"log_files": [base_file(2, 3).path.rpartition("/")[2]]},
        {"size": -1},
        {"size": None},
    ],
)
def test_a_marker_names_nothing_but_data_files_of_its_instant_and_share(
    forged: dict[str, object],
) -> None:
    """A marker decides what counts, so a forged one must not lead anywhere else."""
    storage = MemoryStorage()
    attempt(storage, 0)
    path = marker_path(storage)
    body = json.loads(storage.read(path))["body"]
    body["statuses"][0]["stat"] |= forged
    storage.replace(path, forge(body))
    with pytest.raises(Corrupt):
        completion.find_completed(storage, AT, SHARE)
    late = write(storage, 1)
    before = storage.walk("")
    with pytest.raises(Corrupt):
        completion.complete(storage, AT, SHARE, [late])
    assert storage.walk("") == before, "nothing was deleted on its word"


def test_a_marker_that_names_a_file_twice_is_corrupt() -> None:
    storage = MemoryStorage()
    attempt(storage, 0)
    path = marker_path(storage)
    body = json.loads(storage.read(path))["body"]
    storage.replace(path, forge(body | {"statuses": body["statuses"] * 2}))
    with pytest.raises(Corrupt, match="no file of"):
        completion.find_completed(storage, AT, SHARE)


@pytest.mark.parametrize("partition", [".hoodie", "p/..", ""])
def test_a_share_is_not_completed_with_files_that_are_not_its_own(partition: str) -> None:
    """A handle that says so is wrong in itself, and nothing of it reaches storage."""
    storage = MemoryStorage()
    share = Share(partition or "p", "fg", task=0)
    status = status_of(path_of(0, Share(partition, "fg", task=0)))
    with pytest.raises(AssertionError):
        completion.complete(storage, AT, share, [status])
    assert storage.walk("") == []


def test_log_files_count_as_base_files_do() -> None:
    storage = MemoryStorage()
    path = layout.data_file("p", str(LogFileName("fg", AT, 1, "0-7-0")))
    storage.put_if_absent(path, b"0123456789")
    mine = status_of(path)
    assert completion.complete(storage, AT, SHARE, [mine]) == (mine,)
    assert completion.find_completed(storage, AT, SHARE) == (mine,)
