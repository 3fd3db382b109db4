"""Robust Spark writes: what the design says of the order of a write, of handles that run again, and
of file ids. Races and strays are in `tests/simulation/test_strays.py`, real ones in `tests/faults`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pytest

from lentic.engine import Attempt, LocalEngine, Shuffle
from lentic.errors import InstantCancelled, StorageError
from lentic.format import layout
from lentic.format.names import parse_base_file, parse_log_file, requested_at_of
from lentic.table import Table
from lentic.testing.checkers import list_leftovers
from lentic.testing.crash_sweep import Scene
from lentic.testing.simulation import Simulation
from lentic.testing.tables import create_on, open_on
from tests.rfc.claims import says
from tests.simulation.cases import (
    BEFORE,
    CASES,
    COW,
    COW_BUCKETS,
    MATRIX,
    MOR_BUCKETS,
    SCHEMA,
    SHAPES,
    Case,
    Shape,
    arrow,
    case_named,
    read,
    rows,
    scene,
)
from tests.simulation.cluster import COMPACT
from tests.unit.builders import WrappedStorage

T = TypeVar("T")
Task = Callable[[int], list[str]]

LOG_COMPACT = Case("log_compact", lambda table: table.log_compact(), BEFORE)
CLUSTER = Case("cluster", lambda table: table.cluster(sort_by="v"), BEFORE)
SERVICES = [(COMPACT, MOR_BUCKETS), (LOG_COMPACT, MOR_BUCKETS)]
SERVICES += [(CLUSTER, shape) for shape in SHAPES]
FOLD = {"hoodie.log.compaction.blocks.threshold": 2}
EVERYTHING = pytest.mark.parametrize(
    ("case", "shape"), [*MATRIX, *SERVICES], ids=lambda value: value.name
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Again(LocalEngine):
    """Runs each task as often as `attempts` says, one after the other, and remembers it. A later
    attempt gets the rows the other way round; one that fails is repeated."""

    threads: int = 1
    attempts: int = 2
    tasks: list[Task] = field(default_factory=list)
    reports: list[list[str]] = field(default_factory=list)

    def run(
        self, work: Callable[[Attempt, T], str], tasks: Sequence[T], stage: object = None
    ) -> list[str]:
        def task(number: int, given: T) -> Task:
            return lambda attempt: [work(Attempt(number, attempt), given)]

        return self._repeat([task(number, given) for number, given in enumerate(tasks)])

    def shuffle(self, source: pa.Table, shuffle: Shuffle) -> list[str]:
        table = source.combine_chunks()
        batches = table.select(list(shuffle.columns)).to_batches()
        numbers = np.concatenate([shuffle.route(batch).to_numpy() for batch in batches])
        numbers = numbers % shuffle.tasks

        def task(number: int) -> Task:
            share = np.flatnonzero(numbers == number)

            def attempt_at(attempt: int) -> list[str]:
                order = share[::-1] if attempt % 2 else share
                given = iter(table.take(order).to_batches())
                return list(shuffle.handle(Attempt(number, attempt), given))

            return attempt_at

        return self._repeat([task(number) for number in np.unique(numbers).tolist()])

    def _repeat(self, tasks: list[Task]) -> list[str]:
        found: list[str] = []
        for task in tasks:
            self.tasks.append(task)
            reports = [self._try(task, attempt) for attempt in range(self.attempts)]
            while not isinstance(reports[-1], list):
                reports.append(self._try(task, len(reports)))
            self.reports.append([str(sorted(good)) for good in reports if isinstance(good, list)])
            found += reports[-1]
        return found

    def _try(self, task: Task, attempt: int) -> list[str] | StorageError:
        try:
            return task(attempt)
        except StorageError as error:
            return error


@dataclass
class Stand:
    """A table of some shape and how it is opened here."""

    sim: Simulation
    storage: WrappedStorage
    lock: Any

    def table(self, engine: LocalEngine | None = None, **options: object) -> Table:
        given = {"hoodie.upsert.shuffle.parallelism": 2, **FOLD, **options}
        return open_on(self.storage, self.sim.world("x"), self.lock, given, engine)

    def rows(self) -> object:
        return read(self.storage, self.sim.world("reader"), self.lock)

    def made(self) -> list[str]:
        """The data files that were begun, in order."""
        calls = self.storage.calls
        found = [path for op, path in calls if op == "open_output"]
        found += [path for op, path in calls if op == "put_if_absent"]
        return [path for path in found if is_data(path)]


def is_data(path: str) -> bool:
    name = path.rpartition("/")[2]
    return not path.startswith(layout.HOODIE) and requested_at_of(name) is not None


def stand(start: Scene, storage: WrappedStorage | None = None) -> Stand:
    sim, lock = start.stage()
    storage = storage or WrappedStorage()
    storage.inner = sim.memory
    return Stand(sim, storage, lock)


def file_id(path: str) -> tuple[str, str]:
    partition, _, name = path.rpartition("/")
    parsed = parse_log_file(name) if ".log." in name else parse_base_file(name)
    assert parsed is not None, path
    return partition, parsed.file_id


# --- the order of a write -----------------------------------------------------------------------


@says("robust.order", "robust.begin")
@pytest.mark.parametrize("shape", [COW, COW_BUCKETS], ids=lambda shape: shape.name)
def test_a_write_takes_its_steps_in_the_order_of_the_design(shape: Shape) -> None:
    here = stand(scene(shape))
    table = here.table()
    twice = pa.concat_tables([arrow(rows(("a0", 9, 1))), arrow(rows(("a0", 8, 2)))])
    here.storage.calls.clear()
    done = table.upsert(twice)
    at = str(done.requested_at)
    calls = here.storage.calls
    (made,) = [n for n, (op, path) in enumerate(calls) if op == "open_output" and is_data(path)]
    steps = [
        f"{at}.commit.requested",
        f"{at}.inflight",
        f"{layout.TEMP}/{at}/",
        None,  # the data file itself
        f"{layout.completions(done.requested_at)}/",
        layout.accepted_statuses(done.requested_at),
        layout.finalized(done.requested_at),
        f"{at}_",
    ]
    places = [
        made
        if word is None
        else next(n for n, (op, p) in enumerate(calls) if op == "put_if_absent" and word in p)
        for word in steps
    ]
    assert places == sorted(places)
    looked = [n for n, (op, path) in enumerate(calls) if op == "open_input" and is_data(path)]
    if shape.buckets is None:
        assert looked[0] < places[2], "keys were looked up before anything was announced"
    assert done.updated == 1, "of equal keys in a batch one is written"


# --- handles that run again ---------------------------------------------------------------------


@says("robust.handles", "robust.cm.1", "robust.norewrite", "robust.retries", "S9")
@EVERYTHING
def test_a_task_that_runs_again_reports_the_same_and_writes_nothing(
    case: Case, shape: Shape
) -> None:
    here = stand(scene(shape))
    once = stand(scene(shape))
    case.act(once.table(Again(attempts=1)))
    engine = Again(attempts=3)
    case.act(here.table(engine))
    assert engine.reports or case.name == "delete_partitions"
    assert all(len(set(reports)) == 1 for reports in engine.reports)
    assert len(here.made()) == len(once.made())
    assert here.rows() == case.after


@says("robust.handles", "robust.fm.nofiles", "robust.fm.fail", "robust.fm.recover", "robust.case2")
@pytest.mark.parametrize("answer", ["fail", "recover"])
@EVERYTHING
def test_tasks_that_all_run_again_after_the_commit_make_no_file(
    case: Case, shape: Shape, answer: str
) -> None:
    here = stand(scene(shape))
    engine = Again(attempts=1)
    case.act(here.table(engine, **{"lentic.write.finalize.on_rerun": answer}))
    made = len(here.made())
    there = {file.path for file in here.sim.memory.walk("") if is_data(file.path)}
    for task in engine.tasks:
        with suppress(InstantCancelled):
            task(7)
    now = {file.path for file in here.sim.memory.walk("") if is_data(file.path)}
    assert now == there and len(here.made()) == made
    assert here.rows() == case.after
    assert list_leftovers(here.sim.memory) == []


# --- file ids -----------------------------------------------------------------------------------


class DiesBeforeItsMarker(WrappedStorage):
    """The first attempt at each share has written its files, and does not live to say so."""

    def __init__(self) -> None:
        super().__init__()
        self.died: set[str] = set()

    def before(self, op: str, path: str) -> None:
        if op == "put_if_absent" and path.endswith(".completed.json") and path not in self.died:
            self.died.add(path)
            raise StorageError("The worker is gone.", where=path)


def ensure_same_ids(case: Case, start: Scene) -> None:
    """Each share is written twice, as the first attempt died: to the same file groups, under other
    names."""
    here = stand(start, DiesBeforeItsMarker())
    case.act(here.table(Again(attempts=2)))
    made = here.made()
    assert len(set(made)) == len(made), "no name was used twice"
    assert set(Counter(map(file_id, made)).values()) == {2}, made
    assert here.rows() == case.after
    assert list_leftovers(here.sim.memory) == []


def _attempt(path: str) -> str:
    name = path.rpartition("/")[2]
    parsed = parse_log_file(name) if ".log." in name else parse_base_file(name)
    assert parsed is not None
    return parsed.write_token.rpartition("-")[2]


@says(
    "robust.ids.driver", "robust.ids.upsert", "robust.cm.2", "robust.cm.aborted", "robust.cm.loss"
)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.name in ("insert", "upsert")], ids=lambda c: c.name
)
def test_a_repeated_attempt_writes_to_the_same_file_groups_under_other_names(
    case: Case, shape: Shape
) -> None:
    ensure_same_ids(case, scene(shape))


@says("robust.ids.driver", "robust.ids.bulk")
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_repeated_attempt_at_a_bulk_insert_chooses_the_same_file_ids(shape: Shape) -> None:
    ensure_same_ids(case_named("bulk_insert"), scene(shape))


@says("robust.ids.driver", "robust.ids.clustering")
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_repeated_attempt_at_a_clustering_chooses_the_same_file_ids(shape: Shape) -> None:
    ensure_same_ids(CLUSTER, scene(shape))


# --- a share of several files -------------------------------------------------------------------

MANY = 3_000
SMALL = {"hoodie.clustering.plan.strategy.target.file.max.bytes": 4_000}


def several_files() -> Scene:
    """A table with one partition and as many rows as three files of a clustering hold."""
    sim = Simulation(0)
    lock = sim.lock()
    options: dict[str, object] = {
        "hoodie.table.name": "t",
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.recordkey.fields": "id",
    }
    create_on(sim.memory, SCHEMA, options)
    ids = [f"{number:05d}" for number in range(MANY)]
    given = pa.table([ids, [1] * MANY, ["p"] * MANY, list(range(MANY))], schema=SCHEMA)
    open_on(sim.memory, sim.world("setup"), lock).bulk_insert(given)
    files = tuple((file.path, sim.memory.read(file.path)) for file in sim.memory.walk(""))
    return Scene(files, sim.now_ms, lock.epoch, lock.last_time)


class DiesAtAFile(WrappedStorage):
    """The worker is gone before it begins its file number `number`; then all is well."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.left = number

    def before(self, op: str, path: str) -> None:
        if op == "open_output" and is_data(path):
            self.left -= 1
            if self.left == 0:
                raise StorageError("The worker is gone.", where=path)


@says("robust.cm.three", "robust.cm.whole", "robust.ids.overflow", "robust.cm.content")
def test_a_share_that_died_after_some_of_its_files_is_written_anew_as_a_whole() -> None:
    here = stand(several_files(), DiesAtAFile(3))
    engine = Again(attempts=2)
    table = here.table(engine, **SMALL)
    here.storage.calls.clear()
    table.cluster(sort_by="v")
    made = here.made()
    names = [path.rpartition("/")[2] for path in made if path.endswith(".parquet")]
    by_attempt = {n: [x for x in names if _attempt(x) == n] for n in ("0", "1")}
    assert len(by_attempt["0"]) == 2, "the third was never begun"
    assert len(by_attempt["1"]) >= 3, "the repetition wrote all of them"
    ids = [file_id(name)[1] for name in by_attempt["1"]]
    prefix = ids[0].rpartition("-")[0]
    assert ids == [f"{prefix}-{number}" for number in range(len(ids))]
    assert set(map(file_id, by_attempt["0"])) <= set(map(file_id, by_attempt["1"]))
    markers = [p for op, p in here.storage.calls if op == "put_if_absent" and ".completed" in p]
    assert len(markers) == 1, "one marker says it for all files of the share"
    ((report,),) = engine.reports
    assert all(name in report for name in by_attempt["1"])
    there = {file.name for file in here.sim.memory.walk("") if is_data(file.path)}
    assert not there & set(by_attempt["0"])
    assert table.read().num_rows == MANY
