"""What is remembered of the files of the archived timeline, and how often they are opened."""

from __future__ import annotations

from lentic.format import layout
from lentic.format.lsm import ArchivedRow, ArchivedTimes, HistoryName, encode_rows, name_rows
from lentic.format.names import Action
from lentic.timeline.history_cache import CachedFile
from tests.unit.builders import WrappedStorage, completed, requested


def put_history(storage: WrappedStorage, *contents: bytes) -> tuple[str, HistoryName]:
    """A file of archived commits with these contents, its path and name."""
    rows = [
        ArchivedRow(ArchivedTimes(requested(at), Action.COMMIT, completed(999 - at)), content)
        for at, content in enumerate(contents)
    ]
    name = name_rows(rows, 0)
    path = layout.history_file(str(name))
    storage.put_if_absent(path, encode_rows(rows))
    return path, name


def test_a_file_is_opened_once_for_all_contents_and_never_again() -> None:
    storage = WrappedStorage()
    contents = tuple(bytes([at]) * 200_000 for at in range(8))
    path, name = put_history(storage, *contents)
    info = storage.info(path)
    assert info is not None
    file = CachedFile(storage, name, info)
    groups = range(len(file.times()))
    assert len(groups) == 8
    for _ in range(2):
        found = file.metadata(groups)
        assert tuple(content for group in found for content in group) == contents
        assert file.last_completion() == completed(999)
    opened = [call for call in storage.calls if call == ("open_input", path)]
    assert len(opened) == 3, "for the times, the contents and the last completion"
