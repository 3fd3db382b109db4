"""The small tables that are damaged, and the questions put to them."""

from __future__ import annotations

import itertools
import tarfile
from collections.abc import Mapping
from functools import cache
from typing import Any

import pyarrow as pa

from lentic.coordination.lock_process import ProcessLock
from lentic.storage.base import Storage
from lentic.storage.memory import MemoryStorage
from lentic.table import Table
from lentic.testing.tables import create_on, open_on
from tests.fuzz.case import ROOT, Ask
from tests.golden.archive import TABLES
from tests.unit.builders import still_world

_lock_names = itertools.count()

NARROW = pa.schema(
    [("id", pa.string()), ("ts", pa.int64()), ("part", pa.string()), ("name", pa.string())]
)


def narrow_rows(first: int, last: int, ts: int, part: str = "p0") -> pa.Table:
    """Rows of `NARROW` with keys `first` up to `last` (exclusive)."""
    numbers = range(first, last)
    columns = [
        [f"k{number:05d}" for number in numbers],
        [ts] * len(numbers),
        [part] * len(numbers),
        [f"name {number * 7919 % 1000} of {ts}" if number % 5 else None for number in numbers],
    ]
    return pa.table(columns, schema=NARROW)


def options(table_type: str, **more: object) -> dict[str, object]:
    return {
        "hoodie.table.name": "t",
        "hoodie.table.type": table_type,
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "part",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.bucket.index.num.buckets": 1,
    } | more


def open_table(storage: Storage, write_options: Mapping[str, object] | None = None) -> Table:
    """The table as a reader or writer opens it anew, with a lock and a clock of its own."""
    now_ms = 1_800_000_000_000 + len(storage.walk("")) * 1000
    lock = ProcessLock(f"fuzz {next(_lock_names)}", 1_000)
    return open_on(storage, still_world(now_ms), lock, write_options)


def written(
    schema: pa.Schema,
    table_options: Mapping[str, object],
    *batches: pa.Table,
    write_options: Mapping[str, object] | None = None,
) -> MemoryStorage:
    """A table in memory with one commit per batch."""
    storage = MemoryStorage(root=ROOT)
    create_on(storage, schema, table_options)
    for batch in batches:
        open_table(storage, write_options).upsert(batch)
    return storage


def files_of(storage: Storage) -> dict[str, bytes]:
    """Every file of the table."""
    return {file.path: storage.read(file.path) for file in storage.walk("")}


@cache
def _golden_files() -> Mapping[str, Mapping[str, bytes]]:
    found: dict[str, dict[str, bytes]] = {}
    with tarfile.open(TABLES, "r:xz") as tar:
        for member in tar:
            table, _, path = member.name.partition("/")
            content = tar.extractfile(member)
            assert content is not None, member.name
            if not path.startswith(".hoodie/metadata/"):
                found.setdefault(table, {})[path] = content.read()
    return found


def golden_files(table: str) -> dict[str, bytes]:
    """The files of a table that Apache Hudi wrote, without its metadata table."""
    return dict(_golden_files()[table])


def one_path(files: Mapping[str, bytes], *parts: str) -> str:
    """The last path that holds all of these."""
    return sorted(path for path in files if all(part in path for part in parts))[-1]


def ordered(rows: Any) -> pa.Table:
    """Rows in an order that depends on nothing but them, as far as their keys are unique."""
    names = [n for n in ("_hoodie_record_key", "id", "ts", "op") if n in rows.column_names]
    return rows.sort_by([(name, "ascending") for name in names]).combine_chunks()


def reading(**arguments: Any) -> Ask:
    """Ask for rows."""
    return lambda storage: ordered(open_table(storage).read(**arguments))


def changes(storage: Storage) -> Any:
    """Ask for all changed rows, from the beginning."""
    return ordered(open_table(storage).changes())


def cdc(storage: Storage) -> Any:
    """Ask for all changes, one by one; as text, since keys come up more than once."""
    return sorted(map(repr, open_table(storage).changes(kind="cdc").to_pylist()))


def timeline(storage: Storage) -> Any:
    """Ask for all instants."""
    return open_table(storage).timeline()


def history(storage: Storage) -> Any:
    """Ask for all archived instants."""
    return open_table(storage).history()
