"""The whole slice on object storage: create, upsert, compact, read."""

from __future__ import annotations

import pytest

import lentic
from tests.interop.compare import ensure_same_rows
from tests.rows import SCHEMA, latest, make_rows

S3Options = tuple[tuple[str, str], ...]


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_a_table_lives_on_s3(table_type: str, s3_options: S3Options) -> None:
    url = f"s3://lake/tables/{table_type.lower()}"
    options = {f"lentic.storage.{name}": value for name, value in s3_options}
    table = lentic.create(
        url,
        SCHEMA,
        key="id",
        partition_by="part",
        ordering="ts",
        table_type=table_type,
        buckets=2,
        options=options,
    )
    first, second = make_rows(0, 100, ts=1, seed=1), make_rows(50, 150, ts=2, seed=2)
    table.upsert(first)
    table.upsert(second)
    table.compact()
    seen = lentic.open(url, options=options).read()
    ensure_same_rows(latest(first, second), seen, ["id"], "expected", "lentic on S3")
    assert "test-secret" not in repr(table) + str(table.path) + repr(table._opened)


def test_a_missing_table_on_s3_is_not_found(s3_options: S3Options) -> None:
    options = {f"lentic.storage.{name}": value for name, value in s3_options}
    with pytest.raises(lentic.TableNotFound):
        lentic.open("s3://lake/nothing/here", options=options)
