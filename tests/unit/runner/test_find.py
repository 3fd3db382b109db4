"""Which tables there are at a path."""

from __future__ import annotations

from pathlib import Path

import pytest

from lentic.errors import ConfigError
from lentic.format import layout
from lentic.runner.find import Place, find_tables, list_table_folders
from lentic.storage.local import LocalStorage
from lentic.storage.memory import MemoryStorage


def _make(root: Path, *folders: str) -> None:
    for folder in folders:
        path = root / folder / layout.PROPERTIES
        path.parent.mkdir(parents=True)
        path.touch()


def test_a_path_that_is_a_table_is_that_table(tmp_path: Path) -> None:
    _make(tmp_path, "orders")
    path = str(tmp_path / "orders")
    assert find_tables([path], {}, depth=3) == (Place(path, path),)


def test_a_folder_stands_for_the_tables_in_it_as_deep_as_asked(tmp_path: Path) -> None:
    _make(tmp_path, "a", "team/b", "team/x/y/c")
    (tmp_path / "empty").mkdir()
    root = str(tmp_path)
    assert [p.name for p in find_tables([root], {}, depth=2)] == [f"{root}/a", f"{root}/team/b"]
    assert len(find_tables([root], {}, depth=4)) == 3
    assert [p.name for p in find_tables([root], {}, depth=1)] == [f"{root}/a"]


def test_tables_within_tables_and_hidden_folders_are_not_looked_for(tmp_path: Path) -> None:
    _make(tmp_path, "a", "a/.hoodie/metadata", "a/inner", ".trash/b", "_old/c")
    assert list_table_folders(LocalStorage(str(tmp_path)), depth=5) == ("a",)


def test_a_table_named_twice_is_looked_after_once(tmp_path: Path) -> None:
    _make(tmp_path, "a")
    root = str(tmp_path)
    assert len(find_tables([root, f"{root}/a", f"{root}/"], {}, depth=1)) == 1


def test_a_path_without_any_table_stands_for_the_one_it_may_become(tmp_path: Path) -> None:
    path = str(tmp_path / "soon")
    assert find_tables([path], {}, depth=3) == (Place(path, path),)


def test_a_path_of_no_known_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match="Unknown kind"):
        find_tables(["ftp://host/lake"], {}, depth=1)


def test_names_hold_no_secrets() -> None:
    (place,) = find_tables(["memory://user:secret@host/t"], {}, depth=1)
    assert "secret" in place.path
    assert "secret" not in place.name


def test_every_storage_lists_the_folders_that_hold_something(tmp_path: Path) -> None:
    local, memory = LocalStorage(str(tmp_path)), MemoryStorage()
    for storage in (local, memory):
        for path in ("a/x", "a/b/y", "c/z", "top"):
            storage.put_if_absent(path, b"")
        assert storage.list_folders("") == ["a", "c"]
        assert storage.list_folders("a") == ["a/b"]
        assert storage.list_folders("nowhere") == []
