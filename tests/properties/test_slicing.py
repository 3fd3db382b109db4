"""Slicing against a replay: whatever the interleaving, slices hold exactly the committed rows.

A history is a set of writes and compactions on one file group, each with a requested and perhaps a
completion time, in any order the protocol allows. The model knows no files: it applies the
completed writes in the order in which they completed. The engine's side knows only files: each log
holds what its write wrote; each base file holds what a compaction found when it read the slice its
plan names. Reading the slice that the view shows must give the model's rows, at every moment.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from lentic.format.names import BaseFileName, LogFileName, format_base_file, format_log_file
from lentic.format.times import CompletedAt, RequestedAt, is_before
from lentic.storage.base import FileInfo
from lentic.view.files import FileSlice
from lentic.view.table_view import Committed, TableFiles
from tests.rfc.claims import says

EXAMPLES = int(os.environ.get("LENTIC_EXAMPLES", "1500"))
Rows = dict[str, int]


@dataclass(frozen=True)
class Action:
    """One write or compaction; times are positions in one order, as a table issues them."""

    is_compaction: bool
    requested: int
    completed: int | None
    keys: tuple[str, ...]

    @property
    def path(self) -> str:
        at = RequestedAt(stamp(self.requested))
        if self.is_compaction:
            return "p/" + format_base_file(BaseFileName("fg", "0-0-0", at))
        return "p/" + format_log_file(LogFileName("fg", at, 1, "0-0-0"))


def stamp(position: int) -> str:
    return f"{20260101000000000 + position}"


@st.composite
def histories(draw: st.DrawFn) -> list[Action]:
    """Actions whose requested and completion times are all different and properly nested."""
    count = draw(st.integers(1, 8))
    order = draw(st.permutations(range(2 * count)))
    actions = []
    compacted_until = -1
    pairs = sorted(tuple(sorted(order[2 * i : 2 * i + 2])) for i in range(count))
    for requested, completed in pairs:
        # Two compactions of a group never overlap: the planner skips groups with a pending plan.
        may_compact = requested > compacted_until
        is_compaction = may_compact and draw(st.integers(0, 2)) == 0
        is_done = draw(st.integers(0, 5)) > 0
        if is_compaction:
            compacted_until = completed if is_done else 2 * count
        keys = draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True))
        actions.append(
            Action(is_compaction, requested, completed if is_done else None, tuple(keys))
        )
    return actions


def view(actions: list[Action], upto: int) -> FileSlice | None:
    """The slice a reader sees as of `upto`. Files of pending actions lie there all the same."""
    writes = {
        RequestedAt(stamp(a.requested)): Committed(
            CompletedAt(stamp(a.completed)), frozenset({a.path})
        )
        for a in actions
        if a.completed is not None
    }
    files = tuple(FileInfo(action.path, 1, 0) for action in actions)
    groups = TableFiles(files, writes).groups(CompletedAt(stamp(upto)))
    return groups[0].latest if groups else None


def read(part: FileSlice | None, logs: dict[str, Rows], bases: dict[str, Rows]) -> Rows:
    if part is None:
        return {}
    rows = dict(bases[part.base.path]) if part.base else {}
    for log in part.logs:
        rows |= logs[log.path]
    return rows


def replay(actions: list[Action], upto: int) -> Rows:
    done = [a for a in actions if not a.is_compaction and a.completed is not None]
    rows: Rows = {}
    for action in sorted(done, key=lambda a: a.completed or 0):
        if action.completed is not None and action.completed <= upto:
            rows |= dict.fromkeys(action.keys, action.requested)
    return rows


@says("rfc66.commit.readers", "rfc66.plan.both", "R10", "P5")
@settings(max_examples=EXAMPLES, deadline=None)
@given(histories())
def test_the_slice_holds_exactly_the_committed_rows_at_every_moment(actions: list[Action]) -> None:
    logs = {a.path: dict.fromkeys(a.keys, a.requested) for a in actions if not a.is_compaction}
    bases: dict[str, Rows] = {}
    for action in actions:
        if action.is_compaction:
            # The plan is made at the requested time and names what had completed before it (R12).
            bases[action.path] = read(view(actions, action.requested), logs, bases)
    moments = sorted({a.completed for a in actions if a.completed is not None})
    for upto in (-1, *moments, 2 * len(actions)):
        part = view(actions, upto)
        assert read(part, logs, bases) == replay(actions, upto), upto


@says("rfc66.slices.one", "R10", "P5")
@settings(max_examples=EXAMPLES, deadline=None)
@given(histories())
def test_every_completed_log_is_in_exactly_one_slice_and_after_its_barrier(
    actions: list[Action],
) -> None:
    done = [a for a in actions if a.completed is not None]
    writes = {
        RequestedAt(stamp(a.requested)): Committed(
            CompletedAt(stamp(a.completed or 0)), frozenset({a.path})
        )
        for a in done
    }
    groups = TableFiles(tuple(FileInfo(a.path, 1, 0) for a in actions), writes).groups()
    found = [log for group in groups for part in group.slices for log in part.logs]
    assert sorted(log.path for log in found) == sorted(a.path for a in done if not a.is_compaction)
    for group in groups:
        for part in group.slices:
            assert all(not is_before(log.completed_at, part.barrier) for log in part.logs)
            assert part.base is None or part.base.name.requested_at == part.barrier
