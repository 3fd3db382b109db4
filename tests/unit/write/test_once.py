"""A share is written once: attempts that come second, late or after the end add nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from lentic.config.groups import OnRerun
from lentic.engine import Attempt
from lentic.errors import Corrupt, InstantCancelled, StorageError
from lentic.storage.base import Storage
from lentic.storage.memory import MemoryStorage
from lentic.timeline.reader import load_timeline
from lentic.txn.transaction import OpenTable
from lentic.view.listing import load_table_view
from lentic.write import completion
from lentic.write.commit import Begun, commit_write
from lentic.write.completion import Accepted, Share, decode_accepted, statuses_of
from lentic.write.handle import EmptyHandle, Once
from lentic.write.markers import list_announced
from lentic.write.status import WriteStatus
from tests.rfc.claims import says
from tests.unit.builders import WrappedStorage, data_paths, new_table, rows
from tests.unit.write.attempts import begin, make_handle, make_writing, read_all, upsert
from tests.unit.write.shares import AT, SHARE, attempt, path_of, write

FAIL, RECOVER = OnRerun.FAIL, OnRerun.RECOVER
BOTH = pytest.mark.parametrize("on_rerun", [FAIL, RECOVER])
OTHER = Share("p", "fg", task=1)
RUN = 7


def _writes(storage: Storage, number: int) -> Callable[[], tuple[WriteStatus, ...]]:
    return lambda: (write(storage, number),)


def _never() -> tuple[WriteStatus, ...]:
    raise AssertionError("nothing is to be written")


def _finalize(storage: Storage, *accepted: Accepted) -> None:
    completion.finalize(storage, AT, RUN, accepted)


# One share


@says("robust.cm.2", "robust.cm.3.won")
@BOTH
def test_the_first_attempt_writes_and_says_so(on_rerun: OnRerun) -> None:
    storage = MemoryStorage()
    accepted = Once(storage, AT, on_rerun).do(SHARE, _writes(storage, 0))
    assert accepted.share == SHARE
    assert [status.stat.path for status in accepted.statuses] == [path_of(0)]
    assert completion.find_completed(storage, AT, SHARE) == accepted.statuses


@BOTH
def test_a_share_with_nothing_to_write_is_complete_too(on_rerun: OnRerun) -> None:
    storage = MemoryStorage()
    once = Once(storage, AT, on_rerun)
    assert once.do(SHARE, lambda: ()) == Accepted(SHARE, ())
    assert once.do(SHARE, _never) == Accepted(SHARE, ())


@says("robust.cm.1")
@BOTH
def test_an_attempt_after_the_first_writes_nothing_and_reports_the_same(on_rerun: OnRerun) -> None:
    storage = MemoryStorage()
    once = Once(storage, AT, on_rerun)
    first = once.do(SHARE, _writes(storage, 0))
    before = storage.walk("")
    assert once.do(SHARE, _never) == first
    assert storage.walk("") == before


@BOTH
def test_other_shares_are_not_taken_for_this_one(on_rerun: OnRerun) -> None:
    storage = MemoryStorage()
    once = Once(storage, AT, on_rerun)
    once.do(SHARE, _writes(storage, 0))
    for share in (OTHER, replace(SHARE, round=1), replace(SHARE, partition="q")):
        accepted = once.do(share, lambda share=share: (write(storage, 0, share),))  # type: ignore[misc]
        assert [status.stat.path for status in accepted.statuses] == [path_of(0, share)]


@says("robust.cm.3.lost")
@BOTH
def test_of_two_attempts_at_the_same_time_the_slower_removes_its_files(on_rerun: OnRerun) -> None:
    storage = MemoryStorage()
    once = Once(storage, AT, on_rerun)

    def slow() -> tuple[WriteStatus, ...]:
        status = write(storage, 0)
        attempt(storage, 1)
        return (status,)

    accepted = once.do(SHARE, slow)
    assert [status.stat.path for status in accepted.statuses] == [path_of(1)]
    assert data_paths(storage) == [path_of(1)]


@BOTH
def test_an_attempt_that_fails_leaves_the_share_to_the_next(on_rerun: OnRerun) -> None:
    storage = MemoryStorage()
    once = Once(storage, AT, on_rerun)

    def fails() -> tuple[WriteStatus, ...]:
        raise StorageError("The disk is full.")

    with pytest.raises(StorageError):
        once.do(SHARE, fails)
    assert completion.find_completed(storage, AT, SHARE) is None
    assert once.do(SHARE, _writes(storage, 1)).statuses[0].stat.path == path_of(1)


@says("S6")
@BOTH
def test_a_share_that_is_complete_with_a_file_that_is_gone_is_not_written_again(
    on_rerun: OnRerun,
) -> None:
    storage = MemoryStorage()
    once = Once(storage, AT, on_rerun)
    once.do(SHARE, _writes(storage, 0))
    storage.delete(path_of(0))
    with pytest.raises(Corrupt, match="not there"):
        once.do(SHARE, _never)


# Finalized while it wrote


def _late(storage: Storage, *accepted: Accepted) -> Callable[[], tuple[WriteStatus, ...]]:
    """An attempt that the driver did not wait for."""

    def slow() -> tuple[WriteStatus, ...]:
        status = write(storage, 5)
        _finalize(storage, *accepted)
        return (status,)

    return slow


def test_finalized_meanwhile_a_late_attempt_removes_its_files_and_fails() -> None:
    storage = MemoryStorage()
    other = Accepted(OTHER, attempt(storage, 0, OTHER))
    with pytest.raises(InstantCancelled) as caught:
        Once(storage, AT, FAIL).do(SHARE, _late(storage, other))
    assert "lentic.write.finalize.on_rerun=recover" in caught.value.next_step
    assert "removed" in caught.value.safe
    assert data_paths(storage) == [path_of(0, OTHER)]
    assert completion.find_completed(storage, AT, SHARE) is None
    assert completion.load_accepted(storage, AT) == (other,)


def test_finalized_meanwhile_a_late_attempt_serves_what_was_accepted_of_its_share() -> None:
    storage = MemoryStorage()
    status = write(storage, 1)
    mine, other = Accepted(SHARE, (status,)), Accepted(OTHER, attempt(storage, 0, OTHER))
    found = Once(storage, AT, RECOVER).do(SHARE, _late(storage, other, mine))
    assert found == mine
    assert data_paths(storage) == sorted([path_of(1), path_of(0, OTHER)])


def test_finalized_without_the_share_a_late_attempt_serves_nothing() -> None:
    storage = MemoryStorage()
    other = Accepted(OTHER, attempt(storage, 0, OTHER))
    assert Once(storage, AT, RECOVER).do(SHARE, _late(storage, other)) == Accepted(SHARE, ())
    assert data_paths(storage) == [path_of(0, OTHER)]


@BOTH
def test_after_the_commit_a_late_attempt_removes_its_files_and_fails(on_rerun: OnRerun) -> None:
    storage = MemoryStorage()

    def slept() -> tuple[WriteStatus, ...]:
        status = write(storage, 5)
        _finalize(storage)
        completion.remove_completions(storage, AT, keep_finalized=True)
        return (status,)

    with pytest.raises(InstantCancelled):
        Once(storage, AT, on_rerun).do(SHARE, slept)
    assert data_paths(storage) == []


# Finalized before it began


def test_a_share_is_not_written_once_the_write_is_finalized() -> None:
    storage = MemoryStorage()
    accepted = Accepted(SHARE, attempt(storage, 0))
    _finalize(storage, accepted)
    before = storage.walk("")
    assert Once(storage, AT, RECOVER).do(SHARE, _never) == accepted
    assert Once(storage, AT, RECOVER).do(OTHER, _never) == Accepted(OTHER, ())
    for share in (SHARE, OTHER):
        with pytest.raises(InstantCancelled):
            Once(storage, AT, FAIL).do(share, _never)
    assert storage.walk("") == before


def test_what_was_accepted_counts_and_not_what_else_was_complete() -> None:
    """The driver may have lost the report of an attempt and accepted another's."""
    storage = MemoryStorage()
    attempt(storage, 0)
    accepted = Accepted(SHARE, (write(storage, 1),))
    _finalize(storage, accepted)
    assert Once(storage, AT, RECOVER).do(SHARE, _never) == accepted


def test_an_open_write_has_nothing_to_serve() -> None:
    storage = MemoryStorage()
    Once(storage, AT, FAIL).do(SHARE, _writes(storage, 0))
    for on_rerun in OnRerun:
        assert Once(storage, AT, on_rerun).after_finalize(0) is None


@says("robust.fm.fail")
def test_a_task_that_runs_again_after_the_end_fails_if_so_asked() -> None:
    storage = MemoryStorage()
    _finalize(storage)
    with pytest.raises(InstantCancelled, match="ran again after the write was finalized") as caught:
        Once(storage, AT, FAIL).after_finalize(0)
    assert caught.value.where == storage.root


@says("robust.fm.recover")
def test_a_task_that_runs_again_after_the_end_serves_what_was_accepted_of_it() -> None:
    storage = MemoryStorage()
    shares = [
        SHARE,
        replace(SHARE, file_id="fg2"),
        replace(SHARE, round=1),
        OTHER,
    ]
    accepted = [Accepted(share, attempt(storage, 0, share)) for share in shares]
    accepted.append(Accepted(replace(SHARE, file_id="fg3"), ()))
    _finalize(storage, *accepted)
    once = Once(storage, AT, RECOVER)
    assert set(once.after_finalize(0) or ()) == {accepted[0], accepted[1], accepted[4]}
    assert list(once.after_finalize(1) or ()) == [accepted[3]]
    assert list(once.after_finalize(2) or ()) == []
    assert once.after_finalize(2) is not None, "an empty answer is an answer"


def test_once_the_write_has_ended_there_is_nothing_left_to_serve() -> None:
    storage = MemoryStorage()
    _finalize(storage)
    completion.remove_completions(storage, AT, keep_finalized=True)
    with pytest.raises(InstantCancelled, match="ended"):
        Once(storage, AT, RECOVER).after_finalize(0)


# Handles


GIVEN = rows(*((f"k{n}", n, f"d{n % 2}") for n in range(20)))


def _table(on_rerun: OnRerun, storage: Storage | None = None) -> OpenTable:
    options: dict[str, object] = {"lentic.write.finalize.on_rerun": on_rerun.value}
    return new_table(storage=storage, options=options)


def _run(table: OpenTable, begun: Begun, attempt: Attempt) -> list[Accepted]:
    texts = make_handle(table, begun)(attempt, iter(GIVEN.to_batches()))
    return list(map(decode_accepted, texts))


def _commit(table: OpenTable, begun: Begun, accepted: list[Accepted]) -> None:
    commit_write(table, begun, accepted, run=RUN, operation="UPSERT", extra={})


@BOTH
def test_an_attempt_that_is_repeated_writes_no_file(on_rerun: OnRerun) -> None:
    table = _table(on_rerun)
    begun = begin(table)
    first = _run(table, begun, Attempt(0, 0))
    before = table.storage.walk("")
    assert _run(table, begun, Attempt(0, 1)) == first
    assert table.storage.walk("") == before
    _commit(table, begun, first)
    assert len(read_all(table)) == 20


def _unread() -> Iterator[pa.RecordBatch]:
    raise AssertionError("no row is looked at")
    yield


def test_a_handle_that_begins_after_the_end_serves_or_fails_and_reads_no_row() -> None:
    for on_rerun in OnRerun:
        table = _table(on_rerun)
        begun = begin(table)
        accepted = _run(table, begun, Attempt(0, 0)) + _run(table, begun, Attempt(1, 0))
        completion.finalize(table.storage, begun.instant.requested_at, RUN, accepted)
        before = table.storage.walk("")
        again = make_handle(table, begun)(Attempt(0, 9), _unread())
        if on_rerun is FAIL:
            with pytest.raises(InstantCancelled):
                list(again)
        else:
            served = set(map(decode_accepted, again))
            assert served == {one for one in accepted if one.share.task == 0}
        assert table.storage.walk("") == before


class _Interrupted(WrappedStorage):
    """Does something else the first time a data file has been written."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], None] | None = None

    def after(self, op: str, path: str) -> None:
        if op == "open_output" and self.meanwhile is not None:
            act, self.meanwhile = self.meanwhile, None
            act()


@BOTH
def test_two_attempts_at_once_leave_one_file_per_group(on_rerun: OnRerun) -> None:
    storage = _Interrupted()
    table = _table(on_rerun, storage)
    begun = begin(table)
    storage.meanwhile = lambda: theirs.extend(_run(table, begun, Attempt(0, 1)))
    theirs: list[Accepted] = []
    mine = _run(table, begun, Attempt(0, 0))
    assert mine == theirs
    paths = {status.stat.path for status in statuses_of(mine)}
    assert set(data_paths(storage)) == paths
    assert len(paths) == 4
    assert len(list_announced(storage, begun.instant.requested_at)) == 5, "the loser's one, too"
    _commit(table, begun, mine)
    assert len(read_all(table)) == 20


@BOTH
def test_an_attempt_that_outlives_the_commit_leaves_no_file(on_rerun: OnRerun) -> None:
    storage = _Interrupted()
    table = _table(on_rerun, storage)
    begun = begin(table)
    storage.meanwhile = lambda: _commit(table, begun, _run(table, begun, Attempt(0, 1)))
    with pytest.raises(InstantCancelled):
        _run(table, begun, Attempt(0, 0))
    named = {
        path
        for group in load_table_view(storage, load_timeline(storage))
        for path in group.latest.paths
    }
    assert set(data_paths(storage)) == named
    assert len(read_all(table)) == 20


@says("S8")
@BOTH
def test_a_group_is_emptied_once_and_apart_from_what_else_is_written_to_it(
    on_rerun: OnRerun,
) -> None:
    table = _table(on_rerun)
    upsert(table, GIVEN)
    begun = begin(table)
    group = load_table_view(table.storage, begun.timeline)[0]
    handle = EmptyHandle(replace(make_writing(table, begun), overwrites=True), on_rerun)
    first = decode_accepted(handle(Attempt(0, 0), group))
    assert first.share == Share(group.id.partition, group.id.file_id, 0, round=1)
    (status,) = first.statuses
    assert (status.stat.writes, status.inserted) == (0, 0)
    assert status.deleted > 0
    before = table.storage.walk("")
    assert decode_accepted(handle(Attempt(0, 1), group)) == first
    assert table.storage.walk("") == before
