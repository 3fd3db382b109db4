"""RFC-66, as readers meet it: each hole that concerns them, by its number in the protocol notes.

The tables are real, in memory; a lock, a clock and a storage that do exactly what the test says.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lentic
from lentic.errors import Corrupt
from lentic.format import layout
from lentic.format.log_block import Header, decode_blocks
from lentic.format.times import RequestedAt
from lentic.storage.base import FileInfo
from lentic.testing.tables import open_on
from lentic.view.slicing import BEGINNING
from lentic.view.table_view import Committed, TableFiles
from lentic.write.commit import begin_write
from tests.rfc.claims import says
from tests.rfc.guard_scenes import Gate, PowerCut, before_its_commit, cut_power
from tests.rfc.rfc66_world import World, slices
from tests.simulation.flows import Rows
from tests.unit.builders import base_file, completed, log_file


@says("rfc66.demo", "N6", "rfc66.order.1")
def test_the_rfcs_demo() -> None:
    """N6: base files at t10 and t60; logs [t21, t40], [t30, t50] and [t35, t90]. The text says
    requested time, the pseudocode completion time; the demo obeys the pseudocode."""
    first, second = base_file(10, 20), base_file(60, 80)
    l1, l2, l3 = log_file(21, 40), log_file(30, 50, version=2), log_file(35, 90, version=3)
    assert slices(first, second, l1, l2, l3) == [
        (str(second.name.requested_at), [l3.path]),
        (str(first.name.requested_at), [l1.path, l2.path]),
    ]


@says("N1")
def test_n1_a_time_and_its_file_are_one_step_so_no_log_slips_before_a_plan() -> None:
    world = World()
    world.finish(world.begin(), {"a0": 1})
    late = world.begin()
    at = world.table.schedule("compaction")
    world.finish(late, {"a0": 2, "b0": 2})
    assert at is not None
    world.table.execute(at)
    assert world.rows() == {"a0": 2, "b0": 2}


@says("N2")
def test_n2_a_plan_holds_every_log_that_completed_before_its_time() -> None:
    world = World()
    for ts in range(3):
        world.finish(world.begin(), {"a0": ts, f"k{ts}0": ts})
    world.table.compact()
    assert all(not part.logs for part in world.table.file_slices())
    assert world.rows() == {"a0": 2, "k00": 0, "k10": 1, "k20": 2}


@says("N3", "rfc66.slices.find", "rfc66.plan.both")
def test_n3_a_log_that_completed_at_the_barrier_itself_belongs_to_the_new_slice() -> None:
    """The plan takes completion < c and the slicer completion >= c: together all, once."""
    base = base_file(10, 20)
    at_barrier = log_file(5, 10)
    assert slices(base, at_barrier) == [(str(base.name.requested_at), [at_barrier.path])]


@says("N3", "rfc66.time.rise", "P1")
def test_n3_no_two_times_of_a_table_are_equal_even_within_one_millisecond() -> None:
    world = World()
    for ts in range(5):
        world.finish(world.begin(), {"a0": ts})
    instants = world.table.timeline()
    times = [t for i in instants for t in (str(i.requested_at), str(i.completed_at))]
    assert len(set(times)) == len(times)


@says("N4", "rfc66.slices.barriers")
def test_n4_a_base_file_of_a_pending_compaction_is_no_barrier() -> None:
    world = World()
    world.finish(world.begin(), {"a0": 1})
    at = world.table.schedule("compaction")
    [part] = world.table.file_slices()
    stray = f"{part.group.partition}/{part.group.file_id}_0-9-9_{at}.parquet"
    world.storage.put_if_absent(stray, b"half a file")
    assert world.rows() == {"a0": 1}


@says("N5", "rfc66.slices.first", "P6")
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


@says("N5", "rfc66.slices.first")
def test_n5_logs_from_before_the_first_base_file_keep_a_slice_of_their_own() -> None:
    base, early = base_file(10, 20), log_file(1, 2)
    assert slices(base, early)[-1] == (str(BEGINNING), [early.path])


@says("N5", "rfc66.travel.prune", "rfc66.travel.slice", "P21")
def test_n5_time_travel_before_the_first_compaction_still_works() -> None:
    world = World()
    first = world.finish(world.begin(), {"a0": 1})
    world.finish(world.begin(), {"a0": 2})
    world.table.compact()
    assert world.rows(as_of=first.requested_at) == {"a0": 1}
    assert world.rows() == {"a0": 2}


@says("N7", "P7")
def test_n7_an_archive_that_does_not_read_is_an_error_never_a_guess() -> None:
    world = World()
    done = world.finish(world.begin(), {"a0": 1})
    for file in world.storage.list_files(layout.TIMELINE):
        world.storage.delete(file.path)
    world.storage.put_if_absent(f"{layout.HISTORY}/manifest_1", b'{"files": [{"fileName": "x"}]}')
    with pytest.raises(Corrupt):
        world.table.read()
    assert done.completed_at


@says("N9", "rfc66.compact.event", "R17", "P22")
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


@says("N12", "rfc66.plan.slice")
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


@says("N14", "rfc66.travel.slice", "rfc66.travel.prune")
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


@says("N15", "P23")
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


@says("N16")
def test_n16_a_writer_with_another_bucket_count_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    lentic.create(path, "id string", key="id", buckets=2)
    with pytest.raises(lentic.ConfigError, match="contradicts"):
        lentic.open(path, options={"hoodie.bucket.index.num.buckets": 5})


# --- the appendix: time travel and changes ------------------------------------------------------


@says("rfc66.travel.moment", "rfc66.travel.none")
def test_a_moment_between_writes_shows_the_last_that_had_completed() -> None:
    world = World()
    first = world.finish(world.begin(), {"a0": 1})
    world.sim.now_ms += 10_000
    second = world.finish(world.begin(), {"a0": 2, "b1": 2})
    between = str(int(first.completed_at) + 5_000)
    assert first.completed_at < between < second.requested_at
    assert world.rows(as_of=between) == {"a0": 1}
    assert world.rows(as_of=first.completed_at) == {"a0": 1}, "the moment itself counts"
    assert world.rows(as_of=second.completed_at) == {"a0": 2, "b1": 2}
    assert world.rows(as_of="2000-01-01") == {}


@says("rfc66.changes.window", "rfc66.changes.late")
def test_a_write_is_in_the_window_in_which_it_completed() -> None:
    world = World()
    slow = world.begin()
    first = world.finish(world.begin(), {"a0": 1})
    late = world.finish(slow, {"b0": 2})
    assert late.requested_at < first.requested_at

    def changed(**window: str) -> set[str]:
        return {row["id"] for row in world.table.changes(**window).to_pylist()}

    assert changed(after="000", upto=first.completed_at) == {"a0"}
    assert changed(after=first.completed_at) == {"b0"}
    assert changed(after=first.completed_at, upto=late.completed_at) == {"b0"}
    assert changed(after=late.completed_at) == set()


@says("rfc66.changes.rows", "rfc66.changes.committed")
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_of_files_in_the_window_only_the_rows_it_wrote_are_given(table_type: str) -> None:
    world = World(table_type)
    first = world.finish(world.begin(), {"a0": 1, "b0": 1})
    world.finish(world.begin(), {"b0": 2})
    world.begin()  # and never ends
    found = world.table.changes(after=first.completed_at).to_pylist()
    assert [(row["id"], row["ts"]) for row in found] == [("b0", 2)]


# --- log compactions ----------------------------------------------------------------------------


@says("N13", "rfc66.slices.folded")
@pytest.mark.parametrize("ends", ["pending", "dies", "rolled back", "completes"])
def test_n13_only_a_completed_log_compaction_stands_for_the_logs_it_folded(ends: str) -> None:
    world = World()
    for ts in range(3):
        world.finish(world.begin(), {"a0": ts})
    options = {"hoodie.log.compaction.blocks.threshold": 2}
    table = open_on(world.storage, world.sim.world("x"), world.lock, options)
    at = table.schedule("log_compaction")
    assert at is not None
    expected = {"a0": 2}
    if ends == "dies":
        gate = Gate(world.storage, before_its_commit, cut_power)
        dead = open_on(gate, world.sim.world("dead"), world.lock, options)
        with pytest.raises(PowerCut):
            dead.execute(at)
    elif ends == "rolled back":
        table.rollback(at)
    elif ends == "completes":
        table.execute(at)
    (part,) = table.file_slices()
    assert len(part.logs) == (4 if ends == "completes" else 3)
    assert world.rows() == expected
    blocks = [
        block
        for log in part.logs
        for block in decode_blocks(world.storage.read(log.path), log.path)
    ]
    stands_for = [block for block in blocks if Header.COMPACTED_BLOCK_TIMES in block.headers]
    assert len(stands_for) == (1 if ends == "completes" else 0)
    table.compact()
    assert world.rows() == expected


@says("P21")
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_past_moment_shows_the_same_rows_whatever_services_ran_since(table_type: str) -> None:
    world = World(table_type)
    expected: dict[str, Rows] = {}
    for ts in range(1, 9):
        done = world.finish(world.begin(), {"a0": ts, f"k{ts}0": ts, f"m{ts}1": ts})
        expected[str(done.completed_at)] = world.rows()
        if ts == 3 and table_type == "MERGE_ON_READ":
            world.table.compact()
        if ts == 5:
            world.table.cluster(sort_by="ts")
    small = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    archiver = open_on(world.storage, world.sim.world("archiver"), world.lock, small)
    for service in (lambda: world.table.cluster(sort_by="id"), archiver.archive):
        service()
        assert {at: world.rows(as_of=at) for at in expected} == expected
    assert archiver.history(), "something was archived"
