"""Which tables there are at the paths that a user named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lentic.format import layout
from lentic.storage.base import FolderStorage
from lentic.storage.open import open_storage

FOLDERS_MAX = 100_000
"""Folders that one path is looked into at most."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table is: the path to open it by, and its name in lines, without secrets."""

    path: str
    name: str


def find_tables(
    paths: Iterable[str], options: Mapping[str, str], *, depth: int
) -> tuple[Place, ...]:
    """The tables at `paths`, each once: a path that is no table itself stands for all tables
    beneath it, at most `depth` folders down; one without any stands for the table it may become.
    """
    found: dict[str, Place] = {}
    for path in paths:
        storage = open_storage(path, options)
        folders = list_table_folders(storage, depth=depth)
        for folder in folders or ("",):
            name = f"{storage.root.rstrip('/')}/{folder}" if folder else storage.root
            full = f"{path.rstrip('/')}/{folder}" if folder else path
            found.setdefault(name, Place(full, name))
    return tuple(found.values())


def list_table_folders(storage: FolderStorage, *, depth: int) -> tuple[str, ...]:
    """The folders that are tables, "" for the root itself. A table is not looked into, and neither
    are folders whose names begin with a dot or an underscore."""
    found: list[str] = []
    level, looked = [""], 0
    for left in range(depth, -1, -1):
        below: list[str] = []
        for folder in level:
            if _is_table(storage, folder):
                found.append(folder)
            elif left and looked < FOLDERS_MAX:
                looked += 1
                inner = storage.list_folders(folder)
                below += [path for path in inner if path.rpartition("/")[2][:1] not in "._"]
        level = below
    return tuple(found)


def _is_table(storage: FolderStorage, folder: str) -> bool:
    return storage.info(layout.data_file(folder, layout.PROPERTIES)) is not None
