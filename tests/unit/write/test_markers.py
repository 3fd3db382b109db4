"""Markers announce every file before it exists, and name nothing but the table's data files."""

from __future__ import annotations

import pytest

from lentic.errors import LenticError
from lentic.format.layout import PROPERTIES
from lentic.storage.memory import MemoryStorage
from lentic.write import markers
from tests.rfc.claims import says
from tests.unit.builders import base_file, log_file, requested, time

BASE, LOG = base_file(1, 2).path, log_file(1, 2).path
DIRECTORY = f".hoodie/.temp/{time(1)}"


@says("robust.cm.begin")
def test_an_announced_file_is_listed_once_under_the_name_hudi_gives_its_marker() -> None:
    storage = MemoryStorage()
    markers.announce(storage, requested(1), BASE, "MERGE")
    markers.announce(storage, requested(1), LOG, "CREATE")
    markers.announce(storage, requested(1), LOG, "CREATE")
    assert [file.path for file in storage.walk("")] == [
        f"{DIRECTORY}/{LOG}.marker.CREATE",
        f"{DIRECTORY}/{BASE}.marker.MERGE",
    ]
    assert markers.list_announced(storage, requested(1)) == tuple(sorted((BASE, LOG)))


def test_the_root_of_an_unpartitioned_table_has_markers_too() -> None:
    storage = MemoryStorage()
    path = base_file(1, 2, partition="").path
    markers.announce(storage, requested(1), path, "CREATE")
    assert markers.list_announced(storage, requested(1)) == (path,)


def test_instants_do_not_see_each_others_markers() -> None:
    storage = MemoryStorage()
    markers.announce(storage, requested(1), BASE, "CREATE")
    theirs = log_file(2, 3).path
    markers.announce(storage, requested(2), theirs, "CREATE")
    assert markers.list_announced(storage, requested(2)) == (theirs,)
    assert markers.list_marked(storage) == {requested(1), requested(2)}
    markers.remove_markers(storage, requested(1))
    assert markers.list_announced(storage, requested(1)) == ()
    assert markers.list_announced(storage, requested(2)) == (theirs,)
    assert markers.list_marked(storage) == {requested(2)}


def test_nothing_announced_is_nothing_to_list_or_remove() -> None:
    storage = MemoryStorage()
    assert markers.list_announced(storage, requested(1)) == ()
    assert markers.list_marked(storage) == frozenset()
    markers.remove_markers(storage, requested(1))


def test_the_markers_of_hudis_timeline_server_are_read() -> None:
    storage = MemoryStorage()
    storage.put_if_absent(f"{DIRECTORY}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    storage.put_if_absent(f"{DIRECTORY}/MARKERS0", f"{BASE}.marker.CREATE\n".encode())
    storage.put_if_absent(
        f"{DIRECTORY}/MARKERS7", f"{LOG}.marker.APPEND\n{BASE}.marker.MERGE\n".encode()
    )
    assert markers.list_announced(storage, requested(1)) == tuple(sorted((BASE, LOG)))


def test_other_files_among_the_markers_announce_nothing() -> None:
    storage = MemoryStorage()
    for name in ("MARKERS.type", "p/notes.txt", f"{BASE}.marker", f"{BASE}.marker.DONE"):
        storage.put_if_absent(f"{DIRECTORY}/{name}", b"p/x.parquet.marker.CREATE\n")
    assert markers.list_announced(storage, requested(1)) == ()


def test_a_partition_that_looks_like_a_list_of_markers_is_a_partition() -> None:
    storage = MemoryStorage()
    path = base_file(1, 2, partition="MARKERS0").path
    markers.announce(storage, requested(1), path, "CREATE")
    assert markers.list_announced(storage, requested(1)) == (path,)


@pytest.mark.parametrize(
    "path",
    [
        "../outside.parquet",
        "/etc/passwd",
        "p/../../outside",
        PROPERTIES,
        f".hoodie/timeline/{time(1)}_{time(2)}.commit",
        ".hoodie/metadata/.hoodie/hoodie.properties",
    ],
)
def test_a_marker_cannot_name_anything_but_a_data_file_of_the_table(path: str) -> None:
    """S-2: what is announced gets deleted, so a hostile list must not lead elsewhere."""
    storage = MemoryStorage()
    storage.put_if_absent(f"{DIRECTORY}/MARKERS0", f"{path}.marker.CREATE\n".encode())
    try:
        announced = markers.list_announced(storage, requested(1))
    except LenticError:
        return
    assert path not in announced


def test_only_a_line_end_ends_a_line_of_a_list() -> None:
    """A partition may hold any character that is no control character."""
    storage = MemoryStorage()
    path = base_file(1, 2, partition="a\u2028b").path
    storage.put_if_absent(f"{DIRECTORY}/MARKERS0", f"{path}.marker.CREATE\n".encode())
    assert markers.list_announced(storage, requested(1)) == (path,)
