"""Planning by what changed against planning by the whole table: whatever the history, they agree.

A history is a mixture of writes, slow ones too, of plans that are bounded, executed, left pending,
cancelled and rolled back, of replaced partitions, savepoints, restores, cleans and archivals. After
every step each service is asked twice what it would do, once as it is and once with the look at
what changed switched off: compaction, log compaction and clean must plan exactly the same. A
clustering is never done with a table, it could write every small file anew; of it, every partition
where a plan would take on a file that no clustering has seen must be looked at. It sorts rows, one
file at a time if need be, or brings small files together, several at a time.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from lentic.engine import LocalEngine
from lentic.errors import LenticError
from lentic.format.clean import decode_clean_plan
from lentic.format.commit_metadata import CLUSTER, decode_commit_metadata
from lentic.format.names import Action, requested_at_of
from lentic.format.plan_window import PlanWindow
from lentic.format.plans import decode_compaction_plan
from lentic.format.times import RequestedAt
from lentic.services.archive import archive_timeline
from lentic.services.catalog import SERVICES
from lentic.services.clean import execute_clean, schedule_clean
from lentic.services.clustering import execute_clustering, schedule_clustering
from lentic.services.clustering_plan import (
    ClusteringQuestion,
    plan_clustering,
    selection_options,
)
from lentic.services.compaction import execute_compaction, schedule_compaction
from lentic.services.explain import draft
from lentic.services.log_compaction import execute_log_compaction, schedule_log_compaction
from lentic.services.plan_windows import Subject
from lentic.services.savepoint import make_savepoint, remove_savepoint
from lentic.services.schedule import look, planned_groups
from lentic.services.undo_completed import roll_back_instant
from lentic.table import Table
from lentic.timeline.history import load_history
from lentic.timeline.reader import load_commit_metadata, load_timeline
from lentic.txn.transaction import OpenTable
from lentic.view.listing import load_table_view
from lentic.write.commit import Begun, begin_write
from tests.rfc.claims import says
from tests.unit.builders import clock_of, new_table, rows
from tests.unit.verbs import COW, MOR
from tests.unit.write.attempts import finish

EXAMPLES = int(os.environ.get("LENTIC_EXAMPLES", "1500")) // 50
ENGINE = LocalEngine(threads=1)
DAYS = ["d1", "d2", "d3", "d4"]

KINDS = [
    (MOR, 2, "v"),
    (MOR, 2, "v"),
    (MOR, None, "v"),
    (MOR, None, ""),
    (COW, 2, "v"),
    (COW, None, "v"),
    (COW, None, ""),
]
"""Type of table, buckets, and what a clustering sorts by: nothing means that it joins files."""
_GROUP_BYTES = 9_000
"""About four files: with more in a partition one is left alone at times."""

SOME = st.lists(st.sampled_from(DAYS), min_size=1, max_size=3, unique=True)
NUMBER = st.integers(0, 5)
STEPS = st.one_of(
    st.tuples(st.just("upsert"), SOME),
    st.tuples(st.just("upsert"), SOME),
    st.tuples(st.just("upsert"), SOME),
    st.tuples(st.just("begin"), SOME),
    st.tuples(st.just("finish"), NUMBER),
    st.tuples(st.just("give up"), NUMBER),
    st.tuples(st.just("drop"), st.sampled_from(DAYS)),
    st.tuples(st.just("plan"), st.sampled_from(sorted(SERVICES))),
    st.tuples(st.just("plan"), st.sampled_from(sorted(SERVICES))),
    st.tuples(st.just("execute"), NUMBER),
    st.tuples(st.just("execute"), NUMBER),
    st.tuples(st.just("cancel"), NUMBER),
    st.tuples(st.just("abort"), NUMBER),
    st.tuples(st.just("try again"), NUMBER),
    st.tuples(st.just("roll back"), NUMBER),
    st.tuples(st.just("undo"), NUMBER),
    st.tuples(st.just("save"), NUMBER),
    st.tuples(st.just("let go"), NUMBER),
    st.tuples(st.just("restore"), NUMBER),
    st.tuples(st.just("archive"), NUMBER),
)

_EXECUTE: dict[Action, Any] = {
    Action.COMPACTION: execute_compaction,
    Action.LOGCOMPACTION: execute_log_compaction,
    Action.CLUSTERING: execute_clustering,
    Action.CLEAN: lambda table, engine, at: execute_clean(table, at),
}
_SCHEDULE: dict[str, Any] = {
    "compaction": schedule_compaction,
    "log_compaction": schedule_log_compaction,
    "clustering": schedule_clustering,
    "clean": schedule_clean,
}


class History:
    """A table whose plans are small, and what others are doing to it."""

    def __init__(self, table_type: str, buckets: int | None, sort_by: str) -> None:
        self.opened: OpenTable = new_table(
            table_type=table_type,
            buckets=buckets,
            options={
                "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
                "hoodie.clean.commits.retained": 2,
                "hoodie.clean.failed.writes.policy": "LAZY",
                "hoodie.compaction.strategy": "BoundedIOCompactionStrategy",
                "hoodie.compaction.target.io": 1,
                "hoodie.compaction.logfile.num.threshold": 2,
                "hoodie.log.compaction.blocks.threshold": 2,
                "hoodie.clustering.plan.strategy.max.num.groups": 1,
                "hoodie.clustering.plan.strategy.sort.columns": sort_by,
                "hoodie.clustering.plan.strategy.single.group.clustering.enabled": False,
                "hoodie.clustering.plan.strategy.max.bytes.per.group": _GROUP_BYTES,
                "hoodie.parquet.small.file.limit": 0,
                "hoodie.keep.min.commits": 2,
                "hoodie.keep.max.commits": 3,
            },
        )
        self.table = Table(self.opened, ENGINE)
        self.is_mor = table_type == MOR
        self.is_sorting = bool(sort_by)
        self.begun: list[tuple[Begun, list[str]]] = []
        self.value = 0
        # Each service has looked at the whole table once, so that it may go by what changes.
        for _ in range(3):
            self.step("upsert", DAYS)
        for service in SERVICES:
            self.step("plan", service)
            self.step("execute", 0)

    def step(self, verb: str, given: Any) -> None:
        self.value += 1
        clock_of(self.opened).ms += 1_000
        # What a step is refused is no concern here; that it was tried may be.
        with suppress(LenticError):
            getattr(self, "do_" + verb.replace(" ", "_"))(given)

    def rows(self, days: list[str]) -> Any:
        # Where nothing is sorted, new files are what a clustering is for.
        keys = ("a", "b") if self.is_sorting else ("a", str(self.value))
        return rows(*((f"{day}-{key}", self.value, day) for day in days for key in keys))

    def do_upsert(self, days: list[str]) -> None:
        self.table.upsert(self.rows(days))

    def do_begin(self, days: list[str]) -> None:
        action = Action.DELTACOMMIT if self.is_mor else Action.COMMIT
        self.begun.append((begin_write(self.opened, action), days))

    def do_finish(self, number: int) -> None:
        if self.begun:
            begun, days = self.begun.pop(number % len(self.begun))
            finish(self.opened, self.rows(days), begun)

    def do_give_up(self, number: int) -> None:
        if self.begun:
            begun, _ = self.begun.pop(number % len(self.begun))
            roll_back_instant(self.opened, begun.instant.requested_at)

    def do_drop(self, day: str) -> None:
        self.table.delete_partitions([day])

    def do_plan(self, service: str) -> None:
        if self.is_mor or service in ("clustering", "clean"):
            _SCHEDULE[service](self.opened)

    def do_execute(self, number: int) -> None:
        if plans := load_timeline(self.opened.storage).pending(*_EXECUTE):
            plan = plans[number % len(plans)]
            _EXECUTE[plan.action](self.opened, ENGINE, plan.requested_at)

    def do_cancel(self, number: int) -> None:
        if plans := load_timeline(self.opened.storage).pending(Action.CLUSTERING):
            self.table.request_cancel(plans[number % len(plans)].requested_at)

    def do_abort(self, number: int) -> None:
        self.do_cancel(number)
        if plans := load_timeline(self.opened.storage).pending(Action.CLUSTERING):
            self.table.execute_abort(plans[number % len(plans)].requested_at)

    def do_try_again(self, number: int) -> None:
        """A clustering that was cancelled, and the smaller one that takes its place."""
        self.do_plan("clustering")
        self.do_abort(number)
        self.do_plan("clustering")
        self.do_execute(number)

    def do_roll_back(self, number: int) -> None:
        kinds = (Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING)
        if plans := load_timeline(self.opened.storage).pending(*kinds):
            roll_back_instant(self.opened, plans[number % len(plans)].requested_at)

    def do_undo(self, number: int) -> None:
        if writes := load_timeline(self.opened.storage).writes():
            roll_back_instant(self.opened, writes[-1].requested_at)

    def do_save(self, number: int) -> None:
        if writes := load_timeline(self.opened.storage).writes():
            make_savepoint(self.opened, writes[-1 - number % len(writes)].requested_at)

    def do_let_go(self, number: int) -> None:
        if saved := load_timeline(self.opened.storage).completed(Action.SAVEPOINT):
            remove_savepoint(self.opened, saved[number % len(saved)].requested_at)

    def do_restore(self, number: int) -> None:
        if writes := load_timeline(self.opened.storage).writes():
            self.table.restore(writes[-1 - number % min(3, len(writes))].requested_at)
            self.begun.clear()

    def do_archive(self, number: int) -> None:
        archive_timeline(self.opened)

    # --- what must hold -------------------------------------------------------------------------

    def check(self) -> None:
        for service in ("compaction", "log_compaction", "clean"):
            if not self.is_mor and service != "clean":
                continue
            changed, window = self.ask(service, incremental=True)
            everything, _ = self.ask(service, incremental=False)
            assert changed == everything, f"{service} with a {window}"
        self.check_clustering()

    def ask(self, service: str, *, incremental: bool) -> tuple[Any, PlanWindow | None]:
        """What the service would publish, but for what it says of its look."""
        clean = replace(self.opened.services.clean, incremental=incremental)
        services = replace(self.opened.services, incremental=incremental, clean=clean)
        told = replace(self.opened, services=services)
        looks: list[PlanWindow] = []
        try:
            drafted = draft(told, lambda dry: _SCHEDULE[service](dry, on_look=looks.append))
        except LenticError as error:
            return str(error), None
        if drafted is None or isinstance(drafted, str):
            return drafted, looks[-1] if looks else None
        plan = _decode(service, drafted.content, self.opened.storage.root)
        return plan, looks[-1]

    def check_clustering(self) -> None:
        """Where a plan would take on what no clustering has seen, one looks."""
        storage, timeline = self.opened.storage, load_timeline(self.opened.storage)
        options, at = self.opened.services.clustering, RequestedAt("9" * 17)
        asked = ClusteringQuestion(
            at=at,
            sort_by=options.sort_by,
            curve=options.curve,
            is_bucketed=self.opened.config.buckets is not None,
        )
        chosen = selection_options(options, asked)
        looked = look(storage, timeline, at, Subject(Action.CLUSTERING, CLUSTER, chosen))
        if looked.partitions is None:
            return
        seen = self.clustered()
        asked = replace(asked, busy=planned_groups(storage, timeline))
        view = load_table_view(storage, timeline)
        for part in plan_clustering(view, replace(options, groups=1_000), asked).groups:
            paths = (path for one in part.slices for path in one.paths)
            makers = {requested_at_of(path.rpartition("/")[2]) for path in paths}
            is_found = part.partition in looked.partitions
            assert makers <= seen or is_found, f"{part} with a {looked.window}"

    def clustered(self) -> set[RequestedAt]:
        storage = self.opened.storage
        done = {
            write.requested_at
            for write in load_timeline(storage).writes()
            if load_commit_metadata(storage, write).operation == CLUSTER
        }
        archived = load_history(storage).contents.items()
        replaced = ((i, data) for i, data in archived if i.action is Action.REPLACECOMMIT)
        return done | {
            i.requested_at
            for i, data in replaced
            if decode_commit_metadata(data, "x").operation == CLUSTER
        }


def _decode(service: str, content: bytes, root: str) -> Any:
    if service == "clean":
        return decode_clean_plan(content, root, "x").files
    return decode_compaction_plan(content, "x").operations


@says("P20", "R11")
@settings(max_examples=EXAMPLES)
@example((COW, None, ""), [("try again", 0)])
@given(
    st.sampled_from(KINDS),
    st.lists(STEPS, min_size=4, max_size=25),
)
def test_a_look_at_what_changed_finds_what_a_look_at_everything_finds(
    kind: tuple[str, int | None, str], steps: list[tuple[str, Any]]
) -> None:
    history = History(*kind)
    for verb, given_ in steps:
        history.step(verb, given_)
        history.check()
