"""The table's schema: the newest completed write's, else the one it was created with."""

from __future__ import annotations

import pyarrow as pa

from lentic.errors import UnsupportedFormat
from lentic.format import layout
from lentic.format.avro_schema import arrow_schema
from lentic.format.commit_metadata import SCHEMA_KEY
from lentic.format.table_config import TableConfig
from lentic.storage.base import Storage
from lentic.timeline.reader import load_commit_metadata
from lentic.timeline.timeline import Timeline


def load_table_schema(storage: Storage, timeline: Timeline, config: TableConfig) -> pa.Schema:
    """The schema of the table's rows, without the `_hoodie_*` columns."""
    return arrow_schema(load_avro_schema(storage, timeline, config), where=storage.root)


def load_avro_schema(storage: Storage, timeline: Timeline, config: TableConfig) -> str:
    """The same as Avro JSON, as writers hand it on from commit to commit."""
    for instant in reversed(timeline.writes()):
        if found := load_commit_metadata(storage, instant).extra.get(SCHEMA_KEY):
            return found
    if config.create_schema:
        return config.create_schema
    raise UnsupportedFormat(
        f"The table has no commit and no schema in {layout.PROPERTIES}.",
        where=storage.root,
        safe="nothing was read or written",
        next_step="write to it once with the engine that created it",
    )
