"""Damaged log files: cut at every byte, flipped in every field, torn and rolled-back blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random

import pyarrow as pa

from lentic.format.commit_metadata import decode_commit_metadata, encode_commit_metadata
from lentic.format.log_block import BlockKind, Header, decode_blocks, encode_block
from lentic.format.log_deletes import encode_delete_payload
from lentic.format.log_payload import (
    decode_parquet_payload,
    encode_avro_payload,
    encode_parquet_payload,
)
from tests.fuzz import damage
from tests.fuzz.blocks import block_bounds, map_log
from tests.fuzz.case import Case, Kind, Target, is_full, seed
from tests.fuzz.excuses import excuse_of
from tests.fuzz.tables import (
    NARROW,
    cdc,
    files_of,
    golden_files,
    narrow_rows,
    one_path,
    open_table,
    options,
    reading,
    written,
)

FOREIGN: Mapping[str, str] = {
    "mor_part_event_time": "meta",
    "mor_parquet_log": "meta",
    "mor_partial_update": "meta",
    "mor_logcompact": "meta",
    "mor_bucket_nbcc": "meta",
    "cow_cdc": "cdc",
}
"""Tables by Apache Hudi with logs of every kind, and what to ask them."""

_OTHER_INSTANT = "20260101000000000"


def targets() -> Mapping[str, Target]:
    """Tables with one base file and one log of four blocks each, and those of Apache Hudi."""
    found = {name: Target(files, {"meta": reading(meta=True)}) for name, files in _ours().items()}
    for name, ask in FOREIGN.items():
        question = cdc if ask == "cdc" else reading(meta=True)
        found[name] = Target(golden_files(name), {ask: question})
    return found


def _ours() -> dict[str, dict[str, bytes]]:
    storage = written(NARROW, options("MERGE_ON_READ"), narrow_rows(0, 40, 1))
    open_table(storage).compact()
    open_table(storage).upsert(narrow_rows(0, 24, 2))
    files = files_of(storage)
    path = log_path(files)
    (block,) = decode_blocks(files[path], path)
    rows = decode_parquet_payload(block.content, path)
    make = _Blocks(block.headers, rows)
    undo = {
        Header.INSTANT_TIME: block.headers[Header.INSTANT_TIME],
        Header.TARGET_INSTANT_TIME: _OTHER_INSTANT,
        Header.COMMAND_BLOCK_TYPE: "0",
    }
    command = encode_block(BlockKind.COMMAND, undo, b"").decode()
    logs = {
        "mixed": (make.parquet(0, 6), make.avro(6, 12), make.deletes(12, 15), make.avro(15, 24)),
        "magic": (
            make.avro(0, 6, name=command),
            make.parquet(6, 12, name=command),
            make.deletes(12, 15),
            make.avro(15, 24, name="#HUDI#" * 20),
        ),
        "undone": (
            make.parquet(0, 6),
            make.avro(6, 12, instant=_OTHER_INSTANT),
            command.encode(),
            make.avro(12, 24),
        ),
    }
    return {name: _with_log(files, path, b"".join(blocks)) for name, blocks in logs.items()}


class _Blocks:
    """Makes blocks out of the rows and headers of a log that was written for real."""

    def __init__(self, headers: Mapping[Header, str], rows: pa.Table) -> None:
        self._headers = dict(headers)
        self._rows = rows

    def parquet(self, first: int, last: int, name: str = "") -> bytes:
        payload = encode_parquet_payload(self._slice(first, last, name))
        return encode_block(BlockKind.PARQUET, self._headers, payload)

    def avro(self, first: int, last: int, name: str = "", instant: str = "") -> bytes:
        headers = self._headers | ({Header.INSTANT_TIME: instant} if instant else {})
        records = self._slice(first, last, name).to_pylist()
        payload = encode_avro_payload(records, headers[Header.SCHEMA])
        return encode_block(BlockKind.AVRO, headers, payload)

    def deletes(self, first: int, last: int) -> bytes:
        keys = self._rows["_hoodie_record_key"].combine_chunks()[first:last]
        payload = encode_delete_payload(keys, "p0", (pa.array([2] * len(keys), pa.int64()),))
        return encode_block(BlockKind.DELETE, self._headers, payload)

    def _slice(self, first: int, last: int, name: str) -> pa.Table:
        rows = self._rows.slice(first, last - first)
        if not name:
            return rows
        at = rows.schema.get_field_index("name")
        return rows.set_column(at, rows.schema.field(at), pa.array([name] * rows.num_rows))


def log_path(files: Mapping[str, bytes]) -> str:
    """The newest log."""
    logs = [path for path in files if ".log." in path]
    return max(logs, key=lambda path: path.rpartition(".log.")[0].rpartition("_")[2])


def _with_log(files: Mapping[str, bytes], path: str, log: bytes) -> dict[str, bytes]:
    """The table with another log at `path`, as if its commit had written that one."""
    instant = path.rpartition(".log.")[0].rpartition("_")[2]
    commit = one_path(files, f"timeline/{instant}_", ".deltacommit")
    metadata = decode_commit_metadata(files[commit], commit)
    stats = tuple(
        replace(stat, size=len(log)) if stat.path == path else stat for stat in metadata.stats
    )
    content = encode_commit_metadata(replace(metadata, stats=stats))
    return {**files, path: log, commit: content}


def cases(tables: Mapping[str, Target]) -> Iterator[Case]:
    chance = Random(f"log {seed()}")
    full = is_full()
    for target, step in (("mixed", 1), ("magic", 7), ("undone", 7)):
        yield from _cuts(tables, target, step if full else step * 40)
    for target, count in (("mixed", 1600), ("magic", 400), ("undone", 600)):
        yield from _flips(tables, target, count if full else count // 10, chance)
    for target in FOREIGN:
        yield from _foreign(tables, target, 150 if full else 15, chance)
    yield from _rearranged(tables, 600 if full else 60, chance)


def _cuts(tables: Mapping[str, Target], target: str, step: int) -> Iterator[Case]:
    path = log_path(tables[target].files)
    data = tables[target].files[path]
    bounds = block_bounds(data)[:-1]
    for size in sorted({*range(0, len(data), step), *bounds}):
        group = "cut between blocks" if size in bounds else "cut"
        changes = {path: data[:size]}
        yield Case(group, f"{target}: to {size} bytes", target, "meta", changes, (path,))


def _flips(tables: Mapping[str, Target], target: str, count: int, chance: Random) -> Iterator[Case]:
    """Half of them anywhere, half in the parts that are few bytes but frame the rest."""
    path = log_path(tables[target].files)
    data = tables[target].files[path]
    spans = map_log(data)
    framing = [s for s in spans if not s.name.startswith(("page", "footer.", "AVRO", "header "))]
    keys = [s for s in spans if s.name in ("header key", "header length", "header count")]
    for some, share in ((spans, 2), (framing + keys, 2)):
        for bit, span in damage.choose_bits(some, count // share, chance):
            yield flip_case(target, "meta", path, data, bit, span.name)


def flip_case(target: str, ask: str, path: str, data: bytes, bit: int, region: str) -> Case:
    """One bit of a log turned over."""
    note = f"{target}: bit {bit % 8} of byte {bit // 8} ({region}) of {path}"
    changes = {path: damage.flip(data, bit)}
    excuse = excuse_of(region)
    return Case(f"flip in {_place(region)}", note, target, ask, changes, (path,), excuse)


def _place(region: str) -> str:
    """The part of a block, for counting."""
    if region.startswith("header"):
        return "header"
    if region in ("magic", "size", "version", "kind", "footer", "pointer", "content length"):
        return region
    if region.startswith(("page", "parquet", "footer", "index")):
        return "Parquet content"
    return "Avro content"


def _foreign(
    tables: Mapping[str, Target], target: str, count: int, chance: Random
) -> Iterator[Case]:
    """Logs that Apache Hudi wrote: cut and flipped anywhere."""
    files = tables[target].files
    ask = FOREIGN[target]
    suffix = ".cdc" if ask == "cdc" else ""
    logs = sorted(p for p in files if ".log." in p and p.endswith(suffix))
    for path in logs[:count]:
        for size in block_bounds(files[path])[:-1]:
            note = f"{target}: {path} to {size} bytes"
            changes = {path: files[path][:size]}
            yield Case("cut between blocks", note, target, ask, changes, (path,))
    for number in range(count):
        path = chance.choice(logs)
        data = files[path]
        if number % 3 == 0:
            size = chance.randrange(1, len(data))
            changes = {path: data[:size]}
            yield Case("cut by Hudi", f"{target}: {path} to {size}", target, ask, changes, (path,))
        else:
            ((bit, span),) = damage.choose_bits(map_log(data), 1, chance)
            yield flip_case(target, ask, path, data, bit, span.name)


def _rearranged(tables: Mapping[str, Target], count: int, chance: Random) -> Iterator[Case]:
    """Whole, torn, flipped and rolled-back blocks in any order: what appends and crashes leave.

    The file is never the one that its commit wrote, so only an error is right.
    """
    path = log_path(tables["undone"].files)
    data = tables["undone"].files[path]
    bounds = block_bounds(data)
    whole = [data[a:b] for a, b in pairwise(bounds)]
    for number in range(count):
        blocks = _rearrange(whole, chance)
        if blocks != whole:
            changes = {path: b"".join(blocks)}
            yield Case("rearranged blocks", f"undone: {number}", "undone", "meta", changes, (path,))


def _rearrange(whole: Sequence[bytes], chance: Random) -> list[bytes]:
    """A torn or damaged block, mostly followed by the rollback of its instant, among others."""
    command = whole[2]
    victim = whole[chance.randrange(len(whole))]
    broken = chance.choice(
        [
            victim[: chance.randrange(1, len(victim))],
            damage.torn(victim, chance.randrange(len(victim))),
            victim[:6] + (1 << chance.randrange(60)).to_bytes(8, "big") + victim[14:],
            victim[: chance.randrange(6, len(victim))] + command,
            b"",
        ]
    )
    others = list(whole)
    at = chance.randrange(len(others))
    others[at : at + chance.randrange(2)] = [broken, *([command] if chance.random() < 0.6 else [])]
    return others


KIND = Kind(
    groups=(
        "cut",
        "cut between blocks",
        "cut by Hudi",
        "flip in magic",
        "flip in size",
        "flip in version",
        "flip in kind",
        "flip in header",
        "flip in content length",
        "flip in Avro content",
        "flip in Parquet content",
        "flip in footer",
        "flip in pointer",
        "rearranged blocks",
    ),
    least=600,
    least_full=10_000,
    targets=targets,
    cases=cases,
)
