"""The façade: one short method per verb. It opens rooms and holds no logic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lentic.engine import Engine
from lentic.errors import ConfigError
from lentic.format.table_config import TableConfig
from lentic.format.times import RequestedAt
from lentic.query.snapshot import read_snapshot
from lentic.services import compaction, ingest
from lentic.services.outcome import Outcome
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_timeline
from lentic.txn.transaction import OpenTable
from lentic.view.files import FileSlice
from lentic.view.listing import load_table_view
from lentic.view.schema import load_table_schema
from lentic.write.commit import Commit


class Table:
    """A table. Get one from `lentic.create` or `lentic.open`."""

    def __init__(self, opened: OpenTable, engine: Engine) -> None:
        self._opened = opened
        self._engine = engine

    @property
    def path(self) -> str:
        """Where the table is."""
        return self._opened.storage.root

    @property
    def config(self) -> TableConfig:
        """What the table is, as its properties say."""
        return self._opened.config

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table's rows, as of now."""
        storage = self._opened.storage
        return load_table_schema(storage, load_timeline(storage), self._opened.config)

    def upsert(self, rows: Any) -> Commit:
        """Insert rows with new keys and update those whose key exists, as one commit.

        With an ordering field the row with the greater value wins, late rows change nothing. All
        of the rows become visible at once or, if this raises, none.
        """
        return ingest.upsert(self._opened, self._engine, rows)

    def read(self, *, columns: Sequence[str] | None = None, meta: bool = False) -> Any:
        """The current rows: a DataFrame on Spark, else an Arrow table.

        `meta=True` adds the `_hoodie_*` columns.
        """
        return read_snapshot(self._opened, self._engine, columns, meta=meta)

    def schedule(self, service: str) -> RequestedAt | None:
        """Publish a plan for `service` ("compaction"); None if there is nothing to do."""
        if service != "compaction":
            raise ConfigError(
                f"There is no service {service!r}.",
                safe="nothing was written",
                next_step='schedule("compaction")',
            )
        return compaction.schedule_compaction(self._opened)

    def execute(self, requested_at: str) -> Outcome:
        """Carry out the plan at `requested_at`."""
        at = RequestedAt(requested_at)
        return compaction.execute_compaction(self._opened, self._engine, at)

    def compact(self) -> Outcome | None:
        """Schedule a compaction and execute it; None if no file group has logs."""
        at = self.schedule("compaction")
        return None if at is None else self.execute(at)

    def timeline(self) -> list[Instant]:
        """Every instant of the active timeline, oldest first."""
        return list(load_timeline(self._opened.storage).instants)

    def file_slices(self, partition: str | None = None) -> list[FileSlice]:
        """The slices that readers read now, of one partition or of all."""
        storage = self._opened.storage
        groups = load_table_view(storage, load_timeline(storage))
        return [g.latest for g in groups if partition in (None, g.id.partition)]

    def __repr__(self) -> str:
        return f"Table({self.path!r}, {self.config.table_type.value})"
