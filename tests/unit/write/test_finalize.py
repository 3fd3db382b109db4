"""What the driver accepted is durable before it acts on it, and nothing comes after."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lentic.coordination.lock import LockProvider
from lentic.errors import Corrupt, InstantCancelled, MissingFile, StorageError, WriteConflict
from lentic.format import layout
from lentic.storage.base import Storage
from lentic.storage.memory import MemoryStorage
from lentic.testing.crash_sweep import sweep
from lentic.world import World
from lentic.write import completion
from lentic.write.completion import Accepted, Share
from tests.rfc.claims import says
from tests.unit.builders import FailingStorage, WrappedStorage, base_file, requested, time
from tests.unit.write.shares import AT, FOLDER, SHARE, attempt, forge, path_of, status_of, write

STATUSES, FINALIZED = f"{FOLDER}/statuses.json", f"{FOLDER}.finalized.json"
OTHERS = (Share("p", "fg", 1), Share("p", "fg", 0, round=1), Share("p/q", "fg2", 2))
RUN = 2**31 - 1


def accept(storage: Storage, *shares: Share) -> list[Accepted]:
    return [Accepted(share, attempt(storage, 0, share)) for share in shares]


def finalized(storage: Storage) -> list[Accepted]:
    """A write with four shares, finalized."""
    accepted = accept(storage, SHARE, *OTHERS)
    completion.finalize(storage, AT, RUN, accepted)
    return accepted


def test_what_was_accepted_reads_back_share_by_share() -> None:
    storage = MemoryStorage()
    assert not completion.is_finalized(storage, AT)
    assert completion.load_finalized(storage, AT) is None
    accepted = finalized(storage)
    assert completion.is_finalized(storage, AT)
    found = completion.load_finalized(storage, AT)
    assert found is not None
    assert found.run == RUN
    loaded = completion.load_accepted(storage, AT)
    assert sorted(loaded, key=lambda one: one.share) == list(loaded)
    assert set(loaded) == set(accepted)
    paths = [status.stat.path for status in completion.statuses_of(loaded)]
    assert paths == sorted(path_of(0, share) for share in (SHARE, *OTHERS))


def test_a_share_without_files_and_a_write_without_shares_are_accepted_too() -> None:
    storage = MemoryStorage()
    completion.finalize(storage, AT, RUN, [Accepted(SHARE, ())])
    assert completion.load_accepted(storage, AT) == (Accepted(SHARE, ()),)
    completion.finalize(storage, requested(2), RUN, [])
    assert completion.load_accepted(storage, requested(2)) == ()


def test_to_ask_whether_a_write_is_finalized_costs_one_look() -> None:
    storage = WrappedStorage()
    finalized(storage)
    storage.calls.clear()
    assert completion.is_finalized(storage, AT)
    assert not completion.is_finalized(storage, requested(2))
    assert [op for op, _ in storage.calls] == ["info", "info"]


@says("robust.fm.order")
def test_statuses_are_durable_before_the_marker_is_made() -> None:
    """R7, R8."""
    storage = WrappedStorage()
    finalized(storage)
    puts = [path for op, path in storage.calls if op == "put_if_absent"]
    assert puts[-2:] == [STATUSES, FINALIZED]


@given(st.permutations(range(4)))
def test_the_order_in_which_tasks_finish_does_not_matter(order: list[int]) -> None:
    storage = MemoryStorage()
    accepted = finalized(storage)
    completion.finalize(storage, AT, RUN, [accepted[number] for number in order])


def test_the_same_run_may_say_the_same_again_after_any_crash() -> None:
    def setup(storage: Storage, _world: World, _lock: LockProvider) -> None:
        accept(storage, SHARE, *OTHERS)

    def flow(storage: Storage, _world: World, _lock: LockProvider) -> None:
        finalized(storage)

    for run in sweep(flow, setup):
        accepted = finalized(run.storage)
        assert set(completion.load_accepted(run.storage, AT)) == set(accepted), run


def _is_put(wanted: str, op: str, path: str) -> bool:
    return (op, path) == ("put_if_absent", wanted)


def test_a_lost_reply_is_no_conflict_with_oneself() -> None:
    storage = FailingStorage()
    accepted = accept(storage, SHARE)
    for lost in (STATUSES, FINALIZED):
        storage.fail_after = partial(_is_put, lost)
        with pytest.raises(StorageError, match="reply"):
            completion.finalize(storage, AT, RUN, accepted)
    storage.fail_after = lambda op, path: False
    completion.finalize(storage, AT, RUN, accepted)
    assert completion.load_accepted(storage, AT) == tuple(accepted)


@says("S5")
def test_another_run_is_refused_even_with_the_same_set() -> None:
    """S5: a restarted driver does not take the instant over by accident."""
    storage = MemoryStorage()
    accepted = finalized(storage)
    before = storage.walk("")
    with pytest.raises(WriteConflict, match="another run"):
        completion.finalize(storage, AT, RUN - 1, accepted)
    assert storage.walk("") == before


@says("robust.fm.one")
def test_another_set_is_refused_even_of_the_same_run() -> None:
    """Case 2 of the design: a stage evaluated again after the driver has decided."""
    storage = MemoryStorage()
    accepted = finalized(storage)
    with pytest.raises(WriteConflict):
        completion.finalize(storage, AT, RUN, accepted[1:])
    assert set(completion.load_accepted(storage, AT)) == set(accepted)


@says("robust.fm.one")
def test_of_two_runs_with_different_sets_one_is_refused_wherever_the_other_cuts_in() -> None:
    call = 0
    while True:
        call += 1
        memory = MemoryStorage()
        mine, theirs = accept(memory, SHARE), accept(memory, *OTHERS)
        storage = _Between(memory, call, theirs)
        try:
            completion.finalize(storage, AT, RUN, mine)
            won = True
        except WriteConflict:
            won = False
        assert won != storage.won or not storage.ran
        expected = mine if won else theirs
        assert set(completion.load_accepted(memory, AT)) == set(expected)
        if not storage.ran:
            break
    assert call > 3


class _Between(WrappedStorage):
    """Lets another run finalize just before one call."""

    def __init__(self, inner: Storage, call: int, theirs: list[Accepted]) -> None:
        super().__init__(inner)
        self.call, self.theirs = call, theirs
        self.ran = self.won = False

    def before(self, op: str, path: str) -> None:
        if len(self.calls) + 1 == self.call and not self.ran:
            self.ran = True
            try:
                completion.finalize(self.inner, AT, 5, self.theirs)
                self.won = True
            except WriteConflict:
                self.won = False


def test_statuses_that_a_dead_run_left_without_a_marker_are_no_ones_and_refuse_other_sets() -> None:
    """The instant has to be rolled back, which removes them."""
    storage = FailingStorage()
    mine = accept(storage, SHARE, *OTHERS)
    storage.fail_before = lambda op, path: (op, path) == ("put_if_absent", FINALIZED)
    with pytest.raises(StorageError):
        completion.finalize(storage, AT, 5, mine[1:])
    storage.fail_before = lambda op, path: False
    with pytest.raises(MissingFile, match="not been finalized"):
        completion.load_accepted(storage, AT)
    with pytest.raises(WriteConflict):
        completion.finalize(storage, AT, RUN, mine)
    completion.remove_completions(storage, AT, keep_finalized=False)
    completion.finalize(storage, AT, RUN, mine)
    assert set(completion.load_accepted(storage, AT)) == set(mine)


def test_two_attempts_at_one_share_are_never_both_accepted() -> None:
    storage = MemoryStorage()
    first, second = write(storage, 0), write(storage, 1)
    for accepted in (
        [Accepted(SHARE, (first,)), Accepted(SHARE, (second,))],
        [Accepted(SHARE, (first,)), Accepted(OTHERS[0], (first,))],
    ):
        with pytest.raises(WriteConflict, match="Two"):
            completion.finalize(storage, AT, RUN, accepted)
    assert not completion.is_finalized(storage, AT)


# --- recovery -------------------------------------------------------------------------------------


@says("S4")
def test_recovery_serves_what_was_accepted_and_no_stray_beside_it() -> None:
    """S4: a stray of the same instant and file group lies there, as if it belonged."""
    storage = MemoryStorage()
    accepted = finalized(storage)
    stray = write(storage, 9)
    assert completion.complete(storage, AT, replace(SHARE, round=9), [stray]) == (stray,)
    found = completion.statuses_of(completion.load_accepted(storage, AT))
    assert set(found) == set(completion.statuses_of(accepted))
    assert stray not in found


def test_statuses_that_are_not_the_finalized_ones_are_corrupt() -> None:
    storage = MemoryStorage()
    finalized(storage)
    body = json.loads(storage.read(STATUSES))["body"]
    body["accepted"].pop()
    storage.replace(STATUSES, forge(body))
    with pytest.raises(Corrupt, match="not those that were finalized"):
        completion.load_accepted(storage, AT)


@pytest.mark.parametrize("path", [STATUSES, FINALIZED])
def test_a_file_cut_or_changed_anywhere_is_corrupt(path: str) -> None:
    storage = MemoryStorage()
    completion.finalize(storage, AT, RUN, accept(storage, SHARE))
    data = storage.read(path)
    for at in range(len(data)):
        for damaged in (data[:at], data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]):
            storage.replace(path, damaged)
            with pytest.raises(Corrupt):
                completion.load_accepted(storage, AT)
            assert completion.is_finalized(storage, AT), "damage does not open the write again"


@pytest.mark.parametrize(
    "body",
    [
        {"requested_at": time(1)},
        {"requested_at": time(1), "run": "7", "digest": "d"},
        {"requested_at": time(1), "run": 7, "digest": None},
        {"requested_at": time(2), "run": 7, "digest": "d"},
    ],
)
def test_a_finalize_marker_that_says_something_else_is_corrupt(body: object) -> None:
    storage = MemoryStorage()
    storage.put_if_absent(FINALIZED, forge(body))
    with pytest.raises(Corrupt):
        completion.load_finalized(storage, AT)
    with pytest.raises(Corrupt):
        completion.finalize(storage, AT, RUN, [])


@pytest.mark.parametrize("foreign", [base_file(2, 3).path, base_file(1, 2, partition="q").path])
def test_accepted_statuses_name_files_of_their_instant_and_share_only(foreign: str) -> None:
    storage = MemoryStorage()
    forged = json.loads(completion.encode_accepted(Accepted(SHARE, (status_of(foreign),))))
    data = forge({"requested_at": time(1), "accepted": [forged]})
    storage.put_if_absent(STATUSES, data)
    digest = json.loads(data)["sha256"]
    storage.put_if_absent(FINALIZED, forge({"requested_at": AT, "run": 7, "digest": digest}))
    with pytest.raises(Corrupt, match="no file of"):
        completion.load_accepted(storage, AT)


# --- on the way, and afterwards -------------------------------------------------------------------


def test_what_a_handle_reports_arrives_at_the_driver_as_it_was() -> None:
    storage = MemoryStorage()
    for one in [*accept(storage, SHARE, *OTHERS), Accepted(SHARE, ())]:
        assert completion.decode_accepted(completion.encode_accepted(one)) == one


@pytest.mark.parametrize(
    "text", ["", "{", "null", "[]", "{}", "[" * 100_000, '{"share":{},"statuses":[]}']
)
def test_what_is_no_report_is_corrupt(text: str) -> None:
    with pytest.raises(Corrupt):
        completion.decode_accepted(text)


def test_after_a_commit_the_finalize_marker_alone_stays_for_attempts_that_wake_up_late() -> None:
    storage = MemoryStorage()
    finalized(storage)
    completion.remove_completions(storage, AT, keep_finalized=True)
    assert [file.path for file in storage.walk(layout.COMPLETIONS)] == [FINALIZED]
    assert completion.is_finalized(storage, AT)
    assert completion.find_completed(storage, AT, SHARE) is None
    with pytest.raises(InstantCancelled, match="ended"):
        completion.load_accepted(storage, AT)
    with pytest.raises(WriteConflict):
        completion.finalize(storage, AT, 5, [])
    assert [file.path for file in storage.walk(layout.COMPLETIONS)] == [FINALIZED]


def test_for_a_new_run_nothing_stays_but_the_data_and_other_instants() -> None:
    storage = MemoryStorage()
    finalized(storage)
    completion.finalize(storage, requested(2), RUN, [])
    both = {AT, requested(2)}
    assert completion.list_with_completions(storage) == (both, both)
    completion.remove_completions(storage, AT, keep_finalized=False)
    assert [file for file in storage.walk(layout.COMPLETIONS) if time(1) in file.path] == []
    assert storage.info(path_of(0)) is not None
    assert completion.list_with_completions(storage) == ({requested(2)}, {requested(2)})
    completion.remove_completions(storage, requested(2), keep_finalized=True)
    assert completion.list_with_completions(storage) == (set(), {requested(2)})
    completion.remove_completions(storage, AT, keep_finalized=False)


def test_the_finalize_marker_goes_last() -> None:
    storage = WrappedStorage()
    finalized(storage)
    completion.remove_completions(storage, AT, keep_finalized=False)
    deleted = [path for op, path in storage.calls if op == "delete"]
    assert deleted[-1] == FINALIZED
    assert len(deleted) == len(set(deleted)) == 6


def test_only_instants_are_listed() -> None:
    storage = MemoryStorage()
    assert completion.list_with_completions(storage) == (frozenset(), frozenset())
    for name in ("notes.txt", "x/finalized.json", "²/finalized.json"):
        storage.put_if_absent(f"{layout.COMPLETIONS}/{name}", b"")
    assert completion.list_with_completions(storage) == (frozenset(), frozenset())


@says("R18")
def test_nothing_lies_where_apache_hudi_looks_for_markers() -> None:
    storage = MemoryStorage()
    finalized(storage)
    made = {file.path for file in storage.walk("")} - {path_of(0, one) for one in (SHARE, *OTHERS)}
    assert all(path.startswith(f"{layout.COMPLETIONS}/") for path in made)
    assert not layout.COMPLETIONS.startswith(layout.TEMP)
