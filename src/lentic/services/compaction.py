"""Compaction: logs and their base file become the next base file.

A plan names the exact files of each slice (R12), so that whoever executes it, whenever, produces
the same rows. It is made under the lock, at a time issued there: every log it names completed
before that time, and every log that completes later belongs to the slice the new base file opens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from lentic.config.groups import OnRerun
from lentic.engine import Attempt, Engine
from lentic.format import layout
from lentic.format.commit_metadata import COMPACT, SCHEMA_KEY, WriteStat
from lentic.format.names import Action, BaseFileName, State, format_base_file
from lentic.format.plans import CompactionOperation, encode_compaction_plan
from lentic.format.record_fields import with_meta_schema
from lentic.format.times import RequestedAt
from lentic.progress import Stage
from lentic.records.base_writer import ParquetStyle, write_base
from lentic.records.slice_reader import SliceReader
from lentic.services.compaction_plan import plan_compaction
from lentic.services.guard import execute_plan
from lentic.services.outcome import Outcome
from lentic.services.plan_windows import Subject
from lentic.services.schedule import (
    OnLook,
    begin_planning,
    commit_extra,
    describe_look,
    load_looked_at,
    load_planned_slice,
    look,
    makers,
    note_look,
    planned_groups,
    tell_look,
    window_extra,
)
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_compaction_plan
from lentic.txn.transaction import OpenTable, transaction
from lentic.view.files import FileGroupId
from lentic.view.listing import ensure_none_gone, load_writes
from lentic.view.schema import load_avro_schema, load_table_schema
from lentic.view.table_view import Writes, ended_groups
from lentic.write import completion, markers
from lentic.write.commit import Begun, Commit, commit_write
from lentic.write.completion import Share, decode_accepted, encode_accepted
from lentic.write.handle import Once, measure_rewrite
from lentic.write.operations import (
    RUN_NUMBERS,
    ensure_merge_known,
    merge_fields,
    parquet_style,
    table_grouping,
)
from lentic.write.status import WriteStatus


def schedule_compaction(table: OpenTable, *, on_look: OnLook | None = None) -> RequestedAt | None:
    """Publish a plan and return its time; None if no slice has logs. A plan that is already
    pending is returned instead: two would fight over the same slices."""
    with transaction(table) as txn:
        if pending := txn.timeline.pending(Action.COMPACTION):
            return pending[0].requested_at
        at = begin_planning(txn)
        looked = look(table.storage, txn.timeline, at, _subject(table))
        files = load_looked_at(table.storage, txn.timeline, looked)
        planned = frozenset() if looked.is_idle else planned_groups(table.storage, txn.timeline)
        groups = ensure_none_gone(files.groups())
        plan = plan_compaction(groups, table.services.compaction, planned=planned)
        window = describe_look(looked, files, carry=plan.missing)
        tell_look(Action.COMPACTION, window, on_look)
        if not plan.operations:
            note_look(txn, looked, Action.COMPACTION, window)
            return None
        plan = replace(
            plan, extra=window_extra(window), missing=window.carry, edge=(at, Action.COMPACTION)
        )
        return txn.request_at(at, Action.COMPACTION, encode_compaction_plan(plan)).requested_at


def _subject(table: OpenTable) -> Subject:
    options = table.services.compaction
    chosen = {"log_files": options.log_files, "log_bytes": options.log_bytes}
    return Subject(Action.COMPACTION, COMPACT, chosen, table.services.incremental)


def execute_compaction(table: OpenTable, engine: Engine, at: RequestedAt) -> Outcome:
    """Carry the plan at `at` out, alone. An earlier attempt's files are removed first, the plan
    kept."""
    ensure_merge_known(table.config)
    plan = Instant(at, Action.COMPACTION, State.REQUESTED)
    return execute_plan(table, engine, plan, partial(_run_compaction, table, engine))


def _run_compaction(
    table: OpenTable, engine: Engine, begun: Begun, leftovers: tuple[str, ...]
) -> Commit:
    at, timeline = begun.instant.requested_at, begun.timeline
    assert begun.guard is not None
    for path in leftovers:
        table.storage.delete(path)
    completion.remove_completions(table.storage, at, keep_finalized=False)
    plan = load_compaction_plan(table.storage, begun.instant)
    schema = with_meta_schema(load_table_schema(table.storage, timeline, table.config))
    work = CompactionWork(
        reader=SliceReader(
            table.storage,
            schema,
            merge_fields(table.config),
            grouping=table_grouping(table.config),
        ),
        requested_at=at,
        writes=load_writes(table.storage, timeline, makers(plan)),
        style=parquet_style(table.write_options),
        run=table.world.entropy.integer(RUN_NUMBERS),
        guard=begun.guard,
        on_rerun=table.write_options.on_rerun,
    )
    # What was replaced since the plan has no rows any more; the rest is as good as ever.
    ended = ended_groups(work.writes)
    standing = [op for op in plan.operations if FileGroupId(op.partition, op.file_id) not in ended]
    texts = engine.run(work, standing, Stage("compacting", measure_rewrite))
    return commit_write(
        table,
        begun,
        tuple(map(decode_accepted, texts)),
        run=work.run,
        operation=COMPACT,
        extra={
            SCHEMA_KEY: load_avro_schema(table.storage, timeline, table.config),
            **commit_extra(plan.extra, at),
        },
        compacted=True,
    )


@dataclass(frozen=True, slots=True)
class CompactionWork:
    """Compacts one slice per call; a picklable value for engines."""

    reader: SliceReader
    requested_at: RequestedAt
    writes: Writes
    style: ParquetStyle
    run: int
    guard: int
    on_rerun: OnRerun

    def __call__(self, attempt: Attempt, operation: CompactionOperation) -> str:
        once = Once(self.reader.storage, self.requested_at, self.on_rerun)
        # What an execution that was given up still completes is not for this one to accept (R4).
        share = Share(operation.partition, operation.file_id, attempt.task, self.guard)
        return encode_accepted(once.do(share, lambda: (self._compact(attempt, operation),)))

    def _compact(self, attempt: Attempt, operation: CompactionOperation) -> WriteStatus:
        storage = self.reader.storage
        part = load_planned_slice(storage, operation, self.writes)
        token = f"{attempt.task}-{self.run}-{attempt.number}"
        name = format_base_file(BaseFileName(operation.file_id, token, self.requested_at))
        path = layout.data_file(operation.partition, name)
        markers.announce(storage, self.requested_at, path, "MERGE" if part.base else "CREATE")
        schema: pa.Schema = self.reader.schema
        merge = self.reader.merging(part, schema)
        rows = merge.batches(self.reader.base(part, schema))
        written = write_base(storage, path, rows, schema, self.style)
        stat = WriteStat(
            file_id=operation.file_id,
            path=path,
            partition=operation.partition,
            prev_commit=operation.base_instant if part.base else None,
            writes=written.rows,
            updates=merge.tally.updated,
            inserts=merge.tally.inserted,
            deletes=merge.tally.deleted,
            size=written.size,
            base_file=operation.base_file,
        )
        tally = merge.tally
        return WriteStatus(stat, tally.inserted, tally.updated, tally.deleted)
