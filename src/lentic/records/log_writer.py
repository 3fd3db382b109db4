"""Changes -> one log file: Parquet data blocks of rows, whole and partial, then what is deleted.

A log file is written once, whole, under a name of its own attempt, and never appended to (R4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lentic.format.log_block import BlockKind, Header, encode_block
from lentic.format.log_deletes import encode_delete_payload
from lentic.format.log_payload import encode_parquet_payload
from lentic.format.times import RequestedAt
from lentic.records.base_writer import ParquetStyle, Written
from lentic.records.merge import Deletes, by_kind
from lentic.storage.base import Storage


@dataclass(frozen=True, slots=True)
class PartialRows:
    """Rows that carry some columns of the table; `avro_schema` names them, `_hoodie_*` included."""

    rows: pa.Table
    avro_schema: str


def write_log(
    storage: Storage,
    path: str,
    rows: pa.Table | None,
    *,
    partial: PartialRows | None = None,
    deletes: Deletes | None = None,
    partition: str = "",
    avro_schema: str,
    requested_at: RequestedAt,
    style: ParquetStyle,
    folds: Sequence[str] = (),
) -> Written:
    """One log file that upserts `rows` and `partial`, and deletes `deletes`, all of `partition`.

    `avro_schema` names the columns of the rows, `_hoodie_*` included. There must be something to
    write; what is empty has no block. No key may be in two of them: which one won would depend on
    the order of the blocks. The rows counted are those upserted. `folds` are the instants whose
    blocks the file stands for, if it was made by a log compaction.
    """
    headers = {Header.INSTANT_TIME: str(requested_at), Header.SCHEMA: avro_schema}
    if folds:
        headers[Header.COMPACTED_BLOCK_TIMES] = ",".join(folds)
    blocks, count = [], 0
    codec = "none" if style.codec == "uncompressed" else style.codec.value
    if rows is not None and rows.num_rows:
        payload = encode_parquet_payload(rows, compression=codec)
        blocks.append(encode_block(BlockKind.PARQUET, headers, payload))
        count += rows.num_rows
    if partial is not None and partial.rows.num_rows:
        payload = encode_parquet_payload(partial.rows, compression=codec)
        own = {Header.SCHEMA: partial.avro_schema, Header.IS_PARTIAL: "true"}
        blocks.append(encode_block(BlockKind.PARQUET, headers | own, payload))
        count += partial.rows.num_rows
    for part in by_kind(deletes) if deletes is not None else ():
        if len(part.keys):
            payload = encode_delete_payload(part.keys, partition, part.ordering)
            blocks.append(encode_block(BlockKind.DELETE, headers, payload))
    assert blocks, "a log of nothing"
    with storage.open_output(path) as sink:
        for block in blocks:
            sink.write(block)
    return Written(sum(map(len, blocks)), count)
