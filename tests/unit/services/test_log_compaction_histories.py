"""Any history with log compactions in it gives the rows of the same history without, always (P21).

Two tables get the same writes and compactions; one of them gets log compactions between. Writers
may overlap: a write may begin, and complete after others, log compactions among them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lentic.engine import LocalEngine
from lentic.format.commit_metadata import LOG_COMPACT
from lentic.format.names import Action
from lentic.format.times import RequestedAt
from lentic.ingest.flow import prepare
from lentic.services.log_compaction import execute_log_compaction, schedule_log_compaction
from lentic.table import Table
from lentic.timeline.reader import load_commit_metadata, load_timeline
from lentic.write.commit import begin_write
from lentic.write.operations import Operation, Request
from lentic.write.run import run_write
from tests.unit.builders import new_table

ENGINE = LocalEngine(threads=1)
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.float64()),
        ("v", pa.int64()),
        ("_hoodie_is_deleted", pa.bool_()),
        ("day", pa.string()),
    ]
)
Seen = list[tuple[Any, ...]]


class Life:
    """A table, the writes that have begun on it, and what was seen after each write."""

    def __init__(self, ordering: str, mode: str, *, folds: bool) -> None:
        options: dict[str, object] = {
            "hoodie.write.concurrency.mode": mode,
            "hoodie.log.compaction.blocks.threshold": 2,
        }
        opened = new_table(schema=SCHEMA, ordering=ordering, buckets=1, options=options)
        self.table = Table(opened, ENGINE)
        self.folds = folds
        self.begun: Callable[[], object] | None = None
        self.planned: RequestedAt | None = None
        self.writes = 0
        self.folded = 0

    def step(self, kind: str, keys: list[tuple[str, float, bool]]) -> None:
        match kind:
            case "upsert":
                self.table.upsert(self.rows(keys))
            case "delete":
                self.table.delete(self.rows(keys))
            case "begin" if self.begun is None:
                self.begun = self.begin(self.rows(keys))
            case "finish" if self.begun is not None:
                self.begun()
                self.begun = None
            case "compact":
                self.execute()
                self.table.compact()
            case "plan" if self.folds:
                self.planned = schedule_log_compaction(self.table._opened)
            case "fold" if self.folds:
                self.planned = self.planned or schedule_log_compaction(self.table._opened)
                self.execute()

    def execute(self) -> None:
        if self.planned is not None:
            execute_log_compaction(self.table._opened, ENGINE, self.planned)
            self.planned = None
            self.folded += 1

    def rows(self, keys: list[tuple[str, float, bool]]) -> pa.Table:
        self.writes += 1
        found = [
            {"id": key, "ts": ts, "v": self.writes, "_hoodie_is_deleted": gone, "day": "mon"}
            for key, ts, gone in keys
        ]
        return pa.Table.from_pylist(found, SCHEMA)

    def begin(self, rows: pa.Table) -> Callable[[], object]:
        opened = self.table._opened
        prepared = prepare(opened, ENGINE, rows, Request(Operation.UPSERT))
        begun = begin_write(opened, Action.DELTACOMMIT)
        return lambda: run_write(opened, ENGINE, rows, prepared, begun)

    def story(self) -> list[Seen]:
        """What was to be seen after each write and compaction, by time travel from now."""
        storage = self.table._opened.storage
        return [
            self.seen(str(instant.completed_at))
            for instant in load_timeline(storage).writes()
            if load_commit_metadata(storage, instant).operation != LOG_COMPACT
        ]

    def seen(self, as_of: str | None = None) -> Seen:
        found = self.table.read(as_of=as_of).to_pylist()
        return sorted((row["id"], row["ts"], row["v"]) for row in found)


KEYS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from([-1.5, -0.0, 0.0, 1.0, 2.5]), st.booleans()),
    min_size=1,
    max_size=3,
    unique_by=lambda row: row[0],
)
KINDS = st.sampled_from(
    ["upsert", "upsert", "delete", "begin", "finish", "compact", "plan", "fold", "fold"]
)
SHARED = "NON_BLOCKING_CONCURRENCY_CONTROL"
ALONE = "SINGLE_WRITER"


@pytest.mark.parametrize(("ordering", "mode"), [("ts", SHARED), ("ts", ALONE), ("", ALONE)])
@given(steps=st.lists(st.tuples(KINDS, KEYS), min_size=4, max_size=14))
@settings(max_examples=25, deadline=None)
def test_log_compactions_change_no_row_at_any_moment(
    ordering: str, mode: str, steps: list[tuple[str, list[tuple[str, float, bool]]]]
) -> None:
    plain, folding = (Life(ordering, mode, folds=folds) for folds in (False, True))
    for kind, keys in steps:
        if mode == ALONE and kind in ("begin", "finish"):
            continue
        for life in (plain, folding):
            life.step(kind, keys)
        assert folding.seen() == plain.seen(), kind
    for life in (plain, folding):
        life.step("finish", [])
        life.execute()
    assert folding.story() == plain.story()


def test_the_histories_are_not_empty() -> None:
    """What the property says of such steps is said of a table with folded logs, twice."""
    life = Life("ts", SHARED, folds=True)
    for kind in ("upsert", "begin", "upsert", "plan", "upsert", "finish", "fold", "upsert", "fold"):
        life.step(kind, [("a", 1.0, False), ("b", 1.0, True)])
    assert life.folded == 2
    assert len(life.story()) == 5
