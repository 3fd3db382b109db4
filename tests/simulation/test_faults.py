"""Faults of the simulation do exactly what they say, and the sweep finds every place for them."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from lentic.coordination.lock import LockProvider
from lentic.errors import MissingFile, StorageError
from lentic.storage.base import Storage
from lentic.testing.crash_sweep import CrashPoint, crash_points, run_with_crash, sweep
from lentic.testing.sim_storage import Crash
from lentic.testing.simulation import START_MS, Crashed, Raised, Returned, Simulation, When
from lentic.world import World


def _three_actors(seed: int, work: Callable[[Simulation, str], object]) -> Simulation:
    sim = Simulation(seed)
    for name in ("a", "b", "c"):
        sim.actor(name, lambda name=name: work(sim, name))  # type: ignore[misc]
    return sim


# Crashes


def _crashed(work: Callable[[Storage], object], call: int, when: When) -> Simulation:
    sim = Simulation()
    storage = sim.storage()
    sim.memory.replace("old", b"old")
    sim.actor("a", lambda: work(storage))
    sim.crash_at("a", call=call, when=when)
    assert sim.run() == {"a": Crashed()}
    return sim


def _content(sim: Simulation) -> dict[str, bytes]:
    return {info.path: sim.memory.read(info.path) for info in sim.memory.walk("")}


@pytest.mark.parametrize("when", ["before", "after", "torn"])
def test_a_crash_leaves_an_atomic_call_done_or_not(when: When) -> None:
    done = when == "after"
    put = _crashed(lambda storage: storage.put_if_absent("new", b"1234"), 1, when)
    assert _content(put) == {"old": b"old"} | ({"new": b"1234"} if done else {})
    replaced = _crashed(lambda storage: storage.replace("old", b"1234"), 1, when)
    assert _content(replaced) == {"old": b"1234" if done else b"old"}
    deleted = _crashed(lambda storage: storage.delete("old"), 1, when)
    assert _content(deleted) == ({} if done else {"old": b"old"})
    read = _crashed(lambda storage: storage.read("nothing"), 1, when)
    assert _content(read) == {"old": b"old"}


def _stream(storage: Storage) -> None:
    with storage.open_output("new") as file:
        file.write(b"12345678")
        storage.info("old")
        file.write(b"9")


@pytest.mark.parametrize(
    ("call", "when", "left"),
    [
        (1, "before", None),
        (1, "torn", b""),
        (1, "after", None),
        (2, "before", None),
        (2, "torn", b"1234"),
        (2, "after", None),
        (3, "before", None),
        (3, "torn", b"1234"),
        (3, "after", b"123456789"),
    ],
)
def test_a_crash_leaves_of_a_stream_nothing_a_part_or_all(
    call: int, when: When, left: bytes | None
) -> None:
    assert _content(_crashed(_stream, call, when)).get("new") == left


def test_a_stream_that_ends_or_fails_is_torn_no_more() -> None:
    def work(storage: Storage) -> None:
        with pytest.raises(ValueError, match="stop"), storage.open_output("failed") as file:
            file.write(b"1234")
            raise ValueError("stop")
        _stream(storage)
        storage.info("old")

    assert _content(_crashed(work, 5, "torn")) == {"old": b"old", "new": b"123456789"}


def test_a_dead_actor_has_no_effect_whatever_it_tries() -> None:
    sim = Simulation()
    storage, world, lock = sim.storage(), sim.world("a"), sim.lock()
    raised: list[str] = []

    def attempt(call: Callable[[], object]) -> None:
        try:
            call()
        except Crash as error:
            raised.append(type(error).__name__)

    def work() -> str:
        with lock.hold() as held:
            try:
                storage.put_if_absent("a", b"")
            except Exception:
                raise AssertionError("a crash is no exception to be handled") from None
            finally:
                attempt(lambda: storage.delete("old"))
                attempt(lambda: storage.read("old"))
                attempt(lambda: _stream(storage))
                attempt(lambda: held.save_last_time("1"))
                attempt(lambda: lock.hold().__enter__())
                attempt(world.clock.now_ms)
                attempt(world.clock.monotonic)
                attempt(lambda: world.clock.sleep(1))
                return "swallowed"  # noqa: B012

    sim.memory.replace("old", b"")
    sim.actor("a", work)
    sim.crash_at("a", call=1, when="before")
    assert sim.run() == {"a": Crashed()}
    assert raised == ["Crash"] * 8
    assert list(_content(sim)) == ["old"]
    assert sim.calls("a") == 1
    with lock.hold() as held:
        assert (held.epoch, held.last_time) == (2, "")


def _look_and_put(sim: Simulation, name: str) -> bool:
    storage = sim.storage()
    storage.info(name)
    return storage.put_if_absent(name, b"") and storage.info(name) is not None


def test_a_crash_spares_the_other_actors() -> None:
    for seed in range(50):
        sim = _three_actors(seed, _look_and_put)
        sim.crash_at("b", call=2, when="after")
        assert sim.run() == {"a": Returned(True), "b": Crashed(), "c": Returned(True)}
        assert sorted(_content(sim)) == ["a", "b", "c"]
        assert (sim.calls("a"), sim.calls("b"), sim.calls("c")) == (3, 2, 3)


# Failures and pauses


def test_a_failed_call_had_its_effect_or_not_and_the_actor_lives() -> None:
    for when, is_there in (("before", False), ("after", True)):
        sim = Simulation()
        storage = sim.storage()

        def work(storage: Storage = storage) -> bool:
            with pytest.raises(StorageError, match="Simulated"):
                storage.put_if_absent("a", b"")
            return storage.info("a") is not None

        sim.actor("a", work)
        sim.fail_at("a", call=1, when=when)  # type: ignore[arg-type]
        assert sim.run() == {"a": Returned(is_there)}


def test_a_paused_actor_sleeps_through_what_the_others_do() -> None:
    for seed in range(50):
        sim = Simulation(seed)
        storage, world = sim.storage(), sim.world("b")

        def late(storage: Storage = storage) -> bool:
            storage.info("x")
            return storage.put_if_absent("x", b"late")

        def slow(storage: Storage = storage, world: World = world) -> bool:
            world.clock.sleep(30)
            return storage.put_if_absent("x", b"slow")

        sim.actor("a", late)
        sim.actor("b", slow)
        sim.pause_at("a", call=2, pause_ms=120_000)
        assert sim.run() == {"a": Returned(False), "b": Returned(True)}


# Outcomes and misuse


def test_an_error_of_an_actor_is_its_outcome() -> None:
    sim = _three_actors(1, lambda sim, name: sim.storage().read(name))
    sim.memory.replace("b", b"there")
    outcome = sim.run()
    assert outcome["b"] == Returned(b"there")
    error = outcome["a"]
    assert isinstance(error, Raised)
    assert isinstance(error.error, MissingFile)


def test_an_interrupt_is_not_swallowed() -> None:
    def work(sim: Simulation, name: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _three_actors(1, work).run()


def test_an_actor_that_starts_threads_is_told_so() -> None:
    sim = Simulation()
    storage = sim.storage()
    caught: list[BaseException] = []

    def other() -> None:
        try:
            storage.info("x")
        except AssertionError as error:
            caught.append(error)

    def work() -> None:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    sim.actor("a", work)
    sim.run()
    assert "must not start threads" in str(caught[0])


def test_a_second_run_continues_where_the_first_ended() -> None:
    sim = Simulation()
    storage = sim.storage()
    sim.actor("a", lambda: storage.put_if_absent("x", b"1"))
    sim.run()
    now_ms = sim.now_ms
    sim.actor("b", lambda: storage.read("x"))
    assert sim.run() == {"a": Returned(True), "b": Returned(b"1")}
    assert sim.now_ms > now_ms


# The sweep


def _transfer(storage: Storage, world: World, lock: LockProvider) -> None:
    """Replace one file by another, the new one first, marked by a put at the end."""
    with lock.hold() as held:
        held.save_last_time(str(world.clock.now_ms()))
        with storage.open_output("new") as file:
            file.write(b"12345678")
        storage.put_if_absent("done", b"")
        storage.delete("old")


def _with_old_file(storage: Storage, world: World, lock: LockProvider) -> None:
    storage.put_if_absent("old", b"12345678")


def test_a_sweep_kills_at_every_call_in_every_way() -> None:
    assert crash_points(_transfer, _with_old_file) == [
        CrashPoint(1, "before"),
        CrashPoint(1, "after"),
        CrashPoint(2, "before"),
        CrashPoint(2, "torn"),
        CrashPoint(2, "after"),
        CrashPoint(3, "before"),
        CrashPoint(3, "torn"),
        CrashPoint(3, "after"),
        CrashPoint(4, "before"),
        CrashPoint(4, "after"),
        CrashPoint(5, "before"),
        CrashPoint(5, "after"),
    ]
    left = [
        (sorted(info.path for info in run.storage.walk("")), run.crashed)
        for run in sweep(_transfer, _with_old_file)
    ]
    assert left == [
        (["old"], True),
        (["old"], True),
        (["old"], True),
        (["new", "old"], True),
        (["old"], True),
        (["old"], True),
        (["new", "old"], True),
        (["new", "old"], True),
        (["new", "old"], True),
        (["done", "new", "old"], True),
        (["done", "new", "old"], True),
        (["done", "new"], True),
    ]


def test_a_recovery_gets_a_living_view_and_the_same_lock() -> None:
    for run in sweep(_transfer, _with_old_file):
        with run.lock.hold() as held:
            assert held.epoch == 2, run
            assert (held.last_time == "") == (run.point == CrashPoint(1, "before")), run
        assert run.world.clock.now_ms() > START_MS
        if run.storage.info("done") is None:
            run.storage.delete("new")
            assert run.storage.read("old") == b"12345678", run
        else:
            assert run.storage.read("new") == b"12345678", run


def test_a_flow_that_outruns_its_crash_lives() -> None:
    run = run_with_crash(_transfer, CrashPoint(99, "before"), _with_old_file)
    assert not run.crashed
    assert not run_with_crash(_transfer, None, _with_old_file).crashed
    assert len(run.trace) == 7


def test_an_error_of_the_flow_is_raised_by_the_sweep() -> None:
    with pytest.raises(MissingFile):
        crash_points(lambda storage, world, lock: storage.read("nothing"))
