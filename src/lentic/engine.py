"""Where work runs: threads of this process here, Spark in `lentic.spark`.

An engine schedules and shuffles; it never knows what the work means. The functions it is given are
ours, take and return Arrow, are picklable, and give the same result wherever they run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from lentic.errors import SchemaMismatch

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Attempt:
    """Which try at which share of the work this is; no two tries of one run are equal."""

    task: int
    number: int


Route = Callable[[pa.RecordBatch], pa.Array]
"""Rows -> one int32 per row; rows with equal numbers are handled together. Raises on bad rows."""

Handle = Callable[[Attempt, Iterator[pa.RecordBatch]], Iterator[str]]
"""One attempt's rows -> texts for the driver."""


@dataclass(frozen=True, slots=True)
class Shuffle:
    """Bring rows that belong together to one place, and do something with them there.

    `route` runs over every row before `handle` sees the first one, so a row that `route` refuses
    stops the run while nothing is written yet. `columns` are all that `route` looks at.
    """

    columns: tuple[str, ...]
    route: Route
    handle: Handle
    tasks: int = 0


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

    def run(self, work: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
        """`work` on every task, results in the order of the tasks."""

    def shuffle(self, source: Any, shuffle: Shuffle) -> list[str]:
        """Run a shuffle over the user's rows; every text that any handle gave, once."""

    def collect(self, scan: Scan) -> Any:
        """The rows of a scan, as the user of this engine wants them."""


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Threads of this process. Rows come and go as Arrow tables.

    With one thread everything runs in the caller's own thread, as simulations need it.
    """

    threads: int = 4

    def schema(self, source: Any) -> pa.Schema:
        if not isinstance(source, (pa.Table, pa.RecordBatch, pa.RecordBatchReader)):
            raise SchemaMismatch(
                f"Rows came as {type(source).__name__}; without Spark they must be Arrow.",
                safe="nothing was written",
                next_step="pass pa.table(...), or open the table with spark=... for DataFrames",
            )
        return source.schema

    def run(self, work: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
        if self.threads == 1 or len(tasks) <= 1:
            return [work(task) for task in tasks]
        with ThreadPoolExecutor(self.threads, thread_name_prefix="lentic") as pool:
            return list(pool.map(work, tasks))

    def shuffle(self, source: Any, shuffle: Shuffle) -> list[str]:
        table = _as_table(source).combine_chunks()
        if not table.num_rows:
            return []
        routed = table.select(list(shuffle.columns)).to_batches()
        tasks = shuffle.tasks or 2 * self.threads
        numbers = np.concatenate([shuffle.route(batch).to_numpy() for batch in routed]) % tasks

        def handle(task: int) -> list[str]:
            share = table.take(np.flatnonzero(numbers == task))
            return list(shuffle.handle(Attempt(task, 0), iter(share.to_batches())))

        return [text for texts in self.run(handle, np.unique(numbers).tolist()) for text in texts]

    def collect(self, scan: Scan) -> pa.Table:
        def read(task: ScanTask) -> list[pa.RecordBatch]:
            return list(scan.read(task.payload))

        batches = [batch for part in self.run(read, scan.tasks) for batch in part]
        return pa.Table.from_batches(batches, schema=scan.schema)


def _as_table(source: Any) -> pa.Table:
    if isinstance(source, pa.RecordBatchReader):
        return source.read_all()
    return pa.Table.from_batches([source]) if isinstance(source, pa.RecordBatch) else source
