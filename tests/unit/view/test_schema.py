"""The table's schema: the newest completed write's word, else the word at creation."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lentic.errors import Corrupt, UnsupportedFormat
from lentic.format.avro_schema import avro_schema_json
from lentic.format.commit_metadata import CommitMetadata
from lentic.format.layout import timeline_file
from lentic.format.table_config import KeyGenerator, MergeMode, TableConfig, TableType
from lentic.storage.memory import MemoryStorage
from lentic.timeline.reader import load_timeline
from lentic.view.schema import SCHEMA_KEY, load_avro_schema, load_table_schema
from tests.unit.builders import put_commit, time

AT_CREATION = pa.schema([("id", pa.string())])
FIRST = pa.schema([("id", pa.string()), ("a", pa.int32())])
SECOND = pa.schema([("id", pa.string()), ("a", pa.int64())])


def _config(schema: pa.Schema | None) -> TableConfig:
    return TableConfig(
        name="t",
        table_type=TableType.MERGE_ON_READ,
        key_fields=("id",),
        merge_mode=MergeMode.COMMIT_TIME_ORDERING,
        keygen=KeyGenerator.NON_PARTITION,
        create_schema=avro_schema_json(schema, "t", meta_fields=False) if schema else None,
    )


def _write(schema: pa.Schema | None, operation: str = "UPSERT") -> CommitMetadata:
    extra = {SCHEMA_KEY: avro_schema_json(schema, "t", meta_fields=False)} if schema else {}
    return CommitMetadata(operation=operation, compacted=False, stats=(), extra=extra)


def _schema(storage: MemoryStorage, config: TableConfig) -> pa.Schema:
    return load_table_schema(storage, load_timeline(storage), config)


def test_a_new_table_has_the_schema_it_was_created_with() -> None:
    assert _schema(MemoryStorage(), _config(AT_CREATION)) == AT_CREATION


def test_the_write_that_completed_last_has_the_last_word() -> None:
    storage = MemoryStorage()
    put_commit(storage, 1, 9, _write(SECOND))
    put_commit(storage, 2, 3, _write(FIRST))
    assert _schema(storage, _config(AT_CREATION)) == SECOND


@pytest.mark.parametrize("operation", ["COMPACT", "LOG_COMPACT", "CLUSTER"])
def test_a_service_that_saw_an_older_schema_does_not_bring_it_back(operation: str) -> None:
    storage = MemoryStorage()
    put_commit(storage, 1, 2, _write(FIRST))
    put_commit(storage, 4, 5, _write(SECOND))
    put_commit(storage, 3, 6, _write(FIRST, operation))
    assert _schema(storage, _config(AT_CREATION)) == SECOND


def test_where_only_services_are_left_the_last_of_them_has_the_word() -> None:
    storage = MemoryStorage()
    put_commit(storage, 1, 2, _write(FIRST, "COMPACT"))
    put_commit(storage, 3, 4, _write(SECOND, "LOG_COMPACT"))
    assert _schema(storage, _config(AT_CREATION)) == SECOND


def test_a_write_that_says_nothing_is_passed_over() -> None:
    storage = MemoryStorage()
    put_commit(storage, 1, 2, _write(FIRST))
    put_commit(storage, 3, 4, _write(None))
    assert _schema(storage, _config(AT_CREATION)) == FIRST


def test_a_pending_write_has_no_say() -> None:
    storage = MemoryStorage()
    put_commit(storage, 1, 2, _write(FIRST))
    storage.put_if_absent(timeline_file(f"{time(3)}.deltacommit.inflight"), b"")
    assert _schema(storage, _config(AT_CREATION)) == FIRST


def test_a_table_that_says_nowhere_what_it_holds_is_refused() -> None:
    storage = MemoryStorage()
    with pytest.raises(UnsupportedFormat) as caught:
        load_avro_schema(storage, load_timeline(storage), _config(None))
    assert caught.value.next_step


def test_a_schema_that_does_not_parse_is_corrupt() -> None:
    storage = MemoryStorage()
    written = CommitMetadata(
        operation="UPSERT", compacted=False, stats=(), extra={SCHEMA_KEY: "{not a schema"}
    )
    put_commit(storage, 1, 2, written)
    with pytest.raises(Corrupt):
        _schema(storage, _config(AT_CREATION))
