"""An action that takes too long, or is in the way of the end, is stopped wherever it is."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest

from lentic.coordination.lock import LockProvider
from lentic.coordination.lock_storage import StorageLock
from lentic.errors import StorageError, Unavailable
from lentic.format import layout
from lentic.format.names import Action, BaseFileName, format_base_file
from lentic.format.times import RequestedAt
from lentic.runner.brake import Brake, heeding_storage, heeding_world
from lentic.runner.events import Event, Result
from lentic.runner.loop import Orders
from lentic.storage.base import ConditionalStorage, Storage
from lentic.storage.local import LocalStorage
from lentic.storage.memory import MemoryStorage
from lentic.table import Table
from lentic.txn.transaction import transaction
from lentic.world import World
from lentic.write import markers
from tests.unit.builders import data_paths, requested
from tests.unit.runner.lake import TTL_S, Lake, ticking_world

LONGEST_S, GRACE_S = 60.0, 20.0
COMMITS = 14
HOUR_MS = 3_600_000
SHARED = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}

Limit = Callable[[Lake], Orders]


def _too_long(lake: Lake) -> Orders:
    return Orders(action_s_max=LONGEST_S)


def _grace_over(lake: Lake) -> Orders:
    _once_waited(lake, lambda: setattr(lake.stop, "is_asked", True))
    return Orders(grace_s=GRACE_S)


def _urgent(lake: Lake) -> Orders:
    def hear_twice() -> None:
        lake.stop.is_asked = lake.stop.is_urgent = True

    _once_waited(lake, hear_twice)
    return Orders(grace_s=1e6)


def _once_waited(lake: Lake, then: Callable[[], object]) -> None:
    """Do something as soon as time passes."""
    lake.clock.works.append(then)  # type: ignore[attr-defined]


LIMITS = pytest.mark.parametrize("limit", [_too_long, _grace_over, _urgent])


def _stopped(lake: Lake, orders: Orders) -> Event:
    """The action that was stopped, and within how long."""
    began_ms = lake.clock.ms
    lake.runner(orders).run_cycle()
    assert lake.clock.ms - began_ms <= (LONGEST_S + 15) * 1000
    (event,) = lake.events
    assert event.result is Result.STOPPED, event
    lake.clock.works.clear()  # type: ignore[attr-defined]
    lake.events.clear()
    lake.stop.is_asked = lake.stop.is_urgent = False
    return event


@LIMITS
def test_waiting_for_a_lock_that_another_holds_is_stopped(limit: Limit) -> None:
    def make_lock(storage: Storage, world: World) -> LockProvider:
        assert isinstance(storage, ConditionalStorage)
        return StorageLock(storage, world, HOUR_MS, lease_ms=HOUR_MS)

    lake = Lake(world=ticking_world(), make_lock=make_lock)
    table = lake.add("one", commits=3)
    with lake.open("one")._opened.lock.hold():
        event = _stopped(lake, limit(lake))
    assert event.action == "compaction"
    assert "took longer" in event.note or "told to end" in event.note
    lake.clock.sleep(HOUR_MS / 1000)
    lake.runner().run_cycle()
    assert lake.told() == [("one", "compaction", "done")]
    assert table.verify() == []


def _look_after(lake: Lake) -> None:
    """What the next process does, which first has to see who is silent."""
    runner = lake.runner()
    for _ in range(3):
        runner.run_cycle()
        lake.clock.sleep(TTL_S)


def _cleanable(lake: Lake) -> Table:
    table = lake.add("one", commits=3, table_type="COPY_ON_WRITE")
    for number in range(3, COMMITS):
        lake.write(table, number)
    return table


def _slow_deletes(lake: Lake) -> list[str]:
    """Each delete of a data file takes ten seconds; those that were carried out."""
    deleted: list[str] = []

    def before(op: str, path: str) -> None:
        if op == "delete" and layout.is_data_path(path):
            lake.clock.sleep(10)
            deleted.append(path)

    lake.storages["one"].before = before  # type: ignore[method-assign]
    return deleted


@LIMITS
def test_a_clean_is_stopped_between_two_deletes_and_finished_by_whoever_comes_next(
    limit: Limit,
) -> None:
    lake = Lake(world=ticking_world(), options={"hoodie.clean.commits.retained": 1})
    table = _cleanable(lake)
    deleted = _slow_deletes(lake)
    event = _stopped(lake, limit(lake))
    assert event.action == "clean"
    assert 0 < len(deleted) < COMMITS - 2
    (left,) = (i for i in table.timeline() if i.is_pending)
    assert left.action is Action.CLEAN
    assert event.instant == left.requested_at
    _look_after(lake)
    assert ("one", "clean", "done") in lake.told()
    assert table.verify() == []
    assert table.read().num_rows == COMMITS


@LIMITS
def test_a_rollback_is_stopped_between_two_deletes_and_finished_later(limit: Limit) -> None:
    lake = Lake(world=ticking_world(), options=SHARED)
    table = lake.add("one", commits=1)
    with transaction(lake.open("one")._opened) as txn:
        at = txn.start(txn.request(Action.DELTACOMMIT)).requested_at
    for number in range(COMMITS):
        _write_file(lake, at, number)
    orders = limit(lake)
    runner = lake.runner(orders)
    works = lake.clock.works  # type: ignore[attr-defined]
    kept, works[:] = list(works), []
    runner.run_cycle()  # it sees the write for the first time
    lake.clock.sleep(TTL_S)
    works[:] = kept
    deleted = _slow_deletes(lake)
    runner.run_cycle()
    assert lake.told() == [("one", "rollback", "stopped")]
    assert 0 < len(deleted) < COMMITS
    works.clear()
    lake.stop.is_asked = lake.stop.is_urgent = False
    _look_after(lake)
    assert ("one", "rollback", "done") in lake.told()
    assert table.verify() == []
    assert not [i for i in table.timeline() if i.is_pending]
    assert len(data_paths(lake.storages["one"].inner)) == 1


def _write_file(lake: Lake, at: RequestedAt, number: int) -> str:
    """What a writer does for one file: it says so, and writes it."""
    path = layout.data_file("", format_base_file(BaseFileName(f"fg{number}", "9-9-9", at)))
    markers.announce(lake.storages["one"].inner, at, path, "CREATE")
    lake.storages["one"].inner.put_if_absent(path, b"")
    return path


def test_what_has_landed_when_the_limit_is_reached_is_done_and_what_is_left_goes_later() -> None:
    lake = Lake(world=ticking_world())
    table = lake.add("one", commits=3)
    late: list[str] = []

    def after(op: str, path: str) -> None:
        if op == "put_if_absent" and path.endswith(".commit") and not late:
            at = RequestedAt(path.rpartition("/")[2].partition("_")[0])
            late.append(_write_file(lake, at, 7))  # of an attempt that comes too late
            lake.clock.sleep(LONGEST_S + 1)

    lake.storages["one"].after = after  # type: ignore[method-assign]
    lake.runner(Orders(action_s_max=LONGEST_S)).run_cycle()
    assert lake.told() == [("one", "compaction", "done")]
    assert set(late) <= set(data_paths(lake.storages["one"].inner))
    assert table.verify() == []


def test_with_the_brake_pulled_only_data_files_stay_and_signs_of_life_end() -> None:
    inner, brake = MemoryStorage(), Brake()
    storage = heeding_storage(inner, brake)
    paths = ["p/a.parquet", layout.heartbeat(requested(1)), layout.cancel_request(requested(1))]
    for path in paths:
        inner.put_if_absent(path, b"x")
    with brake.ready() as pull:
        pull()
        with pytest.raises(StorageError, match="stopped"):
            storage.delete(paths[0])
        assert storage.delete(paths[1]) and storage.delete(paths[2])
        assert storage.read(paths[0]) == b"x" and storage.put_if_absent("q", b"")
    assert storage.delete(paths[0])


def test_a_storage_that_heeds_the_brake_can_what_the_inner_one_can_and_is_no_other() -> None:
    """Where conditions are not kept, a lock that was lost would no longer fence its holder."""
    brake = Brake()
    on_disk, in_memory = LocalStorage("/nowhere"), MemoryStorage()
    assert not isinstance(heeding_storage(on_disk, brake), ConditionalStorage)
    assert isinstance(heeding_storage(in_memory, brake), ConditionalStorage)
    heeding = heeding_storage(on_disk, brake)
    assert heeding == on_disk and heeding == heeding_storage(on_disk, Brake())
    assert {on_disk: 1}[heeding] == 1
    assert type(pickle.loads(pickle.dumps(heeding))) is LocalStorage
    inner = {name for name in dir(ConditionalStorage) if not name.startswith("_")}
    assert inner <= set(dir(heeding_storage(in_memory, brake)))


def test_a_wait_ends_when_the_brake_is_pulled_and_a_pull_that_comes_too_late_does_nothing() -> None:
    brake, world = Brake(), ticking_world()
    clock = heeding_world(world, brake).clock
    began_ms = clock.now_ms()
    with brake.ready() as pull:
        world.clock.works.append(pull)  # type: ignore[attr-defined]
        with pytest.raises(Unavailable, match="stopped"):
            clock.sleep(3600)
    assert clock.now_ms() - began_ms <= 1_000
    with brake.ready():
        clock.sleep(100)  # at which the brake of the block before is pulled
    assert clock.now_ms() - began_ms >= 100_000
