"""Log files -> changes in merge order.

A log file belongs to one completed instant as a whole, so damage anywhere in it is an error and
never a silent skip (P13).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lentic.errors import Corrupt, UnsupportedFormat
from lentic.format.log_block import Block, BlockKind, Header, decode_blocks
from lentic.format.log_payload import (
    DeleteRecord,
    decode_avro_payload,
    decode_delete_payload,
    decode_parquet_payload,
)
from lentic.format.record_fields import RECORD_KEY
from lentic.records.align import align_table
from lentic.records.merge import Change, Deletes
from lentic.storage.base import Storage
from lentic.view.files import LogFile


def scan_logs(
    storage: Storage, logs: Sequence[LogFile], schema: pa.Schema, ordering: tuple[str, ...]
) -> list[Change]:
    """Every change in `logs`, in the order given, with rows in `schema`."""
    blocks: list[tuple[str, Block]] = []
    for log in logs:
        data = storage.read(log.path)
        _ensure_whole(log, data)
        blocks += [(log.path, block) for block in decode_blocks(data, log.path)]
    undone = {
        block.headers[Header.TARGET_INSTANT_TIME]
        for _, block in blocks
        if block.kind is BlockKind.COMMAND and Header.TARGET_INSTANT_TIME in block.headers
    }
    kept = [(p, b) for p, b in blocks if b.headers.get(Header.INSTANT_TIME) not in undone]
    changes: list[Change] = []
    for path, block in kept:
        changes += _changes_of(block, path, schema, ordering)
    return changes


def _ensure_whole(log: LogFile, data: bytes) -> None:
    if len(data) != log.size:
        raise Corrupt(
            f"Log file has {len(data)} bytes where the listing said {log.size}.",
            where=log.path,
            next_step="read again; if it persists the file was damaged after its commit",
        )


def _changes_of(
    block: Block, path: str, schema: pa.Schema, ordering: tuple[str, ...]
) -> list[Change]:
    where = f"{path}@{block.offset}"
    for header, what in (
        (Header.COMPACTED_BLOCK_TIMES, "log compaction"),
        (Header.IS_PARTIAL, "partial updates"),
    ):
        if block.headers.get(header) not in (None, "false"):
            raise UnsupportedFormat(
                f"The log uses {what}, which this release does not read.",
                where=where,
                safe="nothing was read or written",
                next_step="compact the table with Apache Hudi first",
            )
    match block.kind:
        case BlockKind.PARQUET:
            rows = decode_parquet_payload(block.content, where, columns=schema.names)
            return [_keyed(align_table(rows, schema, where), where)]
        case BlockKind.AVRO:
            rows = decode_avro_payload(block.content, _writer_schema(block, where), where)
            return [_keyed(align_table(rows, schema, where), where)]
        case BlockKind.DELETE:
            return _deletes(decode_delete_payload(block.content, where), schema, ordering, where)
        case BlockKind.COMMAND:
            return []
        case _:
            raise UnsupportedFormat(f"A {block.kind.name} block in a data log.", where=where)


def _keyed(rows: pa.Table, where: str) -> pa.Table:
    if rows.column(RECORD_KEY).null_count:
        raise Corrupt("A data block holds rows without a record key.", where=where)
    return rows


def _writer_schema(block: Block, where: str) -> str:
    if (schema := block.headers.get(Header.SCHEMA)) is None:
        raise Corrupt("A data block without its schema.", where=where)
    return schema


def _deletes(
    records: Sequence[DeleteRecord], schema: pa.Schema, ordering: tuple[str, ...], where: str
) -> list[Change]:
    """Deletes by kind: one without an ordering value is a hard delete."""
    hard = [r for r in records if not ordering or r.ordering is None]
    timed = [r for r in records if ordering and r.ordering is not None]
    changes: list[Change] = []
    if hard:
        changes.append(Deletes(pa.array([r.key for r in hard], pa.string()), None))
    if timed:
        given = [r.ordering if isinstance(r.ordering, tuple) else (r.ordering,) for r in timed]
        if any(len(parts) != len(ordering) for parts in given):
            raise Corrupt(
                f"A delete has another number of ordering values than {', '.join(ordering)}.",
                where=where,
            )
        try:
            values = tuple(
                pa.array([parts[i] for parts in given], schema.field(name).type)
                for i, name in enumerate(ordering)
            )
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise Corrupt(
                f"A delete's ordering value has the wrong type: {error}", where=where
            ) from None
        changes.append(Deletes(pa.array([r.key for r in timed], pa.string()), values))
    return changes
