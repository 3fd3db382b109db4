"""The writes that are harmed, each on a table that has a past, and what must be true afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

import lentic
from lentic.format.names import requested_at_of
from lentic.storage.local import LocalStorage
from lentic.table import Table
from lentic.testing.checkers import check_table, list_leftovers
from lentic.timeline.reader import load_commit_metadata, load_timeline
from lentic.write.commit import Commit
from tests.interop.compare import ensure_same_rows
from tests.rows import SCHEMA, latest, make_rows

_SMALL_FILES = {
    "hoodie.parquet.max.file.size": 8_192,
    "hoodie.parquet.small.file.limit": 6_000,
    "hoodie.copyonwrite.record.size.estimate": 256,
}
"""So that a few hundred rows fill several file groups, some of them old ones."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of write, and of table."""

    name: str
    verb: str
    table_type: str
    buckets: int | None
    options: Mapping[str, object] = field(default_factory=dict)

    @property
    def updates(self) -> bool:
        """Whether keys that are there are replaced; else the write brings new ones only."""
        return self.verb == "upsert"

    def __str__(self) -> str:
        return self.name


KINDS = (
    Kind("upsert-cow", "upsert", "COPY_ON_WRITE", 2),
    Kind("upsert-mor", "upsert", "MERGE_ON_READ", 2),
    Kind("bulk_insert", "bulk_insert", "COPY_ON_WRITE", None, _SMALL_FILES),
    Kind("insert", "insert", "MERGE_ON_READ", None, _SMALL_FILES),
)


@dataclass(slots=True)
class Scene:
    """A table with two commits, and the rows it must have."""

    kind: Kind
    path: str
    expected: pa.Table
    writes: int = 0

    def next_rows(self) -> pa.Table:
        """Rows for the next write: old and new keys, or new ones alone."""
        self.writes += 1
        first = max(0, len(self.expected) - (80 if self.kind.updates else 0))
        return make_rows(first, first + 200, ts=self.writes, seed=self.writes)

    def written(self, rows: pa.Table) -> None:
        """The rows are in the table now."""
        self.expected = latest(self.expected, rows)

    def write_alone(self) -> None:
        """A write that nobody harms, without Spark."""
        rows = self.next_rows()
        write(self.open(), self.kind, rows)
        self.written(rows)

    def open(self) -> Table:
        """The table, without Spark."""
        return lentic.open(self.path, options=dict(self.kind.options))


def make_scene(kind: Kind, path: Path) -> Scene:
    """A table of this kind with a past."""
    lentic.create(
        str(path),
        SCHEMA,
        key="id",
        partition_by="part",
        ordering="ts",
        table_type=kind.table_type,
        buckets=kind.buckets,
        options=dict(kind.options),
    )
    scene = Scene(kind, str(path), SCHEMA.empty_table())
    scene.write_alone()
    scene.write_alone()
    return scene


def write(table: Table, kind: Kind, rows: object) -> Commit:
    """Carry a write of this kind out."""
    match kind.verb:
        case "upsert":
            return table.upsert(rows)
        case "insert":
            return table.insert(rows)
        case _:
            return table.bulk_insert(rows, sort_by="seq")


def ensure_counted(scene: Scene, rows: pa.Table, commit: Commit) -> None:
    """The commit tells what was done once, however often it was tried. Before `written`."""
    known = set(scene.expected.column("id").to_pylist())
    updated = sum(key in known for key in rows.column("id").to_pylist())
    counts = (commit.inserted, commit.updated, commit.deleted)
    assert counts == (len(rows) - updated, updated, 0), f"{counts}, {updated} updated"


def ensure_exact(scene: Scene, on_spark: pa.Table | None) -> None:
    """Every row once, as it was written last; one file per file group and instant; no file that is
    not there, not whole, or known to no commit."""
    ensure_same_rows(scene.expected, scene.open().read(), ["id"], "expected", "alone")
    if on_spark is not None:
        ensure_same_rows(scene.expected, on_spark, ["id"], "expected", "on Spark")
    storage = LocalStorage(scene.path)
    found = check_table(storage) + find_doubles(storage) + find_unnamed(storage)
    assert not found, "\n".join(found)


def ensure_tidy(scene: Scene) -> None:
    """Once a later write has cleaned up, nothing of any attempt is left."""
    scene.write_alone()
    ensure_exact(scene, None)
    storage = LocalStorage(scene.path)
    left = list_leftovers(storage)
    assert not left, "\n".join(left)


def find_doubles(storage: LocalStorage) -> list[str]:
    """File groups that one instant wrote two files for; on disk or by its metadata."""
    timeline = load_timeline(storage)
    found = []
    for instant in timeline.writes():
        stats = load_commit_metadata(storage, instant).stats
        groups = Counter((stat.partition, stat.file_id) for stat in stats)
        found += [f"{instant}: {group} {count}×" for group, count in groups.items() if count > 1]
    return found


def find_unnamed(storage: LocalStorage) -> list[str]:
    """Data files on disk that no completed commit names: other engines may take them for true."""
    return [path for path in list_leftovers(storage) if requested_at_of(path.rpartition("/")[2])]
