"""Clustering: small files become larger ones, and rows lie where filters look for them together.

No row changes, only where it lies. The file groups that a plan names end, all at once, with the one
file that completes it, and new ones are there instead. In buckets a row's key says in which group
it lies; there each group keeps its id and gets a new base file with its rows sorted, like a
compaction.

Ingestion never waits. What is written to a group after its plan was made, the plan does not know,
so that ending the group would lose it: then the clustering yields. A writer that comes to a group
of a cancellable plan cancels it (`txn/cancellation.py`); whoever executes such a plan finds out
before it begins, while it runs or as it is about to complete, and ends it as aborted. A plan that
another engine's write or rollback has made impossible is ended, too. In buckets logs that complete
later belong to the slice that the new base file opens (R10), and only a base file makes the
clustering yield.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from lentic.config.clustering import Curve
from lentic.engine import Engine
from lentic.errors import (
    ConfigError,
    InstantCancelled,
    MissingFile,
    OutcomeUnknown,
    PlanBusy,
    Refused,
    StorageError,
    WriteConflict,
)
from lentic.format.clustering_plan import ClusteringPlan, encode_clustering_plan
from lentic.format.commit_metadata import CLUSTER, SCHEMA_KEY
from lentic.format.names import Action, State, requested_at_of
from lentic.format.record_fields import FILE_NAME, with_meta_schema
from lentic.format.times import RequestedAt
from lentic.progress import Stage
from lentic.records.layout_curve import COLUMNS_MAX
from lentic.records.slice_reader import SliceReader
from lentic.services.abort import execute_abort
from lentic.services.cancel_policy import (
    choose_cancellation,
    declare_cancellation,
    load_cancel_counts,
)
from lentic.services.clustering_draft import draft_clustering
from lentic.services.clustering_plan import ClusteringQuestion
from lentic.services.clustering_work import ClusteringTask, ClusteringWork
from lentic.services.guard import execute_plan
from lentic.services.outcome import Aborted, Outcome
from lentic.services.rollback import Undo, execute_undo, plan_undo
from lentic.services.schedule import OnLook, begin_planning, commit_extra
from lentic.timeline.cancel_requests import is_cancelled
from lentic.timeline.instant import Instant
from lentic.timeline.reader import list_rollbacks_of, load_clustering_plan, load_timeline
from lentic.timeline.timeline import Timeline
from lentic.txn.cancellation import cancel_once
from lentic.txn.conflicts import Refuse, Touched
from lentic.txn.transaction import OpenTable, Transaction, transaction
from lentic.view.listing import load_writes
from lentic.view.schema import load_avro_schema, load_table_schema
from lentic.write import completion
from lentic.write.alive import StopWhen
from lentic.write.commit import Begun, Commit, commit_write, judge_write
from lentic.write.completion import decode_accepted
from lentic.write.handle import measure_rewrite
from lentic.write.operations import (
    RUN_NUMBERS,
    ensure_merge_known,
    ensure_sortable,
    ensure_supported,
    merge_fields,
    parquet_style,
    table_grouping,
)

# --- plan ---------------------------------------------------------------------------------------


def schedule_clustering(
    table: OpenTable,
    *,
    sort_by: str | Sequence[str] = (),
    curve: Curve | str | None = None,
    removable: bool | None = None,
    partitions: str | Sequence[str] | None = None,
    cancellable: bool | None = None,
    cancel_after_hours: float | None = None,
    cancel_after_instants: int | None = None,
    on_look: OnLook | None = None,
) -> RequestedAt | None:
    """Publish a plan and return its time; None if there is nothing to cluster.

    What is not given comes from the table's options; `partitions` overrides their filter. Groups
    that a pending plan names are left out; where that leaves nothing, a clustering that is pending
    already is returned instead.
    """
    ensure_supported(table.config)
    options = table.services.clustering
    cancellation = choose_cancellation(
        table.services.cancellation, cancellable, cancel_after_hours, cancel_after_instants
    )
    columns = _names(sort_by) or options.sort_by
    chosen = _parse_curve(curve, columns) or options.curve
    _ensure_curve_fits(chosen, columns)
    with transaction(table) as txn:
        _ensure_sortable(table, txn.timeline, columns)
        asked = ClusteringQuestion(
            at=begin_planning(txn),
            sort_by=columns,
            curve=chosen,
            removable=table.services.removable if removable is None else removable,
            partitions=None if partitions is None else _names(partitions),
            is_bucketed=table.config.buckets is not None,
            cancellation=replace(
                cancellation, cancelled=load_cancel_counts(table.storage, txn.timeline)
            ),
        )
        plan = draft_clustering(txn, asked, on_look)
        if plan is None:
            return _pending_plan(txn)
        if plan.cancellation.cancellable:
            declare_cancellation(txn)
        content = encode_clustering_plan(plan, table.storage.root)
        return txn.request_at(asked.at, Action.CLUSTERING, content).requested_at


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(dict.fromkeys(given))


def _pending_plan(txn: Transaction) -> RequestedAt | None:
    pending = txn.timeline.pending(Action.CLUSTERING)
    return pending[0].requested_at if pending else None


def _parse_curve(curve: Curve | str | None, columns: tuple[str, ...]) -> Curve | None:
    if curve is None:
        return None
    named = curve.upper()
    if named not in tuple(Curve):
        raise ConfigError(
            f"There is no curve {curve!r}.",
            safe="nothing was written",
            next_step=f"choose among {', '.join(known.lower() for known in Curve)}",
        )
    if not columns:
        raise ConfigError(
            "A curve was given without columns to lay rows out by.",
            safe="nothing was written",
            next_step="name columns in sort_by, or leave curve out",
        )
    return Curve(named)


def _ensure_curve_fits(curve: Curve, columns: tuple[str, ...]) -> None:
    if curve is not Curve.LINEAR and len(columns) > COLUMNS_MAX:
        raise ConfigError(
            f"{curve} was asked for with {len(columns)} columns; it takes {COLUMNS_MAX} at most.",
            safe="nothing was written",
            next_step="name the columns that filters use most, or use LINEAR",
        )


def _ensure_sortable(table: OpenTable, timeline: Timeline, columns: tuple[str, ...]) -> None:
    """Rows can be sorted by all they have but the file they lie in, which is about to change."""
    if columns:
        schema = with_meta_schema(load_table_schema(table.storage, timeline, table.config))
        ensure_sortable(columns, schema.remove(schema.get_field_index(FILE_NAME)))


# --- execute ------------------------------------------------------------------------------------


def execute_clustering(table: OpenTable, engine: Engine, at: RequestedAt) -> Outcome:
    """Carry the plan at `at` out, alone. An earlier attempt's files are removed first, the plan
    kept.

    A plan that is cancelled, before or while it runs, ends as `Aborted`. So does one of which a
    group was written to since it was made, by a writer that knows nothing of cancelling, if it may
    be cancelled; any other such plan is rolled back, with a `WriteConflict`.
    """
    ensure_supported(table.config)
    ensure_merge_known(table.config)
    plan = Instant(at, Action.CLUSTERING, State.REQUESTED)
    watch = StopWhen(
        partial(is_cancelled, table.storage, at), table.services.cancellation.poll_ms / 1000
    )
    run = partial(_run_clustering, table, engine)
    try:
        return execute_plan(table, engine, plan, run, watch=watch)
    except (OutcomeUnknown, PlanBusy):
        raise
    except Exception as error:
        # Whatever failed, also that this slept for too long: a cancelled plan has one end.
        if aborted := _end_if_cancelled(table, engine, plan):
            return aborted
        if not isinstance(error, (WriteConflict, InstantCancelled, MissingFile)):
            raise
        if _was_rolled_back(table, plan):
            raise _gave_way(table, plan) from error
        gone = _find_gone(table, plan) if isinstance(error, MissingFile) else ""
        ended = _give_up(table, engine, plan, gone)
        if ended is None:
            raise
        if isinstance(ended, Aborted):
            return ended
        raise _given_up(table, plan, error.what, gone) from error


def _run_clustering(
    table: OpenTable, engine: Engine, begun: Begun, leftovers: tuple[str, ...]
) -> Commit:
    at, now = begun.instant.requested_at, begun.timeline
    assert begun.guard is not None
    plan = load_clustering_plan(table.storage, begun.instant)
    begun = replace(begun, timeline=now.upto(at))
    if refusal := _find_refusal(table, begun, plan, now):
        raise WriteConflict(f"{refusal.instant} changed {refusal.places[0]}.")
    for path in leftovers:
        table.storage.delete(path)
    completion.remove_completions(table.storage, at, keep_finalized=False)
    work = _work(table, begun, plan, now)
    tasks = _tasks(table, plan)
    texts = engine.run(work, tasks, Stage("clustering", measure_rewrite))
    return commit_write(
        table,
        begun,
        tuple(map(decode_accepted, texts)),
        run=work.run,
        operation=CLUSTER,
        extra={
            SCHEMA_KEY: load_avro_schema(table.storage, now, table.config),
            **commit_extra(plan.extra, at),
        },
        replaced={} if table.config.buckets is not None else _ended(plan),
    )


def _work(table: OpenTable, begun: Begun, plan: ClusteringPlan, now: Timeline) -> ClusteringWork:
    assert begun.guard is not None
    config, options = table.config, table.services.clustering
    schema = with_meta_schema(load_table_schema(table.storage, now, config))
    _ensure_sortable(table, now, plan.sort_by)
    curve = plan.curve or options.curve
    _ensure_curve_fits(curve, plan.sort_by)
    return ClusteringWork(
        reader=SliceReader(
            table.storage, schema, merge_fields(config), grouping=table_grouping(config)
        ),
        requested_at=begun.instant.requested_at,
        writes=load_writes(table.storage, now, _makers(plan)),
        style=parquet_style(table.write_options),
        sort_by=plan.sort_by,
        curve=curve,
        target_bytes=plan.target_bytes or options.target_bytes,
        run=table.world.entropy.integer(RUN_NUMBERS),
        guard=begun.guard,
        on_rerun=table.write_options.on_rerun,
    )


def _tasks(table: OpenTable, plan: ClusteringPlan) -> list[ClusteringTask]:
    """One task per group of the plan; in buckets, where rows stay in their group, per slice."""
    if table.config.buckets is not None:
        slices = (part for group in plan.groups for part in group.slices)
        return [ClusteringTask((part,), part.file_id, stays=True) for part in slices]
    entropy = table.world.entropy
    return [ClusteringTask(group.slices, entropy.uuid(), stays=False) for group in plan.groups]


def _makers(plan: ClusteringPlan) -> frozenset[RequestedAt]:
    paths = (path for group in plan.groups for part in group.slices for path in part.paths)
    found = (requested_at_of(path.rpartition("/")[2]) for path in paths)
    return frozenset(at for at in found if at)


def _ended(plan: ClusteringPlan) -> dict[str, tuple[str, ...]]:
    ended: dict[str, list[str]] = {}
    for group in plan.groups:
        for part in group.slices:
            ended.setdefault(part.partition, []).append(part.file_id)
    return {partition: tuple(file_ids) for partition, file_ids in ended.items()}


# --- yield --------------------------------------------------------------------------------------


def _find_refusal(
    table: OpenTable, begun: Begun, plan: ClusteringPlan, now: Timeline
) -> Refuse | None:
    """What stands against the plan on the timeline `now`, and always will."""
    groups = plan.file_groups()
    stays = table.config.buckets is not None
    touched = Touched(rewritten=groups) if stays else Touched(ended=groups)
    verdict = judge_write(table, begun, touched, now)
    return verdict if isinstance(verdict, Refuse) else None


def _find_gone(table: OpenTable, plan: Instant) -> str:
    """A file that the plan names and that is not there any more; "" if there is none. Cleaning
    spares what plans name, so that another engine undid the write which made it, or worse."""
    try:
        groups = load_clustering_plan(table.storage, plan).groups
    except MissingFile:
        return ""
    paths = (path for group in groups for part in group.slices for path in part.paths)
    return next((path for path in paths if table.storage.info(path) is None), "")


def _give_up(table: OpenTable, engine: Engine, plan: Instant, gone: str) -> Aborted | Undo | None:
    """End the plan if it can never succeed, and say how; None if it may. `gone` is a file that it
    names and that is not there, if one is known."""
    with transaction(table) as txn:
        now = txn.timeline.find(plan)
        if now is None or not now.is_pending:
            return None
        # No guard is needed to see that nobody can complete it.
        begun = Begun(now, txn.timeline.upto(now.requested_at), guard=0)
        content = load_clustering_plan(table.storage, now)
        refusal = _find_refusal(table, begun, content, txn.timeline)
        if refusal is None and not gone:
            return None
        undo = None
        if content.cancellation.cancellable:
            by = f"{refusal.instant} wrote to a file group of it" if refusal else f"{gone} is gone"
            cancel_once(txn, now, by)
        else:
            undo = plan_undo(txn, now)
    if undo is None:
        return execute_abort(table, engine, now.requested_at)
    execute_undo(table, undo, now)
    return undo


def _end_if_cancelled(table: OpenTable, engine: Engine, plan: Instant) -> Aborted | None:
    """The end of the plan if it was cancelled, brought about here or by others; None if it was not,
    or if the storage does not say."""
    try:
        if is_cancelled(table.storage, plan.requested_at):
            with suppress(Refused):  # it is gone: a restore took it along
                return execute_abort(table, engine, plan.requested_at)
        now = load_timeline(table.storage).find(plan)
    except StorageError:
        return None
    return Aborted(now) if now is not None and now.is_aborted else None


def _was_rolled_back(table: OpenTable, plan: Instant) -> bool:
    timeline = load_timeline(table.storage)
    is_gone = timeline.find(plan) is None
    return is_gone and bool(list_rollbacks_of(table.storage, timeline, plan))


def _gave_way(table: OpenTable, plan: Instant) -> WriteConflict:
    return WriteConflict(
        f"{plan} was rolled back, by a write that came to a file group of it first or by somebody "
        "who asked for it.",
        where=table.storage.root,
        safe="no row was changed, and what was written meanwhile stays",
        next_step="schedule a clustering again",
    )


def _given_up(table: OpenTable, plan: Instant, why: str, gone: str) -> WriteConflict:
    because = f"{gone}, which it names, is gone" if gone else "a file group of it was written to"
    return WriteConflict(
        f"{plan} cannot succeed any more and was rolled back: {because} after it was made. {why}",
        where=table.storage.root,
        safe="no row was changed, and what was written meanwhile stays",
        next_step="schedule a clustering again",
    )
