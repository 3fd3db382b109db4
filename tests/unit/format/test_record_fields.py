"""The meta columns come first, once, and in their fixed order."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lentic.errors import SchemaMismatch
from lentic.format.record_fields import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    FILE_NAME,
    META_FIELDS,
    META_SCHEMA,
    PARTITION_PATH,
    RECORD_KEY,
    with_meta_schema,
    without_meta,
)

DATA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("name", pa.string())], metadata={"a": "b"}
)


def test_the_names_and_their_order_are_the_formats() -> None:
    assert META_FIELDS == (
        "_hoodie_commit_time",
        "_hoodie_commit_seqno",
        "_hoodie_record_key",
        "_hoodie_partition_path",
        "_hoodie_file_name",
    )
    assert (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME) == META_FIELDS


def test_meta_columns_are_nullable_strings() -> None:
    assert tuple(META_SCHEMA.names) == META_FIELDS
    assert all(field.nullable and field.type == pa.string() for field in META_SCHEMA)


def test_meta_columns_go_first_and_the_rest_is_unchanged() -> None:
    whole = with_meta_schema(DATA)
    assert whole.names == [*META_FIELDS, "id", "name"]
    assert not whole.field("id").nullable
    assert whole.metadata == {b"a": b"b"}


def test_adding_twice_adds_once() -> None:
    assert with_meta_schema(with_meta_schema(DATA)) == with_meta_schema(DATA)


def test_meta_columns_in_the_wrong_place_are_moved_to_the_front() -> None:
    shuffled = pa.schema([("id", pa.int64()), (RECORD_KEY, pa.string())])
    assert with_meta_schema(shuffled).names == [*META_FIELDS, "id"]


def test_removing_undoes_adding() -> None:
    assert without_meta(with_meta_schema(DATA)).equals(DATA, check_metadata=True)


def test_a_user_column_with_a_meta_name_and_another_type_is_refused() -> None:
    with pytest.raises(SchemaMismatch, match=RECORD_KEY):
        with_meta_schema(pa.schema([(RECORD_KEY, pa.int64())]))
