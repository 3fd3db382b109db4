"""The locks: one holder at a time, fencing epochs, and the last time that outlives its holder."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from lentic.coordination.lock_file import FileLock
from lentic.coordination.lock_process import ProcessLock
from lentic.errors import Conflict, LockTimeout, StorageError
from lentic.storage.file_lock import locked_file
from lentic.world import Process, Threads, World, real_world
from tests.rfc.claims import says


class _FastClock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 1_700_000_000.0
        self.slept: list[float] = []

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "made/on/demand/table.lock")


def _world(clock: _FastClock | None = None) -> World:
    return World(clock or _FastClock(), real_world().entropy, Process("host-7", 4121), Threads())


def _lock(path: str, clock: _FastClock | None = None, timeout_ms: int = 2000) -> FileLock:
    return FileLock(path, _world(clock), timeout_ms)


Locks = Any


@pytest.fixture(params=["file", "process"])
def lock(request: pytest.FixtureRequest, path: str) -> Locks:
    if request.param == "file":
        return FileLock(path, real_world(), 20_000)
    return ProcessLock(path, 20_000)


# Both


def test_each_acquisition_raises_the_epoch_by_one(lock: Locks) -> None:
    epochs = []
    for _ in range(3):
        with lock.hold() as held:
            epochs.append(held.epoch)
    assert epochs == [1, 2, 3]


def test_the_last_time_outlives_its_holder(lock: Locks) -> None:
    with lock.hold() as held:
        assert held.last_time == ""
        held.save_last_time("20240101000000000")
        assert held.last_time == "20240101000000000"
    with lock.hold() as held:
        assert held.last_time == "20240101000000000"


@says("rfc79.heartbeat.lock")
def test_only_one_thread_holds_the_lock(lock: Locks) -> None:
    inside, most, epochs = [0], [0], []

    def work() -> None:
        for _ in range(10):
            with lock.hold() as held:
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
    assert epochs == list(range(1, 41))


def test_an_exception_in_the_block_frees_the_lock(lock: Locks) -> None:
    with pytest.raises(ValueError, match="stop"), lock.hold():
        raise ValueError("stop")
    with lock.hold() as held:
        held.ensure_held()


def test_a_proof_is_worth_nothing_after_its_block(lock: Locks) -> None:
    with lock.hold() as held:
        held.ensure_held()
    with pytest.raises(Conflict, match="no longer held"):
        held.ensure_held()
    with pytest.raises(Conflict):
        held.save_last_time("1")
    with lock.hold() as again:
        assert again.last_time == ""


# Process lock


def test_asking_again_for_a_process_lock_is_told_at_once(path: str) -> None:
    lock = ProcessLock(path, 60_000)
    with lock.hold(), pytest.raises(AssertionError, match="not reentrant"):
        lock.hold().__enter__()
    with lock.hold() as held:
        assert held.epoch == 2


def test_a_process_lock_is_shared_by_name_and_times_out(path: str) -> None:
    with ProcessLock(path, 0).hold(), ProcessLock(path + "x", 0).hold():
        caught: list[BaseException] = []

        def work() -> None:
            try:
                with ProcessLock(path, 1).hold():
                    pass
            except LockTimeout as error:
                caught.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert "this process" in str(caught[0])


# File lock


def test_a_time_out_names_the_holder_its_age_and_the_next_step(path: str) -> None:
    clock = _FastClock()
    with _lock(path, clock).hold():
        clock.now_s += 12
        with pytest.raises(LockTimeout) as caught:
            _lock(path, clock, timeout_ms=3000).hold().__enter__()
    error = caught.value
    assert "4121 on host-7, for 15 s" in error.what
    assert "within 3 s" in error.what
    assert "ps -fp 4121" in error.next_step
    assert error.where == path
    assert sum(clock.slept) == pytest.approx(3, abs=1e-3)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"owner": "x", "epoch": 7, "last_ti',
        b"\xff\xfe\0" * 100,
        b"[" * 60_000,
        b"[1]",
        b"null",
        b'{"epoch": -1, "last_time": "../x", "pid": true}',
        b'{"epoch": "9", "last_time": 5}',
        b'{"epoch": 1e400}',
    ],
)
def test_unreadable_content_does_not_block(path: str, content: bytes) -> None:
    with _lock(path).hold():
        pass
    Path(path).write_bytes(content)
    with pytest.raises(LockTimeout), _locked_outside(path):
        _lock(path, timeout_ms=5).hold().__enter__()
    with _lock(path).hold() as held:
        assert (held.epoch, held.last_time) == (1, "")
        held.save_last_time("20240101000000000")
    with _lock(path).hold() as held:
        assert (held.epoch, held.last_time) == (2, "20240101000000000")


def _locked_outside(path: str) -> Any:
    return locked_file(path, 0, _FastClock(), lambda content: LockTimeout("busy"))


def test_what_can_be_read_is_kept(path: str) -> None:
    with _lock(path).hold():
        pass
    Path(path).write_bytes(b'{"epoch": 41, "last_time": "20240101000000000", "pid": "?"}')
    with _lock(path).hold() as held:
        assert (held.epoch, held.last_time) == (42, "20240101000000000")


def test_the_content_is_one_json_object_of_one_sector(path: str) -> None:
    with _lock(path).hold() as held:
        held.save_last_time("20240101000000000")
    content = Path(path).read_bytes()
    fields = json.loads(content)
    assert len(content) == 512
    assert set(fields) == {"owner", "host", "pid", "epoch", "last_time", "since_ms"}
    assert (fields["host"], fields["pid"], fields["epoch"]) == ("host-7", 4121, 1)
    assert fields["last_time"] == "20240101000000000"


def test_a_deleted_lock_file_is_noticed_by_its_holder(path: str) -> None:
    with _lock(path).hold() as first:
        os.unlink(path)
        with pytest.raises(Conflict, match="deleted"):
            first.ensure_held()
        with _lock(path).hold() as second:
            second.ensure_held()
            with pytest.raises(Conflict):
                first.save_last_time("20240101000000000")
            assert second.last_time == ""


def test_a_lock_taken_on_a_deleted_file_is_tried_again(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock
    deletions: list[str] = []

    def flock_after_deletion(handle: int, operation: int) -> None:
        if not deletions:
            os.unlink(path)
            deletions.append(path)
        flock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", flock_after_deletion)
    with locked_file(path, 1, _FastClock(), lambda content: LockTimeout("busy")) as file:
        assert file.is_in_place()
    assert deletions


def test_a_lock_file_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="lock file"):
        _lock(str(tmp_path / "file/lock")).hold().__enter__()


_HOLD_UNTIL_KILLED = """
import sys
from lentic.coordination.lock_file import FileLock
from lentic.world import Threads, real_world
with FileLock(sys.argv[1], real_world(), 1000).hold() as held:
    held.save_last_time("20240101000000000")
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_killed_holder_frees_the_lock_and_keeps_its_last_time(path: str) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD_UNTIL_KILLED, path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LockTimeout, match=str(holder.pid)):
            _lock(path, timeout_ms=10).hold().__enter__()
    finally:
        holder.kill()
        holder.communicate()
    with _lock(path).hold() as held:
        assert (held.epoch, held.last_time) == (2, "20240101000000000")
