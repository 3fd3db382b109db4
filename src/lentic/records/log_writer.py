"""Arrow rows -> one log file: a Parquet data block, after a delete block where one is needed.

A log file is written once, whole, under a name of its own attempt, and never appended to (R4).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lentic.format.log_block import BlockKind, Header, encode_block
from lentic.format.log_payload import (
    DeleteRecord,
    encode_delete_payload,
    encode_parquet_payload,
)
from lentic.format.times import RequestedAt
from lentic.records.base_writer import ParquetStyle, Written
from lentic.storage.base import Storage


def write_log(
    storage: Storage,
    path: str,
    rows: pa.Table,
    *,
    cleared: Sequence[str] = (),
    avro_schema: str,
    requested_at: RequestedAt,
    style: ParquetStyle,
) -> Written:
    """One log file that upserts `rows`; `avro_schema` names their columns, `_hoodie_*` included.

    `cleared` are keys whose earlier versions do not count any more, whatever their ordering value.
    """
    headers = {Header.INSTANT_TIME: str(requested_at), Header.SCHEMA: avro_schema}
    codec = "none" if style.codec == "uncompressed" else style.codec.value
    payload = encode_parquet_payload(rows, compression=codec)
    blocks = encode_block(BlockKind.PARQUET, headers, payload)
    if cleared:
        partition = path.rpartition("/")[0]
        deletes = encode_delete_payload([DeleteRecord(key, partition, None) for key in cleared])
        blocks = encode_block(BlockKind.DELETE, headers, deletes) + blocks
    with storage.open_output(path) as sink:
        sink.write(blocks)
    return Written(len(blocks), rows.num_rows)
