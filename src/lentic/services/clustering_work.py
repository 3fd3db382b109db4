"""One share of a clustering: the slices of one group in, files of the target size out.

Without a sort the rows stream through. To sort them the group is held in memory once, which the
bytes of a group bound (`hoodie.clustering.plan.strategy.max.bytes.per.group`). Rows keep all they
have, also when they were last changed; only the file they lie in is another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa

from lentic.config.clustering import Curve
from lentic.config.groups import OnRerun
from lentic.engine import Attempt, ensure_not_stopped
from lentic.errors import InstantCancelled, StorageError
from lentic.format import layout
from lentic.format.clustering_plan import SlicePlan
from lentic.format.commit_metadata import WriteStat
from lentic.format.names import BaseFileName, format_base_file, requested_at_of
from lentic.format.plans import CompactionOperation
from lentic.format.record_fields import FILE_NAME
from lentic.format.times import RequestedAt
from lentic.records.base_writer import ParquetStyle, write_base
from lentic.records.layout import cut, lay_out
from lentic.records.slice_reader import SliceReader, count_base_rows
from lentic.services.schedule import load_planned_slice
from lentic.timeline.cancel_requests import is_cancelled
from lentic.view.files import FileSlice
from lentic.view.table_view import Writes
from lentic.write import markers
from lentic.write.completion import Share, encode_accepted
from lentic.write.handle import Once
from lentic.write.sizing import estimate_row
from lentic.write.status import WriteStatus

_ROWS_BETWEEN_LOOKS = 250_000
_BYTES_BETWEEN_LOOKS = 32 * 1024 * 1024
"""Whichever comes first: of wide rows it takes few to keep a task busy for seconds."""
_SORTED_GROUP_ROWS = 32_768
"""Rows of a row group at most where rows are sorted: the fewer, the tighter its statistics."""


@dataclass(frozen=True, slots=True)
class ClusteringTask:
    """Slices of one partition whose rows are written together.

    New file ids begin with `file_id`; in buckets, where rows stay, it is the group's own.
    """

    slices: tuple[SlicePlan, ...]
    file_id: str
    stays: bool

    @property
    def partition(self) -> str:
        return self.slices[0].partition


@dataclass(frozen=True, slots=True)
class ClusteringWork:
    """Clusters one group per call; a picklable value for engines."""

    reader: SliceReader
    requested_at: RequestedAt
    writes: Writes
    style: ParquetStyle
    sort_by: tuple[str, ...]
    curve: Curve
    target_bytes: int
    run: int
    guard: int
    on_rerun: OnRerun

    def __call__(self, attempt: Attempt, task: ClusteringTask) -> str:
        once = Once(self.reader.storage, self.requested_at, self.on_rerun)
        # What an execution that was given up still completes is not for this one to accept (R4).
        share = Share(task.partition, task.file_id, attempt.task, self.guard)
        return encode_accepted(once.do(share, lambda: self._cluster(attempt, task)))

    def _cluster(self, attempt: Attempt, task: ClusteringTask) -> tuple[WriteStatus, ...]:
        parts = [self._slice(plan) for plan in task.slices]
        rows, count = self._rows(parts)
        if task.stays:
            assert len(parts) == 1, task
            return (self._write(attempt, task, task.file_id, rows, parts[0]),)
        files = enumerate(cut(rows, self._file_rows(parts, count)))
        return tuple(
            self._write(attempt, task, f"{task.file_id}-{number}", batches)
            for number, batches in files
        )

    def _slice(self, plan: SlicePlan) -> FileSlice:
        """Exactly the files that the plan names (R12)."""
        names = [path.rpartition("/")[2] for path in plan.paths]
        made_at = requested_at_of(names[0])
        assert made_at is not None, plan
        base, logs = (names[0], names[1:]) if plan.base_file else (None, names)
        operation = CompactionOperation(plan.partition, plan.file_id, made_at, base, tuple(logs))
        return load_planned_slice(self.reader.storage, operation, self.writes)

    def _rows(self, parts: list[FileSlice]) -> tuple[Iterator[pa.RecordBatch], int | None]:
        """The rows in their new order, and how many they are if that is known."""
        schema: pa.Schema = self.reader.schema
        columns = tuple(name for name in schema.names if name != FILE_NAME)
        found = (batch for part in parts for batch in self.reader.read(part, columns))
        batches = self._while_wanted(found)
        if not self.sort_by:
            return (_unnamed(batch, schema) for batch in batches), None
        held = pa.Table.from_batches(batches, pa.schema([schema.field(n) for n in columns]))
        rows = lay_out(held, self.sort_by, self.curve)
        del held
        pieces = rows.to_batches(max_chunksize=self._style.row_group_rows)
        wanted = self._while_wanted(iter(pieces))
        return (_unnamed(batch, schema) for batch in wanted), rows.num_rows

    def _while_wanted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, unless the plan is cancelled meanwhile: then whatever this writes is in
        vain, and the sooner it ends the better."""
        rows = size = 0
        is_first = True
        for batch in batches:
            ensure_not_stopped()
            if is_first or rows >= _ROWS_BETWEEN_LOOKS or size >= _BYTES_BETWEEN_LOOKS:
                self._ensure_wanted()
                rows, size, is_first = 0, 0, False
            rows += batch.num_rows
            size += batch.nbytes
            yield batch

    def _ensure_wanted(self) -> None:
        with suppress(StorageError):  # then the next look tells
            if not is_cancelled(self.reader.storage, self.requested_at):
                return
            raise InstantCancelled(
                f"The clustering {self.requested_at} was cancelled while it ran.",
                where=self.reader.storage.root,
                safe="no row was changed",
                next_step="schedule a clustering again",
            )

    def _file_rows(self, parts: list[FileSlice], count: int | None) -> int:
        """Rows of one file: as many as the target size holds, and about as many in each."""
        bases = [part.base for part in parts if part.base]
        base_rows = sum(count_base_rows(self.reader.storage, base) for base in bases)
        size = sum(base.size for base in bases)
        row = size / base_rows if base_rows else estimate_row(self.reader.schema)
        full = max(1, int(self.target_bytes / row))
        if count is None and not any(part.logs for part in parts):
            count = base_rows
        return math.ceil(count / math.ceil(count / full)) if count else full

    @property
    def _style(self) -> ParquetStyle:
        rows = self.style.row_group_rows
        return replace(
            self.style, row_group_rows=min(rows, _SORTED_GROUP_ROWS) if self.sort_by else rows
        )

    def _write(
        self,
        attempt: Attempt,
        task: ClusteringTask,
        file_id: str,
        batches: Iterator[pa.RecordBatch],
        replaces: FileSlice | None = None,
    ) -> WriteStatus:
        """A new base file, of a group of its own or of the group whose slice it `replaces`."""
        storage = self.reader.storage
        old = replaces.base if replaces else None
        token = f"{attempt.task}-{self.run}-{attempt.number}"
        name = format_base_file(BaseFileName(file_id, token, self.requested_at))
        path = layout.data_file(task.partition, name)
        markers.announce(storage, self.requested_at, path, "MERGE" if old else "CREATE")
        written = write_base(storage, path, batches, self.reader.schema, self._style)
        stat = WriteStat(
            file_id=file_id,
            path=path,
            partition=task.partition,
            prev_commit=old.name.requested_at if old else None,
            writes=written.rows,
            updates=0,
            inserts=0 if task.stays else written.rows,
            deletes=0,
            size=written.size,
            base_file=format_base_file(old.name) if old else None,
        )
        return WriteStatus(stat, inserted=0, updated=0, deleted=0)


def _unnamed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """`batch` with a column for the name of the file, which whoever writes it fills."""
    names = pa.nulls(batch.num_rows, pa.string())
    columns = [names if n == FILE_NAME else batch.column(n) for n in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
