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
from dataclasses import dataclass, replace
from functools import partial

from lentic.config.groups import OnRerun
from lentic.config.sharing import ConcurrencyMode
from lentic.engine import Attempt, Engine
from lentic.format import layout
from lentic.format.avro_schema import avro_schema_json
from lentic.format.commit_metadata import LOG_COMPACT, SCHEMA_KEY, WriteStat
from lentic.format.names import Action, LogFileName, State, format_log_file
from lentic.format.plan_window import PlanWindow
from lentic.format.plans import CompactionOperation, CompactionPlan, encode_compaction_plan
from lentic.format.record_fields import with_meta_schema
from lentic.format.removable import REMOVABLE_KEY
from lentic.format.times import RequestedAt
from lentic.progress import Stage
from lentic.records.base_writer import ParquetStyle, Written
from lentic.records.fold import fold_changes
from lentic.records.log_scan import decode_changes, has_partial_rows
from lentic.records.log_writer import write_log
from lentic.records.slice_reader import SliceReader
from lentic.services.guard import execute_plan
from lentic.services.log_compaction_plan import plan_log_compaction
from lentic.services.outcome import Outcome
from lentic.services.plan_windows import Subject
from lentic.services.schedule import (
    Looked,
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
from lentic.storage.base import Storage
from lentic.timeline.instant import WRITES, Instant
from lentic.timeline.reader import load_compaction_plan, load_timeline
from lentic.timeline.timeline import Timeline
from lentic.txn.transaction import OpenTable, transaction
from lentic.view.files import FileGroup, FileGroupId, LogFile
from lentic.view.listing import ensure_none_gone, load_partition_files, load_writes
from lentic.view.schema import load_avro_schema, load_table_schema
from lentic.view.table_view import Writes
from lentic.write import completion, markers
from lentic.write.commit import Begun, Commit, commit_write
from lentic.write.completion import Share, decode_accepted, encode_accepted
from lentic.write.handle import Once, measure_rewrite
from lentic.write.operations import (
    RUN_NUMBERS,
    ensure_supported,
    merge_fields,
    parquet_style,
    table_grouping,
)
from lentic.write.status import WriteStatus

_FOREVER = RequestedAt("9" * 17)


def schedule_log_compaction(
    table: OpenTable, *, removable: bool | None = None, on_look: OnLook | None = None
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
    if _waiting(table.storage, seen) is None:
        draft = planner.plan(seen, _FOREVER)
        if draft is None or not (draft.plan.operations or draft.looked.is_long):
            if draft is not None:
                tell_look(Action.LOGCOMPACTION, draft.window, on_look)
            return None
    with transaction(table) as txn:
        if waiting := _waiting(table.storage, txn.timeline):
            return waiting.requested_at
        at = begin_planning(txn)
        draft = planner.plan(txn.timeline, at)
        if draft is None:
            return None
        tell_look(Action.LOGCOMPACTION, draft.window, on_look)
        if not draft.plan.operations:
            note_look(txn, draft.looked, Action.LOGCOMPACTION, draft.window)
            return None
        extra = {**draft.plan.extra, **window_extra(draft.window)}
        plan = replace(
            draft.plan, extra=extra, missing=draft.window.carry, edge=(at, Action.LOGCOMPACTION)
        )
        return txn.request_at(at, Action.LOGCOMPACTION, encode_compaction_plan(plan)).requested_at


@dataclass(frozen=True, slots=True)
class _Draft:
    looked: Looked
    window: PlanWindow
    plan: CompactionPlan


@dataclass(frozen=True, slots=True)
class _Planner:
    """Plans on a state of the timeline; remembers what it found in logs, which never change."""

    table: OpenTable
    removable: bool
    partial: dict[str, bool]

    def plan(self, timeline: Timeline, at: RequestedAt) -> _Draft | None:
        """What to fold of what completed before `at`; None while a write is pending.

        Apache Hudi merges logs in the order in which they were requested and, unless
        hoodie.optimized.log.blocks.scan.enable is set, the log that folds others after them. A
        write that was requested earlier and completes later would lose to it there. Where writers
        do not block each other some write is always pending; there ordering values decide.
        """
        storage, services = self.table.storage, self.table.services
        mode = self.table.sharing.mode
        if mode is not ConcurrencyMode.NON_BLOCKING and timeline.pending(*WRITES):
            return None
        chosen = {"log_compact_blocks": services.log_compact_blocks}
        subject = Subject(Action.LOGCOMPACTION, LOG_COMPACT, chosen, services.incremental)
        looked = look(storage, timeline, at, subject)
        files = load_looked_at(storage, timeline, looked)
        plan = plan_log_compaction(
            ensure_none_gone(files.groups()),
            services.log_compact_blocks,
            planned=frozenset() if looked.is_idle else planned_groups(storage, timeline),
            is_partial=self._is_partial,
            removable=self.removable,
        )
        return _Draft(looked, describe_look(looked, files, carry=plan.missing), plan)

    def _is_partial(self, log: LogFile) -> bool:
        if log.path not in self.partial:
            self.partial[log.path] = has_partial_rows(self.table.storage, log)
        return self.partial[log.path]


def _waiting(storage: Storage, timeline: Timeline) -> Instant | None:
    """A pending plan that can be executed. One that is removable is executed once at most."""
    for plan in timeline.pending(Action.LOGCOMPACTION):
        is_begun = plan.state is State.INFLIGHT
        if not (is_begun and REMOVABLE_KEY in load_compaction_plan(storage, plan).extra):
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
    left = CompactionPlan(plan.operations).groups() - CompactionPlan(standing).groups()
    texts = engine.run(work, standing, Stage("folding logs", measure_rewrite))
    return commit_write(
        table,
        begun,
        tuple(map(decode_accepted, texts)),
        run=work.run,
        operation=LOG_COMPACT,
        extra={
            SCHEMA_KEY: load_avro_schema(table.storage, timeline, table.config),
            **commit_extra(plan.extra, at, dropped=(partition for partition, _ in left)),
        },
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
