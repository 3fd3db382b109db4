"""What all queries share: the table as loaded once, its schema, its readers, its errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lentic.errors import ConfigError, RangeUnavailable, SchemaMismatch, UnsupportedFormat
from lentic.format.keys import is_composite
from lentic.format.names import Action
from lentic.format.record_fields import META_FIELDS, with_meta_schema
from lentic.format.table_config import KeyGenerator, TableConfig
from lentic.format.times import CompletedAt
from lentic.query.predicate_text import parse_predicate
from lentic.query.predicate_values import Predicate
from lentic.records.slice_reader import SliceReader, VirtualKeys
from lentic.timeline.history import History
from lentic.timeline.reader import load_earliest_retained, load_timeline
from lentic.timeline.timeline import Timeline
from lentic.txn.transaction import OpenTable
from lentic.view.files import FileGroup
from lentic.view.schema import load_table_schema
from lentic.view.table_view import gone_paths
from lentic.write.operations import ensure_merge_known, merge_fields, table_grouping

_TIME_BASED = frozenset({KeyGenerator.TIMESTAMP})


@dataclass(frozen=True, slots=True)
class Source:
    """A table at the moment a query began."""

    table: OpenTable
    timeline: Timeline
    schema: pa.Schema

    def choose_columns(self, asked: Sequence[str] | None, *, meta: bool) -> tuple[str, ...]:
        """The columns of a result: all or those asked for, `_hoodie_*` only if `meta` and if the
        table fills them."""
        filled = meta and self.table.config.populate_meta_fields
        return choose_columns(with_meta_schema(self.schema), asked, meta=filled)

    @property
    def is_read_as_stored(self) -> bool:
        """Whether files hold every column in the type of the result."""
        return self.table.config.keygen not in _TIME_BASED

    @property
    def reader(self) -> SliceReader:
        """Reads slices with the table's schema, `_hoodie_*` columns included."""
        config = self.table.config
        keys = None
        if not config.populate_meta_fields:
            composite = is_composite(config.keygen.value, config.key_fields)
            keys = VirtualKeys(config.key_fields, composite)
        schema = with_meta_schema(self.schema)
        ordering, grouping = merge_fields(config), table_grouping(config)
        return SliceReader(self.table.storage, schema, ordering, keys, grouping)


def load_source(table: OpenTable) -> Source:
    """Load the timeline and the schema; refuse tables that would be read wrongly."""
    if table.config.drop_partition_columns:
        raise UnsupportedFormat(
            "The table keeps partition columns out of its files, which is not supported.",
            where=table.storage.root,
            safe="nothing was read or written",
            next_step="read the table with Apache Hudi",
        )
    ensure_merge_known(table.config)
    timeline = load_timeline(table.storage)
    stored = load_table_schema(table.storage, timeline, table.config)
    return Source(table, timeline, _as_read(stored, table.config))


def _as_read(stored: pa.Schema, config: TableConfig) -> pa.Schema:
    """The schema of query results. A column that a time-based key generator made folders of is
    text to readers, as Apache Hudi has it: the folder holds a formatted date, the file a number."""
    if config.keygen not in _TIME_BASED:
        return stored
    names = config.partition_fields
    return pa.schema([f.with_type(pa.string()) if f.name in names else f for f in stored])


def bind_filter(text: object, schema: pa.Schema) -> Predicate | None:
    """A user's filter for rows of `schema`; None if there is none."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise ConfigError(
            f"A filter is a text, not a {type(text).__name__}.",
            safe="nothing was read",
            next_step="write it like \"day = '2026-01-01' and amount > 10\"",
        )
    return parse_predicate(text, schema)


def choose_columns(
    schema: pa.Schema, asked: Sequence[str] | None, *, meta: bool
) -> tuple[str, ...]:
    """The columns of the result: all or those asked for, `_hoodie_*` only if `meta`."""
    if asked is None:
        return tuple(name for name in schema.names if meta or name not in META_FIELDS)
    if not asked:
        raise SchemaMismatch(
            "No column was asked for.",
            safe="nothing was read",
            next_step="name at least one column, or leave columns out to read all",
        )
    if unknown := [name for name in asked if name not in schema.names]:
        raise SchemaMismatch(
            f"The table has no column {', '.join(unknown)}.",
            safe="nothing was read",
            next_step=f"choose among {', '.join(n for n in schema.names if n not in META_FIELDS)}",
        )
    return tuple(asked)


def ensure_readable(
    source: Source, history: History, groups: Sequence[FileGroup], upto: CompletedAt
) -> None:
    """`RangeUnavailable` if the state as of `upto` lies before what cleaning keeps, or needs files
    that are gone."""
    earliest = _earliest_readable(source, history)
    gone = gone_paths(groups)
    if gone or (earliest is not None and upto < earliest):
        point = earliest or max(source.timeline.completions().values(), default=upto)
        raise RangeUnavailable(
            f"The rows of that time have been cleaned. The earliest readable point is {point}.",
            where=gone[0] if gone else source.table.storage.root,
            safe="nothing was read",
            next_step=f"ask for {point} or later, or keep more: hoodie.clean.commits.retained",
        )


def _earliest_readable(source: Source, history: History) -> CompletedAt | None:
    """When the oldest instant completed that the latest clean kept readable."""
    kept = load_earliest_retained(source.table.storage, source.timeline)
    instants = (*history.instants, *source.timeline.instants)
    named = (i for i in instants if i.requested_at == kept and i.action is not Action.SAVEPOINT)
    times = [i.completed_at for i in named if i.completed_at]
    return max(times, default=None)
