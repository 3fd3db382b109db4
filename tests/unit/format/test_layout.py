"""Paths under a table."""

from __future__ import annotations

import pytest

from lentic.format import layout
from lentic.format.properties import decode_properties
from lentic.format.times import RequestedAt

AT = RequestedAt("20260101000000000")


def test_a_file_of_an_unpartitioned_table_has_no_leading_slash() -> None:
    assert layout.data_file("", "x.parquet") == "x.parquet"
    assert layout.data_file("a=1/b=2", "x.parquet") == "a=1/b=2/x.parquet"
    assert layout.partition_metadata("") == ".hoodie_partition_metadata"
    assert layout.partition_metadata("p0") == "p0/.hoodie_partition_metadata"


def test_a_marker_repeats_the_data_path_under_the_instants_folder() -> None:
    assert layout.markers(AT) == f".hoodie/.temp/{AT}"
    assert layout.marker(AT, "p0/f.parquet", "MERGE") == (
        f".hoodie/.temp/{AT}/p0/f.parquet.marker.MERGE"
    )
    assert layout.marker(AT, "f.parquet", "CREATE").endswith(f"{AT}/f.parquet.marker.CREATE")


def test_everything_but_data_lies_under_the_hoodie_folder() -> None:
    assert layout.PROPERTIES_BACKUP == layout.PROPERTIES + ".backup"
    assert layout.timeline_file("1.inflight") == ".hoodie/timeline/1.inflight"
    assert layout.heartbeat(AT) == f".hoodie/.heartbeat/{AT}"
    for path in (layout.TEMP, layout.LOCK, layout.CANCEL, layout.HISTORY, layout.METADATA_TABLE):
        assert path.startswith(".hoodie/")


@pytest.mark.parametrize(("partition", "depth"), [("", "0"), ("p0", "1"), ("2024/01/02", "3")])
def test_partition_metadata_says_the_first_instant_and_the_depth(
    partition: str, depth: str
) -> None:
    content = layout.encode_partition_metadata(AT, partition)
    assert content.startswith(b"#partition metadata\n")
    assert decode_properties(content, "x") == {"commitTime": AT, "partitionDepth": depth}


@pytest.mark.parametrize(
    "path",
    ["", "/etc/passwd", "../x", "p/../../x", "p//x", "./x", ".hoodie/hoodie.properties", "p/"],
)
def test_a_path_that_leaves_the_data_files_is_no_data_path(path: str) -> None:
    assert not layout.is_data_path(path)


@pytest.mark.parametrize("path", ["x.parquet", "p0/.x.log.1_0-0-0", "a=..b/x", ".hoodie_x/y"])
def test_a_path_among_the_data_files_is_a_data_path(path: str) -> None:
    assert layout.is_data_path(path)
