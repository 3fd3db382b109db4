"""The Spark engine: schedules and shuffles; the work is Arrow functions in Python workers.

Base files never pass through the JVM: workers read and write files themselves, and Spark moves only
the rows that users hand in. Before the shuffle nothing depends on the attempt, and the write is the
last stage, so a stage that Spark runs again sends the same rows to the same place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas import functions as vectorised
from pyspark.sql.types import IntegerType, StructType

from lentic.engine import (
    FILE_ID,
    FOUND_IN,
    KEY,
    LOOKING_UP,
    MATCHED,
    PARTITION,
    SOURCE,
    TARGET,
    WORKING,
    Attempt,
    Handle,
    Join,
    KeyFile,
    Located,
    Lookup,
    Route,
    Scan,
    ScanTask,
    Shuffle,
    in_two_partitions,
    twice,
)
from lentic.errors import SchemaMismatch
from lentic.progress import Progress, Stage, Watch, watching
from lentic.spark.carried import carry, unpack
from lentic.spark.dataframe import arrow_schema, spark_schema
from lentic.spark.following import following, tagged

T = TypeVar("T")
Batches = Iterator[pa.RecordBatch]

_ROUTE = "__lentic_route"
_TAG = "__lentic_tag"
_arrow_udf: Any = vectorised.arrow_udf  # its published types know no variable arguments
_TASKS_PER_CORE = 2
_CORES_UNKNOWN = 8
_COUNTING, _CHECKING = Stage("counting new rows"), Stage("checking keys")


class SparkEngine:
    """Runs on the session it is given. Rows come and go as DataFrames."""

    def __init__(self, spark: SparkSession, progress: Progress | None = None) -> None:
        self._spark = spark
        self._progress = progress

    def schema(self, source: Any) -> pa.Schema:
        return arrow_schema(self._frame(source).schema)

    def run(
        self, work: Callable[[Attempt, T], str], tasks: Sequence[T], stage: Stage = WORKING
    ) -> list[str]:
        if not tasks:
            return []
        done = self._over_tasks(tasks, _worker_of_texts(work), "number long, text string")
        with self._watched(stage) as watch:
            rows = done.collect()
            watch.advance((row.text for row in rows), tasks=0)
        return [row.text for row in sorted(rows, key=lambda row: row.number)]

    def shuffle(self, source: Any, shuffle: Shuffle) -> list[str]:
        frame = self._frame(source)
        tasks = shuffle.tasks or _TASKS_PER_CORE * self._cores()
        route = _arrow_udf(_router(shuffle.columns, shuffle.route, tasks), IntegerType())
        routed = frame.withColumn(_ROUTE, route(*(sql.col(_quoted(n)) for n in shuffle.columns)))
        placed = routed.repartitionById(tasks, sql.col(_ROUTE))
        with self._watched(shuffle.stage) as watch:
            rows = placed.mapInArrow(_handler(shuffle.handle), "text string").collect()
            watch.advance((row.text for row in rows), tasks=0)
        return [row.text for row in rows]

    def locate(self, source: Any, lookup: Lookup) -> Located:
        tag = _arrow_udf(_tagger(lookup), f"`{KEY}` string, `{PARTITION}` string")
        columns = (sql.col(_quoted(name)) for name in lookup.columns)
        tagged = self._frame(source).withColumn(_TAG, tag(*columns))
        tagged = tagged.select("*", f"{_TAG}.{KEY}", f"{_TAG}.{PARTITION}").drop(_TAG)
        with self._watched(LOOKING_UP if lookup.files else _COUNTING):
            located = self._looked_up(tagged, lookup) if lookup.files else _not_found(tagged)
            fresh = located.where(sql.col(FILE_ID).isNull()).groupBy(PARTITION).count()
            counts = fresh.collect()
        tagged.unpersist()
        return Located(located, {row[0]: row[1] for row in counts})

    def release(self, located: Located) -> None:
        located.rows.unpersist()

    def _looked_up(self, tagged: DataFrame, lookup: Lookup) -> DataFrame:
        """Several passes follow, so the user's rows are made once, and so is what was found."""
        assert lookup.files is not None
        tagged.persist()
        if lookup.across:
            places = tagged.groupBy(KEY).agg(sql.countDistinct(PARTITION).alias("places"))
            if places.where("places > 1").limit(1).collect():
                raise in_two_partitions()
        partitions = tagged.select(PARTITION).distinct().collect()
        files = lookup.files(tuple(sorted(row[0] for row in partitions)))
        located = _not_found(tagged)
        if files:
            held = self._held(files, lookup)
            on = [KEY] if lookup.across else [KEY, PARTITION]
            held = held if lookup.across else held.withColumn(PARTITION, sql.col(FOUND_IN))
            located = tagged.join(held, on, "left")
        if lookup.settle:
            fields = [*located.schema.fields, *spark_schema(lookup.settled).fields]
            located = located.mapInArrow(_by_batch(lookup.settle), StructType(fields))
        return located.persist()

    def _held(self, files: Sequence[KeyFile], lookup: Lookup) -> DataFrame:
        """The keys that the files hold, with the file group and partition of each."""
        parts: list[DataFrame] = []
        plain = [file.uri for file in files if file.uri and _is_verbatim(file.uri)]
        if plain:
            reader = self._spark.read.schema("_hoodie_record_key string")
            rows = reader.option("recursiveFileLookup", "true").parquet(*plain)
            file_id = sql.substring_index(sql.col("_metadata.file_name"), "_", 1)
            named = sql.broadcast(self._file_names(files))
            rows = rows.withColumn(FILE_ID, file_id).join(named, FILE_ID)
            parts.append(rows.select(sql.col("_hoodie_record_key").alias(KEY), FILE_ID, FOUND_IN))
        others = [file for file in files if not file.uri or not _is_verbatim(file.uri)]
        if others:
            schema = f"`{KEY}` string, `{FILE_ID}` string, `{FOUND_IN}` string"
            parts.append(self._over_tasks(others, _worker_of_keys(lookup), schema))
        return parts[0] if len(parts) == 1 else parts[0].union(parts[1])

    def _file_names(self, files: Sequence[KeyFile]) -> DataFrame:
        names = [(file.file_id, file.partition) for file in files]
        return self._spark.createDataFrame(names, f"`{FILE_ID}` string, `{FOUND_IN}` string")

    def join(self, source: Any, target: Any, join: Join) -> DataFrame:
        given = self._frame(source)
        # Plain names on the way: those of both sides have dots, by which Spark means parts.
        left, right = _numbered(given, "s"), _numbered(target, "t")
        keys = [sql.col(f"s{given.columns.index(name)}") for name in join.on]
        with self._watched(_CHECKING):
            if left.groupBy(*keys).count().where("count > 1").limit(1).collect():
                raise twice(join.on)
        right = right.withColumn(MATCHED, sql.lit(True))
        found = [sql.col(f"t{target.columns.index(name)}") for name in join.on]
        same = [key == other for key, other in zip(keys, found, strict=True)]
        pairs = left.join(right, same, "left").fillna(False, [MATCHED])
        names = [*(SOURCE + n for n in given.columns), *(TARGET + n for n in target.columns)]
        make = _renaming([*names, MATCHED], join.make)
        return pairs.mapInArrow(_by_batch(make), spark_schema(join.schema))

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

    @contextmanager
    def stoppable(self) -> Iterator[Callable[[], None]]:
        with tagged(self._spark) as stop:
            yield stop

    @contextmanager
    def _watched(self, stage: Stage) -> Iterator[Watch]:
        """Spark runs in this block: what its workers raise is raised, how far it is is shown."""
        with (
            unpack(),
            watching(self._progress, stage, None) as watch,
            following(self._spark, watch),
        ):
            yield watch

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
        with carry():
            texts = list(handle(_attempt(context.partitionId()), batches))
        yield pa.RecordBatch.from_pydict({"text": pa.array(texts, pa.string())})

    return work


def _tagger(lookup: Lookup) -> Callable[..., pa.Array]:
    # Not the lookup itself: what it asks in the driver cannot travel.
    names, tag = list(lookup.columns), lookup.tag

    def tagged(*arrays: pa.Array) -> pa.Array:
        with carry():
            rows = pa.RecordBatch.from_arrays(list(arrays), names=names)
            return pa.StructArray.from_arrays(tag(rows).columns, [KEY, PARTITION])

    return tagged


def _not_found(tagged: DataFrame) -> DataFrame:
    nothing = sql.lit(None).cast("string")
    return tagged.withColumn(FILE_ID, nothing).withColumn(FOUND_IN, nothing)


def _numbered(frame: DataFrame, letter: str) -> DataFrame:
    columns = enumerate(frame.columns)
    return frame.select(*(sql.col(_quoted(n)).alias(f"{letter}{i}") for i, n in columns))


def _renaming(
    names: Sequence[str], make: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    def renamed(batch: pa.RecordBatch) -> pa.RecordBatch:
        return make(pa.RecordBatch.from_arrays(batch.columns, names=list(names)))

    return renamed


def _by_batch(make: Callable[[pa.RecordBatch], pa.RecordBatch]) -> Callable[[Batches], Batches]:
    def work(batches: Batches) -> Batches:
        for batch in batches:
            with carry():
                yield make(batch)

    return work


def _worker_of_keys(lookup: Lookup) -> Callable[[KeyFile, int], Batches]:
    read = lookup.read

    def run(file: KeyFile, number: int) -> Batches:
        for keys in read(file):
            same = [pa.repeat(pa.scalar(t), len(keys)) for t in (file.file_id, file.partition)]
            yield pa.RecordBatch.from_arrays([keys, *same], [KEY, FILE_ID, FOUND_IN])

    return run


def _attempt(task: int) -> Attempt:
    context = TaskContext.get()
    assert context is not None, "a task runs in a task"
    # A stage that is run again starts at attempt 0 again; only the task attempt id is unique.
    return Attempt(task, context.taskAttemptId())


def _worker_of_texts(work: Callable[[Attempt, Any], str]) -> Callable[[Any, int], Batches]:
    def run(task: Any, number: int) -> Batches:
        text = work(_attempt(number), task)
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
    return task.parquet is not None and _is_verbatim(task.parquet)


def _is_verbatim(uri: str) -> bool:
    # Spark would expand these characters in a path instead of taking them as they are.
    return not any(char in uri for char in "*?[]{}\\")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
