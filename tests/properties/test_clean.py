"""Cleaning against what was readable before it: whatever the history, nothing retained changes.

A history is a mixture of writes that change, delete and replace rows, of compactions that are
planned, executed or left pending, of savepoints, and of cleans with any retention. Before each
clean the rows as of every commit are noted; after it, all from the retained commit on must read the
same, the current ones too, earlier ones the same or be refused, and savepoints keep their files.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lentic.config.retention import CleanPolicy
from lentic.engine import LocalEngine
from lentic.errors import RangeUnavailable, Refused
from lentic.format.names import Action
from lentic.format.times import CompletedAt, RequestedAt
from lentic.services.clean import execute_clean, schedule_clean
from lentic.services.compaction import execute_compaction, schedule_compaction
from lentic.services.protected import load_protected
from lentic.services.savepoint import make_savepoint
from lentic.services.verify import verify_table
from lentic.table import Table
from lentic.timeline.reader import load_earliest_retained, load_timeline
from lentic.txn.transaction import OpenTable
from tests.rfc.claims import says
from tests.unit.builders import clock_of, new_table, rows
from tests.unit.verbs import COW, MOR

EXAMPLES = int(os.environ.get("LENTIC_EXAMPLES", "60"))
HOUR_MS = 3_600_000
ENGINE = LocalEngine(threads=1)
Rows = Counter[tuple[str, Any, str]]

KEYS = st.sampled_from([("a", "x"), ("b", "x"), ("c", "x"), ("d", "y"), ("e", "y")])
SOME = st.lists(KEYS, min_size=1, max_size=3, unique=True)
STEPS = st.one_of(
    st.tuples(st.just("upsert"), SOME),
    st.tuples(st.just("upsert"), SOME),
    st.tuples(st.just("delete"), SOME),
    st.tuples(st.just("overwrite"), SOME),
    st.tuples(st.just("drop"), st.sampled_from(["x", "y"])),
    st.tuples(st.just("plan"), st.none()),
    st.tuples(st.just("compact"), st.none()),
    st.tuples(st.just("wait"), st.integers(1, 3)),
    st.tuples(st.just("save"), st.integers(0, 5)),
    st.tuples(st.just("clean"), st.tuples(st.sampled_from(CleanPolicy), st.integers(1, 4))),
)


class History:
    """A table, and what is known of it from outside."""

    def __init__(self, table_type: str, buckets: int | None) -> None:
        self.opened: OpenTable = new_table(table_type=table_type, buckets=buckets)
        self.table = Table(self.opened, ENGINE)
        self.is_mor = table_type == MOR
        self.value = 0

    def step(self, verb: str, given: Any) -> None:
        self.value += 1
        some = [] if given is None or isinstance(given, (str, int, tuple)) else given
        values = rows(*((key, self.value, day) for key, day in some))
        if verb == "upsert":
            self.table.upsert(values)
        elif verb == "delete":
            self.table.delete(values.select(["id", "day"]))
        elif verb in ("overwrite", "drop"):
            self.replace(verb, values, given)
        elif verb == "wait":
            clock_of(self.opened).ms += given * HOUR_MS
        elif verb in ("plan", "compact") and self.is_mor:
            at = schedule_compaction(self.opened)
            if at and verb == "compact":
                execute_compaction(self.opened, ENGINE, at)
        elif verb == "save":
            self.save(given)
        elif verb == "clean":
            self.clean(*given)

    def replace(self, verb: str, values: pa.Table, partition: str) -> None:
        """End file groups, unless a plan is for one: that plan could not be executed any more."""
        if load_timeline(self.opened.storage).pending(Action.COMPACTION):
            return
        if verb == "overwrite":
            self.table.insert_overwrite(values)
        else:
            self.table.delete_partitions([partition])

    def save(self, back: int) -> None:
        writes = load_timeline(self.opened.storage).writes()
        if writes:
            with suppress(Refused):  # what has been cleaned cannot be held
                make_savepoint(self.opened, writes[max(0, len(writes) - 1 - back)].requested_at)

    def earliest(self) -> CompletedAt:
        """The first moment as of which the table says it can be read."""
        timeline = load_timeline(self.opened.storage)
        kept = load_earliest_retained(self.opened.storage, timeline)
        return timeline.completions()[kept] if kept else CompletedAt("0")

    def clean(self, policy: CleanPolicy, number: int) -> None:
        counts = {"commits": number, "hours": number, "versions": number}
        options = replace(self.opened.services.clean, policy=policy, **counts)
        told = replace(self.opened, services=replace(self.opened.services, clean=options))
        now, then = self.read(), self.states()
        timeline = load_timeline(self.opened.storage)
        held = {
            path: self.opened.storage.read(path)
            for path in load_protected(self.opened.storage, timeline)
        }
        if at := schedule_clean(told):
            execute_clean(told, at)
        assert self.read() == now
        assert {path: self.opened.storage.read(path) for path in held} == held
        assert verify_table(self.opened.storage) == []
        earliest = self.earliest()
        after = self.states()
        for moment, seen in then.items():
            if seen is not None and moment >= earliest and policy is not self.VERSIONS:
                assert after[moment] == seen, f"{moment} was retained"
            assert after[moment] in (seen, None), f"{moment} reads otherwise"
        writes = timeline.writes()
        if policy is CleanPolicy.KEEP_LATEST_COMMITS and writes:
            for write in writes[-number:]:
                assert write.completed_at
                assert after[write.completed_at] == then[write.completed_at], "told to retain"

    VERSIONS = CleanPolicy.KEEP_LATEST_FILE_VERSIONS

    def states(self) -> dict[CompletedAt, Rows | None]:
        """The rows as of every commit; None where they have been cleaned."""
        moments = load_timeline(self.opened.storage).completions().values()
        return {moment: self.read_as_of(moment) for moment in moments}

    def read_as_of(self, moment: CompletedAt) -> Rows | None:
        try:
            return self.read(as_of=str(moment))
        except RangeUnavailable:
            return None

    def read(self, **question: Any) -> Rows:
        found = self.table.read(**question).to_pylist()
        return Counter((row["id"], row["v"], row["day"]) for row in found)


@says("P17")
@given(
    table_type=st.sampled_from([COW, MOR]),
    buckets=st.sampled_from([2, None]),
    steps=st.lists(STEPS, min_size=4, max_size=16),
)
@settings(max_examples=EXAMPLES, deadline=None)
def test_cleaning_changes_nothing_that_is_retained(
    table_type: str, buckets: int | None, steps: list[tuple[str, Any]]
) -> None:
    history = History(table_type, buckets)
    for verb, given_ in steps:
        history.step(verb, given_)
    for number in (2, 1):
        history.clean(CleanPolicy.KEEP_LATEST_COMMITS, number)
    now = history.read()
    for plan in load_timeline(history.opened.storage).pending(Action.COMPACTION):
        execute_compaction(history.opened, ENGINE, RequestedAt(plan.requested_at))
    assert history.read() == now, "a plan finds all that it names"
    assert verify_table(history.opened.storage) == []
