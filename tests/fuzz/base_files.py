"""Damaged Parquet base files: cut, flipped, torn and holed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random

import pyarrow.compute as pc

from tests.fuzz import damage
from tests.fuzz.case import Case, Kind, Target, is_full, seed
from tests.fuzz.tables import (
    NARROW,
    files_of,
    golden_files,
    narrow_rows,
    one_path,
    options,
    reading,
    written,
)
from tests.fuzz.thrift import Span, map_parquet
from tests.rows import SCHEMA, make_rows

FILE_BYTES = 64 << 10
COW = "COPY_ON_WRITE"


def targets() -> Mapping[str, Target]:
    """`wide` has every type, `groups` several row groups, `foreign` was written by Apache Hudi."""
    rows = make_rows(0, 3_900, 1, 1)
    wide = written(SCHEMA, options(COW), rows.filter(pc.equal(rows["part"], "p0")))
    groups = written(
        NARROW,
        options(COW),
        narrow_rows(0, 4_000, 1),
        write_options={"lentic.parquet.row_group_rows": 1_000},
    )
    reads = {"read": reading(), "meta": reading(meta=True)}
    found = {
        "wide": Target(files_of(wide), reads),
        "groups": Target(
            files_of(groups), {"filter": reading(filter="id >= 'k01500' and id < 'k02500'")}
        ),
        "foreign": Target(golden_files("cow_np_nomdt"), reads),
    }
    return found


def cases(tables: Mapping[str, Target]) -> Iterator[Case]:
    chance = Random(f"base {seed()}")
    full = is_full()
    path = one_path(tables["wide"].files, ".parquet")
    data = tables["wide"].files[path]
    for size in range(0, len(data), 64 if full else 64 * 16):
        yield Case("cut", f"to {size} bytes", "wide", "read", {path: data[:size]}, path)
    for _ in range(200 if full else 20):
        size = chance.randrange(len(data))
        yield Case(
            "torn", f"zeros from {size}", "wide", "read", {path: damage.torn(data, size)}, path
        )
        start = size // 512 * 512
        hole = {path: damage.zero(data, start, 512)}
        yield Case("hole", f"512 zeros at {start}", "wide", "read", hole, path)
    spans = map_parquet(data)
    footer = [span for span in spans if span.name.startswith("footer")]
    pages = [span for span in spans if span.name.startswith("page.")]
    yield from _flips(tables, "wide", "read", spans, 700 if full else 70, chance)
    yield from _flips(tables, "wide", "meta", footer, 500 if full else 60, chance)
    yield from _flips(tables, "wide", "read", pages, 300 if full else 40, chance)
    yield from _flips(tables, "groups", "filter", None, 250 if full else 40, chance)
    yield from _flips(tables, "foreign", "meta", None, 250 if full else 40, chance)


def _flips(
    tables: Mapping[str, Target],
    target: str,
    ask: str,
    spans: list[Span] | None,
    count: int,
    chance: Random,
) -> Iterator[Case]:
    path = one_path(tables[target].files, ".parquet")
    data = tables[target].files[path]
    for bit, span in damage.choose_bits(spans or map_parquet(data), count, chance):
        yield flip_case(target, ask, path, data, bit, span)


def flip_case(target: str, ask: str, path: str, data: bytes, bit: int, span: Span) -> Case:
    """One bit of a base file turned over."""
    note = f"{target}: bit {bit % 8} of byte {bit // 8} ({span.name})"
    region = "page content" if span.name == "page content" else span.name.partition(".")[0]
    changes = {path: damage.flip(data, bit)}
    return Case(f"flip in {region}", note, target, ask, changes, path, "")


KIND = Kind(targets, cases)
