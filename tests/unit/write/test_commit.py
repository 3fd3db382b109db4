"""The one door to COMPLETED: reconciled first, licensed in the same transaction, told as it is."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace

import pytest

from lentic.errors import (
    InstantCancelled,
    LenticError,
    OutcomeUnknown,
    StorageError,
    UnsupportedFormat,
    WriteConflict,
)
from lentic.format.layout import PROPERTIES
from lentic.format.names import Action, State
from lentic.format.properties import decode_properties, encode_properties
from lentic.format.table_config import decode_table_config
from lentic.format.times import RequestedAt
from lentic.services.rollback import sweep_markers
from lentic.storage.base import Storage
from lentic.timeline.reader import load_commit_metadata, load_timeline
from lentic.txn.transaction import OpenTable, transaction
from lentic.view.listing import load_table_view
from lentic.write import markers
from lentic.write.commit import Begun, begin_write, commit_write
from lentic.write.status import WriteStatus
from tests.rfc.claims import says
from tests.unit.builders import (
    FailingStorage,
    data_paths,
    new_table,
    rows,
    stat,
)
from tests.unit.write.attempts import accept, begin, finish, upsert

BOTH = pytest.mark.parametrize("action", [Action.DELTACOMMIT, Action.COMMIT])


def _file(table: OpenTable, begun: Begun, token: str = "0-0-0") -> str:
    """A data file of the write, announced and written."""
    at = begun.instant.requested_at
    path = f"p/.fg_{at}.log.1_{token}"
    markers.announce(table.storage, at, path, "CREATE")
    table.storage.put_if_absent(path, b"log")
    return path


def _status(path: str, inserted: int = 1) -> WriteStatus:
    return WriteStatus(stat(path, size=3), inserted, 2, 3)


RUN = 7


def _commit(table: OpenTable, begun: Begun, *paths: str) -> None:
    statuses = accept(map(_status, paths))
    commit_write(table, begun, statuses, run=RUN, operation="UPSERT", extra={"k": "v"})


# Completing


@says("robust.case2.same", "R8")
@BOTH
def test_a_commit_names_exactly_the_files_of_its_statuses(action: Action) -> None:
    table = new_table()
    begun = begin_write(table, action)
    one, two = _file(table, begun), _file(table, begun, "1-0-0")
    statuses = accept([_status(one), _status(two, 5)])
    commit = commit_write(table, begun, statuses, run=RUN, operation="UPSERT", extra={"k": "v"})
    (done,) = load_timeline(table.storage).instants
    assert done.is_completed
    assert (commit.requested_at, commit.completed_at) == (done.requested_at, done.completed_at)
    assert commit.action is done.action is action
    assert (commit.inserted, commit.updated, commit.deleted) == (6, 4, 6)
    assert (commit.files, commit.bytes) == (2, 6)
    written = load_commit_metadata(table.storage, done)
    assert written.paths() == {one, two}
    assert written.extra == {"k": "v"}
    assert written.operation == "UPSERT"
    assert not written.compacted


def test_a_commit_of_nothing_is_a_commit() -> None:
    table = new_table()
    begun = begin(table)
    commit = commit_write(table, begun, [], run=RUN, operation="UPSERT", extra={})
    assert (commit.files, commit.bytes, commit.inserted) == (0, 0, 0)
    assert load_timeline(table.storage).instants[0].is_completed


@says("robust.acid")
def test_readers_see_a_write_at_its_completion_and_not_before() -> None:
    table = new_table()
    begun = begin(table)
    path = _file(table, begun)
    assert load_table_view(table.storage, load_timeline(table.storage)) == ()
    _commit(table, begun, path)
    (group,) = load_table_view(table.storage, load_timeline(table.storage))
    assert group.latest.paths == (path,)


def test_markers_go_after_the_commit() -> None:
    storage = FailingStorage()
    table = new_table(storage=storage)
    begun = begin(table)
    _commit(table, begun, _file(table, begun))
    assert storage.walk(".hoodie/.temp") == []
    ops = [(op, path.rpartition("/")[2]) for op, path in storage.calls]
    completed = next(n for n, (op, name) in enumerate(ops) if name.endswith(".deltacommit"))
    removed = next(n for n, (op, name) in enumerate(ops) if op == "delete" and ".marker." in name)
    assert completed < removed


# Reconciliation


@says("robust.twice", "P15")
def test_announced_files_that_no_status_names_are_deleted_before_the_commit() -> None:
    """P15: the loser of two attempts, and a file that was announced but never written."""
    storage = FailingStorage()
    table = new_table(storage=storage)
    begun = begin(table)
    winner, loser = _file(table, begun, f"0-{RUN}-1"), _file(table, begun, f"0-{RUN}-0")
    never = winner.replace(f"0-{RUN}-1", f"0-{RUN}-7")
    markers.announce(table.storage, begun.instant.requested_at, never, "CREATE")
    _commit(table, begun, winner)
    assert data_paths(storage.inner) == [winner]
    deleted = [path for op, path in storage.calls if op == "delete" and ".hoodie/" not in path]
    assert sorted(deleted) == sorted([loser, never])
    order = [op for op, path in storage.calls if path == loser or path.endswith(".deltacommit")]
    assert order.index("delete") < len(order) - 1 - order[::-1].index("put_if_absent")


@says("R4")
def test_files_of_other_runs_go_only_once_the_commit_has_landed() -> None:
    """R4: this run may have been given up, and another be at it."""
    storage = FailingStorage()
    table = new_table(storage=storage)
    begun = replace(begin(table), guard=0)
    mine, theirs = _file(table, begun, f"0-{RUN}-0"), _file(table, begun, "0-8-0")
    _commit(table, begun, mine)
    assert data_paths(storage.inner) == [mine]
    order = [op for op, path in storage.calls if path == theirs or path.endswith(".deltacommit")]
    assert order[-1] == "delete"


class _AnnouncesLate(FailingStorage):
    """Right after the commit an attempt that nobody waited for announces a file, and begins it."""

    late = ""

    def after(self, op: str, path: str) -> None:
        name = path.rpartition("/")[2]
        if op == "put_if_absent" and name.endswith(".deltacommit") and not self.late:
            self.late = f"p/.fg_{name.partition('_')[0]}.log.1_0-8-0"
            markers.announce(self.inner, RequestedAt(name.partition("_")[0]), self.late, "CREATE")
            self.inner.put_if_absent(self.late, b"log")


def test_a_marker_made_after_the_commit_stays_for_whoever_deletes_its_file() -> None:
    storage = _AnnouncesLate()
    table = new_table(storage=storage)
    begun = begin(table)
    mine = _file(table, begun)
    _commit(table, begun, mine)
    assert storage.late in data_paths(storage.inner)
    assert markers.list_announced(storage, begun.instant.requested_at) == (storage.late,)
    sweep_markers(table)
    assert data_paths(storage.inner) == [mine]
    assert not markers.list_marked(storage)


@says("R4", "P11")
def test_files_of_other_instants_are_left_alone() -> None:
    table = new_table()
    other = begin(table)
    theirs = _file(table, other)
    begun = begin(table)
    _commit(table, begun, _file(table, begun))
    assert theirs in data_paths(table.storage)
    assert markers.list_announced(table.storage, other.instant.requested_at) == (theirs,)


@says("P15")
def test_a_delete_that_fails_fails_the_write() -> None:
    storage = FailingStorage()
    table = new_table(storage=storage)
    begun = begin(table)
    winner, loser = _file(table, begun, f"0-{RUN}-1"), _file(table, begun, f"0-{RUN}-0")
    storage.fail_before = lambda op, path: op == "delete" and path == loser
    with pytest.raises(StorageError):
        _commit(table, begun, winner)
    assert load_timeline(storage.inner).completed() == ()


def test_a_hostile_marker_cannot_make_a_commit_delete_the_tables_own_files() -> None:
    """S-2."""
    table = new_table()
    begun = begin(table)
    lists = f".hoodie/.temp/{begun.instant.requested_at}/MARKERS0"
    table.storage.put_if_absent(lists, f"{PROPERTIES}.marker.CREATE\n".encode())
    before = table.storage.read(PROPERTIES)
    with suppress(LenticError):  # refusing is as good as ignoring
        _commit(table, begun, _file(table, begun))
    assert table.storage.info(PROPERTIES) is not None
    assert table.storage.read(PROPERTIES) == before


# When things go wrong


@says("R1", "P8")
def test_a_write_that_was_rolled_back_meanwhile_cannot_commit() -> None:
    table = new_table()
    begun = begin(table)
    path = _file(table, begun)
    with transaction(table) as txn:
        txn.remove(begun.instant)
    with pytest.raises(InstantCancelled):
        _commit(table, begun, path)
    assert load_timeline(table.storage).instants == ()


@says("R15", "P19")
def test_a_lost_reply_to_the_commit_is_a_commit() -> None:
    storage = FailingStorage()
    table = new_table(storage=storage)
    begun = begin(table)
    path = _file(table, begun)
    storage.fail_after = lambda op, path: path.endswith(".deltacommit") and op == "put_if_absent"
    _commit(table, begun, path)
    assert load_timeline(storage.inner).instants[0].is_completed


@says("R15", "P19")
def test_a_commit_nobody_can_confirm_is_unknown_and_nothing_is_deleted() -> None:
    """P19."""
    storage = FailingStorage()
    table = new_table(storage=storage)
    begun = begin(table)
    path = _file(table, begun)
    storage.fail_after = lambda op, path: path.endswith(".deltacommit") and op == "put_if_absent"
    storage.fail_before = lambda op, path: path.endswith(".deltacommit") and op == "read"
    with pytest.raises(OutcomeUnknown):
        _commit(table, begun, path)
    assert path in data_paths(storage.inner)
    assert markers.list_announced(storage.inner, begun.instant.requested_at) == (path,)


@pytest.mark.parametrize("op", ["delete", "walk"])
def test_trouble_with_markers_after_the_commit_does_not_undo_it(
    op: str, caplog: pytest.LogCaptureFixture
) -> None:
    storage = FailingStorage()
    table = new_table(storage=storage)
    begun = begin(table)
    path = _file(table, begun)

    def is_after_the_commit(called: str, of: str) -> bool:
        done = bool(load_timeline(storage.inner).completed())
        return done and called == op and ".hoodie/.temp" in of

    storage.fail_before = is_after_the_commit
    with caplog.at_level(logging.WARNING):
        _commit(table, begun, path)
    assert load_timeline(storage.inner).instants[0].is_completed
    assert "stay until the next write" in caplog.text


# Conflicts


def test_a_rewrite_over_what_another_write_changed_meanwhile_is_refused() -> None:
    table = new_table(table_type="COPY_ON_WRITE", buckets=1)
    slow = begin(table)
    upsert(table, rows(("a", 1, "d")))
    with pytest.raises(WriteConflict) as caught:
        finish(table, rows(("b", 2, "d")), slow)
    assert "d/00000000-" in caught.value.what
    assert caught.value.next_step.startswith("write again")
    assert len(load_timeline(table.storage).completed()) == 1


def test_writes_to_different_groups_do_not_conflict() -> None:
    table = new_table(table_type="COPY_ON_WRITE", buckets=1)
    slow = begin(table)
    upsert(table, rows(("a", 1, "d1")))
    finish(table, rows(("b", 2, "d2")), slow)
    assert len(load_timeline(table.storage).completed()) == 2


@says("rfc66.commit.noconflict")
def test_appended_logs_never_conflict() -> None:
    table = new_table(buckets=1)
    slow = begin(table)
    upsert(table, rows(("a", 1, "d")))
    finish(table, rows(("a", 2, "d")), slow)
    assert len(load_timeline(table.storage).completed()) == 2


# The metadata table


def _list_metadata_table(storage: Storage, key: str = "hoodie.table.metadata.partitions") -> None:
    values = decode_properties(storage.read(PROPERTIES), PROPERTIES)
    values |= {key: "column_stats,files", "some.other.key": "kept = so"}
    storage.replace(PROPERTIES, encode_properties(values, "test"))


KEYS = pytest.mark.parametrize(
    "key", ["hoodie.table.metadata.partitions", "hoodie.table.metadata.partitions.inflight"]
)


@says("robust.order.mdt")
@KEYS
def test_a_table_with_a_metadata_table_is_refused_before_anything_is_written(key: str) -> None:
    table = new_table()
    _list_metadata_table(table.storage, key)
    before = table.storage.walk("")
    with pytest.raises(UnsupportedFormat) as caught:
        begin(table)
    assert "lentic.metadata.on_write" in caught.value.next_step
    assert table.storage.walk("") == before


@says("robust.order.mdt")
@KEYS
def test_a_metadata_table_is_dropped_from_the_properties_if_the_user_says_so(key: str) -> None:
    table = new_table(options={"lentic.metadata.on_write": "drop"})
    _list_metadata_table(table.storage, key)
    before = decode_properties(table.storage.read(PROPERTIES), PROPERTIES)
    begun = begin(table)
    after = decode_properties(table.storage.read(PROPERTIES), PROPERTIES)
    assert after == before | {key: ""}
    assert decode_table_config(table.storage.read(PROPERTIES), "").metadata_partitions == ()
    _commit(table, begun, _file(table, begun))


@says("robust.order.mdt", "P16")
def test_a_metadata_table_that_appears_during_a_write_refuses_its_commit() -> None:
    """Another engine built one meanwhile; it does not know this write's files."""
    table = new_table(options={"lentic.metadata.on_write": "drop"})
    begun = begin(table)
    path = _file(table, begun)
    _list_metadata_table(table.storage)
    with pytest.raises(UnsupportedFormat):
        _commit(table, begun, path)
    assert load_timeline(table.storage).completed() == ()


def test_nothing_is_dropped_while_the_list_is_empty() -> None:
    storage = FailingStorage()
    table = new_table(storage=storage, options={"lentic.metadata.on_write": "drop"})
    _list_metadata_table(storage)
    begin(table)
    storage.calls.clear()
    begin(table)
    assert "replace" not in {op for op, _ in storage.calls}


# Beginning


@BOTH
def test_a_write_begins_inflight_on_the_timeline_before_it(action: Action) -> None:
    table = new_table()
    first = begin_write(table, action)
    second = begin_write(table, action)
    assert first.instant.state is second.instant.state is State.INFLIGHT
    assert second.instant.requested_at > first.instant.requested_at
    assert first.timeline.instants == ()
    assert second.timeline.instants == (first.instant,)
    names = [file.name for file in table.storage.list_files(".hoodie/timeline")]
    assert len(names) == 4
