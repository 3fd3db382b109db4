"""The table's schema: the newest completed write's, else the one it was created with."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pyarrow as pa

from lentic.errors import Corrupt, UnsupportedFormat
from lentic.format import layout
from lentic.format.avro_schema import arrow_schema
from lentic.format.commit_metadata import REARRANGING, SCHEMA_KEY, CommitMetadata
from lentic.format.table_config import TableConfig
from lentic.storage.base import Storage
from lentic.timeline.history import load_archived_edge, load_archived_last
from lentic.timeline.instant import WRITES, Instant
from lentic.timeline.reader import decode_write, load_commit_metadata
from lentic.timeline.timeline import Timeline

_ARCHIVED_LOOK = 50
"""How many archived writes of a kind are asked."""


def load_table_schema(storage: Storage, timeline: Timeline, config: TableConfig) -> pa.Schema:
    """The schema of the table's rows, without the `_hoodie_*` columns."""
    text, where = _find(storage, timeline, config)
    schema = arrow_schema(text, where)
    for name in (*config.key_fields, *config.partition_fields, *config.ordering_fields):
        if name.partition(".")[0] not in schema.names:
            raise Corrupt(
                f"The table's properties name column {name}, which its schema does not have.",
                where=layout.PROPERTIES,
                safe="nothing was read or written",
                next_step="mend the property, or bring the file back from a copy of the table",
            )
    return schema


def load_avro_schema(storage: Storage, timeline: Timeline, config: TableConfig) -> str:
    """The same as Avro JSON, as writers hand it on from commit to commit."""
    return _find(storage, timeline, config)[0]


def _find(storage: Storage, timeline: Timeline, config: TableConfig) -> tuple[str, str]:
    """The schema and the file it is in. A service that began before the schema grew and completed
    after it says what it found, which counts only where no write is left to say otherwise. The
    history is asked where no active write says it: those that did may have been undone."""
    found_by_service: tuple[str, str] | None = None
    for metadata, where in chain(_active(storage, timeline), _archived(storage)):
        if text := metadata.extra.get(SCHEMA_KEY):
            if metadata.operation not in REARRANGING:
                return text, where
            found_by_service = found_by_service or (text, where)
    if found_by_service:
        return found_by_service
    if config.create_schema:
        return config.create_schema, layout.PROPERTIES
    raise UnsupportedFormat(
        f"The table has no commit and no schema in {layout.PROPERTIES}.",
        where=storage.root,
        safe="nothing was read or written",
        next_step="write to it once with the engine that created it",
    )


def _active(storage: Storage, timeline: Timeline) -> Iterator[tuple[CommitMetadata, str]]:
    for instant in reversed(timeline.writes()):
        where = layout.timeline_file(instant.file_name)
        yield load_commit_metadata(storage, instant), where


def _archived(storage: Storage) -> Iterator[tuple[CommitMetadata, str]]:
    """The archived writes, those that completed last first, as far back as anybody has to look."""
    if not load_archived_edge(storage):
        return
    contents: dict[Instant, bytes] = {}
    for action in sorted(WRITES):
        contents |= load_archived_last(storage, action, _ARCHIVED_LOOK).contents
    for instant in sorted(contents, key=lambda one: str(one.completed_at), reverse=True):
        where = f"{layout.HISTORY} {instant}"
        yield decode_write(contents[instant], instant, where), where
