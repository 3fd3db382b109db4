"""Log files -> changes in merge order.

A log file belongs to one completed instant as a whole, so damage anywhere in it is an error and
never a silent skip (P13). Blocks that a command block undoes are left out. Blocks that a log
compaction has folded into one are replaced by it, at the place of the newest of them; chains of log
compactions resolve to the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lentic.errors import Corrupt, UnsupportedFormat
from lentic.format.carried import parse_carried
from lentic.format.log_block import Block, BlockKind, Header, decode_blocks
from lentic.format.log_deletes import DeleteRecord, decode_delete_payload
from lentic.format.log_payload import decode_avro_payload, decode_parquet_payload
from lentic.format.record_fields import RECORD_KEY
from lentic.records.align import align_table
from lentic.records.merge import Change, Deletes
from lentic.storage.base import Storage
from lentic.view.files import LogFile


@dataclass(frozen=True, slots=True)
class Placed:
    """A block and where it lies."""

    block: Block
    where: str

    @property
    def instant(self) -> str:
        return self.block.headers[Header.INSTANT_TIME]

    @property
    def replaces(self) -> tuple[str, ...]:
        """The instants whose blocks this one stands for."""
        return tuple(
            filter(None, self.block.headers.get(Header.COMPACTED_BLOCK_TIMES, "").split(","))
        )

    @property
    def is_partial(self) -> bool:
        """Whether its rows leave some columns of their records alone."""
        return parse_carried(self.block.headers, ()) is not None


def scan_logs(
    storage: Storage, logs: Sequence[LogFile], schema: pa.Schema, ordering: tuple[str, ...]
) -> list[Change]:
    """Every change in `logs`, in the order given, with rows in `schema`.

    Rows of partial updates have the columns that the update set, the key and the ordering fields.
    """
    return decode_changes(load_live_blocks(storage, logs), schema, ordering)


def load_live_blocks(storage: Storage, logs: Sequence[LogFile]) -> list[Placed]:
    """The blocks of `logs` that count, in merge order: neither undone nor folded into another."""
    blocks: list[Placed] = []
    for log in logs:
        data = storage.read(log.path)
        _ensure_whole(log, data)
        blocks += [Placed(b, f"{log.path}@{b.offset}") for b in decode_blocks(data, log.path)]
    return _resolve_compacted(_without_undone(blocks))


def decode_changes(
    blocks: Iterable[Placed], schema: pa.Schema, ordering: tuple[str, ...]
) -> list[Change]:
    """Every change in `blocks`, in the order given."""
    changes: list[Change] = []
    for placed in blocks:
        changes += _changes_of(placed.block, placed.where, schema, ordering)
    return changes


def has_partial_block(storage: Storage, log: LogFile) -> bool:
    """Whether other engines merge some rows of `log` column by column."""
    blocks = decode_blocks(storage.read(log.path), log.path)
    return any(block.headers.get(Header.IS_PARTIAL) == "true" for block in blocks)


def has_partial_rows(storage: Storage, log: LogFile) -> bool:
    """Whether some rows of `log` leave columns of their records alone."""
    blocks = decode_blocks(storage.read(log.path), log.path)
    return any(Placed(block, log.path).is_partial for block in blocks)


def _without_undone(blocks: Iterable[Placed]) -> list[Placed]:
    kept = list(blocks)
    undone = {
        placed.block.headers[Header.TARGET_INSTANT_TIME]
        for placed in kept
        if placed.block.kind is BlockKind.COMMAND
        and Header.TARGET_INSTANT_TIME in placed.block.headers
    }
    return [p for p in kept if p.instant not in undone and p.block.kind is not BlockKind.COMMAND]


def _resolve_compacted(blocks: list[Placed]) -> list[Placed]:
    """`blocks` with each folded group replaced by the block that folded it."""
    final: dict[str, str] = {}
    for placed in reversed(blocks):
        for instant in placed.replaces:
            final.setdefault(instant, final.get(placed.instant, placed.instant))
    if not final:
        return blocks
    by_instant: dict[str, list[Placed]] = {}
    for placed in blocks:
        by_instant.setdefault(placed.instant, []).append(placed)
    kept: list[list[Placed]] = []
    done: set[str] = set()
    # From the newest back, so that a folding block lands where the newest block it folded was.
    for instant in reversed(by_instant):
        target = final.get(instant, instant)
        is_folded_in_place = bool(by_instant[instant][0].replaces) and any(
            original in by_instant for original, last in final.items() if last == instant
        )
        if target in done or (target == instant and is_folded_in_place):
            continue
        done.add(target)
        kept.append(by_instant.get(target, []))
    return [placed for group in reversed(kept) for placed in group]


def _ensure_whole(log: LogFile, data: bytes) -> None:
    if len(data) != log.size:
        raise Corrupt(
            f"Log file has {len(data)} bytes where the listing said {log.size}.",
            where=log.path,
            next_step="read again; if it persists the file was damaged after its commit",
        )


def _changes_of(
    block: Block, where: str, schema: pa.Schema, ordering: tuple[str, ...]
) -> list[Change]:
    match block.kind:
        case BlockKind.PARQUET:
            rows = decode_parquet_payload(block.content, where, columns=schema.names)
        case BlockKind.AVRO:
            rows = decode_avro_payload(block.content, block.headers[Header.SCHEMA], where)
        case BlockKind.DELETE:
            return _deletes(decode_delete_payload(block.content, where), schema, ordering, where)
        case _:
            raise UnsupportedFormat(f"A {block.kind.name} block in a data log.", where=where)
    if (carried := parse_carried(block.headers, rows.column_names)) is not None:
        schema = pa.schema([field for field in schema if field.name in carried])
    return [_keyed(align_table(rows, schema, where), where)]


def _keyed(rows: pa.Table, where: str) -> pa.Table:
    if RECORD_KEY not in rows.column_names or rows.column(RECORD_KEY).null_count:
        raise Corrupt("A data block holds rows without a record key.", where=where)
    return rows


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
