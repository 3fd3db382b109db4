"""A table whose services either engine runs; one may execute what the other has planned.

Both are told the same options, under the keys they share. After every step all readers must see
what the model holds, and lentic must find nothing wrong with the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import pyarrow as pa
import pytest

import lentic
from lentic.timeline.instant import WRITES
from tests.interop.operations import Model, Shape, Story
from tests.interop.readers import ApacheHudi, EngineFailed

HUDI, LENTIC = "hudi", "lentic"

# So little is kept, and so little is enough, that each service finds something to do at once.
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "compaction": {"hoodie.compact.inline.max.delta.commits": "1"},
    "log_compaction": {"hoodie.log.compaction.blocks.threshold": "2"},
    "clustering": {
        "hoodie.clustering.plan.strategy.small.file.limit": "10000000",
        "hoodie.clustering.plan.strategy.sort.columns": "score",
    },
    "clean": {"hoodie.clean.commits.retained": "1", "hoodie.clean.trigger.max.commits": "1"},
    "archive": {
        "hoodie.clean.commits.retained": "1",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.timeline.compaction.batch.size": "3",
    },
}
_HUDI_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "log_compaction": {"hoodie.log.compaction.enable": "true"},
    "archive": {"hoodie.commits.archival.batch": "1"},
}

Rows = dict[str, dict[str, Any]]


@dataclass(slots=True)
class ServiceStory(Story):
    """A story with services; `saved` is what the model held at each savepoint."""

    saved: dict[str, Rows] = field(default_factory=dict)

    @classmethod
    def begin_by(
        cls, engine: str, path: str, shape: Shape, hudi: ApacheHudi, *, is_thorough: bool
    ) -> Self:
        """A table that `engine` makes; Apache Hudi does with its first write."""
        if engine == LENTIC:
            shape.create(path)
        return cls(path, shape, hudi, Model(shape.ordering is not None), is_thorough)

    def open(self, service: str = "") -> lentic.Table:
        """The table as a new process opens it, to run this service if one is named."""
        options = dict(OPTIONS.get(service, {}))
        if self.shape.buckets:  # Hudi writes down nowhere how many there are
            options["hoodie.bucket.index.num.buckets"] = str(self.shape.buckets)
        return lentic.open(self.path, options=options)

    # --- writes by either -------------------------------------------------------------------

    def write(self, by: str, operation: str, rows: pa.Table) -> None:
        """`operation` is an upsert, a delete, an insert_overwrite or one of the whole table."""
        if by == HUDI:
            self.hudi_writes(operation, rows)
        elif operation == "delete":
            self.delete_keys(rows)
        else:
            getattr(self, operation)(rows)

    # --- services by either -----------------------------------------------------------------

    def schedule(self, service: str, by: str, **params: bool) -> str:
        """The time of the plan that one engine makes; there must be something to do. `params` are
        told to lentic alone."""
        at = self.try_schedule(service, by, **params)
        assert at is not None, f"{by} found nothing to do for {service}"
        return at

    def try_schedule(self, service: str, by: str, **params: bool) -> str | None:
        """The same where there may be nothing."""
        if by == HUDI:
            at = self._ask_hudi("schedule", service)
        else:
            planned = self.open(service).schedule(service, **params)
            at = None if planned is None else str(planned)
        self.look_closely(f"{by} planned {service}")
        return at

    def execute(self, service: str, at: str, by: str) -> None:
        """Carry out the plan, whoever made it."""
        assert at in self.pending(), f"the plan of {service} is not there"
        if by == HUDI:
            self._ask_hudi("execute", service, at)
        else:
            self.open(service).execute(at)
        assert at not in self.pending(), f"{by} left the plan of {service} as it was"
        self.look_closely(f"{by} executed {service}")

    def ensure_hudi_cannot_execute(self, service: str, at: str) -> None:
        """It tries, fails in good order, and can still read the table."""
        with pytest.raises(EngineFailed, match="executed-by-lentic-alone|not compatible"):
            self._ask_hudi("execute", service, at)
        assert at in self.pending()
        self.look_closely(f"Hudi could not execute {service}")

    def serve(
        self, service: str, planner: str, executor: str, beside: Callable[[], None] | None = None
    ) -> None:
        """Schedule, let happen what happens beside the plan, execute. Apache Hudi can execute only
        such plans of lentic's as may not be cancelled."""
        is_for_hudi = (service, planner, executor) == ("clustering", LENTIC, HUDI)
        at = self.schedule(service, planner, **({"cancellable": False} if is_for_hudi else {}))
        if beside is not None:
            beside()
        self.execute(service, at, executor)

    def archive(self, by: str) -> int:
        """How many more instants are in the history afterwards."""
        before = len(self.open().history())
        if by == HUDI:
            self._ask_hudi("run", "archive")
        else:
            self.open("archive").archive()
        self.look_closely(f"{by} archived")
        return len(self.open().history()) - before

    def savepoint(self, by: str) -> str:
        """Protect what the last write left; its time."""
        last = str(self.last_write().requested_at)
        if by == HUDI:
            self._ask_hudi("run", "savepoint", last)
        else:
            self.open().savepoint()
        self.saved[last] = dict(self.model.rows)
        self.look_closely(f"{by} made a savepoint")
        return last

    def release(self, at: str, by: str) -> None:
        """Protect it no longer."""
        if by == HUDI:
            self._ask_hudi("run", "release", at)
        else:
            self.open().remove_savepoint(at)
        del self.saved[at]
        self.look_closely(f"{by} removed a savepoint")

    def restore(self, at: str, by: str) -> None:
        """Back to what the table was when it was saved."""
        if by == HUDI:
            self._ask_hudi("run", "restore", at)
        else:
            self.open().restore(at)
        self.model.rows = dict(self.saved[at])
        self.look_closely(f"{by} restored")

    def roll_back(self, before: Rows, by: str) -> None:
        """Undo the last write, before which the table held `before`."""
        last = str(self.last_write().requested_at)
        if by == HUDI:
            self._ask_hudi("run", "rollback", last)
        else:
            self.open().rollback(last)
        self.model.rows = before
        self.look_closely(f"{by} rolled a write back")

    # --- looks ------------------------------------------------------------------------------

    def last_write(self) -> lentic.Instant:
        """The newest completed write."""
        done = [i for i in self.open().timeline() if i.is_completed and i.action in WRITES]
        return max(done, key=lambda instant: str(instant.completed_at))

    def pending(self) -> set[str]:
        """When each instant was requested that has not ended."""
        return {str(i.requested_at) for i in self.open().timeline() if i.is_pending}

    def hudi_history(self) -> set[str]:
        """When each archived commit was requested, as Hudi tells it."""
        window = "start_ts => '20000101000000000', end_ts => '21000101000000000'"
        told = self.hudi_runs(
            f"call show_archived_commits(table => 'target', limit => 1000, {window})"
        )
        return {row[0] for row in told}

    def look_closely(self, what: str) -> None:
        """Every reader, and lentic's own examination."""
        findings = self.open().verify()
        assert findings == [], f"after {what}: {findings}"
        self._look_if_thorough(what)

    def _ask_hudi(self, op: str, service: str, at: str | None = None) -> str | None:
        told = self.shape.hudi_options("upsert")
        told |= OPTIONS.get(service, {})
        told |= _HUDI_OPTIONS.get(service, {})
        return self.hudi.service(self.path, op, service, at, told)
