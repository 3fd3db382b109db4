"""Loading the view from a storage: what is listed, and which writes are asked about it."""

from __future__ import annotations

import pytest

from lentic.errors import Corrupt, MissingFile
from lentic.format.layout import HISTORY, timeline_file
from lentic.format.names import Action
from lentic.storage.base import Storage
from lentic.storage.memory import MemoryStorage
from lentic.timeline.reader import load_timeline
from lentic.view.files import FileGroup
from lentic.view.listing import load_partition_view, load_table_view, load_writes
from tests.rfc.claims import says
from tests.unit.builders import (
    WrappedStorage,
    base_file,
    log_file,
    metadata,
    put_commit,
    requested,
    time,
)


def _put(storage: Storage, *paths: str) -> None:
    for path in paths:
        storage.put_if_absent(path, b"x")


def _view(storage: Storage) -> tuple[FileGroup, ...]:
    return load_table_view(storage, load_timeline(storage))


def test_an_empty_table_has_no_groups() -> None:
    assert _view(MemoryStorage()) == ()


def test_the_view_spans_all_partitions_and_leaves_the_tables_own_folder_out() -> None:
    storage = MemoryStorage()
    p, q = base_file(1, 2).path, base_file(1, 2, partition="a/b").path
    inside = base_file(1, 2, partition=".hoodie/metadata/files").path
    _put(storage, p, q, inside, "p/.hoodie_partition_metadata")
    put_commit(storage, 1, 2, metadata(p, q))
    assert [str(group.id) for group in _view(storage)] == ["a/b/fg", "p/fg"]


def test_one_partition_is_listed_without_what_lies_below_or_beside_it() -> None:
    storage = MemoryStorage()
    paths = [base_file(1, 2, partition=p, file_id=p[-1]).path for p in ("a", "a/b", "c")]
    _put(storage, *paths)
    put_commit(storage, 1, 2, metadata(*paths))
    timeline = load_timeline(storage)
    assert [str(g.id) for g in load_partition_view(storage, timeline, "a")] == ["a/a"]
    assert load_partition_view(storage, timeline, "nowhere") == ()


def test_the_view_is_as_of_the_timeline_it_is_given() -> None:
    storage = MemoryStorage()
    base, log = base_file(1, 2).path, log_file(3, 4).path
    _put(storage, base, log)
    put_commit(storage, 1, 2, metadata(base))
    earlier = load_timeline(storage)
    put_commit(storage, 3, 4, metadata(log))
    assert load_table_view(storage, earlier)[0].latest.paths == (base,)
    assert _view(storage)[0].latest.paths == (base, log)


def test_of_one_partition_only_metadata_of_its_makers_and_of_replacements_is_read() -> None:
    storage = WrappedStorage()
    base = base_file(1, 2, file_id="kept").path
    _put(storage, base)
    listed = put_commit(storage, 1, 2, metadata(base))
    elsewhere = put_commit(storage, 3, 4, metadata(base_file(3, 4, partition="q").path))
    replacing = put_commit(storage, 5, 6, metadata(replaced={"p": ("fg",)}), Action.REPLACECOMMIT)
    storage.calls.clear()
    groups = load_partition_view(storage, load_timeline(storage), "p")
    assert [str(group.id) for group in groups] == ["p/kept"]
    read = {path for op, path in storage.calls if op == "read"}
    assert read == {timeline_file(i.file_name) for i in (listed, replacing)}
    assert timeline_file(elsewhere.file_name) not in read


def test_a_committed_file_that_is_gone_is_told_not_skipped() -> None:
    storage = MemoryStorage()
    kept, lost = base_file(1, 2).path, log_file(3, 4).path
    _put(storage, kept)
    put_commit(storage, 1, 2, metadata(kept))
    put_commit(storage, 3, 4, metadata(lost))
    with pytest.raises(MissingFile) as caught:
        _view(storage)
    assert caught.value.where == lost


def test_a_table_that_was_cleaned_may_lack_files_of_its_commits() -> None:
    storage = MemoryStorage()
    old, new = base_file(1, 2).path, base_file(3, 4).path
    _put(storage, new)
    put_commit(storage, 1, 2, metadata(old))
    put_commit(storage, 3, 4, metadata(new))
    _put(storage, timeline_file(f"{time(5)}_{time(6)}.clean"))
    assert [part.paths for part in _view(storage)[0].slices] == [(new,)]


def test_a_replaced_group_is_hidden_though_its_files_still_lie_there() -> None:
    storage = MemoryStorage()
    base = base_file(1, 2).path
    _put(storage, base)
    put_commit(storage, 1, 2, metadata(base))
    put_commit(storage, 5, 6, metadata(replaced={"p": ("fg",)}), Action.REPLACECOMMIT)
    assert _view(storage) == ()


def test_pending_writes_are_not_among_the_committed() -> None:
    storage = MemoryStorage()
    done = put_commit(storage, 1, 2, metadata())
    storage.put_if_absent(timeline_file(f"{time(3)}.deltacommit.inflight"), b"")
    found = load_writes(storage, load_timeline(storage), {requested(1), requested(3)})
    assert list(found) == [requested(1)]
    assert found[requested(1)].completed_at == done.completed_at


def test_a_compaction_counts_as_the_commit_it_became() -> None:
    storage = MemoryStorage()
    base = base_file(5, 6).path
    _put(storage, base)
    storage.put_if_absent(timeline_file(f"{time(5)}.compaction.requested"), b"")
    put_commit(storage, 5, 6, metadata(base), Action.COMMIT)
    assert _view(storage)[0].latest.paths == (base,)


def _archived(*first: str) -> MemoryStorage:
    """A table with a history, whose active timeline holds `first` and then a commit at 50."""
    storage = MemoryStorage()
    _put(storage, f"{HISTORY}/_version_", f"{HISTORY}/manifest_1")
    for name in first:
        storage.put_if_absent(timeline_file(name), b"")
    now = base_file(50, 51, file_id="now").path
    _put(storage, now)
    put_commit(storage, 50, 51, metadata(now))
    return storage


@says("N7", "P7")
def test_files_of_archived_instants_need_a_history_that_reads() -> None:
    """P7, N7: a completion time that cannot be found is an error, never "pending"."""
    storage = _archived()
    _put(storage, log_file(10, 11).path)
    with pytest.raises(Corrupt):
        _view(storage)
    with pytest.raises(Corrupt):
        load_partition_view(storage, load_timeline(storage), "p")


@pytest.mark.parametrize(
    "first",
    [
        f"{time(5)}_{time(6)}.rollback",
        f"{time(5)}_{time(6)}.clean",
        f"{time(5)}.clean.requested",
        f"{time(5)}_{time(6)}.commit",
    ],
)
def test_files_of_archived_instants_need_history_though_an_older_instant_is_still_active(
    first: str,
) -> None:
    """Cleans, rollbacks and savepointed commits outlive commits that were archived around them."""
    storage = _archived(first)
    _put(storage, log_file(10, 11).path)
    with pytest.raises(Corrupt):
        _view(storage)


def test_a_history_that_no_file_needs_is_no_hindrance() -> None:
    assert [str(group.id) for group in _view(_archived())] == ["p/now"]
