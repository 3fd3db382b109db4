"""A table for each service, whose storage tells where planners have looked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lentic.engine import LocalEngine
from lentic.format import layout
from lentic.format.names import Action, State
from lentic.format.plan_window import PlanWindow, decode_plan_window
from lentic.format.times import RequestedAt
from lentic.services.catalog import SERVICES
from lentic.services.outcome import Outcome
from lentic.table import Table
from lentic.timeline.instant import Instant
from lentic.timeline.reader import (
    load_clean_plan,
    load_clustering_plan,
    load_compaction_plan,
    load_timeline,
)
from lentic.timeline.timeline import Timeline
from lentic.txn.transaction import OpenTable
from lentic.write.commit import Begun
from tests.unit.builders import WrappedStorage, clock_of, new_table, rows
from tests.unit.verbs import COW, MOR
from tests.unit.write.attempts import begin, finish

ENGINE = LocalEngine(threads=1)
EVERY = ("compaction", "log_compaction", "clustering", "clean")
REWRITES = EVERY[:3]
SERVICE = pytest.mark.parametrize("service", EVERY)
REWRITE = pytest.mark.parametrize("service", REWRITES)
BOUNDED = pytest.mark.parametrize("service", ["compaction", "clustering"])
EVERYTHING = frozenset({"everything"})
"""Where a planner looked that listed the whole table."""

_KINDS: dict[str, tuple[str, int | None]] = {
    "compaction": (MOR, 1),
    "log_compaction": (MOR, 1),
    "clustering": (COW, None),
    "clean": (COW, 1),
}
_OPTIONS: dict[str, object] = {
    "hoodie.clean.commits.retained": 1,
    "hoodie.log.compaction.blocks.threshold": 2,
    "hoodie.keep.min.commits": 1,
    "hoodie.keep.max.commits": 2,
}


class Scene:
    """A table on which one service is planned."""

    def __init__(self, service: str, **options: object) -> None:
        self.service = service
        self.storage = WrappedStorage()
        table_type, buckets = _KINDS[service]
        told = {key.replace("__", "."): value for key, value in options.items()}
        self.opened: OpenTable = new_table(
            storage=self.storage, table_type=table_type, buckets=buckets, options=_OPTIONS | told
        )
        self.looks: list[PlanWindow] = []
        self.value = 0

    @property
    def table(self) -> Table:
        return Table(self.opened, ENGINE)

    @property
    def timeline(self) -> Timeline:
        return load_timeline(self.storage)

    @property
    def action(self) -> Action:
        return SERVICES[self.service].action

    def tell(self, **options: Any) -> None:
        """Options of services, from now on."""
        self.opened = replace(self.opened, services=replace(self.opened.services, **options))

    def rows(self, *days: str) -> Any:
        self.value += 1
        return rows(*((f"{day}-{key}", self.value, day) for day in days for key in "ab"))

    def write(self, *days: str) -> Any:
        clock_of(self.opened).ms += 1_000
        return self.table.upsert(self.rows(*days))

    def change(self, *days: str) -> None:
        """Write so often that there is something to do for the service."""
        for _ in range(3):
            self.write(*days)

    def begin(self) -> Begun:
        clock_of(self.opened).ms += 1_000
        return begin(self.opened)

    def finish(self, begun: Begun, *days: str) -> None:
        finish(self.opened, self.rows(*days), begun)

    # --- the service ----------------------------------------------------------------------------

    def plan(self, **asked: Any) -> RequestedAt | None:
        """Publish a plan, or find nothing to do."""
        clock_of(self.opened).ms += 1_000
        schedule = SERVICES[self.service].schedule
        return schedule(self.opened, on_look=self.looks.append, **asked)

    def planned(self, **asked: Any) -> RequestedAt:
        at = self.plan(**asked)
        assert at is not None, "there should be something to do"
        return at

    def execute(self, at: RequestedAt) -> Outcome:
        return SERVICES[self.service].execute(self.opened, ENGINE, at)

    def run(self) -> RequestedAt:
        at = self.planned()
        self.execute(at)
        return at

    def looked(self, **asked: Any) -> frozenset[str]:
        """Where a planner looks now; what it would publish is published."""
        return self.watched(**asked)[1]

    def watched(self, **asked: Any) -> tuple[RequestedAt | None, frozenset[str], int]:
        """What a planner does now: its plan, where it looks, and how many calls that takes."""
        self.storage.calls.clear()
        at = self.plan(**asked)
        calls = list(self.storage.calls)
        if ("walk", "") in calls:
            return at, EVERYTHING, len(calls)
        listed = {path for op, path in calls if op == "list_files"}
        return at, frozenset(p for p in listed if not p.startswith(layout.HOODIE)), len(calls)

    @property
    def look(self) -> PlanWindow:
        """What the last planner said of its look."""
        return self.looks[-1]

    # --- what is on storage ---------------------------------------------------------------------

    def plan_file(self, at: RequestedAt) -> str:
        return layout.timeline_file(Instant(at, self.action, State.REQUESTED).file_name)

    def window_of(self, at: RequestedAt) -> PlanWindow:
        path = self.plan_file(at)
        found = decode_plan_window(self.storage.read(path), path)
        assert found is not None
        return found

    def completed(self, at: RequestedAt) -> Instant:
        return next(i for i in self.timeline.completed() if i.requested_at == at)

    def partitions_of(self, at: RequestedAt) -> frozenset[str]:
        """The partitions that a plan is for."""
        plan = Instant(at, self.action, State.REQUESTED)
        if self.service == "clean":
            files = load_clean_plan(self.storage, plan).files
            return frozenset(path.rpartition("/")[0] for path in files)
        if self.service == "clustering":
            groups = load_clustering_plan(self.storage, plan).file_groups()
        else:
            groups = load_compaction_plan(self.storage, plan).groups()
        return frozenset(partition for partition, _ in groups)


SHARED: dict[str, object] = {
    "hoodie__write__concurrency__mode": "optimistic_concurrency_control",
    "hoodie__clean__failed__writes__policy": "LAZY",
}
"""Options for several writers at once."""


def served(service: str, **options: object) -> Scene:
    """A table with a few partitions that the service has looked after once."""
    scene = Scene(service, **options)
    scene.change("d1", "d2", "d3", "d4")
    scene.write("d0")
    scene.run()
    return scene


def one_at_a_time(service: str) -> Scene:
    """A table whose plans take on one partition each."""
    scene = Scene(service, hoodie__clustering__plan__strategy__max__num__groups=1)
    scene.tell(compaction=replace(scene.opened.services.compaction, io_mb=0))
    return scene
