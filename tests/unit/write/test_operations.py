"""What each operation means, upserts from rows to a commit, and what is refused beforehand."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from lentic.config.groups import Codec
from lentic.engine import LocalEngine
from lentic.errors import ConfigError, InvalidRecord, SchemaMismatch
from lentic.format.names import Action, State
from lentic.format.table_config import KeyGenerator, MergeMode, TableConfig
from lentic.ingest.flow import prepare
from lentic.query.snapshot import read_rows
from lentic.records.base_writer import ParquetStyle
from lentic.timeline.reader import load_commit_metadata, load_timeline
from lentic.txn.transaction import OpenTable
from lentic.view.schema import load_table_schema
from lentic.write.commit import Commit
from lentic.write.operations import (
    LOOKS_UP,
    OVERWRITES,
    Operation,
    Request,
    choose_action,
    ensure_sortable,
    ensure_supported,
    merge_fields,
    parquet_style,
)
from tests.unit.builders import SCHEMA, by_key, data_paths, new_table, rows
from tests.unit.write.attempts import UPSERT, begin, finish

ENGINE = LocalEngine(threads=1)
BOTH = pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])


def _upsert(table: OpenTable, given: pa.Table) -> Commit:
    return finish(table, given, begin(table))


def _values(table: OpenTable) -> dict[str, object]:
    found = by_key(read_rows(table, ENGINE))
    return {key: row["v"] for key, row in found.items()}


@BOTH
def test_new_keys_are_inserted_and_known_ones_updated(table_type: str) -> None:
    table = new_table(table_type=table_type, buckets=1)
    first = _upsert(table, rows(("a", 1, "d"), ("b", 2, "d")))
    assert (first.inserted, first.updated, first.files) == (2, 0, 1)
    second = _upsert(table, rows(("b", 20, "d"), ("c", 30, "d")))
    assert (second.inserted, second.updated, second.deleted) == (1, 1, 0)
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
    begun = begin(table)
    assert (begun.instant.action, begun.instant.state) == (action, State.INFLIGHT)
    commit = finish(table, rows(("a", 1, "d")), begun)
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
        (pa.table({"v": [1], "day": ["d"]}), SchemaMismatch),
        (pa.table({"id": [1], "v": [1], "day": ["d"]}), SchemaMismatch),
        (pa.table({"id": ["a"], "day": ["d"], "_hoodie_other": [1]}), SchemaMismatch),
        ([{"id": "a"}], SchemaMismatch),
    ],
)
def test_rows_that_do_not_fit_are_refused_before_the_first_byte(
    given: object, error: type[Exception]
) -> None:
    table = new_table()
    before = table.storage.walk("")
    with pytest.raises(error):
        prepare(table, ENGINE, given, UPSERT)
    assert table.storage.walk("") == before


@pytest.mark.parametrize(
    ("buckets", "index"),
    [(2, "SIMPLE"), (2, "BLOOM"), (2, "GLOBAL_SIMPLE"), (None, "BUCKET")],
)
def test_an_index_that_is_not_the_tables_is_refused_before_the_first_byte(
    buckets: int | None, index: str
) -> None:
    table = new_table(buckets=buckets, options={"hoodie.index.type": index})
    before = table.storage.walk("")
    with pytest.raises(ConfigError, match=f"{index}, but the table has .* buckets") as caught:
        prepare(table, ENGINE, rows(("a", 1, "d")), UPSERT)
    assert caught.value.next_step == "leave hoodie.index.type out"
    assert table.storage.walk("") == before


@pytest.mark.parametrize(("buckets", "index"), [(2, "BUCKET"), (None, "BLOOM"), (None, "SIMPLE")])
def test_an_index_may_be_named_as_it_is(buckets: int | None, index: str) -> None:
    table = new_table(buckets=buckets, options={"hoodie.index.type": index})
    assert prepare(table, ENGINE, rows(("a", 1, "d")), UPSERT).schema == SCHEMA


def test_rows_that_fit_pass() -> None:
    for given in (rows(("a", 1, "d")), rows(("a", 1, "d")).to_batches()[0]):
        prepared = prepare(new_table(), ENGINE, given, UPSERT)
        assert prepared.schema == prepared.given == SCHEMA
        assert not prepared.is_evolved


def test_rows_may_lack_nullable_columns_and_new_ones_evolve_the_schema() -> None:
    table = new_table()
    fewer = prepare(table, ENGINE, pa.table({"id": ["a"], "day": ["d"]}), UPSERT)
    assert (fewer.schema, fewer.is_evolved) == (SCHEMA, False)
    more = pa.table({"more": [1], "id": ["a"], "day": ["d"]})
    evolved = prepare(table, ENGINE, more, UPSERT)
    assert evolved.schema == SCHEMA.append(pa.field("more", pa.int64()))
    assert evolved.is_evolved


@BOTH
def test_a_new_column_reads_as_null_in_older_rows(table_type: str) -> None:
    table = new_table(table_type=table_type, buckets=1)
    _upsert(table, rows(("a", 1, "d"), ("b", 2, "d")))
    _upsert(table, pa.table({"id": ["b", "c"], "day": ["d", "d"], "more": ["x", "y"]}))
    schema = SCHEMA.append(pa.field("more", pa.string()))
    assert load_table_schema(table.storage, load_timeline(table.storage), table.config) == schema
    found = {key: (row["v"], row["more"]) for key, row in by_key(read_rows(table, ENGINE)).items()}
    assert found == {"a": (1, None), "b": (None, "x"), "c": (None, "y")}
    _upsert(table, rows(("c", 3, "d")))
    assert by_key(read_rows(table, ENGINE))["c"] == {"id": "c", "v": 3, "day": "d", "more": None}


def test_of_rows_to_delete_only_the_keys_are_looked_at() -> None:
    table = new_table()
    delete = Request(Operation.DELETE)
    given = pa.table({"other": [1.5], "day": ["d"], "id": ["a"]})
    prepared = prepare(table, ENGINE, given, delete)
    assert prepared.given == pa.schema([SCHEMA.field("id"), SCHEMA.field("day")])
    assert (prepared.schema, prepared.is_evolved) == (SCHEMA, False)
    with pytest.raises(SchemaMismatch, match="id is int64"):
        prepare(table, ENGINE, pa.table({"id": [1], "day": ["d"]}), delete)
    with pytest.raises(SchemaMismatch, match="lack column day"):
        prepare(table, ENGINE, pa.table({"id": ["a"]}), delete)


@pytest.mark.parametrize("bad", [("", 1, "d"), ("b", 1, "../x")])
@BOTH
def test_one_bad_row_keeps_every_file_from_being_written(
    bad: tuple[str, int, str], table_type: str
) -> None:
    table = new_table(table_type=table_type)
    begun = begin(table)
    given = rows(*((f"k{n}", n, "d") for n in range(20)), bad)
    with pytest.raises(InvalidRecord):
        finish(table, given, begun)
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
    assert parquet_style(table.write_options) == ParquetStyle(Codec.SNAPPY, 5000)


# What each operation means


@pytest.mark.parametrize("operation", list(Operation))
@pytest.mark.parametrize("buckets", [2, None])
@BOTH
def test_only_an_overwrite_without_buckets_replaces_file_groups(
    operation: Operation, buckets: int | None, table_type: str
) -> None:
    config = new_table(table_type=table_type, buckets=buckets).config
    plain = Action.COMMIT if table_type == "COPY_ON_WRITE" else Action.DELTACOMMIT
    replaces = operation in OVERWRITES and buckets is None
    expected = Action.REPLACECOMMIT if replaces else plain
    assert choose_action(Request(operation), config) is expected


def test_what_operations_do() -> None:
    overwrites = {o for o in Operation if Request(o).overwrites}
    assert overwrites == OVERWRITES
    assert overwrites == {
        Operation.INSERT_OVERWRITE,
        Operation.INSERT_OVERWRITE_TABLE,
        Operation.DELETE_PARTITION,
    }
    filling = {o for o in Operation if Request(o).fills_small_files}
    assert filling == {Operation.UPSERT, Operation.INSERT}
    assert {Operation.UPSERT, Operation.DELETE} == LOOKS_UP


@pytest.mark.parametrize("insert", [True, False])
@pytest.mark.parametrize("upsert", [True, False])
def test_the_options_say_which_operations_combine_equal_keys(insert: bool, upsert: bool) -> None:
    options = new_table(
        options={"hoodie.combine.before.insert": insert, "hoodie.combine.before.upsert": upsert}
    ).write_options
    for operation in Operation:
        expected = insert
        if operation is Operation.UPSERT:
            expected = upsert
        if operation is Operation.DELETE:
            expected = True
        assert Request(operation).combines(options) is expected, operation


def test_rows_are_sorted_by_plain_columns_of_the_table_only() -> None:
    schema = SCHEMA.append(pa.field("tags", pa.list_(pa.string())))
    ensure_sortable(("v", "id"), schema)
    ensure_sortable((), schema)
    with pytest.raises(SchemaMismatch, match="sort_by names column nope") as caught:
        ensure_sortable(("v", "nope"), schema)
    assert "id, v, day, tags" in caught.value.next_step
    with pytest.raises(SchemaMismatch, match="sort_by names column tags of type list"):
        ensure_sortable(("tags",), schema)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"populate_meta_fields": False}, "virtual keys"),
        ({"drop_partition_columns": True}, "partition columns out of its files"),
        ({"extra": {"hoodie.table.cdc.enabled": "true"}}, "change logs"),
        ({"keygen": KeyGenerator.TIMESTAMP}, "key generator"),
        ({"keygen": KeyGenerator.CUSTOM}, "key generator"),
        ({"merge_mode": MergeMode.CUSTOM}, "in a way of its own"),
    ],
)
def test_tables_that_can_be_read_but_not_written_are_refused_before_the_first_byte(
    changes: dict[str, object], words: str
) -> None:
    table = new_table()
    config: TableConfig = replace(table.config, **changes)  # type: ignore[arg-type]
    before = table.storage.walk("")
    for source in (rows(("a", 1, "d")), None):
        with pytest.raises(ConfigError, match=words) as caught:
            prepare(replace(table, config=config), ENGINE, source, UPSERT)
        assert "reading works" in caught.value.safe
        assert "Apache Hudi" in caught.value.next_step
    assert table.storage.walk("") == before


def test_what_is_plain_is_supported() -> None:
    config = new_table().config
    ensure_supported(config)
    ensure_supported(replace(config, extra={"hoodie.table.cdc.enabled": "false"}))
    for name in ("SIMPLE", "COMPLEX", "NON_PARTITION", "SPARK_SQL", "SIMPLE_AVRO"):
        ensure_supported(replace(config, keygen=KeyGenerator[name]))
