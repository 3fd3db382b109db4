"""One write from call to result: check, clean up after the dead, write, clean up after us."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pyarrow as pa

from lentic.config.sharing import FailedWrites
from lentic.coordination.heartbeat import Heart
from lentic.engine import Engine
from lentic.errors import (
    ConfigError,
    Conflict,
    InstantCancelled,
    MissingFile,
    OutcomeUnknown,
    Refused,
    WriteConflict,
)
from lentic.format.record_fields import META_FIELDS
from lentic.format.table_config import MergeMode, TableConfig
from lentic.services import inline
from lentic.services.failed_writes import clean_up_failed_writes
from lentic.services.rollback import roll_back, withdraw
from lentic.timeline.reader import load_timeline
from lentic.timeline.timeline import Timeline
from lentic.txn.transaction import OpenTable
from lentic.view.schema import load_table_schema
from lentic.write.alive import staying_alive
from lentic.write.column_groups import plan_partial
from lentic.write.commit import Begun, Commit, begin_write, ensure_none_undone
from lentic.write.evolve import evolve, is_changed
from lentic.write.fit import ensure_fits
from lentic.write.operations import (
    LOOKS_UP,
    Operation,
    Request,
    choose_action,
    ensure_sortable,
    ensure_supported,
)
from lentic.write.placement import DELETE_FLAG, key_rules
from lentic.write.run import Prepared, run_write

_log = logging.getLogger(__name__)


def write(
    table: OpenTable,
    engine: Engine,
    source: Any,
    request: Request,
    seen: Timeline | None = None,
) -> Commit:
    """Carry out `request`; on any failure nothing of it is visible, now or later.

    The one exception is `OutcomeUnknown`: the commit may have landed, so nothing is cleaned up.
    `seen` is the timeline that the rows were computed on, if they were computed from the table.
    """
    prepared = prepare(table, engine, source, request)
    clean_up_failed_writes(table)
    action, looks_up = choose_action(request, table.config), request.operation in LOOKS_UP
    has_buckets = table.config.buckets is not None
    begun = begin_write(table, action, seen, looks_up=looks_up and not has_buckets)
    with _signs_of_life(table, engine, begun) as heart:
        try:
            return run_write(table, engine, source, prepared, begun)
        except OutcomeUnknown:
            raise
        except Refused:
            withdraw(table, begun.instant)
            raise
        except Exception as error:
            if roll_back(table, begun.instant):
                if heart is not None and not isinstance(error, Conflict):
                    heart.ensure_alive()  # else it failed because it was stopped
                if isinstance(error, MissingFile):
                    ensure_none_undone(table, begun, load_timeline(table.storage))
                raise
            # Whatever failed, it failed because the files of this write were taken away.
            raise InstantCancelled(
                f"{begun.instant} was rolled back by another writer, which took this one for dead.",
                where=table.storage.root,
                safe="nothing of this write is visible; start over",
                next_step="look whether this process was paused, or raise "
                "hoodie.client.heartbeat.interval_in_ms",
            ) from error


def _signs_of_life(
    table: OpenTable, engine: Engine, begun: Begun
) -> AbstractContextManager[Heart | None]:
    """Where others may wait for this writer's end, let them see that it lives."""
    if table.sharing.failed_writes is FailedWrites.EAGER:
        return nullcontext()
    return staying_alive(table, engine, begun.instant.requested_at, epoch=begun.epoch)


def retrying(table: OpenTable, engine: Engine, attempt: Callable[[], Commit]) -> Commit:
    """`_retrying`, and then the services that are due: the commit has landed before they begin."""
    done = _retrying(table, attempt)
    inline.run_due_services(table, engine)
    return done


def _retrying(table: OpenTable, attempt: Callable[[], Commit]) -> Commit:
    """`attempt`, again as often as the options allow while it loses to other writers.

    Each time all that depends on the table is read anew; rows must be such that they can be read
    more than once.
    """
    for left in reversed(range(1, table.sharing.conflict_retries + 1)):
        try:
            return attempt()
        except WriteConflict as error:
            _log.warning("%s Writing again, %d more time(s) at most.", error.what, left)
    return attempt()


def prepare(table: OpenTable, engine: Engine, source: Any, request: Request) -> Prepared:
    """Refuse rows and tables that cannot be written, before the first byte."""
    config = table.config
    ensure_supported(config)
    rules = key_rules(config)
    _ensure_index(table, request)
    schema = load_table_schema(table.storage, load_timeline(table.storage), config)
    ensure_sortable(request.sort_by, schema)
    if source is None:
        return Prepared(request, schema, False, schema)
    given = _without_flag(engine.schema(source))
    if request.operation is Operation.DELETE:
        keys = pa.schema([field for field in schema if field.name in rules.columns])
        chosen = [field for field in given if field.name in rules.columns]
        ensure_fits(pa.schema(chosen), keys)
        return Prepared(request, schema, False, keys)
    evolved = evolve(schema, given, required=required_columns(config))
    if request.partial and (carried := plan_partial(config, evolved, given.names)) != evolved:
        return Prepared(request, evolved, is_changed(schema, evolved), carried, partial=True)
    return Prepared(request, evolved, is_changed(schema, evolved), evolved)


def _without_flag(given: pa.Schema) -> pa.Schema:
    return pa.schema([f for f in given if f.name != DELETE_FLAG and f.name not in META_FIELDS])


def required_columns(config: TableConfig) -> tuple[str, ...]:
    """Columns that every row must have, in the table's type."""
    names = (*config.key_fields, *config.partition_fields, *config.ordering_fields)
    return tuple(dict.fromkeys(names))


def _ensure_index(table: OpenTable, request: Request) -> None:
    index, buckets = table.write_options.index, table.config.buckets
    is_bucket = index == "BUCKET"
    if (index and not is_bucket and buckets is not None) or (is_bucket and buckets is None):
        raise ConfigError(
            f"hoodie.index.type is {index.value}, but the table has "
            f"{'no' if buckets is None else buckets} buckets.",
            where=table.storage.root,
            safe="nothing was written",
            next_step="leave hoodie.index.type out",
        )
    if index.is_global and table.config.merge_mode is MergeMode.EVENT_TIME_ORDERING:
        raise ConfigError(
            f"hoodie.index.type is {index.value} on a table with ordering columns: a late row "
            "would take its key to another partition.",
            where=table.storage.root,
            safe="nothing was written",
            next_step="leave hoodie.index.type out, or create the table without ordering columns",
        )
    if index.is_global and (table.config.column_groups or request.partial):
        raise ConfigError(
            f"hoodie.index.type is {index.value}, and a row that takes its key to another "
            "partition would leave the columns behind that it does not carry.",
            where=table.storage.root,
            safe="nothing was written",
            next_step="leave hoodie.index.type out",
        )
