"""The write operations as cases: what each does to a table of every shape, row by row.

A new operation is one more `Case`. Its rows are small, in two partitions, and fixed: a simulation
runs it thousands of times.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import pyarrow as pa

from lentic.coordination.lock import LockProvider
from lentic.format.layout import TIMELINE
from lentic.format.names import requested_at_of
from lentic.storage.base import Storage
from lentic.table import Table
from lentic.testing.checkers import check_table, list_leftovers
from lentic.testing.crash_sweep import CrashRun, Flow, Scene, run_with_crash, set_scene
from lentic.testing.tables import create_on, open_on
from lentic.world import World

T = TypeVar("T")
Row = dict[str, Any]
Rows = dict[str, Row]
"""By key. The last character of a key says its partition."""

AT_LENGTH = "LENTIC_SIM_SEEDS" in os.environ
"""`make sim` runs all of everything; the short suite all of a part, and samples of the rest."""
FIRST_SEED = int(os.environ.get("LENTIC_SIM_SEED", "0"))
SEEDS = int(os.environ.get("LENTIC_SIM_SEEDS", "20"))

SCHEMA = pa.schema(
    [("id", pa.string()), ("ts", pa.int64()), ("part", pa.string()), ("v", pa.int64())]
)
GROWN = SCHEMA.append(pa.field("extra", pa.string()))
STRICT = SCHEMA.set(3, pa.field("v", pa.int64(), nullable=False))


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of table."""

    table_type: str
    buckets: int | None

    @property
    def name(self) -> str:
        kind = {"COPY_ON_WRITE": "cow", "MERGE_ON_READ": "mor"}[self.table_type]
        return kind if self.buckets is None else f"{kind}-buckets"


COW, COW_BUCKETS = Shape("COPY_ON_WRITE", None), Shape("COPY_ON_WRITE", 2)
MOR, MOR_BUCKETS = Shape("MERGE_ON_READ", None), Shape("MERGE_ON_READ", 2)
SHAPES = (COW, COW_BUCKETS, MOR, MOR_BUCKETS)


@dataclass(frozen=True, slots=True)
class Case:
    """An operation on a table that holds `BEFORE`, and what it holds after."""

    name: str
    act: Callable[[Table], object]
    after: Rows

    @property
    def flow(self) -> Flow:
        return lambda storage, world, lock: self.act(open_on(storage, world, lock))


def rows(*given: tuple[str, int, int], **more: str) -> Rows:
    """Rows of (key, ordering value, v); `more` are columns that all of them have."""
    found: Rows = {}
    for key, ts, v in given:
        found[key] = {"id": key, "ts": ts, "part": f"p{key[-1]}", "v": v, **more}
    return found


def arrow(batch: Rows, schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.Table.from_pylist(list(batch.values()), schema=schema)


def upserted(table: Rows, batch: Rows) -> Rows:
    """`table` after an upsert of `batch`: the greater ordering value wins, columns are added."""
    won = {k: r for k, r in batch.items() if k not in table or r["ts"] >= table[k]["ts"]}
    merged = table | won
    columns = dict.fromkeys(name for row in merged.values() for name in row)
    return {key: {name: row.get(name) for name in columns} for key, row in merged.items()}


def without(table: Rows, *keys: str) -> Rows:
    return {key: row for key, row in table.items() if key not in keys}


FIRST = rows(("a0", 1, 1), ("b0", 5, 2), ("c1", 1, 3), ("d1", 1, 4))
SECOND = rows(("a0", 2, 10), ("c1", 2, 30))
BEFORE = upserted(FIRST, SECOND)
NEXT = rows(("a0", 9, 90), ("g0", 9, 91))
"""What the next writer upserts."""

_NEW = rows(("e0", 3, 5), ("f1", 3, 6))
_MIXED = rows(("a0", 3, 11), ("b0", 4, -1), ("e1", 3, 7))
_GROWN = rows(("a0", 3, 11), ("e1", 3, 7), extra="x")
_MERGED = rows(("b0", 7, -1), ("c1", 7, 100), ("e1", 7, 7))
_ONE_PARTITION = rows(("a0", 1, 20), ("h0", 1, 21))
_GONE = arrow(rows(("a0", 0, 0), ("d1", 0, 0), ("nobody1", 0, 0))).select(["id", "part"])

CASES = (
    Case("insert", lambda table: table.insert(arrow(_NEW)), BEFORE | _NEW),
    Case("upsert", lambda table: table.upsert(arrow(_MIXED)), upserted(BEFORE, _MIXED)),
    Case(
        "bulk_insert",
        lambda table: table.bulk_insert(arrow(_NEW), sort_by="v"),
        BEFORE | _NEW,
    ),
    Case("delete_keys", lambda table: table.delete(_GONE), without(BEFORE, "a0", "d1")),
    Case(
        "delete_where",
        lambda table: table.delete("v >= 10 or id = 'd1'"),
        without(BEFORE, "a0", "c1", "d1"),
    ),
    Case(
        "insert_overwrite",
        lambda table: table.insert_overwrite(arrow(_ONE_PARTITION)),
        without(BEFORE, "a0", "b0") | _ONE_PARTITION,
    ),
    Case(
        "insert_overwrite_table",
        lambda table: table.insert_overwrite_table(arrow(_ONE_PARTITION)),
        _ONE_PARTITION,
    ),
    Case(
        "delete_partitions",
        lambda table: table.delete_partitions(["p1"]),
        without(BEFORE, "c1", "d1"),
    ),
    Case(
        "merge",
        lambda table: (
            table.merge(arrow(_MERGED))
            .when_matched_delete(condition="source.v < 0")
            .when_matched_update({"v": "target.v + source.v", "ts": "source.ts"})
            .when_not_matched_insert()
            .execute()
        ),
        upserted(without(BEFORE, "b0"), rows(("c1", 7, 130), ("e1", 7, 7))),
    ),
    Case(
        "upsert_new_column",
        lambda table: table.upsert(arrow(_GROWN, GROWN)),
        upserted(BEFORE, _GROWN),
    ),
)

MATRIX = [(case, shape) for case in CASES for shape in SHAPES]


def case_named(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


@cache
def scene(shape: Shape, schema: pa.Schema = SCHEMA) -> Scene:
    """A table of the shape that holds `BEFORE`: base files, and logs where it has them."""

    def setup(storage: Storage, world: World, lock: LockProvider) -> None:
        options: dict[str, object] = {
            "hoodie.table.name": "t",
            "hoodie.table.type": shape.table_type,
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.partition.fields": "part",
            "hoodie.table.ordering.fields": "ts",
        }
        if shape.buckets is not None:
            options["hoodie.bucket.index.num.buckets"] = shape.buckets
        create_on(storage, schema, options)
        for batch in (FIRST, SECOND):
            open_on(storage, world, lock).upsert(arrow(batch))

    return set_scene(setup)


def sample(every: Sequence[T], count: int, name: str) -> Sequence[T]:
    """Some of `every`, chosen by the seed, in their order; all of it at length."""
    if AT_LENGTH or len(every) <= count:
        return every
    chosen = random.Random(f"{FIRST_SEED}/{name}").sample(range(len(every)), count)
    return [every[at] for at in sorted(chosen)]


def commit_call(case: Case, start: Scene) -> int:
    """Which storage call of the case makes it visible."""
    calls = storage_calls(run_with_crash(case.flow, None, start).trace, "flow")
    made = f"put_if_absent  True           {TIMELINE}/"
    return max(number for number, line in enumerate(calls, 1) if made in line)


def storage_calls(trace: Iterable[str], actor: str) -> list[str]:
    """The lines of a trace that are storage calls of the actor, in order."""
    lines = [line for line in trace if line.split()[2] == actor]
    return [line for line in lines if line.split()[3] not in ("lock", "unlock", "sleep", "pause")]


def distinct(runs: Iterable[CrashRun], *, always: bool = False) -> Iterator[CrashRun]:
    """The runs that left bytes no earlier one did, for most calls only read; all of them at length,
    unless `always`."""
    seen = set()
    for run in runs:
        assert run.crashed, run
        files = [(file.path, run.storage.read(file.path)) for file in run.storage.walk("")]
        left = hash(tuple(files))
        if (AT_LENGTH and not always) or left not in seen:
            seen.add(left)
            yield run


# Looking at a table


def read(storage: Storage, world: World, lock: LockProvider) -> Rows:
    """Every row a reader sees, whole; a key that is seen twice is a failure."""
    found = open_on(storage, world, lock).read(meta=True).to_pylist()
    for row in found:
        assert row["_hoodie_record_key"] == row["id"], row
        assert row["_hoodie_partition_path"] == row["part"], row
    seen = {r["id"]: {k: v for k, v in r.items() if k[:8] != "_hoodie_"} for r in found}
    assert len(seen) == len(found), f"a key was seen twice: {found}"
    return seen


def data_files(storage: Storage) -> dict[str, bytes]:
    """Every base and log file that is there, whoever made it."""
    paths = [file.path for file in storage.walk("") if not file.path.startswith(".hoodie/")]
    return {path: storage.read(path) for path in paths if requested_at_of(path.rpartition("/")[2])}


def ensure_sound(
    storage: Storage,
    world: World,
    lock: LockProvider,
    *,
    began: Scene,
    allowed: Sequence[Rows],
    trace: object,
) -> Rows:
    """The table holds one of `allowed`, what it held stands unharmed, and the next upsert works and
    leaves no debris. The rows that were seen."""
    seen = read(storage, world, lock)
    assert seen in allowed, f"{seen} is none of {allowed}\n{trace}"
    assert check_table(storage) == [], trace
    there = data_files(storage)
    for path, data in began.files:
        if requested_at_of(path.rpartition("/")[2]) and not path.startswith(".hoodie/"):
            assert there.get(path) == data, f"{path} was changed or removed\n{trace}"
    open_on(storage, world, lock).upsert(arrow(NEXT))
    assert read(storage, world, lock) == upserted(seen, NEXT), trace
    assert check_table(storage) == [], trace
    assert list_leftovers(storage) == [], trace
    return seen
