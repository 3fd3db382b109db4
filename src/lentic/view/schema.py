"""The table's schema: the newest completed write's, else the one it was created with."""

from __future__ import annotations

import pyarrow as pa

from lentic.errors import Corrupt, UnsupportedFormat
from lentic.format import layout
from lentic.format.avro_schema import arrow_schema
from lentic.format.commit_metadata import REARRANGING, SCHEMA_KEY
from lentic.format.table_config import TableConfig
from lentic.storage.base import Storage
from lentic.timeline.reader import load_commit_metadata
from lentic.timeline.timeline import Timeline


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
    after it says what it found, which counts only where no write is left to say otherwise."""
    found_by_service: tuple[str, str] | None = None
    for instant in reversed(timeline.writes()):
        metadata = load_commit_metadata(storage, instant)
        if text := metadata.extra.get(SCHEMA_KEY):
            found = text, layout.timeline_file(instant.file_name)
            if metadata.operation not in REARRANGING:
                return found
            found_by_service = found_by_service or found
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
