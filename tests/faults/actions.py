"""What the driver is asked to do: write with gates, evaluate the same statuses again, read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any
from unittest import mock

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import lentic
from lentic.errors import LenticError
from lentic.spark.carried import unpack
from lentic.table import Table
from lentic.write.commit import Commit
from tests.faults.control import Control
from tests.faults.gated import HERE, GatedEngine, GatedStorage
from tests.faults.processes import list_executors
from tests.faults.writes import Kind, write


class Moment(StrEnum):
    """When the statuses are lost, seen from the driver."""

    BEFORE_FINALIZE = "before the finalize marker"
    AFTER_FINALIZE = "after the finalize marker"
    AFTER_COMMIT = "after the commit"


@dataclass(frozen=True, slots=True)
class Rerun:
    """Lose the statuses that Spark keeps, and ask for them again.

    With a `mark` the executors of that cluster are killed for it; else Spark is told to forget.
    """

    moment: Moment
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """A write to be done on Spark."""

    path: str
    kind: Kind
    rows: pa.Table
    control: Control
    options: dict[str, object] = field(default_factory=dict)
    rerun: Rerun | None = None
    blind: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """What came of it; `first` and `again` are the statuses of both evaluations, as texts."""

    commit: Commit | None = None
    error: LenticError | None = None
    first: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    again_error: LenticError | None = None


def run_job(spark: SparkSession, job: Job) -> Done:
    """Write, with gates and perhaps a second evaluation."""
    table = _open(spark, job)
    # Two partitions, so that what comes before the shuffle runs on both executors.
    source = spark.createDataFrame(job.rows).repartition(2, "id")
    if job.rerun is None:
        return _write(table, job, source)
    seen = _Seen()
    with _keeping(seen), _watching(job.rerun, seen):
        done = _write(table, job, source)
        if job.rerun.moment is Moment.AFTER_COMMIT:
            seen.evaluate_again(job.rerun.mark)
    assert seen.times == 1, f"evaluated {seen.times} times more"
    return replace(
        done, first=tuple(seen.first), again=tuple(seen.again), again_error=seen.again_error
    )


def read(spark: SparkSession, path: str) -> pa.Table:
    """The rows, read by Spark."""
    rows: pa.Table = lentic.open(path, spark=spark).read().toArrow()
    return rows


def _open(spark: SparkSession, job: Job) -> Table:
    options = {**job.kind.options, **job.options}
    opened = lentic.open(job.path, options=options)._opened
    storage = GatedStorage(job.path, job.control, job.blind)
    return Table(replace(opened, storage=storage), GatedEngine(spark, job.control))


def _write(table: Table, job: Job, source: DataFrame) -> Done:
    try:
        return Done(commit=write(table, job.kind, source))
    except LenticError as error:
        return Done(error=error)


@dataclass(slots=True)
class _Seen:
    """The statuses of a write: kept by Spark, and evaluated a second time."""

    kept: DataFrame | None = None
    first: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)
    again_error: LenticError | None = None
    times: int = 0

    def evaluate_again(self, mark: str) -> None:
        assert self.kept is not None
        self.times += 1
        self.first = _texts(self.kept)  # still kept: nothing runs for it
        if mark:
            for executor in list_executors(mark):
                executor.kill()
        else:
            self.kept.unpersist(blocking=True)
        try:
            with unpack():
                self.again = _texts(self.kept)
        except LenticError as error:
            self.again_error = error


@contextmanager
def _keeping(seen: _Seen) -> Iterator[None]:
    """Have Spark keep the statuses where they are made, as it does in the designs."""
    classic: Any = type(SparkSession.active().range(0))
    original = classic.mapInArrow

    def kept(self: DataFrame, *arguments: Any, **named: Any) -> DataFrame:
        frame: DataFrame = original(self, *arguments, **named)
        if frame.columns != ["text"]:
            return frame
        seen.kept = frame.persist()
        return seen.kept

    with mock.patch.object(classic, "mapInArrow", kept):
        yield
    assert seen.kept is not None
    seen.kept.unpersist()


@contextmanager
def _watching(rerun: Rerun, seen: _Seen) -> Iterator[None]:
    def at(moment: Moment, suffix: str) -> Callable[[str], None]:
        def look(path: str) -> None:
            if rerun.moment is moment and path.endswith(suffix) and not seen.times:
                seen.evaluate_again(rerun.mark)

        return look

    HERE.before = at(Moment.BEFORE_FINALIZE, "/statuses.json")
    HERE.after = at(Moment.AFTER_FINALIZE, ".finalized.json")
    try:
        yield
    finally:
        HERE.before = HERE.after = None


def _texts(frame: DataFrame) -> list[str]:
    return sorted(row.text for row in frame.collect())
