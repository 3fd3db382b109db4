"""Planning by what changed on a table that other engines write to and plan for, too (I2, I8, R11).

Apache Hudi's planner goes on from the clustering that completed last, by its requested time, and
looks besides where that plan says something is missing. It has no net.
"""

from __future__ import annotations

from dataclasses import replace

from lentic.format import layout
from lentic.format.clustering_plan import (
    ClusteringPlan,
    decode_clustering_plan,
    encode_clustering_plan,
)
from lentic.format.commit_metadata import CLUSTER
from lentic.format.names import Action, State
from lentic.format.plan_window import EDGE_KEY, Look
from lentic.format.plans import (
    RollbackMetadata,
    RollbackPlan,
    encode_rollback_metadata,
    encode_rollback_plan,
)
from lentic.format.times import RequestedAt
from lentic.services.undo_completed import roll_back_instant
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_clustering_plan, load_commit_metadata
from lentic.txn.transaction import transaction
from tests.rfc.claims import says
from tests.rfc.planning_scenes import SHARED, Scene, one_at_a_time

# --- what other planners are told ---------------------------------------------------------------


def plan_at(scene: Scene, at: RequestedAt) -> ClusteringPlan:
    return load_clustering_plan(scene.storage, Instant(at, Action.CLUSTERING, State.REQUESTED))


def looked_at_by_hudi(scene: Scene) -> set[str]:
    """Where Apache Hudi would look now."""
    told = [(i, load_commit_metadata(scene.storage, i)) for i in scene.timeline.writes()]
    last = max(i.requested_at for i, metadata in told if metadata.operation == CLUSTER)
    since = (
        metadata
        for i, metadata in told
        if metadata.operation != CLUSTER and str(i.completed_at) >= str(last)
    )
    changed = {partition for metadata in since for partition, _ in metadata.groups()}
    return changed | {*plan_at(scene, last).missing}


@says("I2")
def test_a_plan_for_chosen_partitions_passes_on_all_that_it_does_not_look_at() -> None:
    """RFC-83, Work Flow, planner step 4: whoever goes on from it must not take it for all."""
    scene = one_at_a_time("clustering")
    scene.write("d1", "d2")
    scene.run()
    scene.write("d3", "d5")
    scene.write("d4")
    at = scene.planned(partitions=["d4"])
    plan = plan_at(scene, at)
    assert scene.partitions_of(at) == {"d4"} and plan.missing == ("d2", "d3", "d5")
    assert plan.edge is None
    scene.execute(at)
    assert EDGE_KEY not in load_commit_metadata(scene.storage, scene.completed(at)).extra
    assert looked_at_by_hudi(scene) == {"d2", "d3", "d5"}
    assert scene.looked() == {"d2", "d3", "d4", "d5"}, "ours goes on as if there had been none"


@says("I2")
def test_a_plan_for_chosen_partitions_passes_on_what_it_cannot_take_on() -> None:
    """RFC-83, Work Flow, planner step 4: a plan is bounded, also where it is told where to look."""
    scene = one_at_a_time("clustering")
    scene.write("d1")
    scene.run()
    scene.write("d2", "d3")
    at = scene.planned(partitions=["d2", "d3"])
    assert scene.partitions_of(at) == {"d2"} and plan_at(scene, at).missing == ("d3",)


@says("I2")
def test_a_plan_for_chosen_partitions_passes_on_what_was_left_where_all_should_be_looked_at() -> (
    None
):
    """RFC-83, Work Flow, planner step 4: in doubt it is known all the same what was left undone."""
    scene = one_at_a_time("clustering")
    scene.write("d1", "d2", "d3")
    scene.run()
    scene.tell(clustering=replace(scene.opened.services.clustering, small_bytes=10**6))
    scene.write("d4")
    at = scene.planned(partitions=["d4"])
    assert plan_at(scene, at).missing == ("d2", "d3")
    assert scene.look.kind is Look.CHOSEN


@says("I2")
def test_a_plan_for_chosen_partitions_passes_on_what_another_engine_left() -> None:
    """RFC-83, Work Flow, planner step 4: the last plan may be Apache Hudi's, with its own list."""
    scene = one_at_a_time("clustering")
    scene.write("d1", "d2", "d3")
    at = scene.planned()
    path, root = scene.plan_file(at), scene.storage.root
    plan = decode_clustering_plan(scene.storage.read(path), root, path)
    scene.storage.replace(path, encode_clustering_plan(replace(plan, extra={}), root))
    scene.execute(at)
    scene.write("d4")
    assert plan_at(scene, scene.planned(partitions=["d4"])).missing == ("d2", "d3")


@says("I2")
def test_what_a_filter_passes_over_stays_left_for_whoever_has_another() -> None:
    """RFC-83: a filter leaves out what an earlier plan, without it, had left to the next."""
    scene = one_at_a_time("clustering")
    scene.write("d1", "d2", "d3")
    scene.run()
    for pattern in ("d[16]", "d[16]", "d[17]"):
        told = replace(scene.opened.services.clustering, pattern=pattern)
        scene.tell(clustering=told)
        scene.write("d1")
        at = scene.run()
        assert scene.partitions_of(at) == {"d1"} and plan_at(scene, at).missing == ("d2", "d3")
    assert looked_at_by_hudi(scene) == {"d2", "d3"}


# --- what others archive ------------------------------------------------------------------------


def archive_like_hudi(scene: Scene, upto: RequestedAt) -> None:
    """Archive by requested times, whenever the instants completed."""
    with transaction(scene.opened) as txn:
        txn.archive(tuple(i for i in txn.timeline.completed() if i.requested_at <= upto))


@says("I1", "I3", "R11")
def test_a_slow_write_that_another_engine_archived_is_seen_by_the_clean_after_the_next() -> None:
    """RFC-83, Background: what a clean retained lies in the past, and slow writes behind it."""
    scene = Scene("clean", **SHARED | {"hoodie__clean__commits__retained": 3})
    for day in ("d0", "slow", "d0"):
        scene.write(day)
    slow = scene.begin()
    for _ in range(6):
        scene.write("d0")
    scene.finish(slow, "slow")
    scene.write("d0")
    archive_like_hudi(scene, slow.instant.requested_at)
    first = scene.run()
    assert scene.partitions_of(first) == {"d0"}
    for _ in range(6):
        scene.write("d0")
    assert scene.partitions_of(scene.planned()) == {"d0", "slow"}
    assert scene.look.kind is Look.INCREMENTAL


# --- what others roll back ----------------------------------------------------------------------


def roll_back_like_hudi(scene: Scene, target: Instant) -> Instant:
    """Undo a completed write whatever came after it: its files go, and it is off the timeline."""
    storage = scene.storage
    metadata = load_commit_metadata(storage, target)
    plan = RollbackPlan(target.requested_at, target.action, tuple(sorted(metadata.paths())))
    with transaction(scene.opened) as txn:
        rollback = txn.request(Action.ROLLBACK, encode_rollback_plan(plan, storage.root))
        for file in storage.list_files(layout.TIMELINE):
            if file.name.startswith(target.requested_at):
                storage.delete(file.path)
    for path in plan.files:
        storage.delete(path)
    done = RollbackMetadata(rollback.requested_at, plan.target, plan.action, plan.files)
    with transaction(scene.opened) as txn:
        started = txn.start(rollback)
        return txn.finish_rollback(started, encode_rollback_metadata(done, storage.root))


def two_in_one() -> Scene:
    """A table whose clusterings need two files, that looked at a partition while it was dropped."""
    scene = Scene("clustering", **SHARED | {"hoodie__parquet__small__file__limit": 0})
    scene.tell(clustering=replace(scene.opened.services.clustering, takes_single=False))
    for day in ("d1", "d1", "d2"):
        scene.table.bulk_insert(scene.rows(day))
    scene.table.delete_partitions(["d1"])
    scene.table.bulk_insert(scene.rows("d2"))
    scene.table.bulk_insert(scene.rows("d3"))
    assert scene.partitions_of(scene.run()) == {"d2"}
    return scene


def dropped(scene: Scene) -> Instant:
    return next(i for i in scene.timeline.writes() if i.action is Action.REPLACECOMMIT)


@says("I8", "R11")
def test_what_another_engine_brings_back_by_a_rollback_is_found_whatever_came_after() -> None:
    """RFC-83 says nothing of rollbacks: Apache Hudi undoes writes that are not the last, too."""
    scene = two_in_one()
    roll_back_like_hudi(scene, dropped(scene))
    scene.table.bulk_insert(scene.rows("d4"))
    assert scene.partitions_of(scene.planned()) == {"d1"} and "rolled back" in scene.look.why
    scene.table.bulk_insert(scene.rows("d4"))
    assert scene.partitions_of(scene.planned()) == {"d4"}, "once is enough"
    assert scene.look.kind is Look.INCREMENTAL


@says("I8", "I3")
def test_a_rollback_that_was_archived_meanwhile_is_found_in_the_history() -> None:
    """RFC-83 says nothing of rollbacks, and archiving takes them along."""
    scene = two_in_one()
    done = roll_back_like_hudi(scene, dropped(scene))
    scene.table.bulk_insert(scene.rows("d4"))
    archive_like_hudi(scene, done.requested_at)
    scene.table.bulk_insert(scene.rows("d5"))
    assert scene.partitions_of(scene.planned()) == {"d1"} and "rolled back" in scene.look.why


@says("I8")
def test_the_rollback_of_what_never_completed_is_no_reason_to_look_at_everything() -> None:
    """RFC-83 says nothing of rollbacks: those of dead writers are everyday."""
    scene = two_in_one()
    dead, slow = scene.begin(), scene.begin()
    scene.table.bulk_insert(scene.rows("d5", "d6"))
    scene.table.bulk_insert(scene.rows("d5"))
    at = scene.planned()
    later = scene.begin()
    for begun in (dead, later):
        roll_back_instant(scene.opened, begun.instant.requested_at)
    scene.finish(slow, "d7")
    roll_back_instant(scene.opened, slow.instant.requested_at)
    scene.table.bulk_insert(scene.rows("d6"))
    roll_back_instant(scene.opened, at)
    assert scene.partitions_of(scene.planned()) == {"d5", "d6"}
    assert scene.look.kind is Look.INCREMENTAL
