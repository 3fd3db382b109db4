"""The incremental query: the latest rows among those that changed in a window.

Rows are read as of the window's end, from the file groups that its writes touched, and kept if the
write that last changed them (`_hoodie_commit_time`) is one of the window's. Deleted rows have no
latest version and do not appear; the cdc query shows them.

From the beginning (`after="000"`) of a table whose first writes have been archived or cleaned, the
state as of the window's end may be gone for good. As Apache Hudi does, such a window gives the rows
of today's table whose last change lies in it. A window that begins later never guesses: it is
complete, or it raises `RangeUnavailable`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lentic.engine import Engine, Scan, ScanTask
from lentic.errors import UnsupportedFormat
from lentic.format.record_fields import COMMIT_TIME
from lentic.query.predicate import columns_of, matches
from lentic.query.predicate_values import Predicate
from lentic.query.source import Source, bind_filter, ensure_readable, load_source
from lentic.query.window import Window, load_window
from lentic.records.slice_reader import SliceReader
from lentic.txn.transaction import OpenTable
from lentic.view.files import FileGroup, FileSlice
from lentic.view.listing import load_table_view
from lentic.view.table_view import gone_paths


def _load_groups(source: Source, window: Window) -> list[FileGroup]:
    if not window.has_changes:
        return []
    files = window.load_files(source)
    groups = [group for group in files.groups(window.upto) if group.id in window.groups]
    if window.is_from_beginning and (window.history.instants or gone_paths(groups)):
        return list(load_table_view(source.table.storage, source.timeline))
    ensure_readable(source, window.history, groups, window.upto)
    return groups


@dataclass(frozen=True, slots=True)
class ReadChanged:
    """Reads the rows of a slice that some writes changed last; a picklable value."""

    reader: SliceReader
    columns: tuple[str, ...]
    writes: tuple[str, ...]
    predicate: Predicate | None

    def __call__(self, part: FileSlice) -> Iterator[pa.RecordBatch]:
        tested = columns_of(self.predicate) if self.predicate else frozenset()
        needed = tuple(dict.fromkeys((*self.columns, COMMIT_TIME, *sorted(tested))))
        wanted = pa.array(self.writes, pa.string())
        for batch in self.reader.read(part, needed):
            kept = batch.filter(pc.is_in(batch.column(COMMIT_TIME), value_set=wanted))
            if self.predicate is not None:
                kept = kept.filter(matches(self.predicate, kept))
            if kept.num_rows:
                yield kept.select(self.columns)


def read_changed_rows(
    table: OpenTable,
    engine: Engine,
    *,
    after: str,
    upto: str | None,
    columns: Sequence[str] | None,
    filter: object,
    meta: bool,
) -> Any:
    """The latest version, as of `upto`, of every row that changed in the window."""
    if not table.config.populate_meta_fields:
        raise UnsupportedFormat(
            "The table does not keep when its rows changed (hoodie.populate.meta.fields=false).",
            where=table.storage.root,
            safe="nothing was read",
            next_step="read the table as a whole: t.read()",
        )
    source = load_source(table)
    reader = source.reader
    chosen = source.choose_columns(columns, meta=meta)
    predicate = bind_filter(filter, reader.schema)
    window = load_window(source, after, upto)
    groups = _load_groups(source, window)
    read = ReadChanged(reader, chosen, tuple(sorted(map(str, window.requested))), predicate)
    schema = pa.schema([reader.schema.field(name) for name in chosen])
    return engine.collect(Scan(schema, tuple(ScanTask(group.latest) for group in groups), read))
