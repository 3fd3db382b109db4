"""The Spark engine: schedules and shuffles; the work is Arrow functions in Python workers.

Base files never pass through the JVM: workers read and write files themselves, and Spark moves only
the rows that users hand in. Before the shuffle nothing depends on the attempt, and the write is the
last stage, so a stage that Spark runs again sends the same rows to the same place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas import functions as vectorised
from pyspark.sql.types import IntegerType

from lentic.engine import Attempt, Handle, Route, Scan, ScanTask, Shuffle
from lentic.errors import SchemaMismatch
from lentic.spark.carried import carry, unpack
from lentic.spark.dataframe import arrow_schema, spark_schema

T = TypeVar("T")
Batches = Iterator[pa.RecordBatch]

_ROUTE = "__lentic_route"
_arrow_udf: Any = vectorised.arrow_udf  # its published types know no variable arguments
_TASKS_PER_CORE = 2
_CORES_UNKNOWN = 8


class SparkEngine:
    """Runs on the session it is given. Rows come and go as DataFrames."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def schema(self, source: Any) -> pa.Schema:
        return arrow_schema(self._frame(source).schema)

    def run(self, work: Callable[[T], str], tasks: Sequence[T]) -> list[str]:
        if not tasks:
            return []
        done = self._over_tasks(tasks, _worker_of_texts(work), "number long, text string")
        with unpack():
            rows = done.collect()
        return [row.text for row in sorted(rows, key=lambda row: row.number)]

    def shuffle(self, source: Any, shuffle: Shuffle) -> list[str]:
        frame = self._frame(source)
        tasks = shuffle.tasks or _TASKS_PER_CORE * self._cores()
        route = _arrow_udf(_router(shuffle.columns, shuffle.route, tasks), IntegerType())
        routed = frame.withColumn(_ROUTE, route(*(sql.col(_quoted(n)) for n in shuffle.columns)))
        placed = routed.repartitionById(tasks, sql.col(_ROUTE))
        with unpack():
            rows = placed.mapInArrow(_handler(shuffle.handle), "text string").collect()
        return [row.text for row in rows]

    def collect(self, scan: Scan) -> DataFrame:
        struct = spark_schema(scan.schema)
        parts: list[DataFrame] = []
        plain = [task.parquet for task in scan.tasks if _is_plain(task)]
        if plain:
            # recursiveFileLookup keeps Spark from reading columns out of folder names.
            tested = spark_schema(scan.tested or scan.schema)
            reader = self._spark.read.schema(tested).option("recursiveFileLookup", "true")
            rows = reader.parquet(*(path for path in plain if path))
            if scan.condition:
                rows = rows.filter(scan.condition)
            parts.append(rows.select(*(_quoted(name) for name in scan.schema.names)))
        merged = [task.payload for task in scan.tasks if not _is_plain(task)]
        if merged:
            parts.append(self._over_tasks(merged, _worker_of_rows(scan), struct))
        if not parts:
            return self._spark.createDataFrame([], struct)
        return parts[0] if len(parts) == 1 else parts[0].union(parts[1])

    def _frame(self, source: Any) -> DataFrame:
        if isinstance(source, pa.Table):
            return self._spark.createDataFrame(source)
        if not hasattr(source, "mapInArrow"):
            raise SchemaMismatch(
                f"Rows came as {type(source).__name__}; on Spark they must be a DataFrame.",
                safe="nothing was written",
                next_step="pass a DataFrame or a pyarrow Table",
            )
        frame: DataFrame = source
        return frame

    def _over_tasks(
        self, tasks: Sequence[Any], worker: Callable[[Any, int], Batches], schema: Any
    ) -> DataFrame:
        partitions = min(len(tasks), _TASKS_PER_CORE * self._cores())
        numbers = self._spark.range(0, len(tasks), 1, partitions)

        def work(batches: Batches) -> Batches:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    with carry():
                        yield from worker(tasks[number], number)

        return numbers.mapInArrow(work, schema)

    def _cores(self) -> int:
        try:
            return int(self._spark.sparkContext.defaultParallelism)
        except PySparkException:  # Spark Connect has no context on this side.
            return _CORES_UNKNOWN


def _router(columns: tuple[str, ...], route: Route, tasks: int) -> Callable[..., pa.Array]:
    def number(*arrays: pa.Array) -> pa.Array:
        with carry():
            rows = pa.RecordBatch.from_arrays(list(arrays), names=list(columns))
            return pa.array(route(rows).to_numpy() % tasks, pa.int32())

    return number


def _handler(handle: Handle) -> Callable[[Batches], Batches]:
    def work(batches: Batches) -> Batches:
        context = TaskContext.get()
        assert context is not None, "a task runs in a task"
        # A stage that is run again starts at attempt 0 again; only the task attempt id is unique.
        attempt = Attempt(context.partitionId(), context.taskAttemptId())
        with carry():
            texts = list(handle(attempt, batches))
        yield pa.RecordBatch.from_pydict({"text": pa.array(texts, pa.string())})

    return work


def _worker_of_texts(work: Callable[[Any], str]) -> Callable[[Any, int], Batches]:
    def run(task: Any, number: int) -> Batches:
        text = work(task)
        yield pa.RecordBatch.from_pydict(
            {"number": pa.array([number], pa.int64()), "text": pa.array([text], pa.string())}
        )

    return run


def _worker_of_rows(scan: Scan) -> Callable[[Any, int], Batches]:
    read = scan.read

    def run(task: Any, number: int) -> Batches:
        return read(task)

    return run


def _is_plain(task: ScanTask) -> bool:
    # Spark would expand these characters in a path instead of taking them as they are.
    return task.parquet is not None and not any(char in task.parquet for char in "*?[]{}\\")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
