"""Random histories in which two engines write to a table and keep house in it, from one seed.

Pure: the same seed gives the same history. A plan and its execution are steps of their own, so that
others come between them, and each step says which engine does it. A step that makes no sense when
its turn comes (nothing to compact) is skipped by `service_player.py`, with those that depend on it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.interop.operations import Shape
from tests.interop.services import HUDI, LENTIC

LENGTH = 14
"""How many steps a history has."""
FIRST_WRITES = 2
PARTITIONS = ("p0", "p1")

SHAPES = (
    Shape("MERGE_ON_READ", 2, "ts"),
    Shape("COPY_ON_WRITE", None, None),
    Shape("MERGE_ON_READ", None, "ts"),
    Shape("COPY_ON_WRITE", 2, "ts"),
)
"""Any four seeds in a row meet all of them."""

WRITES = ("upsert", "delete", "insert_overwrite")
PLANNED = ("compaction", "log_compaction", "clustering", "clean")

# What is done, and how often.
_WEIGHTS = {
    "upsert": 18, "delete": 4, "insert_overwrite": 3,
    "plan compaction": 8, "execute compaction": 10,
    "plan log_compaction": 8, "execute log_compaction": 10,
    "plan clustering": 6, "execute clustering": 10,
    "plan clean": 8, "execute clean": 10,
    "archive": 5, "savepoint": 3, "release": 2, "restore": 3, "rollback": 3,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that one engine does; the keys and partitions are those of a write."""

    kind: str
    by: str
    first: int = 0
    last: int = 0
    ts: int = 0
    partitions: tuple[str, ...] = PARTITIONS

    def __str__(self) -> str:
        keys = f" keys {self.first}-{self.last - 1} ts {self.ts}" if self.kind in WRITES else ""
        within = f" in {', '.join(self.partitions)}" if self.partitions != PARTITIONS else ""
        return f"{self.by}: {self.kind}{keys}{within}"


@dataclass(frozen=True, slots=True)
class History:
    """A table and what is done to it."""

    seed: int
    shape: Shape
    steps: tuple[Step, ...]


def make_history(seed: int) -> History:
    """The history of a seed."""
    rng = random.Random(f"services {seed}")  # small integers as seeds give similar numbers
    shape = SHAPES[seed % len(SHAPES)]
    return History(seed, shape, tuple(_make_steps(_Course(shape, rng))))


@dataclass(slots=True)
class _Course:
    """What the table has been through so far, as far as it decides what may come next."""

    shape: Shape
    rng: random.Random
    planned: set[str] = field(default_factory=set)
    is_saved: bool = False
    last: str = ""
    next_key: int = 0

    def step(self, kind: str, number: int) -> Step:
        by = self.rng.choice((HUDI, LENTIC))
        if kind not in WRITES:
            return Step(kind=kind, by=by)
        if kind == "delete":  # not ordered: it ends whatever is there
            first = self.rng.randrange(max(1, self.next_key))
            return Step(kind=kind, by=by, first=first, last=first + 8)
        # New keys alone where known ones lie in groups that are going to be replaced.
        is_new = "clustering" in self.planned or self.next_key == 0
        first = self.next_key if is_new else self.rng.randrange(self.next_key)
        last = first + self.rng.randint(10, 40)
        self.next_key = max(self.next_key, last)
        some = (self.rng.choice(PARTITIONS),) if kind == "insert_overwrite" else PARTITIONS
        return Step(kind=kind, by=by, first=first, last=last, ts=number + 1, partitions=some)


def _make_steps(course: _Course) -> Iterator[Step]:
    for number in range(LENGTH):
        legal = {kind: weight for kind, weight in _WEIGHTS.items() if _is_legal(kind, course)}
        if number < FIRST_WRITES:
            legal = {"upsert": 1}
        kind = course.rng.choices(list(legal), list(legal.values()))[0]
        yield course.step(kind, number)
        _remember(kind, course)


def _remember(kind: str, course: _Course) -> None:
    verb, _, service = kind.partition(" ")
    if verb == "plan":
        course.planned.add(service)
    elif verb == "execute":
        course.planned.remove(service)
    elif verb in ("savepoint", "release"):
        course.is_saved = verb == "savepoint"
    course.last = kind


def _is_legal(kind: str, course: _Course) -> bool:
    verb, _, service = kind.partition(" ")
    match verb:
        case "execute":
            return service in course.planned
        case "plan" if service in course.planned:
            return False
        case "plan" if service in ("compaction", "log_compaction"):
            return course.shape.is_mor and "clustering" not in course.planned
        case "plan" if service == "clustering":
            # Hudi clusters buckets only where their number may change, and no group of another plan
            return not course.shape.buckets and not course.planned & {
                "compaction",
                "log_compaction",
            }
        case "delete" | "insert_overwrite":
            return "clustering" not in course.planned
        case "savepoint":
            return not course.is_saved
        case "release":
            return course.is_saved
        case "restore":
            return course.is_saved and not course.planned
        case "rollback":
            return course.last in WRITES and not course.planned
    return True
