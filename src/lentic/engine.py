"""Where work runs: threads of this process here, Spark in `lentic.spark`.

An engine schedules and shuffles; it never knows what the work means. The functions it is given are
ours, take and return Arrow, are picklable, and give the same result wherever they run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lentic.errors import InvalidRecord, SchemaMismatch, Unavailable
from lentic.progress import Progress, Stage, watching

T = TypeVar("T")
R = TypeVar("R")

_stop: ContextVar[threading.Event | None] = ContextVar("lentic_stop", default=None)


def ensure_not_stopped() -> None:
    """`Unavailable` if somebody stopped what this thread works on: for work to ask now and then,
    because whoever stopped it waits for its end. Other engines end their workers themselves."""
    stop = _stop.get()
    if stop is not None and stop.is_set():
        raise stopped()


def stopped() -> Unavailable:
    """The work was stopped before its end."""
    return Unavailable("The work was stopped.", safe="nothing of it is visible")


@dataclass(frozen=True, slots=True)
class Attempt:
    """Which try at which share of the work this is; no two tries of one run are equal."""

    task: int
    number: int


Route = Callable[[pa.RecordBatch], pa.Array]
"""Rows -> one int32 per row; rows with equal numbers are handled together. Raises on bad rows."""

Handle = Callable[[Attempt, Iterator[pa.RecordBatch]], Iterator[str]]
"""One attempt's rows -> texts for the driver."""


WORKING, LOOKING_UP = Stage("working"), Stage("looking keys up")


@dataclass(frozen=True, slots=True)
class Shuffle:
    """Bring rows that belong together to one place, and do something with them there.

    `route` runs over every row before `handle` sees the first one, so a row that `route` refuses
    stops the run while nothing is written yet. `columns` are all that `route` looks at. `tasks` is
    how many there are, 0 for as many as suit the engine; where that knows how many rows come, it
    makes none for less than `rows_per_task`, which few rows in small shares would not pay for.
    """

    columns: tuple[str, ...]
    route: Route
    handle: Handle
    tasks: int = 0
    stage: Stage = WORKING
    rows_per_task: int = 0


_NO_COLUMNS = pa.schema([])

KEY = "__lentic_key"
PARTITION = "__lentic_partition"
FILE_ID = "__lentic_file_id"
FOUND_IN = "__lentic_found_in"
"""What a lookup adds to rows: key, partition, and the file group and partition that hold the key
already, both null if none does."""


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A Parquet file with keys. `uri` is where a plain Parquet reader finds it, if it may."""

    partition: str
    file_id: str
    path: str
    uri: str | None = None


@dataclass(frozen=True, slots=True)
class Lookup:
    """Find out which of the files holds each row's key.

    `tag` gives `KEY` and `PARTITION` of rows and looks at `columns` alone. `files` gives the files
    to look into for rows of some partitions, in the driver; without it nothing is looked up. `read`
    gives the keys of a file, batch by batch. With `across` a key is looked for in all partitions,
    else in its own. `settle` may change what was added, and add the columns of `settled`.
    """

    columns: tuple[str, ...]
    tag: Callable[[pa.RecordBatch], pa.RecordBatch]
    read: Callable[[KeyFile], Iterator[pa.Array]]
    files: Callable[[tuple[str, ...]], tuple[KeyFile, ...]] | None = None
    across: bool = False
    settle: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None
    settled: pa.Schema = _NO_COLUMNS


@dataclass(frozen=True, slots=True)
class Located:
    """Rows with what a lookup added; a row whose key several files hold is there once for each.

    `rows` is what `shuffle` takes. `new` counts, by partition, the rows whose key no file holds.
    """

    rows: Any
    new: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Join:
    """Bring the user's rows and rows of a table together, and make rows of `schema` of them.

    `on` are columns of both. `make` gets every row of the user's once, its columns prefixed by
    `SOURCE`, with those of the table's row that has the same values, prefixed by `TARGET` and null
    if there is none; `MATCHED` tells which. `InvalidRecord` if two of the user's rows are equal in
    `on`. No value is null in `on`.
    """

    on: tuple[str, ...]
    make: Callable[[pa.RecordBatch], pa.RecordBatch]
    schema: pa.Schema


SOURCE = "source."
TARGET = "target."
MATCHED = "__lentic_matched"


@dataclass(frozen=True, slots=True)
class ScanTask:
    """One share of a read. `parquet` names a file that a plain Parquet reader may read instead."""

    payload: Any
    parquet: str | None = None


@dataclass(frozen=True, slots=True)
class Scan:
    """A read: what to read, how, and the schema every batch has.

    `read` filters by itself. Who reads a task's Parquet file instead must keep rows for which
    `condition` (SQL) holds; it looks at the columns of `tested`.
    """

    schema: pa.Schema
    tasks: tuple[ScanTask, ...]
    read: Callable[[Any], Iterator[pa.RecordBatch]]
    condition: str | None = None
    tested: pa.Schema | None = None


class Engine(Protocol):
    """What every place of work can do."""

    def schema(self, source: Any) -> pa.Schema:
        """The Arrow schema of rows a user handed in; `SchemaMismatch` if they are no rows."""

    def run(
        self, work: Callable[[Attempt, T], str], tasks: Sequence[T], stage: Stage = WORKING
    ) -> list[str]:
        """`work` on every task, results in the order of the tasks."""

    def locate(self, source: Any, lookup: Lookup) -> Located:
        """Look the user's rows up. They are the same rows however often they are used after."""

    def release(self, located: Located) -> None:
        """The located rows are not needed any more."""

    def shuffle(self, source: Any, shuffle: Shuffle) -> list[str]:
        """Run a shuffle over the user's rows; every text that any handle gave, once."""

    def join(self, source: Any, target: Any, join: Join) -> Any:
        """Run a join; `target` is what `collect` gave. The result is rows as users hand them in."""

    def collect(self, scan: Scan) -> Any:
        """The rows of a scan, as the user of this engine wants them."""

    def stoppable(self) -> AbstractContextManager[Callable[[], None]]:
        """A block whose work here another thread can end, by calling what the block is given. The
        work then fails; what it has begun may still run for a while."""


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Threads of this process. Rows come and go as Arrow tables.

    With one thread everything runs in the caller's own thread, as simulations need it.
    """

    threads: int = 4
    progress: Progress | None = None

    def schema(self, source: Any) -> pa.Schema:
        if not isinstance(source, (pa.Table, pa.RecordBatch, pa.RecordBatchReader)):
            raise SchemaMismatch(
                f"Rows came as {type(source).__name__}; without Spark they must be Arrow.",
                safe="nothing was written",
                next_step="pass pa.table(...), or open the table with spark=... for DataFrames",
            )
        return source.schema

    def run(
        self, work: Callable[[Attempt, T], str], tasks: Sequence[T], stage: Stage = WORKING
    ) -> list[str]:
        with watching(self.progress, stage, len(tasks)) as watch:

            def one(number: int) -> str:
                text = work(Attempt(number, 0), tasks[number])
                watch.advance([text])
                return text

            return self._each(one, range(len(tasks)))

    def _each(self, work: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
        def unless_stopped(task: T) -> R:
            ensure_not_stopped()
            return work(task)

        if self.threads == 1 or len(tasks) <= 1:
            return [unless_stopped(task) for task in tasks]
        mine = _stop.get()

        def here(task: T) -> R:
            before = _stop.set(mine)
            try:
                return unless_stopped(task)
            finally:
                _stop.reset(before)

        with ThreadPoolExecutor(self.threads, thread_name_prefix="lentic") as pool:
            return list(pool.map(here, tasks))

    @contextmanager
    def stoppable(self) -> Iterator[Callable[[], None]]:
        stop = threading.Event()
        before = _stop.set(stop)
        try:
            yield stop.set
        finally:
            _stop.reset(before)

    def locate(self, source: Any, lookup: Lookup) -> Located:
        table = _as_table(source).combine_chunks()
        tags = [lookup.tag(batch) for batch in table.select(list(lookup.columns)).to_batches()]
        tagged = pa.Table.from_batches(tags) if tags else _NO_TAGS
        if lookup.across:
            places = tagged.group_by([KEY, PARTITION]).aggregate([]).num_rows
            if places > len(tagged.column(KEY).unique()):
                raise in_two_partitions()
        found = self._find(tagged, lookup, self._files(tagged, lookup))
        rows = table.take(found.column(_ROW))
        for name in (KEY, PARTITION):
            rows = rows.append_column(name, tagged.column(name).take(found.column(_ROW)))
        for name in (FILE_ID, FOUND_IN):
            rows = rows.append_column(name, found.column(name))
        if lookup.settle and rows.num_rows:
            settled = [lookup.settle(batch) for batch in rows.combine_chunks().to_batches()]
            rows = pa.Table.from_batches(settled)
        fresh = rows.column(PARTITION).filter(rows.column(FILE_ID).is_null()).value_counts()
        new = {entry["values"].as_py(): entry["counts"].as_py() for entry in fresh}
        return Located(rows, new)

    def release(self, located: Located) -> None:
        return None

    def _files(self, tagged: pa.Table, lookup: Lookup) -> tuple[KeyFile, ...]:
        if lookup.files is None:
            return ()
        return lookup.files(tuple(sorted(tagged.column(PARTITION).unique().to_pylist())))

    def _find(self, tagged: pa.Table, lookup: Lookup, files: tuple[KeyFile, ...]) -> pa.Table:
        """Row number, file group and partition: a line per row and file that holds its key."""
        wanted = tagged.column(KEY).unique()

        def read(file: KeyFile) -> pa.Table:
            keys = [k.filter(pc.is_in(k, value_set=wanted)) for k in lookup.read(file)]
            held = pa.chunked_array(keys, pa.string())
            columns: dict[str, Any] = {KEY: held}
            columns |= {FILE_ID: pa.repeat(pa.scalar(file.file_id), len(held))}
            columns |= {FOUND_IN: pa.repeat(pa.scalar(file.partition), len(held))}
            watch.advance()
            return pa.table(columns)

        with watching(self.progress, LOOKING_UP, len(files)) as watch:
            parts = self._each(read, files)
        held = pa.concat_tables([_NO_FINDS, *parts])
        numbered = tagged.append_column(_ROW, pa.array(np.arange(tagged.num_rows)))
        if lookup.across:
            joined = numbered.join(held, KEY, join_type="left outer")
        else:
            held = held.append_column(PARTITION, held.column(FOUND_IN))
            joined = numbered.join(held, [KEY, PARTITION], join_type="left outer")
        return joined.sort_by([(_ROW, "ascending"), (FILE_ID, "ascending")])

    def shuffle(self, source: Any, shuffle: Shuffle) -> list[str]:
        table = _as_table(source).combine_chunks()
        if not table.num_rows:
            return []
        routed = table.select(list(shuffle.columns)).to_batches()
        tasks = shuffle.tasks or self._tasks(table.num_rows, shuffle.rows_per_task)
        numbers = np.concatenate([shuffle.route(batch).to_numpy() for batch in routed]) % tasks

        used = np.unique(numbers).tolist()

        def handle(task: int) -> list[str]:
            share = table.take(np.flatnonzero(numbers == task))
            texts = list(shuffle.handle(Attempt(task, 0), iter(share.to_batches())))
            watch.advance(texts)
            return texts

        with watching(self.progress, shuffle.stage, len(used)) as watch:
            done = self._each(handle, used)
        return [text for texts in done for text in texts]

    def _tasks(self, rows: int, rows_per_task: int) -> int:
        most = 2 * self.threads
        return max(2, min(most, rows // rows_per_task)) if rows_per_task else most

    def join(self, source: Any, target: Any, join: Join) -> pa.Table:
        left, right = _as_table(source).combine_chunks(), target.combine_chunks()
        on = list(join.on)
        kinds = pa.schema([right.schema.field(name) for name in on])
        mine = left.select(on).cast(kinds).append_column(_ROW, pa.array(np.arange(left.num_rows)))
        if mine.num_rows > mine.group_by(on).aggregate([]).num_rows:
            raise twice(join.on)
        theirs = right.select(on).append_column(_OTHER, pa.array(np.arange(right.num_rows)))
        pairs = mine.join(theirs, on, join_type="left outer").sort_by(_ROW)
        found = pairs.column(_OTHER)
        columns = {SOURCE + n: left.column(n).take(pairs.column(_ROW)) for n in left.column_names}
        columns |= {TARGET + n: right.column(n).take(found) for n in right.column_names}
        columns[MATCHED] = found.is_valid()
        made = [join.make(batch) for batch in pa.table(columns).combine_chunks().to_batches()]
        return pa.Table.from_batches(made, join.schema)

    def collect(self, scan: Scan) -> pa.Table:
        def read(task: ScanTask) -> list[pa.RecordBatch]:
            return list(scan.read(task.payload))

        batches = [batch for part in self._each(read, scan.tasks) for batch in part]
        return pa.Table.from_batches(batches, schema=scan.schema)


_ROW = "__lentic_row"
_OTHER = "__lentic_other_row"
_NO_TAGS = pa.schema([(KEY, pa.string()), (PARTITION, pa.string())]).empty_table()
_NO_FINDS = pa.schema([(n, pa.string()) for n in (KEY, FILE_ID, FOUND_IN)]).empty_table()


def twice(on: Sequence[str]) -> InvalidRecord:
    """Two of the rows to merge are for the same record."""
    return InvalidRecord(
        f"Two of the rows to merge have the same {', '.join(on)}.",
        safe="nothing was written",
        next_step="keep one row of each, for example the newest, and merge again",
    )


def in_two_partitions() -> InvalidRecord:
    """With keys that are unique across partitions, a batch has one key in two of them."""
    return InvalidRecord(
        "Two of the rows have the same key and different partitions, but the index is global.",
        safe="nothing was committed",
        next_step="keep one row of each key, for example the newest, and write again",
    )


def _as_table(source: Any) -> pa.Table:
    if isinstance(source, pa.RecordBatchReader):
        return source.read_all()
    return pa.Table.from_batches([source]) if isinstance(source, pa.RecordBatch) else source
