"""RFC-66, as readers meet it: each hole that concerns them, by its number in the protocol notes.

The tables are real, in memory; a lock, a clock and a storage that do exactly what the test says.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lentic
from lentic.errors import Corrupt
from lentic.format import layout
from lentic.format.times import RequestedAt
from lentic.storage.base import FileInfo
from lentic.table import Table
from lentic.testing.simulation import Simulation
from lentic.testing.tables import open_on
from lentic.view.files import BaseFile, FileGroupId, LogFile
from lentic.view.slicing import BEGINNING, slice_file_group
from lentic.view.table_view import Committed, TableFiles
from lentic.write.commit import begin_write
from tests.simulation.flows import Rows, arrow, create
from tests.unit.builders import base_file, completed, log_file
from tests.unit.write.attempts import begin, finish

GROUP = FileGroupId("p", "fg")


class World:
    """One table and what its users do to it, step by step."""

    def __init__(self, table_type: str = "MERGE_ON_READ") -> None:
        self.sim = Simulation(0)
        self.lock = self.sim.lock()
        self.storage = self.sim.memory
        create(table_type)(self.storage, self.sim.world("setup"), self.lock)

    @property
    def table(self) -> Table:
        return open_on(self.storage, self.sim.world("user"), self.lock)

    def begin(self) -> Any:
        return begin(self.table._opened)

    def finish(self, begun: Any, rows: Rows) -> Any:
        return finish(self.table._opened, arrow(rows), begun)

    def rows(self, **question: Any) -> Rows:
        found = self.table.read(**question).to_pylist()
        assert len({row["id"] for row in found}) == len(found)
        return {row["id"]: row["ts"] for row in found}


def slices(*files: BaseFile | LogFile) -> list[tuple[str, list[str]]]:
    bases = [file for file in files if isinstance(file, BaseFile)]
    logs = [file for file in files if isinstance(file, LogFile)]
    group = slice_file_group(GROUP, bases, logs)
    return [(str(part.barrier), [log.path for log in part.logs]) for part in group.slices]


def test_the_rfcs_demo() -> None:
    """N6: base files at t10 and t60; logs [t21, t40], [t30, t50] and [t35, t90]. The text says
    requested time, the pseudocode completion time; the demo obeys the pseudocode."""
    first, second = base_file(10, 20), base_file(60, 80)
    l1, l2, l3 = log_file(21, 40), log_file(30, 50, version=2), log_file(35, 90, version=3)
    assert slices(first, second, l1, l2, l3) == [
        (str(second.name.requested_at), [l3.path]),
        (str(first.name.requested_at), [l1.path, l2.path]),
    ]


def test_n1_a_time_and_its_file_are_one_step_so_no_log_slips_before_a_plan() -> None:
    world = World()
    world.finish(world.begin(), {"a0": 1})
    late = world.begin()
    at = world.table.schedule("compaction")
    world.finish(late, {"a0": 2, "b0": 2})
    assert at is not None
    world.table.execute(at)
    assert world.rows() == {"a0": 2, "b0": 2}


def test_n2_a_plan_holds_every_log_that_completed_before_its_time() -> None:
    world = World()
    for ts in range(3):
        world.finish(world.begin(), {"a0": ts, f"k{ts}0": ts})
    world.table.compact()
    assert all(not part.logs for part in world.table.file_slices())
    assert world.rows() == {"a0": 2, "k00": 0, "k10": 1, "k20": 2}


def test_n3_a_log_that_completed_at_the_barrier_itself_belongs_to_the_new_slice() -> None:
    """The plan takes completion < c and the slicer completion >= c: together all, once."""
    base = base_file(10, 20)
    at_barrier = log_file(5, 10)
    assert slices(base, at_barrier) == [(str(base.name.requested_at), [at_barrier.path])]


def test_n3_no_two_times_of_a_table_are_equal_even_within_one_millisecond() -> None:
    world = World()
    for ts in range(5):
        world.finish(world.begin(), {"a0": ts})
    instants = world.table.timeline()
    times = [t for i in instants for t in (str(i.requested_at), str(i.completed_at))]
    assert len(set(times)) == len(times)


def test_n4_a_base_file_of_a_pending_compaction_is_no_barrier() -> None:
    world = World()
    world.finish(world.begin(), {"a0": 1})
    at = world.table.schedule("compaction")
    [part] = world.table.file_slices()
    stray = f"{part.group.partition}/{part.group.file_id}_0-9-9_{at}.parquet"
    world.storage.put_if_absent(stray, b"half a file")
    assert world.rows() == {"a0": 1}


def test_n5_a_pending_first_log_does_not_hide_the_group() -> None:
    world = World()
    never = world.begin()
    world.storage.put_if_absent(
        f"p0/.00000000-0000-0000-0000-000000000000-0_{never.instant.requested_at}.log.1_0-9-9",
        b"unfinished",
    )
    begun = begin_write(world.table._opened, never.instant.action)
    world.finish(begun, {"a0": 1, "b0": 1})
    assert world.rows() == {"a0": 1, "b0": 1}


def test_n5_logs_from_before_the_first_base_file_keep_a_slice_of_their_own() -> None:
    base, early = base_file(10, 20), log_file(1, 2)
    assert slices(base, early)[-1] == (str(BEGINNING), [early.path])


def test_n5_time_travel_before_the_first_compaction_still_works() -> None:
    world = World()
    first = world.finish(world.begin(), {"a0": 1})
    world.finish(world.begin(), {"a0": 2})
    world.table.compact()
    assert world.rows(as_of=first.requested_at) == {"a0": 1}
    assert world.rows() == {"a0": 2}


def test_n7_an_archive_that_does_not_read_is_an_error_never_a_guess() -> None:
    world = World()
    done = world.finish(world.begin(), {"a0": 1})
    for file in world.storage.list_files(layout.TIMELINE):
        world.storage.delete(file.path)
    world.storage.put_if_absent(f"{layout.HISTORY}/manifest_1", b'{"files": [{"fileName": "x"}]}')
    with pytest.raises(Corrupt):
        world.table.read()
    assert done.completed_at


@pytest.mark.parametrize("compacts", [False, True])
def test_n9_the_winner_does_not_depend_on_whether_compaction_ran_in_between(compacts: bool) -> None:
    world = World()
    world.finish(world.begin(), {"a0": 1})
    early = world.begin()
    late = world.begin()
    world.finish(late, {"a0": 7})
    if compacts:
        world.table.compact()
    world.finish(early, {"a0": 5})
    assert world.rows() == {"a0": 7}


def test_n12_a_write_requested_before_a_compaction_and_completed_after_it_is_in_the_new_slice() -> (
    None
):
    world = World()
    world.finish(world.begin(), {"a0": 1})
    slow = world.begin()
    world.table.compact()
    world.finish(slow, {"a0": 2})
    [part] = world.table.file_slices()
    assert part.base and len(part.logs) == 1
    assert str(part.logs[0].name.requested_at) < str(part.base.name.requested_at)
    assert world.rows() == {"a0": 2}


def test_n14_between_plan_and_completion_of_a_compaction_the_old_slice_is_read() -> None:
    base, log = base_file(10, 11), log_file(12, 13)
    compacted, after = base_file(20, 40), log_file(25, 30)
    files = (base, log, compacted, after)
    writes = {
        RequestedAt(str(f.name.requested_at)): Committed(f.completed_at, frozenset({f.path}))
        for f in files
    }
    table = TableFiles(tuple(FileInfo(f.path, 1, 0) for f in files), writes)
    at = [table.groups(completed(moment))[0].latest.paths for moment in (13, 35, 40)]
    assert at == [
        (base.path, log.path),
        (base.path, log.path, after.path),
        (compacted.path, after.path),
    ]


def test_n15_readers_that_go_on_from_their_last_time_get_every_commit_once() -> None:
    world = World()
    seen: list[Rows] = []
    after = "000"
    for ts in range(4):
        commit = world.finish(world.begin(), {"a0": ts, f"k{ts}0": ts})
        found: pa.Table = world.table.changes(after=after)
        seen.append({row["id"]: row["ts"] for row in found.to_pylist()})
        after = commit.completed_at
    assert seen == [{"a0": ts, f"k{ts}0": ts} for ts in range(4)]
    assert world.table.changes(after=after).num_rows == 0


def test_n16_a_writer_with_another_bucket_count_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    lentic.create(path, "id string", key="id", buckets=2)
    with pytest.raises(lentic.ConfigError, match="contradicts"):
        lentic.open(path, options={"hoodie.bucket.index.num.buckets": 5})
