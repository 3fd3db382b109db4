"""Arrow rows -> one log file with one Parquet data block.

A log file is written once, whole, under a name of its own attempt, and never appended to (R4).
"""

from __future__ import annotations

import pyarrow as pa

from lentic.format.log_block import BlockKind, Header, encode_block
from lentic.format.log_payload import encode_parquet_payload
from lentic.format.times import RequestedAt
from lentic.records.base_writer import ParquetStyle, Written
from lentic.storage.base import Storage


def write_log(
    storage: Storage,
    path: str,
    rows: pa.Table,
    *,
    avro_schema: str,
    requested_at: RequestedAt,
    style: ParquetStyle,
) -> Written:
    """One log file that upserts `rows`; `avro_schema` names their columns, `_hoodie_*` included."""
    headers = {Header.INSTANT_TIME: str(requested_at), Header.SCHEMA: avro_schema}
    codec = "none" if style.codec == "uncompressed" else style.codec.value
    payload = encode_parquet_payload(rows, compression=codec)
    block = encode_block(BlockKind.PARQUET, headers, payload)
    with storage.open_output(path) as sink:
        sink.write(block)
    return Written(len(block), rows.num_rows)
