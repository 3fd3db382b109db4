"""A timeline that another engine archived: by requested time, or beyond a savepoint.

Ours archives a prefix of what has completed. Where others leave holes, or everything that is still
active was undone, what the history says counts all the same.
"""

from __future__ import annotations

import pyarrow as pa

from lentic.format.names import Action
from lentic.format.times import RequestedAt
from lentic.services.archive import archive_timeline
from lentic.services.savepoint import make_savepoint, remove_savepoint
from lentic.services.undo_completed import roll_back_instant
from lentic.txn.transaction import transaction
from tests.rfc.planning_scenes import SHARED, Scene
from tests.unit.builders import clock_of, rows


def archive(scene: Scene, upto: RequestedAt, but: frozenset[RequestedAt] = frozenset()) -> None:
    with transaction(scene.opened) as txn:
        done = txn.timeline.completed()
        ours = (i for i in done if i.requested_at <= upto and i.requested_at not in but)
        txn.archive(tuple(i for i in ours if i.action is not Action.SAVEPOINT))


def ids(scene: Scene, **how: str) -> list[str]:
    return sorted(scene.table.read(**how)["id"].to_pylist())


def last(scene: Scene) -> RequestedAt:
    return scene.timeline.writes()[-1].requested_at


def test_what_an_archived_replacement_ended_stays_ended_beside_a_savepoint() -> None:
    scene = Scene("clustering")
    scene.write("d1")
    saved = last(scene)
    make_savepoint(scene.opened, saved)
    scene.write("d2")
    scene.table.delete_partitions(["d1"])
    ended = last(scene)
    scene.write("d2")
    archive(scene, ended, but=frozenset([saved]))
    assert ids(scene) == ["d2-a", "d2-b"]
    assert ids(scene, filter="day = 'd1'") == []
    scene.table.upsert(rows(("d1-a", 99, "d1")))
    assert ids(scene) == ["d1-a", "d2-a", "d2-b"], "d1-b was deleted and does not come back"


def test_a_group_that_an_archived_clustering_made_and_a_later_replacement_ended_is_gone() -> None:
    """The file that the clustering replaced still lies there, the one it made was cleaned."""
    scene = Scene("clustering")
    scene.write("d1")
    saved = last(scene)
    make_savepoint(scene.opened, saved)
    scene.run()
    scene.table.delete_partitions(["d1"])
    ended = last(scene)
    for _ in range(3):
        scene.write("d2")
    scene.table.clean()
    remove_savepoint(scene.opened, saved)
    archive(scene, ended)
    assert any(file.name.endswith(".parquet") for file in scene.storage.list_files("d1"))
    assert ids(scene, filter="day = 'd1'") == []
    assert scene.plan(partitions=["d1"]) is None
    scene.write("d1")
    assert ids(scene) == ["d1-a", "d1-b", "d2-a", "d2-b"]


def test_changes_up_to_now_have_a_slow_write_that_was_archived_before_faster_ones() -> None:
    scene = Scene("clustering", **SHARED)
    scene.write("d1")
    slow = scene.begin()
    scene.write("d2")
    scene.write("d3")
    seen = str(scene.timeline.writes()[-1].completed_at)
    scene.finish(slow, "slow")
    before = scene.table.changes(after=seen)
    assert sorted(before["id"].to_pylist()) == ["slow-a", "slow-b"]
    archive(scene, slow.instant.requested_at)
    assert scene.table.changes(after=seen).sort_by("id") == before.sort_by("id")
    assert scene.table.changes().num_rows == scene.table.read().num_rows
    newest = max(str(i.completed_at) for i in scene.table.history())
    assert scene.table.changes(after=newest).num_rows == 0


def test_changes_after_a_write_that_was_undone_since_are_none() -> None:
    scene = Scene("clustering")
    scene.write("d1")
    scene.write("d2")
    undone = scene.timeline.writes()[-1]
    roll_back_instant(scene.opened, undone.requested_at)
    assert scene.table.changes(after=str(undone.completed_at)).num_rows == 0
    assert Scene("clustering").table.changes().num_rows == 0, "nor in a table without a write"


def test_a_column_that_came_with_an_archived_write_stays_when_all_later_ones_are_undone() -> None:
    scene = Scene("clustering")
    for day in ("d1", "d2", "d3"):
        scene.write(day)
    for day in ("d1", "d5"):
        clock_of(scene.opened).ms += 1_000
        scene.table.upsert(scene.rows(day).append_column("extra", pa.array([7, 7])))
    archive_timeline(scene.opened)
    roll_back_instant(scene.opened, last(scene))
    assert not scene.timeline.writes()
    assert "extra" in scene.table.read().column_names
    scene.write("d1")
    assert "extra" in scene.table.read().column_names
