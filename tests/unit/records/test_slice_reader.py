"""A slice reads as its base with its logs merged in, whichever columns are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lentic.errors import Corrupt, MissingFile
from lentic.format.avro_schema import avro_schema_json
from lentic.format.record_fields import RECORD_KEY, with_meta_schema
from lentic.records import slice_reader
from lentic.records.base_writer import write_base
from lentic.records.log_writer import write_log
from lentic.records.merge import IS_DELETED, Deletes, Merge
from lentic.records.slice_reader import SliceReader, read_base
from lentic.storage.memory import MemoryStorage
from lentic.view.files import BaseFile, LogFile
from tests.unit.builders import STYLE, base_file, concat, log_file, slice_of

USER = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        ("v", pa.int64()),
        ("at", pa.int64()),
        (IS_DELETED, pa.bool_()),
    ]
)
SCHEMA = with_meta_schema(USER)
AVRO = avro_schema_json(USER, "t", meta_fields=True)


def _rows(*given: tuple[str, int, int] | tuple[str, int, int, bool]) -> pa.Table:
    made = [
        {
            RECORD_KEY: row[0],
            "id": row[0],
            "v": row[1],
            "at": row[2],
            IS_DELETED: row[3:] == (True,),
        }
        for row in given
    ]
    return pa.Table.from_pylist(made, schema=SCHEMA)


class Group:
    """A file group in memory that grows file by file."""

    def __init__(self) -> None:
        self.storage = MemoryStorage()
        self.base: BaseFile | None = None
        self.logs: list[LogFile] = []

    def put_base(self, rows: pa.Table) -> None:
        base = base_file(1, 2)
        write_base(self.storage, base.path, rows.to_batches(max_chunksize=2), SCHEMA, STYLE)
        self.base = base

    def put_log(self, rows: pa.Table | None, deletes: Deletes | None = None) -> None:
        named = log_file(len(self.logs) + 3, len(self.logs) + 3)
        written = write_log(
            self.storage,
            named.path,
            rows,
            deletes=deletes,
            partition="p",
            avro_schema=AVRO,
            requested_at=named.name.requested_at,
            style=STYLE,
        )
        self.logs.append(LogFile(named.path, named.name, written.size, named.completed_at))

    def put_deletes(self, *given: tuple[str, int | None]) -> None:
        """A log that deletes keys, each at an ordering value or, if that is None, for good."""
        keys, at = zip(*given, strict=True)
        self.put_log(None, Deletes(pa.array(keys), (pa.array(at, pa.int64()),)))

    def read(
        self, columns: Sequence[str] = ("id", "v"), ordering: tuple[str, ...] = ("at",)
    ) -> list[dict[str, Any]]:
        reader = SliceReader(self.storage, SCHEMA, ordering)
        part = slice_of(self.base, *self.logs)
        schema = pa.schema([SCHEMA.field(name) for name in columns])
        batches = list(reader.read(part, tuple(columns)))
        assert all(batch.schema == schema for batch in batches)
        rows: list[dict[str, Any]] = concat(batches, schema).to_pylist()
        return sorted(rows, key=lambda row: str(row.get("id")))


def test_a_base_file_alone_is_read_as_it_is() -> None:
    group = Group()
    group.put_base(_rows(("a", 1, 1), ("b", 2, 1), ("c", 3, 1)))
    assert group.read() == [{"id": "a", "v": 1}, {"id": "b", "v": 2}, {"id": "c", "v": 3}]


def test_logs_alone_are_read_as_what_they_leave() -> None:
    group = Group()
    group.put_log(_rows(("a", 1, 1), ("b", 2, 1)))
    group.put_log(_rows(("a", 9, 0), ("b", 3, 2)))
    assert group.read() == [{"id": "a", "v": 1}, {"id": "b", "v": 3}]
    assert group.read(ordering=()) == [{"id": "a", "v": 9}, {"id": "b", "v": 3}]


def test_logs_are_merged_into_their_base() -> None:
    group = Group()
    group.put_base(_rows(("a", 1, 5), ("b", 2, 5), ("c", 3, 5)))
    group.put_log(_rows(("a", 10, 6), ("b", 20, 4), ("d", 40, 1)))
    group.put_deletes(("c", None), ("a", 5))
    assert group.read() == [{"id": "a", "v": 10}, {"id": "b", "v": 2}, {"id": "d", "v": 40}]


def test_a_hard_delete_removes_whatever_came_before_it() -> None:
    group = Group()
    group.put_base(_rows(("a", 1, 5), ("b", 2, 5), ("c", 3, 5)))
    group.put_log(_rows(("b", 20, 9)))
    group.put_log(_rows(("d", 40, 1)), Deletes(pa.array(["a", "b", "none such"]), None))
    for ordering in (("at",), ()):
        assert group.read(ordering=ordering) == [{"id": "c", "v": 3}, {"id": "d", "v": 40}]
    group.put_log(_rows(("a", 10, 5)))
    assert {"id": "a", "v": 10} in group.read()


def test_a_timed_delete_loses_to_newer_rows_and_wins_over_older_and_equal_ones() -> None:
    group = Group()
    group.put_base(_rows(("a", 1, 5), ("b", 2, 5), ("c", 3, 5), ("d", 4, 5)))
    group.put_log(_rows(("d", 40, 9)))
    group.put_deletes(("a", 4), ("b", 5), ("c", 6), ("d", 8))
    assert group.read() == [{"id": "a", "v": 1}, {"id": "d", "v": 40}]
    group.put_log(_rows(("b", 20, 4), ("c", 30, 7)))
    assert group.read() == [{"id": "a", "v": 1}, {"id": "c", "v": 30}, {"id": "d", "v": 40}]
    assert [row["id"] for row in group.read(ordering=())] == ["b", "c"]


@pytest.mark.parametrize(
    "columns",
    [("id",), ("v", "id"), ("at", "id"), (RECORD_KEY, "id"), ("id", "v", "at", IS_DELETED)],
)
def test_the_columns_asked_for_come_in_the_order_asked_for(columns: tuple[str, ...]) -> None:
    group = Group()
    group.put_base(_rows(("a", 1, 5), ("b", 2, 5)))
    base_only = group.read(columns)
    group.put_log(_rows(("a", 1, 6), ("b", 2, 4)))
    for rows in (base_only, group.read(columns)):
        assert [list(row) for row in rows] == [list(columns)] * 2
        assert [row["id"] for row in rows] == ["a", "b"]


@pytest.mark.parametrize("columns", [("id",), ("id", "v"), ("id", IS_DELETED)])
def test_a_flagged_row_is_deleted_whichever_columns_are_read(columns: tuple[str, ...]) -> None:
    group = Group()
    group.put_base(_rows(("a", 1, 5), ("b", 2, 5)))
    group.put_log(_rows(("a", 1, 6, True)))
    assert [row["id"] for row in group.read(columns)] == ["b"]


def test_empty_batches_are_left_out() -> None:
    group = Group()
    group.put_base(_rows(("a", 1, 5)))
    group.put_deletes(("a", None))
    reader = SliceReader(group.storage, SCHEMA, ("at",))
    assert list(reader.read(slice_of(group.base, *group.logs), ("id",))) == []


def test_a_file_that_is_gone_is_missing_not_empty() -> None:
    group = Group()
    group.put_base(_rows(("a", 1, 5)))
    group.put_log(_rows(("b", 1, 5)))
    for path in (group.logs[0].path, base_file(1, 2).path):
        group.storage.delete(path)
        with pytest.raises(MissingFile):
            group.read()


def test_damage_to_a_base_or_a_log_is_corrupt() -> None:
    group = Group()
    group.put_base(_rows(("a", 1, 5)))
    group.put_log(_rows(("b", 1, 5)))
    whole = group.storage.read(group.logs[0].path)
    group.storage.replace(group.logs[0].path, b"\x00" * len(whole))
    with pytest.raises(Corrupt):
        group.read()
    group.logs.clear()
    group.storage.replace(base_file(1, 2).path, b"nothing of the kind")
    with pytest.raises(Corrupt):
        group.read()


def test_a_base_file_is_read_in_pieces() -> None:
    group = Group()
    group.put_base(_rows(*((f"k{n}", n, 1) for n in range(10))))
    assert group.base is not None
    schema = pa.schema([SCHEMA.field("id")])
    stream = read_base(group.storage, group.base, schema)
    assert next(stream).schema == schema
    stream.close()  # type: ignore[attr-defined]


def test_the_schema_of_a_wide_base_file_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at it decodes every column anew, so that one per column costs their square."""
    looks = []
    plain = pq.ParquetFile.schema_arrow.fget

    class Watched(pq.ParquetFile):  # type: ignore[misc]
        @property
        def schema_arrow(self) -> pa.Schema:
            looks.append(self)
            return plain(self)

    group = Group()
    group.put_base(_rows(("a", 1, 1)))
    assert group.base is not None
    monkeypatch.setattr(slice_reader.pq, "ParquetFile", Watched)
    assert [batch.num_rows for batch in read_base(group.storage, group.base, SCHEMA)] == [1]
    assert len(looks) == 1 < len(SCHEMA)


def test_the_net_effect_of_the_logs_is_one_entry_per_key() -> None:
    group = Group()
    group.put_log(_rows(("a", 1, 1), ("b", 2, 1)))
    group.put_log(_rows(("a", 2, 2)))
    reader = SliceReader(group.storage, SCHEMA, ("at",))
    merging = reader.merging(slice_of(None, *group.logs), SCHEMA)
    assert isinstance(merging, Merge)
    assert sorted(merging.changes.keys.to_pylist()) == ["a", "b"]
