"""Names that are no text, where the file system lets anybody make them."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

import lentic
from tests.fuzz.tables import NARROW, narrow_rows, ordered

NAMES = (
    b"\xff\xfe",
    b"20270115080001000_20270115080001001.commit\xff",
    b"\xff20270115080001000.commit.requested",
    b"2027\xed\xa0\x80.deltacommit.inflight",
    b"manifest_\xff",
    b"a\nb.parquet",
    b"a\x01b",
    b"\\..\\x",
    b" ",
    b"x" * 255,
)
PLACES = (
    ".hoodie",
    ".hoodie/timeline",
    ".hoodie/timeline/history",
    ".hoodie/.temp/20270115080001000",
    ".hoodie/.temp/20270115080001000/p0",
    "p0",
    "p0/deeper",
    "",
)


@pytest.fixture
def table(tmp_path: Path) -> lentic.Table:
    made = lentic.create(str(tmp_path / "t"), NARROW, key="id", partition_by="part", buckets=1)
    made.upsert(narrow_rows(0, 10, 1))
    return made


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_a_name_that_is_no_text_changes_no_answer(
    table: lentic.Table, place: str, name: bytes
) -> None:
    directory = os.fsencode(os.path.join(table.path, place))
    os.makedirs(directory, exist_ok=True)
    Path(os.fsdecode(os.path.join(directory, name))).write_bytes(b"x")
    assert _rows(table.path).equals(narrow_rows(0, 10, 1))
    lentic.open(table.path).upsert(narrow_rows(10, 11, 2))
    both = pa.concat_tables([narrow_rows(0, 10, 1), narrow_rows(10, 11, 2)])
    assert _rows(table.path).equals(both.combine_chunks())


def _rows(path: str) -> pa.Table:
    return ordered(lentic.open(path).read())
