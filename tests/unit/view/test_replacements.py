"""How long a replacement hides a group: for ever while it is active, once archived its past."""

from __future__ import annotations

import pytest

from lentic.errors import Corrupt
from lentic.format.commit_metadata import encode_commit_metadata
from lentic.format.names import Action, State
from lentic.storage.base import FileInfo
from lentic.storage.memory import MemoryStorage
from lentic.timeline.history import History
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_timeline
from lentic.view.listing import load_writes
from lentic.view.table_view import TableFiles, Writes, build_view, committed_write
from tests.unit.builders import (
    base_file,
    completed,
    log_file,
    metadata,
    put_commit,
    requested,
)

OLD, LATE, NEW, LOG = base_file(1, 2), base_file(3, 7), base_file(8, 9), log_file(10, 11)
ENDING = metadata(replaced={"p": ("fg",)})


def _writes(*, archived: bool) -> Writes:
    """`fg` ends at 6. `LATE` was requested before that and completed after it."""
    return {
        **{
            file.name.requested_at: committed_write(file.completed_at, metadata(file.path))
            for file in (OLD, LATE, NEW, LOG)
        },
        requested(5): committed_write(completed(6), ENDING, archived=archived),
    }


def _shown(writes: Writes) -> list[str]:
    files = [FileInfo(file.path, 1, 0) for file in (OLD, LATE, NEW, LOG)]
    return [path for g in build_view(files, writes) for part in g.slices for path in part.paths]


def test_an_active_replacement_hides_whatever_is_written_to_its_groups() -> None:
    writes = _writes(archived=False)
    assert _shown(writes) == []
    assert TableFiles((), writes).ended("p") == {"fg"}
    assert TableFiles((), writes).ended("q") == frozenset()


def test_an_archived_replacement_hides_what_was_requested_up_to_its_completion() -> None:
    writes = _writes(archived=True)
    assert _shown(writes) == [NEW.path, LOG.path]
    assert TableFiles((), writes).ended("p") == frozenset()


def test_before_its_completion_a_replacement_hides_nothing() -> None:
    for archived in (True, False):
        files = TableFiles((FileInfo(OLD.path, 1, 0),), _writes(archived=archived))
        (group,) = files.groups(completed(5))
        assert group.latest.paths == (OLD.path,)


def test_a_group_that_ended_twice_is_hidden_as_long_as_one_replacement_says() -> None:
    again = {requested(12): committed_write(completed(13), ENDING)}
    assert _shown({**_writes(archived=True), **again}) == []
    archived = {requested(12): committed_write(completed(13), ENDING, archived=True)}
    assert _shown({**_writes(archived=True), **archived}) == []
    assert _shown({**archived, **_writes(archived=True)}) == []


def test_what_is_both_active_and_archived_counts_as_active() -> None:
    storage = MemoryStorage()
    both = put_commit(storage, 5, 6, ENDING, Action.REPLACECOMMIT)
    gone = Instant(requested(1), Action.REPLACECOMMIT, State.COMPLETED, completed(2))
    content = encode_commit_metadata(ENDING, replaces=True)
    history = History((gone, both), {gone: content, both: content})
    found = load_writes(storage, load_timeline(storage), frozenset(), history)
    assert {at: write.archived for at, write in found.items()} == {
        requested(1): True,
        requested(5): False,
    }


def _counted(storage: MemoryStorage, *contents: tuple[int, int, bytes]) -> tuple[Writes, int]:
    """What is known of `p`, with these replacements archived, and how many of them were decoded."""
    old = Instant(requested(1), Action.COMMIT, State.COMPLETED, completed(2))
    archived = {
        Instant(requested(at), Action.REPLACECOMMIT, State.COMPLETED, completed(until)): content
        for at, until, content in contents
    }
    history = History((), {old: encode_commit_metadata(metadata(OLD.path))} | archived)
    storage.put_if_absent(OLD.path, b"x")
    wanted = {requested(1), requested(3)}
    writes = load_writes(storage, load_timeline(storage), wanted, history, frozenset({"p"}))
    return writes, len(writes) - 1


def test_archived_replacements_that_name_no_group_that_matters_are_not_decoded() -> None:
    def ends(*file_ids: str) -> bytes:
        return encode_commit_metadata(metadata(replaced={"p": file_ids}), replaces=True)

    other, ours = ends("one", "two"), ends("one", "fg")
    writes, count = _counted(MemoryStorage(), (5, 6, other), (7, 8, ours))
    assert count == 1 and writes[requested(7)].replaced
    writes, count = _counted(MemoryStorage(), (5, 6, other), (7, 8, other))
    assert count == 0
    assert _counted(MemoryStorage(), (5, 6, ours))[1] == 1


def test_a_group_that_an_archived_replacement_began_may_be_ended_by_an_earlier_entry() -> None:
    """Which of them is looked at first must not matter: the first names the group of the second."""
    began = encode_commit_metadata(
        metadata(base_file(3, 4, file_id="next").path, replaced={"p": ("fg",)}), replaces=True
    )
    ended = encode_commit_metadata(metadata(replaced={"p": ("next",)}), replaces=True)
    for order in (((3, 4, began), (5, 6, ended)), ((5, 6, ended), (3, 4, began))):
        writes, count = _counted(MemoryStorage(), *order)
        assert count == 2 and writes[requested(5)].replaced


def test_an_archived_replacement_that_does_not_read_is_never_passed_over() -> None:
    for damaged in (b"", b"Obj", b"nothing"):
        with pytest.raises(Corrupt):
            _counted(MemoryStorage(), (5, 6, damaged))
