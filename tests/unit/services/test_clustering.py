"""Clustering changes no row: groups end and begin at one moment, and rows keep all they have."""

from __future__ import annotations

import itertools
import pickle
import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lentic.config.clustering import Curve
from lentic.engine import LocalEngine
from lentic.errors import ConfigError, SchemaMismatch
from lentic.format.names import Action, State
from lentic.format.record_fields import COMMIT_SEQNO, COMMIT_TIME, FILE_NAME, RECORD_KEY
from lentic.services.clustering import execute_clustering
from lentic.services.log_compaction import schedule_log_compaction
from lentic.services.outcome import AlreadyCommitted
from lentic.services.schedule import planned_groups
from lentic.table import Table
from lentic.testing.checkers import check_table, list_leftovers
from lentic.timeline.reader import load_commit_metadata, load_timeline
from tests.rfc.claims import says
from tests.unit import partial_tables
from tests.unit.builders import data_paths, rows
from tests.unit.services.clusterings import (
    cluster,
    execute,
    opened,
    pending,
    plan_at,
    schedule,
    storage_of,
)
from tests.unit.verbs import EVERY, JOINED, KINDS, found, groups, make_table

MOR_JOINED, COW_JOINED = "MERGE_ON_READ None", "COPY_ON_WRITE None"
BUCKETED = pytest.mark.parametrize("kind", [kind for kind, (_, n) in KINDS.items() if n])


def filled(kind: str, **options: object) -> Table:
    """Two inserts, two upserts and a delete: several slices a partition, logs if there are any."""
    table = make_table(kind, hoodie__parquet__small__file__limit=0, **options)
    dice = random.Random(5)
    for start in (0, 30):
        batch = [
            (f"k{n:02}", None if n % 7 == 0 else dice.randrange(100), f"d{n % 2}")
            for n in range(start, start + 30)
        ]
        table.insert(rows(*batch))
    table.upsert(rows(("k01", 1000, "d1"), ("new", 7, "d0")))
    table.delete(rows(("k02", 0, "d0")).select(["id", "day"]))
    return table


def stored(table: Table) -> list[tuple[object, ...]]:
    """All that rows have but the file they lie in."""
    read = table.read(meta=True).drop_columns([FILE_NAME])
    return sorted(tuple(row.values()) for row in read.to_pylist())


@EVERY
@pytest.mark.parametrize("curve", list(Curve))
def test_a_clustering_changes_no_row(kind: str, curve: Curve) -> None:
    table = filled(kind)
    before, times = (
        stored(table),
        {c.completed_at for c in load_timeline(storage_of(table)).writes()},
    )
    at_each = {str(time): found(table, as_of=str(time)) for time in sorted(times, key=str)}
    done = cluster(table, sort_by=("v", "id"), curve=curve)
    assert done.action is Action.REPLACECOMMIT and done.state is State.COMPLETED
    assert stored(table) == before, "commit times, sequence numbers and keys stay, too"
    for time, was in at_each.items():
        assert found(table, as_of=time) == was, "time travel"
    assert check_table(storage_of(table)) == [] and list_leftovers(storage_of(table)) == []
    table.upsert(rows(("k01", 2000, "d1"), ("k03", 3000, "d1"), ("k99", 1, "d0")))
    seen = {key: value for key, value, _ in found(table)}
    assert (seen["k01"], seen["k03"], seen["k99"]) == (2000, 3000, 1)
    assert sum(found(table).values()) == len(before) + 1


@JOINED
def test_groups_end_and_others_begin_with_one_file(kind: str) -> None:
    table = filled(kind)
    old = groups(table)
    at = schedule(table, sort_by=("v",))
    assert plan_at(table, at).file_groups() == old
    assert groups(table) == old, "a plan changes nothing"
    done = execute(table, at).instant
    metadata = load_commit_metadata(storage_of(table), done)
    assert metadata.operation == "CLUSTER" and not metadata.compacted
    ended = {(p, file_id) for p, ids in metadata.replaced.items() for file_id in ids}
    assert ended == old and not groups(table) & old
    assert len(groups(table)) == 2, "one file a partition"
    for part in table.file_slices():
        assert part.base and not part.logs
        names = pq.read_table(storage_of(table).open_input(part.base.path)).column(FILE_NAME)
        assert set(names.to_pylist()) == {part.base.path.rpartition("/")[2]}
    assert execute(table, at) == AlreadyCommitted(done)


@BUCKETED
def test_in_buckets_every_group_stays_and_is_sorted(kind: str) -> None:
    table = filled(kind)
    old = groups(table)
    done = cluster(table, sort_by=("v",))
    assert groups(table) == old
    assert load_commit_metadata(storage_of(table), done).replaced == {}
    for part in table.file_slices():
        assert part.base and part.base.name.requested_at == done.requested_at and not part.logs
        values = pq.read_table(storage_of(table).open_input(part.base.path)).column("v").to_pylist()
        assert values == sorted(values, key=lambda v: (v is None, v))


@BUCKETED
def test_in_buckets_without_a_sort_there_is_nothing_to_do(kind: str) -> None:
    table = filled(kind)
    with pytest.raises(AssertionError, match="something to cluster"):
        schedule(table)


@JOINED
@pytest.mark.parametrize("sort_by", [(), ("v",)])
def test_files_have_the_target_size(kind: str, sort_by: tuple[str, ...]) -> None:
    table = make_table(
        kind,
        hoodie__parquet__small__file__limit=0,
        hoodie__clustering__plan__strategy__target__file__max__bytes=20_000,
    )
    dice = random.Random(1)
    for start in range(0, 4000, 1000):
        batch = [(f"k{n:05}", dice.randrange(10**15), "d") for n in range(start, start + 1000)]
        table.insert(rows(*batch))
    before = stored(table)
    cluster(table, sort_by=sort_by)
    sizes = [part.size for part in table.file_slices()]
    assert len(sizes) > 2 and max(sizes) < 30_000 and min(sizes) > 10_000
    assert stored(table) == before
    if sort_by:
        ranges = sorted(
            (min(values), max(values))
            for part in table.file_slices()
            if part.base
            for values in [
                pq.read_table(storage_of(table).open_input(part.base.path))["v"].to_pylist()
            ]
        )
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(ranges))


@EVERY
def test_changes_do_not_show_what_was_only_moved(kind: str) -> None:
    table = filled(kind)
    last = str(max(str(i.completed_at) for i in load_timeline(storage_of(table)).writes()))
    all_changes = table.changes(after="000").num_rows
    done = cluster(table, sort_by=("v",))
    assert table.changes(after=last).num_rows == 0
    assert table.changes(after=last, kind="cdc").num_rows == 0
    assert table.changes(after="000").num_rows == all_changes
    table.upsert(rows(("k05", -5, "d1")))
    changed = table.changes(after=str(done.completed_at)).to_pylist()
    assert [(row["id"], row["v"]) for row in changed] == [("k05", -5)]
    around = table.changes(after=last).to_pylist()
    assert [row["id"] for row in around] == ["k05"]
    told = table.changes(after=last, kind="cdc").to_pylist()
    assert [(row["op"], row["after"]["v"]) for row in told] == [("u", -5)]


@EVERY
def test_columns_that_came_later_are_null_in_older_rows(kind: str) -> None:
    wide = pa.schema([*rows().schema, pa.field("w", pa.int64())])
    table = filled(kind)
    later = pa.table([["k03"], [5], ["d1"], [9]], schema=wide)
    table.upsert(later)
    before = sorted(map(str, table.read(meta=True).drop_columns([FILE_NAME]).to_pylist()))
    cluster(table, sort_by=("w", "v"), curve="ZORDER")
    after = sorted(map(str, table.read(meta=True).drop_columns([FILE_NAME]).to_pylist()))
    assert after == before


def test_rows_that_are_all_deleted_leave_no_file_behind() -> None:
    table = make_table(MOR_JOINED)
    table.insert(rows(("a", 1, "d"), ("b", 2, "d")))
    table.delete(rows(("a", 1, "d"), ("b", 2, "d")).select(["id", "day"]))
    cluster(table)
    assert groups(table) == set() and found(table) == {}
    table.upsert(rows(("a", 3, "d")))
    assert found(table) == {("a", 3, "d"): 1}


def test_new_keys_do_not_go_into_files_that_a_clustering_is_for() -> None:
    table = make_table(COW_JOINED)
    table.insert(rows(("a", 1, "d"), ("b", 2, "d")))
    at = schedule(table, sort_by=("v",))
    table.insert(rows(("c", 3, "d")))
    assert len(groups(table)) == 2
    execute(table, at)
    assert found(table) == {("a", 1, "d"): 1, ("b", 2, "d"): 1, ("c", 3, "d"): 1}
    table.insert(rows(("e", 3, "d")))
    assert len(groups(table)) == 2, "small files are filled again"


@EVERY
def test_a_pending_plan_keeps_other_plans_out(kind: str) -> None:
    table = filled(kind)
    at = schedule(table, sort_by=("v",))
    timeline = load_timeline(storage_of(table))
    assert planned_groups(storage_of(table), timeline) == plan_at(table, at).file_groups()
    assert schedule(table, sort_by=("id",)) == at, "nothing is left, so the pending one is it"
    table.insert(rows(("x", 1, "other")))
    second = schedule(table, sort_by=("id",))
    assert second != at
    assert plan_at(table, second).file_groups() & plan_at(table, at).file_groups() == set()
    before = stored(table)
    execute(table, second)
    execute(table, at)
    assert stored(table) == before


def test_a_pending_compaction_keeps_its_groups() -> None:
    table = filled(MOR_JOINED)
    table.schedule("compaction")
    plans = planned_groups(storage_of(table), load_timeline(storage_of(table)))
    assert plans
    at = schedule(table, sort_by=("v",))
    assert not plan_at(table, at).file_groups() & plans
    execute(table, at)
    before = stored(table)
    table.compact()
    assert stored(table) == before


@pytest.mark.parametrize("kind", ["MERGE_ON_READ 2", MOR_JOINED])
def test_a_pending_clustering_keeps_compactions_out(kind: str) -> None:
    table = filled(kind)
    at = schedule(table, sort_by="v")
    assert table.schedule("compaction") is None
    assert schedule_log_compaction(opened(table)) is None
    table.upsert(rows(("x", 1, "other")))
    table.upsert(rows(("x", 2, "other")))
    compaction = table.schedule("compaction")
    assert compaction is not None
    before = stored(table)
    execute(table, at)
    table.execute(compaction)
    assert stored(table) == before
    assert table.schedule("compaction") is None


def test_partitions_may_be_named() -> None:
    table = filled(COW_JOINED)
    at = schedule(table, partitions="d1")
    assert {partition for partition, _ in plan_at(table, at).file_groups()} == {"d1"}


def test_a_plan_says_how_it_is_to_be_executed() -> None:
    table = filled(COW_JOINED)
    plan = plan_at(table, schedule(table, sort_by=["v", "id"], curve="HILBERT", removable=True))
    assert (plan.sort_by, plan.curve, plan.removable) == (("v", "id"), Curve.HILBERT, True)
    execute(table, pending(table)[0].requested_at)
    plan = plan_at(table, schedule(table))
    assert (plan.sort_by, plan.curve, plan.removable) == ((), None, False)


def test_what_cannot_be_sorted_is_refused_before_anything_is_written() -> None:
    table = filled(COW_JOINED)
    for error, asked in (
        (SchemaMismatch, {"sort_by": ["nope"]}),
        (SchemaMismatch, {"sort_by": [FILE_NAME]}),
        (ConfigError, {"sort_by": ["v"], "curve": "PEANO"}),
        (ConfigError, {"curve": "ZORDER"}),
        (ConfigError, {"sort_by": [str(n) for n in range(9)], "curve": "ZORDER"}),
    ):
        with pytest.raises(error):
            schedule(table, **asked)
    assert pending(table) == ()


@says("rfc79.immutable.rollback")
def test_an_execution_that_failed_is_taken_up_and_leaves_nothing() -> None:
    table = filled(MOR_JOINED)
    before, paths = stored(table), set(data_paths(storage_of(table)))
    at = schedule(table, sort_by=("v",))
    lost = next(iter(paths))
    content = storage_of(table).read(lost)
    storage_of(table).replace(lost, content[:-1])
    with pytest.raises(Exception, match="bytes"):
        execute(table, at)
    storage_of(table).replace(lost, content)
    execute(table, at)
    assert stored(table) == before and list_leftovers(storage_of(table)) == []
    shown = {path for part in table.file_slices() for path in part.paths}
    assert set(data_paths(storage_of(table))) == paths | shown


def test_meta_columns_can_be_sorted_by() -> None:
    table = filled(COW_JOINED)
    cluster(table, sort_by=(COMMIT_TIME, RECORD_KEY))
    for part in table.file_slices():
        assert part.base
        read = pq.read_table(storage_of(table).open_input(part.base.path))
        keys = list(zip(*(read[n].to_pylist() for n in (COMMIT_TIME, RECORD_KEY)), strict=True))
        assert keys == sorted(keys) and len(set(read[COMMIT_SEQNO].to_pylist())) == len(keys)


@pytest.mark.parametrize("kind", ["MERGE_ON_READ 2", "MERGE_ON_READ None"])
def test_columns_that_were_written_by_different_writers_stay_together(kind: str) -> None:
    table = partial_tables.make(kind)
    some, row = partial_tables.some, partial_tables.row
    table.upsert(some(row("k", c_ts=1, c=1, b_ts=1, b=1), row("l", c_ts=1, c=7, b_ts=1, b=7)))
    table.upsert(some(row("k", c_ts=3, c=3)), partial=True)
    table.upsert(some(row("k", b_ts=2, b=2), row("l", b_ts=0, b=0)), partial=True)
    before = partial_tables.state(table)
    cluster(table, sort_by=("b", "id"), curve=Curve.ZORDER)
    assert partial_tables.state(table) == before
    table.upsert(some(row("k", c_ts=2, c=2, b_ts=5, b=5)), partial=True)
    k = row("k", c_ts=3, c=3, b_ts=5, b=5)
    partial_tables.ensure_are(table, k, row("l", c_ts=1, c=7, b_ts=1, b=7))


def test_work_can_be_sent_to_other_processes() -> None:
    table = filled(MOR_JOINED)
    before = stored(table)

    class Sends(LocalEngine):
        def run(self, work: Any, tasks: Any, stage: Any = None) -> list[str]:
            sent = pickle.loads(pickle.dumps([work, list(tasks)]))
            # What was sent has a copy of the storage, so it is only looked at.
            assert sent[1] == list(tasks) and sent[0].sort_by == ("v",)
            return super().run(work, tasks, stage)

    execute_clustering(opened(table), Sends(threads=1), schedule(table, sort_by=("v",)))
    assert stored(table) == before
