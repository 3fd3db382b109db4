"""Time travel against what was seen at the time: no service changes the past (P21).

A history is a mixture of writes, some of which begin early and complete late, and of every service,
planned and executed apart or at once. After each step the rows are noted under the moment of the
newest instant. From then on that moment must give those rows, whatever is compacted, folded,
clustered or archived later, and however the moment is named, until a clean has left it behind.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from lentic.engine import LocalEngine
from lentic.errors import Conflict, RangeUnavailable
from lentic.format.names import Action
from lentic.format.times import CompletedAt
from lentic.ingest.flow import prepare
from lentic.services.clean import execute_clean, schedule_clean
from lentic.table import Table
from lentic.timeline.reader import load_earliest_retained, load_timeline
from lentic.view import table_view
from lentic.view.files import FileGroupId
from lentic.write.commit import begin_write
from lentic.write.operations import Operation, Request
from lentic.write.run import run_write
from tests.unit.builders import clock_of, new_table, rows
from tests.unit.verbs import COW, MOR

EXAMPLES = int(os.environ.get("LENTIC_EXAMPLES", "400")) // 100
ENGINE = LocalEngine(threads=1)
NBCC = "NON_BLOCKING_CONCURRENCY_CONTROL"
OPTIONS: dict[str, object] = {
    "hoodie.log.compaction.blocks.threshold": 2,
    "hoodie.keep.min.commits": 1,
    "hoodie.keep.max.commits": 2,
    "hoodie.timeline.compaction.batch.size": 3,
}
Rows = Counter[tuple[str, Any, str]]

KEYS = st.sampled_from([("a", "x"), ("b", "x"), ("c", "x"), ("d", "y"), ("e", "y")])
SOME = st.lists(
    st.tuples(KEYS, st.integers(0, 9)), min_size=1, max_size=3, unique_by=lambda r: r[0]
)
PLANNED = st.sampled_from(["compaction", "log_compaction", "clustering"])
STEPS = st.one_of(
    st.tuples(st.just("upsert"), SOME),
    st.tuples(st.just("upsert"), SOME),
    st.tuples(st.sampled_from(["delete", "overwrite", "begin", "finish"]), SOME),
    st.tuples(st.just("drop"), st.sampled_from(["x", "y"])),
    st.tuples(st.just("plan"), PLANNED),
    st.tuples(st.just("execute"), st.none()),
    st.tuples(st.just("run"), PLANNED),
    st.tuples(st.just("run"), PLANNED),
    st.tuples(st.just("archive"), st.none()),
    st.tuples(st.just("clean"), st.integers(1, 6)),
)
WRITES = ("upsert", "delete", "overwrite", "begin", "finish", "drop")


class History:
    """A table, the write that has begun on it, and what was seen at each moment."""

    def __init__(self, table_type: str, buckets: int | None, mode: str) -> None:
        self.opened = new_table(
            table_type=table_type,
            buckets=buckets,
            ordering="v" if mode == NBCC else "",
            options=OPTIONS | {"hoodie.write.concurrency.mode": mode},
        )
        self.table = Table(self.opened, ENGINE)
        self.is_mor, self.is_shared = table_type == MOR, mode == NBCC
        self.begun: Callable[[], object] | None = None
        self.past: dict[CompletedAt, tuple[str, Rows]] = {}
        self.earliest = CompletedAt("0")
        self.done: Counter[str] = Counter()

    def step(self, verb: str, given: Any) -> None:
        clock_of(self.opened).ms += 1_000
        before = self.read()
        self.serve(verb, given) if verb not in WRITES else self.write(verb, given)
        now = self.read()
        assert verb in WRITES or now == before, f"{verb} {given} changed rows"
        self.note(now)
        self.look_back(f"{verb} {given}")

    def write(self, verb: str, given: Any) -> None:
        if verb == "drop":
            if not self.pending():
                self.table.delete_partitions([given])
            return
        values = rows(*((key, value, day) for (key, day), value in given))
        if verb == "upsert":
            self.table.upsert(values)
        elif verb == "delete":
            self.table.delete(values.select(["id", "day"]))
        elif verb == "overwrite" and not self.pending():  # it would end the groups of a plan
            self.table.insert_overwrite(values)
        elif verb == "begin" and self.is_shared and self.begun is None:
            self.begun = self.begin(values)
        elif verb == "finish" and self.begun is not None:
            finish, self.begun = self.begun, None
            with suppress(Conflict):  # its groups were overwritten meanwhile
                finish()

    def begin(self, values: pa.Table) -> Callable[[], object]:
        prepared = prepare(self.opened, ENGINE, values, Request(Operation.UPSERT))
        begun = begin_write(self.opened, Action.DELTACOMMIT)
        return lambda: run_write(self.opened, ENGINE, values, prepared, begun)

    def serve(self, verb: str, given: Any) -> None:
        if verb == "archive":
            self.done["archive"] += len(self.table.archive())
        elif verb == "clean":
            self.clean(given)
        elif verb == "execute":
            self.execute()
        elif self.is_mor or given == "clustering":
            params = {"sort_by": ("v",)} if given == "clustering" else {}
            if self.table.schedule(given, **params) and verb == "run":
                self.execute()

    def execute(self) -> None:
        for plan in self.pending():
            with suppress(Conflict):  # a clustering gives way to writes
                self.table.execute(str(plan.requested_at))
                self.done[plan.action] += 1

    def clean(self, commits: int) -> None:
        options = replace(self.opened.services.clean, commits=commits)
        told = replace(self.opened, services=replace(self.opened.services, clean=options))
        if at := schedule_clean(told):
            execute_clean(told, at)
            self.done["clean"] += 1

    def pending(self) -> list[Any]:
        plans = (Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING)
        return list(load_timeline(self.opened.storage).pending(*plans))

    def note(self, now: Rows) -> None:
        done = load_timeline(self.opened.storage).completed()
        newest = max(done, key=lambda i: str(i.completed_at), default=None)
        if newest and newest.completed_at and newest.completed_at not in self.past:
            self.past[newest.completed_at] = (str(newest.requested_at), now)

    def look_back(self, after: str) -> None:
        self.remember_cleaned()
        for moment, (requested_at, seen) in self.past.items():
            for name in (str(moment), requested_at):
                try:
                    found = self.read(as_of=name)
                except RangeUnavailable:
                    assert moment < self.earliest, f"{name} is refused after {after}"
                    continue
                assert found == seen, f"as of {name}, after {after}"

    def remember_cleaned(self) -> None:
        """Up to where cleans have left the past behind; they may be archived themselves."""
        storage = self.opened.storage
        kept = load_earliest_retained(storage, load_timeline(storage))
        named = [
            i for i in (*self.table.history(), *self.table.timeline()) if i.requested_at == kept
        ]
        self.earliest = max([self.earliest, *(i.completed_at for i in named if i.completed_at)])

    def read(self, **question: Any) -> Rows:
        found = self.table.read(**question).to_pylist()
        return Counter((row["id"], row["v"], row["day"]) for row in found)


SHAPES = {
    "mor-buckets-shared": (MOR, 2, NBCC),
    "mor-buckets": (MOR, 2, "SINGLE_WRITER"),
    "mor-join": (MOR, None, "SINGLE_WRITER"),
    "cow-buckets": (COW, 2, "SINGLE_WRITER"),
    "cow-join": (COW, None, "SINGLE_WRITER"),
}


@pytest.mark.parametrize("shape", SHAPES)
@given(steps=st.lists(STEPS, min_size=6, max_size=20))
@settings(max_examples=EXAMPLES, deadline=None, phases=(Phase.generate,))
def test_no_service_changes_what_was_seen_at_any_moment(
    shape: str, steps: list[tuple[str, Any]]
) -> None:
    history = History(*SHAPES[shape])
    for verb, told in steps:
        history.step(verb, told)
    for verb, told in [("finish", []), ("execute", None), ("run", "compaction")]:
        history.step(verb, told)
    for verb, told in [("run", "clustering"), ("archive", None)]:
        history.step(verb, told)
    assert history.table.verify() == []


SOME_ROWS = [(("a", "x"), 1), (("d", "y"), 2)]
FULL = [
    ("upsert", SOME_ROWS),
    ("begin", SOME_ROWS),
    ("upsert", SOME_ROWS),
    *(("run", service) for service in ("log_compaction", "compaction", "clustering")),
    ("finish", []),
    ("upsert", SOME_ROWS),
    ("archive", None),
    ("clean", 1),
]


def test_a_history_holds_every_service_and_moments_before_and_after_each() -> None:
    """What the property says is said of tables in which each service really did something."""
    met = Counter[str]()
    for shape in SHAPES.values():
        history = History(*shape)
        for verb, told in FULL:
            history.step(verb, told)
        assert len(history.past) >= 4, shape
        met += history.done
    served = (Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING, "archive", "clean")
    assert set(met) == set(served)


def test_a_past_without_the_groups_that_were_clustered_since_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: dict[FileGroupId, CompletedAt] = {}

    def ended_for_ever(writes: table_view.Writes) -> dict[FileGroupId, CompletedAt]:
        ended.update(ended_groups(writes))
        return ended

    ended_groups = table_view.ended_groups
    monkeypatch.setattr(table_view, "ended_groups", ended_for_ever)
    history = History(*SHAPES["cow-join"])
    with pytest.raises(AssertionError, match="as of .* after run clustering"):
        for verb, told in FULL:
            history.step(verb, told)
