"""What is remembered of the files of the archived timeline, and how often they are opened."""

from __future__ import annotations

from lentic.format import layout
from lentic.format.lsm import ArchivedRow, ArchivedTimes, encode_rows, name_rows
from lentic.format.lsm_names import HistoryName
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
    for _ in range(2):
        found = dict(file.load(lambda _: True, lambda _: True))
        assert tuple(found.values()) == contents
        assert len(file.times(lambda _: True)) == 8, "each lies in a row group of its own"
        assert not file.may_have_ended({("p", "x")})
        assert file.last_completion() == completed(999)
    opened = [call for call in storage.calls if call == ("open_input", path)]
    assert len(opened) == 2, "for the instants and the last completion"
