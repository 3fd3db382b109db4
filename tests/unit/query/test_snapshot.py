"""The snapshot query: every row once, as of the newest completed write."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from lentic.engine import LocalEngine
from lentic.errors import Corrupt, SchemaMismatch
from lentic.format.record_fields import META_FIELDS, with_meta_schema
from lentic.query.snapshot import ReadColumns, plan_scan, read_rows
from lentic.query.source import choose_columns
from lentic.records.slice_reader import SliceReader
from lentic.services.compaction import execute_compaction, schedule_compaction
from lentic.storage.memory import MemoryStorage
from lentic.txn.transaction import OpenTable
from tests.unit.builders import (
    SCHEMA,
    base_file,
    by_key,
    data_paths,
    log_file,
    new_table,
    rows,
    slice_of,
)
from tests.unit.write.attempts import begin, finish

ENGINE = LocalEngine(threads=1)
BOTH = pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
STORED = with_meta_schema(SCHEMA)


def _upsert(table: OpenTable, given: pa.Table) -> None:
    finish(table, given, begin(table))


def _read(table: OpenTable, columns: list[str] | None = None, meta: bool = False) -> pa.Table:
    found: pa.Table = read_rows(table, ENGINE, columns=columns, meta=meta)
    return found


@BOTH
def test_an_empty_table_reads_as_no_rows_of_its_schema(table_type: str) -> None:
    table = new_table(table_type=table_type)
    assert _read(table) == SCHEMA.empty_table()
    assert _read(table, meta=True).schema == STORED
    assert _read(table, ["v"]).schema == pa.schema([SCHEMA.field("v")])


@BOTH
def test_rows_are_those_of_all_completed_writes(table_type: str) -> None:
    table = new_table(table_type=table_type)
    _upsert(table, rows(*((f"k{n}", n, f"d{n % 3}") for n in range(30))))
    _upsert(table, rows(*((f"k{n}", -n, f"d{n % 3}") for n in range(0, 30, 2))))
    found = by_key(_read(table))
    assert {key: row["v"] for key, row in found.items()} == {
        f"k{n}": -n if n % 2 == 0 else n for n in range(30)
    }


@BOTH
def test_a_pending_write_is_invisible(table_type: str) -> None:
    table = new_table(table_type=table_type)
    _upsert(table, rows(("a", 1, "d")))
    begin(table)
    assert _read(table).num_rows == 1


def test_compaction_changes_files_and_no_rows() -> None:
    table = new_table(ordering="v", buckets=2)
    _upsert(table, rows(*((f"k{n}", n, f"d{n % 2}") for n in range(20))))
    _upsert(table, rows(*((f"k{n}", n - 5 + 10 * (n % 2), f"d{n % 2}") for n in range(20))))
    before = by_key(_read(table))
    at = schedule_compaction(table)
    assert at is not None
    execute_compaction(table, ENGINE, at)
    assert by_key(_read(table)) == before
    assert any(path.endswith(".parquet") for path in data_paths(table.storage))
    _upsert(table, rows(("k1", 99, "d1")))
    assert by_key(_read(table))["k1"]["v"] == 99


@BOTH
def test_columns_come_as_asked(table_type: str) -> None:
    table = new_table(table_type=table_type)
    _upsert(table, rows(("a", 1, "d")))
    assert _read(table, ["day", "id"]).to_pylist() == [{"day": "d", "id": "a"}]
    assert _read(table, ["_hoodie_record_key"]).to_pylist() == [{"_hoodie_record_key": "a"}]
    assert _read(table, meta=True).column_names == [*META_FIELDS, *SCHEMA.names]


def test_reading_no_column_is_refused_or_counts_the_rows() -> None:
    table = new_table(table_type="COPY_ON_WRITE")
    _upsert(table, rows(("a", 1, "d"), ("b", 1, "d")))
    try:
        found = _read(table, [])
    except SchemaMismatch:
        return
    assert found.num_rows == 2


@pytest.mark.parametrize("columns", [None, ["id"], ["id", "_hoodie_is_deleted"]])
@BOTH
def test_a_flagged_row_stays_deleted_whichever_columns_are_read(
    columns: list[str] | None, table_type: str
) -> None:
    schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    table = new_table(schema=schema, table_type=table_type)
    both = [{"id": "a", "day": "d"}, {"id": "b", "day": "d"}]
    _upsert(table, pa.Table.from_pylist(both, schema=schema))
    gone = [{"id": "a", "day": "d", "_hoodie_is_deleted": True}]
    _upsert(table, pa.Table.from_pylist(gone, schema=schema))
    assert list(by_key(_read(table, columns))) == ["b"]


def test_an_unknown_column_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(SchemaMismatch) as caught:
        choose_columns(STORED, ["id", "nope", "no"], meta=False)
    assert caught.value.what == "The table has no column nope, no."
    assert caught.value.next_step == "choose among id, v, day"


@pytest.mark.parametrize(
    ("asked", "meta", "chosen"),
    [
        (None, False, ("id", "v", "day")),
        (None, True, (*META_FIELDS, "id", "v", "day")),
        (["v"], False, ("v",)),
        (["v"], True, ("v",)),
        (("day", "_hoodie_file_name"), False, ("day", "_hoodie_file_name")),
    ],
)
def test_columns_are_chosen_by_name_or_all(
    asked: list[str] | None, meta: bool, chosen: tuple[str, ...]
) -> None:
    assert choose_columns(STORED, asked, meta=meta) == chosen


class DiskStorage(MemoryStorage):
    root = "/lake/orders"


def test_one_task_per_slice_and_plain_parquet_only_where_nothing_needs_merging() -> None:
    base, log = base_file(1, 2), log_file(3, 4)
    slices = [slice_of(base), slice_of(base, log), slice_of(None, log)]
    today = frozenset({str(base.name.requested_at)})
    read = ReadColumns(SliceReader(DiskStorage(), STORED, ()), ("v", "id"))
    scan = plan_scan(read, slices, today)
    assert [task.payload for task in scan.tasks] == slices
    assert [task.parquet for task in scan.tasks] == [f"file:///lake/orders/{base.path}", None, None]
    assert scan.schema == pa.schema([SCHEMA.field("v"), SCHEMA.field("id")])
    away = ReadColumns(SliceReader(MemoryStorage(), STORED, ()), ("v",))
    assert [task.parquet for task in plan_scan(away, slices, today).tasks] == [None, None, None]
    other_schema = plan_scan(read, slices, frozenset())
    assert [task.parquet for task in other_schema.tasks] == [None, None, None]


def test_a_read_is_a_value_that_travels() -> None:
    table = new_table()
    _upsert(table, rows(("a", 1, "d")))
    reader = SliceReader(table.storage, STORED, ())
    read = pickle.loads(pickle.dumps(ReadColumns(reader, ("id",))))
    assert isinstance(read, ReadColumns)
    assert read.columns == ("id",)


def test_damage_is_told_not_skipped() -> None:
    table = new_table()
    _upsert(table, rows(("a", 1, "d"), ("b", 2, "d")))
    path = data_paths(table.storage)[0]
    table.storage.replace(path, table.storage.read(path)[:-1])
    with pytest.raises(Corrupt) as caught:
        _read(table)
    assert path in caught.value.where
