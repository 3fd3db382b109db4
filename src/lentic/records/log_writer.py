"""Changes -> one log file: a Parquet data block of rows, then what is deleted.

A log file is written once, whole, under a name of its own attempt, and never appended to (R4).
"""

from __future__ import annotations

from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from lentic.format.log_block import BlockKind, Header, encode_block
from lentic.format.log_deletes import encode_delete_payload
from lentic.format.log_payload import encode_parquet_payload
from lentic.format.times import RequestedAt
from lentic.records.base_writer import ParquetStyle, Written
from lentic.records.merge import Deletes
from lentic.storage.base import Storage


def write_log(
    storage: Storage,
    path: str,
    rows: pa.Table | None,
    *,
    deletes: Deletes | None = None,
    partition: str = "",
    avro_schema: str,
    requested_at: RequestedAt,
    style: ParquetStyle,
) -> Written:
    """One log file that upserts `rows` and deletes `deletes`, which are of `partition`.

    `avro_schema` names the columns of the rows, `_hoodie_*` included. There must be something to
    write; what is empty has no block. No key may be in both: which of the two won would depend on
    the order of the blocks. The rows counted are those upserted.
    """
    headers = {Header.INSTANT_TIME: str(requested_at), Header.SCHEMA: avro_schema}
    blocks = []
    if rows is not None and rows.num_rows:
        codec = "none" if style.codec == "uncompressed" else style.codec.value
        payload = encode_parquet_payload(rows, compression=codec)
        blocks.append(encode_block(BlockKind.PARQUET, headers, payload))
    for part in _by_kind(deletes) if deletes is not None else ():
        if len(part.keys):
            payload = encode_delete_payload(part.keys, partition, part.ordering)
            blocks.append(encode_block(BlockKind.DELETE, headers, payload))
    assert blocks, "a log of nothing"
    with storage.open_output(path) as sink:
        for block in blocks:
            sink.write(block)
    return Written(sum(map(len, blocks)), rows.num_rows if rows is not None else 0)


def _by_kind(deletes: Deletes) -> tuple[Deletes, ...]:
    """The hard ones, then the timed ones: hudi-rs reads no block that holds both."""
    if not deletes.ordering:
        return (deletes,)
    is_hard = reduce(pc.and_, (values.is_null() for values in deletes.ordering))
    is_timed = pc.invert(is_hard)
    timed = tuple(values.filter(is_timed) for values in deletes.ordering)
    return (
        Deletes(deletes.keys.filter(is_hard), None),
        Deletes(deletes.keys.filter(is_timed), timed),
    )
