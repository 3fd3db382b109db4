"""The lock on a real ZooKeeper: who may have it, what its holder decides, what a lost one may."""

from __future__ import annotations

import re
import signal
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import lentic
from lentic.coordination.curator import in_order
from lentic.coordination.fenced import decode_state
from lentic.errors import Conflict, LockTimeout
from lentic.format import layout
from tests.rfc.claims import says
from tests.zookeeper_locks import (
    SHORT_MS,
    WAIT_MS,
    Holder,
    Locks,
    await_queue,
    expire,
    fall_asleep,
    is_free,
    session,
)
from tests.zookeeper_server import Curator, ZooKeeperServer

PATH = f"{layout.TIMELINE}/20240101000000000.commit.requested"


# Among us


def test_epoch_and_last_time_outlive_their_holder(locks: Locks) -> None:
    with locks().hold() as held:
        held.save_last_time("20240101000000000")
        assert held.epoch == 1
    with locks().hold() as held:
        assert (held.epoch, held.last_time) == (2, "20240101000000000")
    with pytest.raises(Conflict, match="session_timeout_ms"):
        held.ensure_held()


@says("rfc79.heartbeat.lock")
def test_two_processes_exclude_each_other_and_a_time_out_names_the_holder(locks: Locks) -> None:
    with Holder(locks()) as holder:
        assert holder.first_words == "held 1"
        with pytest.raises(LockTimeout) as caught, locks(timeout_ms=200).hold():
            pass
        holder.end()
    error, who = caught.value, rf"process {holder.pid} on \S+, for \d+ s"
    assert re.search(f"not free within 0.2 s.*{who}", error.what)
    assert "dead holder frees itself" in error.safe and "repeat the call" in error.next_step
    with locks().hold() as held:
        assert (held.epoch, held.last_time) == (2, "20240101000000000")


def test_only_one_thread_holds_the_lock(locks: Locks) -> None:
    inside, most, epochs = [0], [0], []

    def work() -> None:
        for _ in range(4):
            with locks().hold() as held:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                epochs.append(held.epoch)
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    assert epochs == list(range(1, 17))


@says("R2")
def test_a_killed_holder_frees_the_lock_and_what_it_decided_is_done_by_the_next(
    locks: Locks,
) -> None:
    with Holder(locks(session_ms=SHORT_MS)) as holder:
        assert holder.publish(PATH, b"decided") == "published True"
        holder.signal(signal.SIGKILL)
        with locks().hold() as held:
            assert (held.epoch, held.last_time) == (2, "20240101000000000")
            assert locks().storage.read(PATH) == b"decided"


@pytest.mark.parametrize("heir", ["lentic", "curator"])
def test_a_holder_that_slept_past_its_session_decides_nothing(
    locks: Locks, curator: Curator, heir: str
) -> None:
    """Whoever took the lock meanwhile, and although Curator knows nothing of our state."""
    mutex = curator.mutex(locks().options.path)
    with Holder(locks(session_ms=SHORT_MS)) as sleeper:
        sleeper.signal(signal.SIGSTOP)
        if heir == "curator":
            assert curator.acquire(mutex, WAIT_MS)
        else:
            with locks().hold():
                pass
        sleeper.signal(signal.SIGCONT)
        assert sleeper.publish(PATH, b"late") == "Conflict"
        sleeper.end()
    assert locks().storage.info(PATH) is None
    if heir == "curator":
        assert not is_free(locks())
        mutex.release()
    with locks().hold():
        assert locks().storage.info(PATH) is None


def test_a_lost_session_is_noticed_without_asking(locks: Locks, zookeeper: ZooKeeperServer) -> None:
    lock = locks()
    held = fall_asleep(lock)
    lost = threading.Event()
    session(lock)._client.add_listener(lambda state: state == "LOST" and lost.set())
    expire(lock, zookeeper)
    assert lost.wait(WAIT_MS / 1000)
    with pytest.raises(Conflict):
        held.ensure_held()
    held.release()
    assert is_free(lock)


def test_who_loses_the_session_while_waiting_queues_up_again(
    locks: Locks, zookeeper: ZooKeeperServer
) -> None:
    waiting = locks(session_ms=20_000)
    path = waiting.options.path
    epochs = []

    def wait() -> None:
        with waiting.hold() as held:
            epochs.append(held.epoch)

    with locks().hold():
        thread = threading.Thread(target=wait)
        thread.start()
        first = await_queue(zookeeper, path, lambda names: len(names) == 2)
        expire(waiting, zookeeper)
        await_queue(
            zookeeper,
            waiting.options.path,
            lambda names: len(names) == 2 and in_order(names) != in_order(first),
        )
        assert epochs == []
    thread.join()
    assert epochs == [2]


@pytest.mark.parametrize("where", ["disk", "s3"])
def test_a_table_is_written_under_the_lock_that_its_options_name(
    tmp_path: Path, zookeeper: ZooKeeperServer, request: pytest.FixtureRequest, where: str
) -> None:
    path, storage = str(tmp_path / where), {}
    if where == "s3":
        path = f"s3://lake/{tmp_path.name}/s3"
        storage = {f"lentic.storage.{k}": v for k, v in request.getfixturevalue("s3_options")}
    locked = storage | {
        "hoodie.write.lock.provider": "zookeeper",
        "hoodie.write.lock.zookeeper.url": zookeeper.hosts,
        "hoodie.write.lock.zookeeper.base_path": "/lentic/tables",
    }
    rows = pa.table({"id": ["a", "b"], "seq": [1, 2]})
    lentic.create(path, rows.schema, key="id", buckets=1, options=locked).upsert(rows)
    lentic.open(path, options=locked).upsert(rows.slice(1).set_column(1, "seq", [[3]]))
    table = lentic.open(path, options=storage)
    assert table.read().sort_by("id").to_pydict() == {"id": ["a", "b"], "seq": [1, 3]}
    with zookeeper.client() as client:
        assert client.get_children(f"/lentic/tables/{where}") == []
        state = decode_state(client.get(f"/lentic/tables/{where}.lentic-state")[0], "here")
    assert state.is_free and state.epoch >= 4 and state.intent is None
    assert state.last_time == str(table.timeline()[-1].completed_at)


# With Curator


def test_curator_and_we_exclude_each_other(locks: Locks, curator: Curator) -> None:
    mutex = curator.mutex(locks().options.path)
    assert curator.acquire(mutex, WAIT_MS)
    with pytest.raises(LockTimeout, match=r"held by '[\d.]+', which has asked for it \d+ s ago"):
        fall_asleep(locks(timeout_ms=200))
    epochs = []

    def wait() -> None:
        with locks().hold() as held:
            epochs.append(held.epoch)

    thread = threading.Thread(target=wait)
    thread.start()
    assert epochs == []
    mutex.release()
    thread.join()
    assert epochs == [1]
    with locks().hold():
        assert not curator.acquire(mutex, 200)
    assert curator.acquire(mutex, WAIT_MS)
    mutex.release()


def test_names_are_made_and_sorted_as_curator_does(
    locks: Locks, curator: Curator, zookeeper: ZooKeeperServer
) -> None:
    path = locks().options.path
    with locks().hold(), zookeeper.client() as client:
        assert not curator.acquire(curator.mutex(path), 0)
        (ours,) = client.get_children(path)
        assert client.get(f"{path}/{ours}")[0] == b"lentic, process 4121 on host-7"
    mutex = curator.mutex(path)
    assert curator.acquire(mutex, WAIT_MS)
    with zookeeper.client() as client:
        (theirs,) = client.get_children(path)
    mutex.release()
    for name in (ours, theirs):
        assert re.fullmatch(r"_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-lock-\d{10}", name)
    names = [ours, theirs, "_c_f-lock-0000000003", "_c_a-lock-0000000010", "other", "lock-lock-1"]
    assert in_order(names) == sorted(names, key=curator.sort_key)
