"""Files of the archived timeline: both ways, and as Apache Hudi writes them."""

from __future__ import annotations

import io

import pyarrow.parquet as pq
import pytest

from lentic.errors import Corrupt
from lentic.format.lsm import (
    ArchivedRow,
    ArchivedTimes,
    HistoryReader,
    ListedFile,
    decode_manifest,
    encode_manifest,
    encode_rows,
    name_rows,
    parse_history_name,
)
from lentic.format.names import Action
from tests.unit.builders import completed, requested


def row(at: int, plan: bytes | None = None) -> ArchivedRow:
    times = ArchivedTimes(requested(at), Action.COMMIT, completed(at + 1))
    return ArchivedRow(times, b"metadata %d" % at, plan)


def test_rows_come_back_by_requested_time() -> None:
    rows = [row(at, b"plan" if at % 2 else None) for at in range(200, 0, -1)]
    name = name_rows(rows, 2)
    assert parse_history_name(str(name)) == name
    reader = HistoryReader(io.BytesIO(encode_rows(rows)), name, "here")
    assert reader.read_rows() == tuple(reversed(rows))
    assert len(reader.read_times()) > 1, "one instant must not cost a whole file"


def test_the_columns_are_those_of_apache_hudi() -> None:
    file = pq.ParquetFile(io.BytesIO(encode_rows([row(1)])))
    columns = [file.schema.column(at) for at in range(6)]
    assert [(c.name, c.physical_type, c.max_definition_level) for c in columns] == [
        ("instantTime", "BYTE_ARRAY", 1),
        ("completionTime", "BYTE_ARRAY", 1),
        ("action", "BYTE_ARRAY", 1),
        ("metadata", "BYTE_ARRAY", 1),
        ("plan", "BYTE_ARRAY", 1),
        ("version", "INT32", 0),
    ]
    assert b'"HoodieLSMTimelineInstant"' in file.metadata.metadata[b"parquet.avro.schema"]


def test_a_name_that_does_not_fit_its_rows_is_told() -> None:
    reader = HistoryReader(io.BytesIO(encode_rows([row(1)])), name_rows([row(1), row(5)], 0), "x")
    with pytest.raises(Corrupt):
        reader.read_rows()


def test_a_manifest_comes_back_and_names_nothing_else() -> None:
    listed = (ListedFile(name_rows([row(1)], 0), 7),)
    assert decode_manifest(encode_manifest(listed), "here") == listed
    with pytest.raises(Corrupt):
        decode_manifest(b'{"files":[{"fileName":"../x_0.parquet","fileLen":1}]}', "here")
