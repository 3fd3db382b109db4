"""A log file is one whole block, written once under a name of its own."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from lentic.config.groups import Codec
from lentic.errors import StorageError
from lentic.format.avro_schema import avro_schema_json
from lentic.format.log_block import BlockKind, Header, decode_blocks
from lentic.format.log_payload import decode_parquet_payload
from lentic.format.record_fields import with_meta_schema
from lentic.records.base_writer import ParquetStyle
from lentic.records.log_writer import write_log
from lentic.storage.memory import MemoryStorage
from tests.unit.builders import SCHEMA, WrappedStorage, log_file, requested

STORED = with_meta_schema(SCHEMA)
AVRO = avro_schema_json(SCHEMA, "t", meta_fields=True)
ROWS = pa.Table.from_pylist([{"id": "a", "v": 1}, {"id": "b", "v": None}], schema=STORED)
PATH = log_file(1, 2).path


@pytest.mark.parametrize("codec", list(Codec))
def test_a_log_holds_one_parquet_block_with_instant_and_schema(codec: Codec) -> None:
    storage = MemoryStorage()
    written = write_log(
        storage,
        PATH,
        ROWS,
        avro_schema=AVRO,
        requested_at=requested(1),
        style=ParquetStyle(codec, 1_000),
    )
    data = storage.read(PATH)
    (block,) = decode_blocks(data, PATH)
    assert block.kind is BlockKind.PARQUET
    assert block.headers[Header.INSTANT_TIME] == requested(1)
    names = [field["name"] for field in json.loads(block.headers[Header.SCHEMA])["fields"]]
    assert names == STORED.names
    assert set(block.headers) == {Header.INSTANT_TIME, Header.SCHEMA}
    assert decode_parquet_payload(block.content, PATH).to_pylist() == ROWS.to_pylist()
    assert (written.size, written.rows) == (len(data), 2)


def test_a_log_is_never_appended_to() -> None:
    """R4."""
    storage = WrappedStorage()
    style = ParquetStyle(Codec.ZSTD, 1_000)
    for attempt in range(2):
        try:
            write_log(storage, PATH, ROWS, avro_schema=AVRO, requested_at=requested(1), style=style)
        except StorageError:
            assert attempt == 1
    assert len(list(decode_blocks(storage.read(PATH), PATH))) == 1
    assert {op for op, _ in storage.calls} == {"open_output", "read"}
