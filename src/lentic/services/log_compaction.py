"""Log compaction: the logs of a slice become one log, which stands for them.

The base file is not touched, and neither are the logs: readers pass over what a later log stands
for, and find the same rows at any moment (P21). Records keep their `_hoodie_commit_time`, so that
nothing looks changed. The new log is merged where the newest of the logs it stands for was, below
what completed while the log compaction ran. It must stay upon the base file that those were upon,
so who writes the next base file is not kept waiting: the log compaction gives way, of that file
group, and is finished without it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from lentic.config.groups import OnRerun
from lentic.config.sharing import ConcurrencyMode
from lentic.engine import Attempt, Engine
from lentic.format import layout
from lentic.format.avro_schema import avro_schema_json
from lentic.format.commit_metadata import LOG_COMPACT, SCHEMA_KEY, WriteStat
from lentic.format.names import Action, LogFileName, State, format_log_file
from lentic.format.plans import CompactionOperation, CompactionPlan, encode_compaction_plan
from lentic.format.record_fields import with_meta_schema
from lentic.format.times import RequestedAt
from lentic.progress import Measure, Stage
from lentic.records.base_writer import ParquetStyle, Written
from lentic.records.fold import fold_changes
from lentic.records.log_scan import decode_changes, has_partial_rows
from lentic.records.log_writer import write_log
from lentic.records.slice_reader import SliceReader
from lentic.services.guard import execute_plan
from lentic.services.log_compaction_plan import REMOVABLE, plan_log_compaction
from lentic.services.outcome import Outcome
from lentic.services.schedule import load_planned_slice, makers, planned_groups
from lentic.storage.base import Storage
from lentic.timeline.instant import WRITES, Instant
from lentic.timeline.reader import load_compaction_plan, load_timeline
from lentic.timeline.timeline import Timeline
from lentic.txn.transaction import OpenTable, transaction
from lentic.view.files import FileGroup, FileGroupId, LogFile
from lentic.view.listing import load_partition_files, load_table_view, load_writes
from lentic.view.schema import load_avro_schema, load_table_schema
from lentic.view.table_view import Writes
from lentic.write import completion, markers
from lentic.write.commit import Begun, Commit, commit_write
from lentic.write.completion import Share, decode_accepted, encode_accepted
from lentic.write.handle import Once
from lentic.write.operations import (
    RUN_NUMBERS,
    ensure_supported,
    merge_fields,
    parquet_style,
    table_grouping,
)
from lentic.write.status import WriteStatus


def schedule_log_compaction(
    table: OpenTable, *, removable: bool | None = None
) -> RequestedAt | None:
    """Publish a plan and return its time; None if no slice has enough logs to fold.

    A plan that is pending and can be executed is returned instead. Tables with column groups have
    nothing to fold (`records.fold`). While a write is pending nothing is planned, unless writers
    never wait for each other: see `_Planner.plan`.
    """
    ensure_supported(table.config)
    if table_grouping(table.config).groups:
        return None
    planner = _Planner(table, table.services.removable if removable is None else removable, {})
    seen = load_timeline(table.storage)
    # Looked at before anybody has to wait for the lock: most of the time there is nothing to do,
    # and logs that were looked into now are not read again under it.
    if _waiting(table.storage, seen) is None and not planner.plan(seen).operations:
        return None
    with transaction(table) as txn:
        if waiting := _waiting(table.storage, txn.timeline):
            return waiting.requested_at
        at = RequestedAt(txn.next_time())
        plan = planner.plan(txn.timeline)
        if not plan.operations:
            return None
        return txn.request_at(at, Action.LOGCOMPACTION, encode_compaction_plan(plan)).requested_at


@dataclass(frozen=True, slots=True)
class _Planner:
    """Plans on a state of the timeline; remembers what it found in logs, which never change."""

    table: OpenTable
    removable: bool
    partial: dict[str, bool]

    def plan(self, timeline: Timeline) -> CompactionPlan:
        """What to fold; nothing while a write is pending.

        Apache Hudi merges logs in the order in which they were requested and, unless
        hoodie.optimized.log.blocks.scan.enable is set, the log that folds others after them. A
        write that was requested earlier and completes later would lose to it there. Where writers
        do not block each other some write is always pending; there ordering values decide.
        """
        storage, mode = self.table.storage, self.table.sharing.mode
        if mode is not ConcurrencyMode.NON_BLOCKING and timeline.pending(*WRITES):
            return CompactionPlan(())
        return plan_log_compaction(
            load_table_view(storage, timeline),
            self.table.services.log_compact_blocks,
            planned=planned_groups(storage, timeline),
            is_partial=self._is_partial,
            removable=self.removable,
        )

    def _is_partial(self, log: LogFile) -> bool:
        if log.path not in self.partial:
            self.partial[log.path] = has_partial_rows(self.table.storage, log)
        return self.partial[log.path]


def _waiting(storage: Storage, timeline: Timeline) -> Instant | None:
    """A pending plan that can be executed. One that is removable is executed once at most."""
    for plan in timeline.pending(Action.LOGCOMPACTION):
        is_begun = plan.state is State.INFLIGHT
        if not (is_begun and REMOVABLE in load_compaction_plan(storage, plan).extra):
            return plan
    return None


def execute_log_compaction(table: OpenTable, engine: Engine, at: RequestedAt) -> Outcome:
    """Carry the plan at `at` out, alone. An earlier attempt's files are removed first."""
    ensure_supported(table.config)
    plan = Instant(at, Action.LOGCOMPACTION, State.REQUESTED)
    return execute_plan(table, engine, plan, partial(_run_log_compaction, table, engine))


def _run_log_compaction(
    table: OpenTable, engine: Engine, begun: Begun, leftovers: tuple[str, ...]
) -> Commit:
    at, timeline = begun.instant.requested_at, begun.timeline
    assert begun.guard is not None
    for path in leftovers:
        table.storage.delete(path)
    completion.remove_completions(table.storage, at, keep_finalized=False)
    plan = load_compaction_plan(table.storage, begun.instant)
    schema = load_table_schema(table.storage, timeline, table.config)
    work = LogCompactionWork(
        reader=SliceReader(
            table.storage,
            with_meta_schema(schema),
            merge_fields(table.config),
            grouping=table_grouping(table.config),
        ),
        requested_at=at,
        writes=load_writes(table.storage, timeline, makers(plan)),
        avro_schema=avro_schema_json(schema, table.config.name, meta_fields=True),
        style=parquet_style(table.write_options),
        run=table.world.entropy.integer(RUN_NUMBERS),
        guard=begun.guard,
        on_rerun=table.write_options.on_rerun,
    )
    standing = _standing(table.storage, begun, plan)
    texts = engine.run(work, standing, Stage("folding logs", measure_log_compaction))
    return commit_write(
        table,
        begun,
        tuple(map(decode_accepted, texts)),
        run=work.run,
        operation=LOG_COMPACT,
        extra={SCHEMA_KEY: load_avro_schema(table.storage, timeline, table.config)},
        compacted=True,
    )


def _standing(
    storage: Storage, begun: Begun, plan: CompactionPlan
) -> tuple[CompactionOperation, ...]:
    """The operations whose slice is still the latest of its group, and in no other plan. What
    changes after this is found by `commit_write`, and by this when the plan is executed again."""
    partitions = {operation.partition for operation in plan.operations}
    groups = load_partition_files(storage, begun.timeline, partitions).groups()
    planned = planned_groups(storage, begun.timeline, but=begun.instant)
    return tuple(
        op
        for op in plan.operations
        if (op.partition, op.file_id) not in planned and _is_latest(op, groups)
    )


def _is_latest(operation: CompactionOperation, groups: Iterable[FileGroup]) -> bool:
    group = FileGroupId(operation.partition, operation.file_id)
    latest = next((one.latest for one in groups if one.id == group), None)
    if latest is None:
        return False
    base = latest.base.name if latest.base else None
    logs = {format_log_file(log.name) for log in latest.logs}
    return (str(base) if base else None) == operation.base_file and logs >= {*operation.log_files}


def measure_log_compaction(text: str) -> Measure:
    """What the text of a folded slice says was written: all rows of the new log."""
    stats = [status.stat for status in decode_accepted(text).statuses]
    return Measure(
        rows=sum(stat.writes for stat in stats),
        files=len(stats),
        bytes=sum(stat.size for stat in stats),
    )


@dataclass(frozen=True, slots=True)
class LogCompactionWork:
    """Folds the logs of one slice per call; a picklable value for engines."""

    reader: SliceReader
    requested_at: RequestedAt
    writes: Writes
    avro_schema: str
    style: ParquetStyle
    run: int
    guard: int
    on_rerun: OnRerun

    def __call__(self, attempt: Attempt, operation: CompactionOperation) -> str:
        once = Once(self.reader.storage, self.requested_at, self.on_rerun)
        # What an execution that was given up still completes is not for this one to accept (R4).
        share = Share(operation.partition, operation.file_id, attempt.task, self.guard)
        return encode_accepted(once.do(share, lambda: self._fold(attempt, operation)))

    def _fold(self, attempt: Attempt, operation: CompactionOperation) -> tuple[WriteStatus, ...]:
        """One log, or none where another engine planned what cannot be folded."""
        storage, schema = self.reader.storage, self.reader.schema
        blocks = self.reader.blocks(load_planned_slice(storage, operation, self.writes))
        instants = tuple(dict.fromkeys(block.instant for block in blocks))
        if len(instants) < 2 or self.reader.grouping.groups or any(b.is_partial for b in blocks):
            return ()
        changes = decode_changes(blocks, schema, self.reader.ordering)
        folded = fold_changes(changes, schema, self.reader.ordering)
        if not folded.is_writable:
            return ()
        token = f"{attempt.task}-{self.run}-{attempt.number}"
        name = format_log_file(LogFileName(operation.file_id, self.requested_at, 1, token))
        path = layout.data_file(operation.partition, name)
        markers.announce(storage, self.requested_at, path, "CREATE")
        written = write_log(
            storage,
            path,
            folded.rows,
            deletes=folded.deletes,
            partition=operation.partition,
            avro_schema=self.avro_schema,
            requested_at=self.requested_at,
            style=self.style,
            folds=instants,
        )
        return (self._status(operation, name, written, len(folded.deletes.keys)),)

    def _status(
        self, operation: CompactionOperation, name: str, written: Written, deletes: int
    ) -> WriteStatus:
        """No record changes, and no key is new; what the log holds are updates and deletes."""
        stat = WriteStat(
            file_id=operation.file_id,
            path=layout.data_file(operation.partition, name),
            partition=operation.partition,
            prev_commit=operation.base_instant,
            writes=written.rows,
            updates=written.rows,
            inserts=0,
            deletes=deletes,
            size=written.size,
            base_file=operation.base_file or "",
            log_files=(name,),
            log_version=1,
        )
        return WriteStatus(stat, 0, 0, 0)
