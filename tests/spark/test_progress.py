"""On Spark progress follows the tasks while they run, and leaves nothing behind."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lentic
from lentic.errors import InvalidRecord
from lentic.progress import Measure
from lentic.spark.engine import SparkEngine
from lentic.table import Table
from tests.recorded_progress import Recorded, Recording, measure_commit

pytestmark = pytest.mark.spark

SCHEMA = "id string, n long"
PATIENCE_S = 120
"""How long a task waits for a sign from the driver, which comes at once unless all is broken."""


def _table(path: Path, spark: SparkSession, shown: Recording, **how: object) -> Table:
    made = lentic.create(str(path / "t"), SCHEMA, key="id", options=how, spark=spark)
    return Table(made._opened, SparkEngine(spark, shown))


def _rows(spark: SparkSession, first: int, last: int) -> DataFrame:
    return spark.range(first, last, 1, 3).selectExpr("cast(id as string) id", "id n")


def _helpers() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("lentic-")]


def _tags(spark: SparkSession) -> list[str]:
    tags = spark.sparkContext._jsc.getJobTags()
    return sorted(map(str, tags))


def test_every_stage_runs_to_its_end_and_comes_to_what_the_commit_counts(
    tmp_path: Path, spark: SparkSession
) -> None:
    shown = Recording()
    table = _table(tmp_path, spark, shown, **{"hoodie.table.type": "COPY_ON_WRITE"})
    for first, titles in (
        (0, ["looking keys up", "writing"]),
        (50, ["looking keys up", "writing"]),
    ):
        shown.stages.clear()
        commit = table.upsert(_rows(spark, first, first + 100))
        assert shown.titles == titles
        assert shown.made == measure_commit(commit)
        assert all(stage.is_full for stage in shown.stages)
    assert _helpers() == []


def test_a_compaction_shows_the_base_files_it_makes(tmp_path: Path, spark: SparkSession) -> None:
    shown = Recording()
    table = _table(tmp_path, spark, shown, **{"hoodie.bucket.index.num.buckets": 3})
    table.upsert(_rows(spark, 0, 100))
    shown.stages.clear()
    table.compact()
    sizes = [part.base.size for part in table.file_slices() if part.base]
    assert shown.titles == ["compacting"]
    assert shown.made == Measure(100, len(sizes), sum(sizes))
    assert shown.stages[0].is_full


class _Sign(Recording):
    """Gives the waiting task a sign once progress has told of the other task's end."""

    def __init__(self, pipe: Path) -> None:
        super().__init__()
        self.pipe = pipe

    def begin(self, title: str, total: int | None) -> Recorded:
        super().begin(title, total)
        self.stages[-1] = _Signing(title, total, pipe=self.pipe)
        return self.stages[-1]


class _Signing(Recorded):
    def __init__(self, title: str, total: int | None, *, pipe: Path) -> None:
        super().__init__(title, total)
        self.pipe: Path | None = pipe

    def show(self, done: int, total: int | None, made: Measure) -> None:
        super().show(done, total, made)
        if done == 1 and total == 2 and self.pipe:
            with suppress(OSError):  # nobody waits yet: the next time then
                os.close(os.open(self.pipe, os.O_WRONLY | os.O_NONBLOCK))
                self.pipe = None


def _waiting(pipe: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Rows pass; who has row 1 waits for the sign first."""
    name = str(pipe)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if 1 in batch.column("n").to_pylist():
                handle = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
                asked = select.poll()
                asked.register(handle, select.POLLIN | select.POLLHUP)
                asked.poll(PATIENCE_S * 1000)
                os.close(handle)
            yield batch

    return work


def test_tasks_are_told_as_they_end_and_not_when_all_is_over(
    tmp_path: Path, spark: SparkSession
) -> None:
    pipe = tmp_path / "sign"
    os.mkfifo(pipe)
    shown = _Sign(pipe)
    table = _table(tmp_path, spark, shown, **{"hoodie.bucket.index.num.buckets": 2})
    slow = spark.range(0, 2, 1, 2).selectExpr("cast(id as string) id", "id n")
    table.upsert(slow.mapInArrow(_waiting(pipe), SCHEMA))
    (stage,) = shown.stages
    assert (1, 2) in [state[:2] for state in stage.states], "one of two tasks, the other waits"
    assert stage.is_full
    assert _helpers() == []


def test_a_write_that_fails_leaves_no_thread_and_the_users_own_tags_and_group(
    tmp_path: Path, spark: SparkSession
) -> None:
    shown = Recording()
    table = _table(tmp_path, spark, shown, **{"hoodie.bucket.index.num.buckets": 2})
    context = spark.sparkContext
    context.setJobGroup("mine", "a group of the user's")
    context.addJobTag("also-mine")
    try:
        with pytest.raises(InvalidRecord):
            table.upsert(spark.createDataFrame([("a", 1), (None, 2)], SCHEMA))
        assert _tags(spark) == ["also-mine"]
        assert context.getLocalProperty("spark.jobGroup.id") == "mine"
        jobs = context.statusTracker().getJobIdsForGroup("mine")
        assert jobs, "the jobs of a write belong to the user's group"
    finally:
        context.clearJobTags()
        for name in ("spark.jobGroup.id", "spark.job.description"):
            context.setLocalProperty(name, None)  # type: ignore[arg-type]
    assert [stage.ends for stage in shown.stages] == [1]
    assert _helpers() == []


def test_where_nobody_looks_there_is_neither_tag_nor_thread(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lentic.spark.following.Thread", None)
    monkeypatch.setattr("pyspark.SparkContext.addJobTag", None)
    table = lentic.create(str(tmp_path / "t"), SCHEMA, key="id", buckets=2, spark=spark)
    assert table.upsert(_rows(spark, 0, 10)).inserted == 10
