"""Random histories of tables: what a table is, and the steps that are done to it, from one seed.

Pure: the same seed gives the same history, and every step holds all that it needs. So steps can be
left out of a history to find the few that matter, and the others stay what they were. Steps that
depend on what the table has become (which instant to roll back) only say so; `history_player.py`
finds out and may skip them.

The seed's last two bits choose table type and index, so any four seeds in a row cover both.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

LENGTH_MIN, LENGTH_MAX = 10, 12
"""How many steps of a history are done."""
_SPARE_STEPS = 6

MERGE_ON_READ, COPY_ON_WRITE = "MERGE_ON_READ", "COPY_ON_WRITE"
_ORDERINGS = (
    ("ts",), ("ts",), ("ts",), ("at",), ("score",), ("price",), ("name",), ("ts", "small"), (),
)  # fmt: skip
_KEYS = (("id",), ("id",), ("seq",), ("id", "seq"))
_PARTITIONS = ((), ("part",), ("part",), ("part",), ("part", "day"))
_ODD_VALUES = ("p 0=ü", "a%20b", "x/y:z")
_PLAIN_VALUES = ("p0", "p1", "p2")
_OPTIONAL_COLUMNS = (
    "name", "small", "flag", "ratio", "score", "price", "total", "day", "at", "raw", "place",
    "tags", "items", "counts",
)  # fmt: skip

# Small tables: what Hudi would do in hundreds of tasks takes one.
_CHEAP = {
    f"hoodie.{name}": "1"
    for name in (
        "upsert.shuffle.parallelism",
        "insert.shuffle.parallelism",
        "bulkinsert.shuffle.parallelism",
        "delete.shuffle.parallelism",
        "clean.parallelism",
        "rollback.parallelism",
        "finalize.write.parallelism",
        "markers.delete.parallelism",
        "file.listing.parallelism",
        "simple.index.parallelism",
        "global.simple.index.parallelism",
        "bloom.index.parallelism",
        "archive.delete.parallelism",
        "clustering.max.parallelism",
    )
} | {
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
    # A crash is played after Hudi has deleted the markers; without them it would roll back nothing,
    # leave the files, and take them for committed once the instant is older than the timeline.
    "hoodie.rollback.using.markers": "false",
    # Every time Hudi gives out costs it this much sleep, for the sake of other machines' clocks.
    "hoodie.time.generator.max_expected_clock_skew_ms": "2",
    # A step is one thing: what Hudi would also do inline is a step of its own.
    "hoodie.compact.inline": "false",
    # Tables of version 8 with one key and two partition fields: it warns of what older writers did.
    "hoodie.write.complex.keygen.validation.enable": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the table is. `merge_mode` is empty where Hudi infers it."""

    table_type: str
    index: str
    key: tuple[str, ...]
    partition: tuple[str, ...]
    ordering: tuple[str, ...]
    columns: tuple[str, ...]
    merge_mode: str = ""
    hive_style: bool = False
    odd_values: bool = False
    soft_deletes: bool = False
    metadata: bool = False
    version: int = 9
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def values(self) -> tuple[str, ...]:
        """The values of `part`."""
        return _ODD_VALUES if self.odd_values else _PLAIN_VALUES

    @property
    def row_key(self) -> tuple[str, ...]:
        """What tells rows apart: a record key is unique only within its partition."""
        return (*self.key, *self.partition)

    @property
    def options(self) -> dict[str, str]:
        """Everything a Hudi writer is told."""
        given = {
            "hoodie.table.name": "history",
            "hoodie.datasource.write.table.type": self.table_type,
            "hoodie.datasource.write.recordkey.field": ",".join(self.key),
            "hoodie.datasource.write.partitionpath.field": ",".join(self.partition),
            "hoodie.table.ordering.fields": ",".join(self.ordering),
            "hoodie.write.record.merge.mode": self.merge_mode,
            "hoodie.datasource.write.hive_style_partitioning": _text(self.hive_style),
            "hoodie.datasource.write.partitionpath.urlencode": _text(self.odd_values),
            "hoodie.index.type": self.index,
            "hoodie.metadata.enable": _text(self.metadata),
        }
        if self.version != 9:
            given["hoodie.write.table.version"] = str(self.version)
            given["hoodie.write.auto.upgrade"] = "false"
        # An empty list of partition fields says something, other empty texts say nothing.
        said = {key: text for key, text in given.items() if text or "partitionpath" in key}
        return {**_CHEAP, **said, **self.settings}


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows with keys `first` up to `last` (exclusive), as `history_player.make_batch` makes them.

    `values` are the partitions they are spread over by key; `shift` moves each key that many
    partitions on. `ts` is near the ordering value, `evolved` adds what a later schema has.
    """

    first: int
    last: int
    ts: int
    seed: int
    values: tuple[str, ...]
    shift: int = 0
    evolved: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One thing done to the table; `options` come on top of the table's."""

    kind: str
    batch: Batch | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0

    def __str__(self) -> str:
        told = [self.kind]
        if (b := self.batch) is not None:
            told.append(f"keys {b.first}-{b.last - 1} ts~{b.ts} seed {b.seed}")
            told += [f"shift {b.shift}"] if b.shift else []
            told += ["evolved"] if b.evolved else []
            told += [f"into {', '.join(b.values)}"] if len(b.values) < len(_PLAIN_VALUES) else []
        told += [f"{key}={text}" for key, text in self.options.items()]
        return " | ".join(told)


@dataclass(frozen=True, slots=True)
class History:
    """A table and what is done to it, until `length` steps are done; spare ones follow.

    It is looked at when `midway` steps are done, and at the end.
    """

    seed: int
    shape: Shape
    steps: tuple[Step, ...]
    length: int
    midway: int

    def only(self, kept: Collection[int]) -> History:
        """The history without the other steps, looked at only at its end."""
        steps = tuple(step for number, step in enumerate(self.steps) if number in kept)
        return replace(self, steps=steps, length=len(steps), midway=-1)


def make_history(seed: int) -> History:
    """The history of a seed."""
    rng = random.Random(f"history {seed}")  # small integers as seeds give similar numbers
    shape = _make_shape(seed, rng)
    length = rng.randint(LENGTH_MIN, LENGTH_MAX)
    steps = tuple(_make_steps(shape, rng, length + _SPARE_STEPS))
    return History(seed, shape, steps, length, rng.randrange(3, length - 2))


def _text(value: bool) -> str:
    return "true" if value else "false"


def _make_shape(seed: int, rng: random.Random) -> Shape:
    is_mor, is_bucket = seed % 2 == 0, seed % 4 < 2
    partition = rng.choice(_PARTITIONS)
    ordering = rng.choice(_ORDERINGS)
    version = 8 if rng.random() < 0.3 else 9
    if version == 8:
        ordering = ordering[:1]
    if ordering == ("price",) and not (is_mor and is_bucket):
        ordering = ("ts",)  # Hudi 1.2.0 cannot compare a new decimal with one from a base file
    settings = {}
    if is_bucket:
        settings["hoodie.bucket.index.num.buckets"] = str(rng.randint(1, 3 - len(partition) // 2))
    elif rng.random() < 0.4:
        settings["hoodie.parquet.small.file.limit"] = "0"
    if is_mor and rng.random() < 0.3:
        settings["hoodie.logfile.data.block.format"] = "parquet"
    settings |= _housekeeping(rng)
    if rng.random() < 0.8:
        settings["hoodie.metadata.index.column.stats.enable"] = "false"
    needed = {"id", "seq", "ts", "part", *partition, *ordering}
    optional = set(rng.sample(_OPTIONAL_COLUMNS, rng.randint(4, len(_OPTIONAL_COLUMNS))))
    return Shape(
        table_type=MERGE_ON_READ if is_mor else COPY_ON_WRITE,
        index="BUCKET" if is_bucket else rng.choice(("SIMPLE", "SIMPLE", "GLOBAL_SIMPLE", "BLOOM")),
        key=rng.choice(_KEYS),
        partition=partition,
        ordering=ordering,
        columns=tuple(sorted(needed | optional | {"name"})),
        merge_mode="COMMIT_TIME_ORDERING" if ordering and rng.random() < 0.2 else "",
        hive_style=bool(partition) and rng.random() < 0.5,
        odd_values=bool(partition) and rng.random() < 0.25,
        soft_deletes=rng.random() < 0.3,
        metadata=seed % 5 == 4,  # twice as slow; over time it meets every type and index
        version=version,
        settings=settings,
    )


def _housekeeping(rng: random.Random) -> dict[str, str]:
    """How much of its past the table keeps: all, or so little that it is cleaned and archived."""
    if rng.random() < 0.4:
        return {"hoodie.clean.automatic": "false"}
    retained = rng.randint(1, 3)
    keep = retained + rng.randint(1, 2)
    return {
        "hoodie.clean.commits.retained": str(retained),
        "hoodie.keep.min.commits": str(keep),
        "hoodie.keep.max.commits": str(keep + rng.randint(1, 2)),
        "hoodie.commits.archival.batch": str(rng.randint(1, 3)),
        "hoodie.timeline.compaction.batch.size": "3",
    }


# --- steps ------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Course:
    """What the table has been through so far, as far as it decides what may come next."""

    shape: Shape
    rng: random.Random
    clock: Iterator[int] = field(default_factory=lambda: count(1))
    next_key: int = 0
    evolved: bool = False
    compaction: bool = False
    clustering: bool = False
    savepoint: bool = False
    crashed: bool = False

    def batch(self, *, fresh: bool = False, size: tuple[int, int] = (20, 60)) -> Batch:
        """Rows under new keys, or some under known and some under new ones."""
        rng, amount = self.rng, self.rng.randint(*size)
        first = self.next_key if fresh else rng.randint(0, max(0, self.next_key - amount // 2))
        self.next_key = max(self.next_key, first + amount)
        return Batch(
            first=first,
            last=first + amount,
            ts=3 * next(self.clock),
            seed=rng.randrange(10**6),
            values=self.shape.values,
            evolved=self.evolved,
        )


def _make_steps(shape: Shape, rng: random.Random, amount: int) -> Iterator[Step]:
    course = _Course(shape, rng)
    evolves_at = rng.randrange(2, amount) if rng.random() < 0.35 else amount
    yield Step(rng.choice(("upsert", "insert", "bulk_insert")), course.batch(fresh=True))
    for number in range(1, amount):
        course.evolved = number >= evolves_at
        legal = {kind: weight for kind, weight in _WEIGHTS.items() if _is_legal(kind, course)}
        kind = rng.choices(list(legal), list(legal.values()))[0]
        course.crashed = kind == "crash"
        yield _MAKERS.get(kind, _plain_step)(kind, course)


# What Hudi is asked to do and how often. A kind without a maker of its own is a bare step.
_WEIGHTS = {
    "upsert": 22, "insert": 7, "bulk_insert": 4, "delete": 8, "sql_update": 3, "sql_delete": 3,
    "merge_into": 4, "insert_overwrite": 5, "insert_overwrite_table": 2, "delete_partition": 4,
    "compact": 6, "schedule_compaction": 5, "run_compaction": 12, "log_compact": 5,
    "cluster": 6, "schedule_clustering": 4, "run_clustering": 12, "clean": 4, "savepoint": 3,
    "release": 3, "restore": 3, "rollback": 4, "crash": 3,
}  # fmt: skip

_MOR_ONLY = {"compact", "schedule_compaction", "run_compaction", "log_compact"}
# Hudi refuses updates of file groups that a pending clustering is going to replace.
_BESIDE_CLUSTERING = {"insert", "bulk_insert", "run_clustering", "clean"}
# These roll back what a crashed writer left; after others Hudi no longer can.
_AFTER_CRASH = {"upsert", "insert", "delete", "log_compact"}
# Hudi's SQL takes several ordering fields for one column with commas in its name.
_WITHOUT_SQL = {
    "upsert", "insert", "bulk_insert", "delete", "insert_overwrite", "insert_overwrite_table",
    "delete_partition", "log_compact", "crash",
}  # fmt: skip


def _is_legal(kind: str, course: _Course) -> bool:
    shape = course.shape
    is_bucket = shape.index == "BUCKET"
    if kind in _MOR_ONLY and shape.table_type != MERGE_ON_READ:
        return False
    if course.clustering and kind not in _BESIDE_CLUSTERING:
        return False
    if len(shape.ordering) > 1 and kind not in _WITHOUT_SQL:
        return False
    if course.crashed and kind not in _AFTER_CRASH:
        return False
    match kind:
        case "bulk_insert":
            return not is_bucket  # it would give a bucket a second file group
        case "merge_into":
            # Hudi 1.2.0 looks for the flag in a partial row at the place it has in whole rows, and
            # fails there or takes other bytes for it: rows vanish.
            return not (shape.soft_deletes and shape.table_type == MERGE_ON_READ)
        case "delete_partition":
            return bool(shape.partition) and not course.compaction
        case "compact" | "schedule_compaction":
            return not course.compaction
        case "run_compaction":
            return course.compaction
        case "cluster" | "schedule_clustering":
            return not is_bucket  # Hudi clusters only tables with consistent buckets
        case "run_clustering":
            return course.clustering
        case "savepoint":
            return not course.savepoint
        case "release" | "restore":
            return course.savepoint
    return True


def _plain_step(kind: str, course: _Course) -> Step:
    for started, ended, state in (
        ("schedule_compaction", "run_compaction", "compaction"),
        ("schedule_clustering", "run_clustering", "clustering"),
        ("savepoint", "release", "savepoint"),
    ):
        if kind in (started, ended):
            setattr(course, state, kind == started)
    return Step(kind, seed=course.rng.randrange(10**6))


def _upsert(kind: str, course: _Course) -> Step:
    batch = course.batch()
    if course.shape.partition and course.rng.random() < 0.2:
        batch = replace(batch, shift=1)
    return Step("upsert", batch)


def _insert(kind: str, course: _Course) -> Step:
    return Step(kind, course.batch(fresh=True))


def _delete(kind: str, course: _Course) -> Step:
    return Step(kind, course.batch(size=(3, 15)))


def _merge_into(kind: str, course: _Course) -> Step:
    return Step(kind, course.batch(size=(10, 30)))


def _overwrite(kind: str, course: _Course) -> Step:
    batch = course.batch(fresh=course.rng.random() < 0.5)
    if kind == "insert_overwrite":
        batch = replace(batch, values=tuple(course.rng.sample(batch.values, 2)))
    return Step(kind, batch)


def _log_compact(kind: str, course: _Course) -> Step:
    options = {
        "hoodie.log.compaction.enable": "true",
        "hoodie.log.compaction.inline": "true",
        "hoodie.log.compaction.blocks.threshold": "2",
    }
    return Step(kind, course.batch(), options)


_MAKERS: dict[str, Callable[[str, _Course], Step]] = {
    "upsert": _upsert,
    "insert": _insert,
    "bulk_insert": _insert,
    "delete": _delete,
    "merge_into": _merge_into,
    "insert_overwrite": _overwrite,
    "insert_overwrite_table": _overwrite,
    "log_compact": _log_compact,
}
