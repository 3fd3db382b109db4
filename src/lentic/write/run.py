"""A write from its request to its commit: place rows, run the handles, collect once, commit.

The driver collects the statuses once; what may stay on storage, what the commit metadata names and
what the caller is told all follow from that one set (R8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import pyarrow as pa

from lentic.config.sharing import ConcurrencyMode
from lentic.engine import FILE_ID, KEY, PARTITION, Attempt, Engine, KeyFile, Lookup, Shuffle
from lentic.format.avro_schema import avro_schema_json
from lentic.format.commit_metadata import SCHEMA_KEY
from lentic.format.record_fields import RECORD_KEY, with_meta_schema
from lentic.format.table_config import TableType
from lentic.progress import Measure, Stage
from lentic.records.slice_reader import SliceReader
from lentic.txn.transaction import OpenTable
from lentic.view.files import FileGroup, FileSlice
from lentic.view.listing import load_partition_files, load_table_view
from lentic.view.schema import load_avro_schema
from lentic.write.assign import SmallFile, assign_groups
from lentic.write.commit import Begun, Commit, commit_write
from lentic.write.completion import Accepted, decode_accepted
from lentic.write.early import EarlyConflicts
from lentic.write.group_writer import Carried, Writing
from lentic.write.handle import EmptyHandle, WriteHandle, measure_write
from lentic.write.index_bucket import BucketIndex
from lentic.write.index_join import JoinPlacement, ReadKeys, TagRows, keep_places, settle_moves
from lentic.write.operations import (
    LOOKS_UP,
    RUN_NUMBERS,
    Operation,
    Request,
    merge_fields,
    parquet_style,
    table_grouping,
)
from lentic.write.placement import DELETE_FLAG, Placement, key_rules
from lentic.write.sizing import (
    choose_sizes,
    ensure_not_bucketed,
    list_busy,
    small_files,
)

_DELETES = pa.schema([(DELETE_FLAG, pa.bool_())])

_WRITING = Stage("writing", measure_write)
_EMPTYING = Stage("emptying", measure_write)
_COUNTING = Stage("counting old rows", lambda text: Measure(rows=int(text)))

_LOG_ROWS_PER_TASK = 10_000
"""Every task lists its partitions and reads the metadata of their commits, which for a few rows is
most of the work. Where base files are written anew that is little beside each of them."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that may be carried out: the table's schema after it, and the schema of its rows
    on their way to the handles. `partial`: columns that these lack are left alone."""

    request: Request
    schema: pa.Schema
    is_evolved: bool
    given: pa.Schema
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one write."""

    table: OpenTable
    engine: Engine
    prepared: Prepared
    begun: Begun
    how: Writing
    seen: dict[str, tuple[FileGroup, ...]] = field(default_factory=dict)
    """The groups of partitions that were looked at: what others do meanwhile does not show."""

    @property
    def request(self) -> Request:
        return self.prepared.request

    def handle(self, placement: Placement, carried: tuple[str, ...] = ()) -> WriteHandle:
        flag = (DELETE_FLAG,) if self.request.flagged and DELETE_FLAG not in carried else ()
        sharing = self.table.sharing
        looks = sharing.early_conflicts and sharing.mode is ConcurrencyMode.OPTIMISTIC
        early = EarlyConflicts(self.table.storage, self.how.requested_at) if looks else None
        return WriteHandle(
            how=self.how,
            timeline=self.begun.timeline,
            placement=placement,
            given=self.prepared.given,
            carried=carried + flag,
            on_rerun=self.table.write_options.on_rerun,
            early=early,
        )

    def shuffle(self, source: Any, handle: WriteHandle) -> tuple[Accepted, ...]:
        """Bring rows to their groups and write them there."""
        placement, tasks = handle.placement, self.table.write_options.shuffle_tasks
        least = _LOG_ROWS_PER_TASK if self.how.appends else 0
        shuffle = Shuffle(placement.columns, placement.route, handle, tasks, _WRITING, least)
        return tuple(map(decode_accepted, self.engine.shuffle(source, shuffle)))

    def groups(self, partitions: Iterable[str] | None) -> tuple[FileGroup, ...]:
        """The groups of some partitions, or of all, as they were when the write began."""
        storage, timeline = self.table.storage, self.begun.timeline
        if partitions is None:
            return load_table_view(storage, timeline)
        wanted = sorted(set(partitions))
        if unseen := [partition for partition in wanted if partition not in self.seen]:
            self.seen.update((partition, ()) for partition in unseen)
            groups = load_partition_files(storage, timeline, unseen).groups()
            for partition, found in groupby(groups, lambda group: group.id.partition):
                self.seen[partition] = tuple(found)
        return tuple(group for partition in wanted for group in self.seen[partition])

    def commit(
        self,
        accepted: tuple[Accepted, ...],
        replaced: Mapping[str, tuple[str, ...]] | None = None,
        deleted: int = 0,
    ) -> Commit:
        done = commit_write(
            self.table,
            self.begun,
            accepted,
            run=self.how.run,
            operation=self.request.operation.value,
            extra={SCHEMA_KEY: self._avro_schema()},
            replaced=replaced or {},
        )
        return replace(done, deleted=done.deleted + deleted)

    def _avro_schema(self) -> str:
        table = self.table
        if self.prepared.is_evolved:
            return avro_schema_json(self.prepared.schema, table.config.name, meta_fields=False)
        return load_avro_schema(table.storage, self.begun.timeline, table.config)


def run_write(
    table: OpenTable, engine: Engine, source: Any, prepared: Prepared, begun: Begun
) -> Commit:
    """Carry a prepared write out; `source` is None where the request brings no rows."""
    run = Run(table, engine, prepared, begun, _writing(table, prepared, begun))
    if table.config.buckets is not None:
        return _run_in_buckets(run, source, table.config.buckets)
    return _run_joined(run, source)


def _writing(table: OpenTable, prepared: Prepared, begun: Begun) -> Writing:
    config, options, request = table.config, table.write_options, prepared.request
    appends = config.table_type is TableType.MERGE_ON_READ
    schema = with_meta_schema(prepared.schema)
    return Writing(
        reader=SliceReader(
            table.storage, schema, merge_fields(config), grouping=table_grouping(config)
        ),
        requested_at=begun.instant.requested_at,
        avro_schema=avro_schema_json(prepared.schema, config.name, meta_fields=True),
        style=parquet_style(options),
        run=table.world.entropy.integer(RUN_NUMBERS),
        appends=appends,
        starts_with_log=appends
        and config.buckets is not None
        and request.operation in (Operation.UPSERT, Operation.INSERT),
        overwrites=request.overwrites,
        deletes=request.operation is Operation.DELETE,
        merges=config.buckets is not None or request.operation in LOOKS_UP,
        # In buckets readers merge by key whatever the batch held, so equal keys never stay.
        combines=config.buckets is not None or request.combines(options),
        counts_exactly=options.exact_counts,
        sort_by=request.sort_by,
        carried=_carried(prepared, config.name) if prepared.partial else None,
    )


def _carried(prepared: Prepared, name: str) -> Carried:
    return Carried(
        with_meta_schema(prepared.given),
        avro_schema_json(prepared.given, name, meta_fields=True),
    )


# --- with buckets: the key alone says where a row goes -----------------------------------------


def _run_in_buckets(run: Run, source: Any, buckets: int) -> Commit:
    index = BucketIndex(key_rules(run.table.config), buckets)
    accepted = () if source is None else run.shuffle(source, run.handle(index))
    if run.request.overwrites:
        accepted += _empty_others(run, accepted)
    return run.commit(accepted)


def _empty_others(run: Run, accepted: tuple[Accepted, ...]) -> tuple[Accepted, ...]:
    """What overwriting leaves empty: the groups of its partitions that got no rows (ADR 0009)."""
    written = {(one.share.partition, one.share.file_id) for one in accepted}
    groups = run.groups(_overwritten(run.request, (partition for partition, _ in written)))
    left = [group for group in groups if (group.id.partition, group.id.file_id) not in written]
    handle = EmptyHandle(run.how, run.table.write_options.on_rerun)
    return tuple(map(decode_accepted, run.engine.run(handle, left, _EMPTYING)))


def _overwritten(request: Request, written: Iterable[str]) -> tuple[str, ...] | None:
    """The partitions whose rows an overwrite ends; None means all of them."""
    if request.operation is Operation.INSERT_OVERWRITE_TABLE:
        return None
    return request.partitions or tuple(sorted(set(written)))


# --- without buckets: keys are looked up, new ones go where there is room ----------------------


def _run_joined(run: Run, source: Any) -> Commit:
    if source is None:
        return _replace(run, (), run.request.partitions)
    located = run.engine.locate(source, _lookup(run))
    try:
        partitions = tuple(sorted(located.new))
        groups = run.groups(partitions)
        ensure_not_bucketed(groups, run.table.config.name)
        small = _small_files(run, groups) if run.request.fills_small_files else {}
        sizes = choose_sizes(run.table, run.begun.timeline, run.prepared.schema)
        entropy = run.table.world.entropy
        choices = assign_groups(located.new, small, sizes, lambda: f"{entropy.uuid()}-0")
        filled = {file_id for choice in choices.values() for file_id in choice.file_ids}
        how = replace(run.how, rewritten=frozenset(filled))
        moves = _is_global(run) and run.table.write_options.moves_partitions
        carried = (KEY, PARTITION, FILE_ID, *((DELETE_FLAG,) if moves else ()))
        run = replace(run, how=how)
        accepted = run.shuffle(located.rows, run.handle(JoinPlacement(choices), carried))
    finally:
        run.engine.release(located)
    if not run.request.overwrites:
        return run.commit(accepted)
    return _replace(run, accepted, partitions)


def _small_files(run: Run, groups: tuple[FileGroup, ...]) -> dict[str, list[SmallFile]]:
    return small_files(groups, list_busy(run.table.storage, run.begun.timeline))


def _replace(run: Run, accepted: tuple[Accepted, ...], partitions: tuple[str, ...]) -> Commit:
    """Commit, and end every group that was in the overwritten partitions."""
    groups = run.groups(_overwritten(run.request, partitions))
    replaced: dict[str, list[str]] = {}
    for group in groups:
        replaced.setdefault(group.id.partition, []).append(group.id.file_id)
    count = CountRows(run.how.reader)
    slices = [group.latest for group in groups] if run.how.counts_exactly else []
    deleted = sum(map(int, run.engine.run(count, slices, _COUNTING)))
    ended = {partition: tuple(file_ids) for partition, file_ids in replaced.items()}
    return run.commit(accepted, ended, deleted)


def _lookup(run: Run) -> Lookup:
    table = run.table
    is_global = _is_global(run)
    settle = None
    if is_global:
        settle = settle_moves if table.write_options.moves_partitions else keep_places

    def files(partitions: tuple[str, ...]) -> tuple[KeyFile, ...]:
        groups = run.groups(None if is_global else partitions)
        ensure_not_bucketed(groups, table.config.name)
        return tuple(_key_file(table.storage.root, group.latest) for group in groups)

    return Lookup(
        columns=key_rules(table.config).columns,
        tag=TagRows(key_rules(table.config)),
        read=ReadKeys(table.storage),
        files=files if run.request.operation in LOOKS_UP else None,
        across=is_global,
        settle=settle,
        settled=_DELETES if settle is settle_moves else pa.schema([]),
    )


def _is_global(run: Run) -> bool:
    """Whether keys are unique across partitions, so that a row may find its key elsewhere."""
    return run.table.write_options.index.is_global and run.request.operation in LOOKS_UP


def _key_file(root: str, part: FileSlice) -> KeyFile:
    assert part.base is not None, part
    uri = None if "://" in root else f"file://{root}/{part.base.path}"
    return KeyFile(part.group.partition, part.group.file_id, part.base.path, uri)


@dataclass(frozen=True, slots=True)
class CountRows:
    """How many rows a slice has."""

    reader: SliceReader

    def __call__(self, attempt: Attempt, part: FileSlice) -> str:
        return str(sum(batch.num_rows for batch in self.reader.read(part, (RECORD_KEY,))))
