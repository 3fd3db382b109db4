"""Damaged Parquet base files: cut, flipped, torn and holed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random

import pyarrow.compute as pc

from tests.fuzz import damage
from tests.fuzz.case import Case, Kind, Target, is_full, seed
from tests.fuzz.excuses import excuse_of
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
from tests.fuzz.thrift import Span, flip_place, map_parquet
from tests.rows import SCHEMA, make_rows

COW = "COPY_ON_WRITE"
_ROW_COUNTS = ("footer.num_rows", "footer.row_groups.num_rows")


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
    reads = {"meta": reading(meta=True)}
    return {
        "wide": Target(files_of(wide), reads),
        "groups": Target(
            files_of(groups), {"filter": reading(filter="id >= 'k01500' and id < 'k02500'")}
        ),
        "foreign": Target(golden_files("cow_np_nomdt"), reads),
    }


def cases(tables: Mapping[str, Target]) -> Iterator[Case]:
    chance = Random(f"base {seed()}")
    full = is_full()
    path = one_path(tables["wide"].files, ".parquet")
    data = tables["wide"].files[path]
    for size in range(0, len(data), 64 if full else 64 * 16):
        yield Case("cut", f"to {size} bytes", "wide", "meta", {path: data[:size]}, (path,))
    for _ in range(100 if full else 20):
        size = chance.randrange(len(data))
        lost = {path: damage.torn(data, size)}
        yield Case("torn", f"zeros from {size}", "wide", "meta", lost, (path,))
        start = size // 512 * 512
        hole = {path: damage.zero(data, start, 512)}
        yield Case("hole", f"512 zeros at {start}", "wide", "meta", hole, (path,))
    spans = map_parquet(data)
    footer = [span for span in spans if span.name.startswith("footer.")]
    pages = [span for span in spans if span.name.startswith("page.")]
    yield from _flips(tables, "wide", "meta", spans, 700 if full else 70, chance)
    yield from _flips(tables, "wide", "meta", footer, 500 if full else 60, chance)
    yield from _flips(tables, "wide", "meta", pages, 300 if full else 40, chance)
    yield from _flips(tables, "groups", "filter", None, 250 if full else 40, chance)
    yield from _flips(tables, "foreign", "meta", None, 250 if full else 40, chance)
    for target, ask in (("wide", "meta"), ("foreign", "meta"), ("groups", "filter")):
        yield from _row_counts(tables, target, ask)
    yield from _column_types(tables, 3 if full else 1)


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
    group = "flip in row count" if span.name in _ROW_COUNTS else flip_place(span.name)
    excuse = excuse_of(span.name)
    changes = {path: damage.flip(data, bit)}
    return Case(group, note, target, ask, changes, (path,), excuse)


def _row_counts(tables: Mapping[str, Target], target: str, ask: str) -> Iterator[Case]:
    """Every bit of the footer that says how many rows there are: one word against two others."""
    path = one_path(tables[target].files, ".parquet")
    data = tables[target].files[path]
    for span in map_parquet(data):
        if span.name in _ROW_COUNTS:
            for bit in range(span.start * 8, span.end * 8):
                yield flip_case(target, ask, path, data, bit, span)


def _column_types(tables: Mapping[str, Target], count: int) -> Iterator[Case]:
    """The type of the filtered column in a row group, against that of the schema."""
    path = one_path(tables["groups"].files, ".parquet")
    data = tables["groups"].files[path]
    column = 5 + NARROW.get_field_index("id")
    name = "footer.row_groups.columns.meta_data.type"
    span = [span for span in map_parquet(data) if span.name == name][column]
    for bit in range(1, 1 + count):
        case = flip_case("groups", "filter", path, data, span.start * 8 + bit, span)
        yield replace(case, group="flip in column type")


KIND = Kind(
    groups=(
        "cut",
        "torn",
        "hole",
        "flip in page content",
        "flip in page header",
        "flip in footer",
        "flip in row count",
        "flip in column type",
        "flip elsewhere",
    ),
    least=400,
    least_full=3_000,
    targets=targets,
    cases=cases,
)
