"""A damaged archive: manifests that are gone, stale or lie, and files that are not what they say.

Whether an instant completed is decided here for everything that left the active timeline, so the
answers must be exact or errors: an instant that is not found would be taken for one undone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lentic.format.layout import HISTORY
from tests.fuzz import damage, hostile
from tests.fuzz.case import Case, Kind, Target, is_full, seed
from tests.fuzz.excuses import excuse_of
from tests.fuzz.tables import changes, golden_files, history, reading
from tests.fuzz.thrift import flip_place, map_parquet

TABLES = ("cow_clean_archive", "mor_clean_archive")
ASKS = ("history", "read", "changes")
VERSION = f"{HISTORY}/_version_"

Files = Mapping[str, bytes]


def targets() -> Mapping[str, Target]:
    """Tables by Apache Hudi whose first commits are archived while their files still count."""
    asks = {"history": history, "read": reading(), "changes": changes}
    return {name: Target(golden_files(name), asks) for name in TABLES}


def cases(tables: Mapping[str, Target]) -> Iterator[Case]:
    chance = Random(f"history {seed()}")
    for target in TABLES:
        files = tables[target].files
        found = [
            *_gone(files),
            *_versions(files),
            *_manifests(files, chance, 60 if is_full() else 6),
            *_lengths(files),
            *_listed_names(files),
            *_cut_files(files, chance, 24 if is_full() else 4),
            *_flipped_files(files, chance, 60 if is_full() else 8),
            *_odd_instants(files),
        ]
        for number, one in enumerate(found):
            for ask in ASKS if is_full() else (ASKS[number % len(ASKS)],):
                note = f"{target}: {one.note}, {ask}"
                names = (HISTORY,)
                yield Case(one.group, note, target, ask, one.changes, names, one.excuse)


@dataclass(frozen=True, slots=True)
class Damage:
    """Some changed files, None for one that is gone; see `Case` for the rest."""

    group: str
    note: str
    changes: Mapping[str, bytes | None]
    excuse: str = ""


def manifests(files: Files) -> list[str]:
    """All of them, the current one last."""
    return sorted(path for path in files if path.startswith(f"{HISTORY}/manifest_"))


def listed(files: Files) -> list[str]:
    """The files that the current manifest lists."""
    found = json.loads(files[manifests(files)[-1]])["files"]
    return [f"{HISTORY}/{file['fileName']}" for file in found]


def _with_manifest(files: Files, edit: Callable[[list[dict[str, Any]]], object]) -> bytes:
    """The current manifest with its list of files changed."""
    found = json.loads(files[manifests(files)[-1]])
    edit(found["files"])
    return json.dumps(found).encode()


def _gone(files: Files) -> Iterator[Damage]:
    current = manifests(files)[-1]
    everything = manifests(files)
    yield Damage("missing manifest", "the current one", {current: None})
    yield Damage("missing manifest", "all", dict.fromkeys(everything))
    yield Damage("missing manifest", "all, and the version", dict.fromkeys([*everything, VERSION]))
    yield Damage(
        "missing manifest", "the current one, and the version", dict.fromkeys([current, VERSION])
    )
    yield Damage("missing version", "", {VERSION: None})
    for path in listed(files):
        yield Damage("missing file", path, {path: None})
    yield Damage("missing file", "all", dict.fromkeys(listed(files)))


def _versions(files: Files) -> Iterator[Damage]:
    current = int(files[VERSION])
    for older in manifests(files)[:-1]:
        yield Damage("stale version", older, {VERSION: older.rpartition("_")[2].encode()})
    absent = (b"", b"0", str(current + 1).encode(), b"999999999", b"1" * 50, b"1" * 5_000)
    odd = (b"x", b"-1", b"1e1", b"\xff\xfe", b"6.0", b"../manifest_1", b"\0", bytes(100))
    for data in (*absent, *odd):
        yield Damage("odd version", repr(data[:20]), {VERSION: data})
    newer = f"{HISTORY}/manifest_{current + 1}"
    for data in (b"", b"{", files[manifests(files)[-1]]):
        yield Damage("unfinished manifest", f"{len(data)} bytes", {newer: data})


def _manifests(files: Files, chance: Random, count: int) -> Iterator[Damage]:
    path = manifests(files)[-1]
    data = files[path]
    for _ in range(count):
        size = chance.randrange(len(data))
        yield Damage("manifest: cut", f"to {size}", {path: data[:size]})
        yield Damage("manifest: random", f"{size}", {path: chance.randbytes(size)})
        yield Damage("manifest: torn", f"zeros from {size}", {path: damage.torn(data, size)})
        bit = chance.randrange(len(data) * 8)
        yield Damage("manifest: flip", f"bit {bit}", {path: damage.flip(data, bit)})
    for content in hostile.documents():
        yield Damage("manifest: JSON", content.note, {path: content.data})
    for text in ("[]", '{"files":null}', '{"files":1}', '{"files":[1]}', '{"files":{"a":1}}', "{}"):
        yield Damage("manifest: JSON", text, {path: text.encode()})


def _lengths(files: Files) -> Iterator[Damage]:
    path = manifests(files)[-1]
    lengths: tuple[Any, ...] = (0, -1, 1, 1 << 40, 1.5, 1e400, float("nan"), None, True, "x", [])
    for length in (*lengths, "1" * 5_000):

        def edit(entries: list[dict[str, Any]], length: Any = length) -> None:
            entries[-1]["fileLen"] = length

        yield Damage("wrong length", f"{length!r}"[:30], {path: _with_manifest(files, edit)})


def _listed_names(files: Files) -> Iterator[Damage]:
    path = manifests(files)[-1]
    last = listed(files)[-1].rpartition("/")[2]
    names: tuple[Any, ...] = (
        "../../hoodie.properties",
        "/etc/passwd",
        f"../history/{last}",
        f"./{last}",
        f"{last}\0",
        f"{last}\n",
        f" {last}",
        last.replace("_0.parquet", "_9.parquet").replace("_1.parquet", "_8.parquet"),
        last.replace("parquet", "PARQUET"),
        last.translate(str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")),
        "9" * 300 + "_1_0.parquet",
        "",
        ".",
        "..",
        "\udcff",
        None,
        1,
        [],
        "_version_",
    )
    for name in names:

        def edit(entries: list[dict[str, Any]], name: Any = name) -> None:
            entries[-1]["fileName"] = name

        yield Damage("hostile name", f"{name!r}"[:40], {path: _with_manifest(files, edit)})


def _cut_files(files: Files, chance: Random, count: int) -> Iterator[Damage]:
    """Cut, with and without a manifest that agrees."""
    manifest = manifests(files)[-1]
    for _ in range(count):
        path = chance.choice(listed(files))
        size = chance.randrange(len(files[path]))
        yield Damage("cut file", f"{path} to {size}", {path: files[path][:size]})
        agreeing = _with_length(files, path, size)
        yield Damage(
            "cut file", f"{path} to {size}, agreed", {path: files[path][:size], manifest: agreeing}
        )
        yield Damage("torn file", f"{path} from {size}", {path: damage.torn(files[path], size)})


def _with_length(files: Files, path: str, size: int) -> bytes:
    def edit(entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            if path.endswith(entry["fileName"]):
                entry["fileLen"] = size

    return _with_manifest(files, edit)


def _flipped_files(files: Files, chance: Random, count: int) -> Iterator[Damage]:
    for path in listed(files):
        spans = map_parquet(files[path])
        for bit, span in damage.choose_bits(spans, count, chance):
            note = f"{path}: bit {bit % 8} of byte {bit // 8} ({span.name})"
            flipped = {path: damage.flip(files[path], bit)}
            group = f"file: {flip_place(span.name)}"
            yield Damage(group, note, flipped, excuse_of(span.name))


def _odd_instants(files: Files) -> Iterator[Damage]:
    """A whole file, listed with its length, whose rows are not instants."""
    path = listed(files)[-1]
    rows = pq.read_table(pa.BufferReader(files[path]))
    manifest = manifests(files)[-1]

    def changed(note: str, table: pa.Table) -> Damage:
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        data = bytes(sink.getvalue())
        listing = _with_length(files, path, len(data))
        return Damage("odd instants", note, {path: data, manifest: listing})

    def column(name: str, values: list[Any]) -> pa.Table:
        filled = (values * rows.num_rows)[: rows.num_rows]
        return rows.set_column(rows.schema.get_field_index(name), name, pa.array(filled))

    for name in ("instantTime", "completionTime", "action"):
        for value in ("", "x", "-1", "٢٠", "0" * 5_000, None, 17, b"\xff", "../x", "1\n"):
            yield changed(f"{name}={value!r}"[:40], column(name, [value]))
        yield changed(f"no {name}", rows.drop_columns([name]))
    yield changed("no metadata", rows.drop_columns(["metadata"]))
    for value in (b"x", b"Obj\x01", b"", None, "text", 1):
        yield changed(f"metadata={value!r}", column("metadata", [value]))
    yield changed("no rows", rows.slice(0, 0))
    yield changed("fewer rows", rows.slice(1))


KIND = Kind(
    groups=(
        "missing manifest",
        "missing version",
        "missing file",
        "stale version",
        "odd version",
        "unfinished manifest",
        "manifest: cut",
        "manifest: random",
        "manifest: torn",
        "manifest: flip",
        "manifest: JSON",
        "wrong length",
        "hostile name",
        "cut file",
        "torn file",
        "file: flip in page content",
        "file: flip in page header",
        "file: flip in footer",
        "file: flip elsewhere",
        "odd instants",
    ),
    least=300,
    least_full=500,
    targets=targets,
    cases=cases,
)
