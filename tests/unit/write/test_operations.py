"""Upserts from rows to a commit, and what is refused before the first byte."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from lentic.config.groups import Codec
from lentic.engine import LocalEngine
from lentic.errors import ConfigError, InvalidRecord, SchemaMismatch
from lentic.format.names import Action, State
from lentic.format.table_config import MergeMode
from lentic.query.snapshot import read_rows
from lentic.records.base_writer import ParquetStyle
from lentic.timeline.reader import load_commit_metadata, load_timeline
from lentic.txn.transaction import OpenTable
from lentic.view.schema import load_table_schema
from lentic.write.commit import Commit
from lentic.write.operations import (
    begin_upsert,
    ensure_writable,
    merge_fields,
    parquet_style,
    run_upsert,
)
from tests.unit.builders import SCHEMA, by_key, data_paths, new_table, rows

ENGINE = LocalEngine(threads=1)
BOTH = pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])


def _upsert(table: OpenTable, given: pa.Table) -> Commit:
    return run_upsert(table, ENGINE, given, begin_upsert(table))


def _values(table: OpenTable) -> dict[str, object]:
    found = by_key(read_rows(table, ENGINE))
    return {key: row["v"] for key, row in found.items()}


@BOTH
def test_new_keys_are_inserted_and_known_ones_updated(table_type: str) -> None:
    table = new_table(table_type=table_type, buckets=1)
    first = _upsert(table, rows(("a", 1, "d"), ("b", 2, "d")))
    assert (first.inserted, first.updated, first.files) == (2, 0, 1)
    second = _upsert(table, rows(("b", 20, "d"), ("c", 30, "d")))
    expected = (1, 1) if table_type == "COPY_ON_WRITE" else (0, 2)
    assert (second.inserted, second.updated) == expected
    assert _values(table) == {"a": 1, "b": 20, "c": 30}


@BOTH
def test_late_rows_change_nothing(table_type: str) -> None:
    table = new_table(table_type=table_type, ordering="v")
    _upsert(table, rows(("a", 5, "d")))
    _upsert(table, rows(("a", 3, "d")))
    assert _values(table) == {"a": 5}


@BOTH
def test_by_commit_time_the_later_write_wins_though_there_are_ordering_fields(
    table_type: str,
) -> None:
    table = new_table(
        table_type=table_type,
        ordering="v",
        options={"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"},
    )
    _upsert(table, rows(("a", 5, "d")))
    _upsert(table, rows(("a", 3, "d")))
    assert _values(table) == {"a": 3}


@pytest.mark.parametrize(
    ("table_type", "action"),
    [("MERGE_ON_READ", Action.DELTACOMMIT), ("COPY_ON_WRITE", Action.COMMIT)],
)
def test_the_table_type_decides_the_action(table_type: str, action: Action) -> None:
    table = new_table(table_type=table_type)
    begun = begin_upsert(table)
    assert (begun.instant.action, begun.instant.state) == (action, State.INFLIGHT)
    commit = run_upsert(table, ENGINE, rows(("a", 1, "d")), begun)
    assert commit.action is action
    assert commit.requested_at == begun.instant.requested_at


@BOTH
def test_every_commit_hands_the_schema_on(table_type: str) -> None:
    table = new_table(table_type=table_type)
    for number in range(2):
        _upsert(table, rows(("a", number, "d")))
    timeline = load_timeline(table.storage)
    for instant in timeline.completed():
        written = load_commit_metadata(table.storage, instant)
        assert written.extra["schema"] == table.config.create_schema
        assert written.operation == "UPSERT"
    bare = replace(table.config, create_schema=None)
    assert load_table_schema(table.storage, timeline, bare) == SCHEMA


@BOTH
def test_no_rows_make_an_empty_commit(table_type: str) -> None:
    table = new_table(table_type=table_type)
    commit = _upsert(table, SCHEMA.empty_table())
    assert commit.files == 0
    assert data_paths(table.storage) == []


def test_bytes_and_files_are_those_on_storage() -> None:
    table = new_table(buckets=3)
    commit = _upsert(table, rows(*((f"k{n}", n, f"d{n % 2}") for n in range(40))))
    sizes = [table.storage.info(path) for path in data_paths(table.storage)]
    assert commit.files == len(sizes) == 6
    assert commit.bytes == sum(info.size for info in sizes if info)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (pa.table({"id": ["a"], "v": [1]}), SchemaMismatch),
        (pa.table({"id": ["a"], "v": ["x"], "day": ["d"]}), SchemaMismatch),
        (pa.table({"id": ["a"], "v": [1], "day": ["d"], "more": [1]}), SchemaMismatch),
        ([{"id": "a"}], SchemaMismatch),
    ],
)
def test_rows_that_do_not_fit_are_refused_before_the_first_byte(
    given: object, error: type[Exception]
) -> None:
    table = new_table()
    before = table.storage.walk("")
    with pytest.raises(error):
        ensure_writable(table, ENGINE, given)
    assert table.storage.walk("") == before


def test_a_table_without_buckets_is_refused_before_the_first_byte() -> None:
    table = new_table()
    with pytest.raises(ConfigError):
        ensure_writable(
            replace(table, config=replace(table.config, buckets=None)), ENGINE, rows(("a", 1, "d"))
        )


def test_rows_that_fit_pass() -> None:
    ensure_writable(new_table(), ENGINE, rows(("a", 1, "d")))
    ensure_writable(new_table(), ENGINE, rows(("a", 1, "d")).to_batches()[0])


@pytest.mark.parametrize("bad", [("", 1, "d"), ("b", 1, "../x")])
@BOTH
def test_one_bad_row_keeps_every_file_from_being_written(
    bad: tuple[str, int, str], table_type: str
) -> None:
    table = new_table(table_type=table_type)
    begun = begin_upsert(table)
    given = rows(*((f"k{n}", n, "d") for n in range(20)), bad)
    with pytest.raises(InvalidRecord):
        run_upsert(table, ENGINE, given, begun)
    assert data_paths(table.storage) == []
    assert table.storage.walk(".hoodie/.temp") == []


def test_ordering_fields_count_in_event_time_mode_only() -> None:
    config = new_table(ordering="v").config
    assert merge_fields(config) == ("v",)
    assert merge_fields(replace(config, merge_mode=MergeMode.COMMIT_TIME_ORDERING)) == ()


def test_parquet_is_written_as_the_options_say() -> None:
    table = new_table(
        options={
            "hoodie.parquet.compression.codec": "snappy",
            "lentic.parquet.row_group_rows": 5000,
        }
    )
    assert parquet_style(table) == ParquetStyle(Codec.SNAPPY, 5000)
