"""The simulation itself: it replays, it finds races, its lock excludes and its time passes."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

import pytest

from lentic.coordination.lock import LockProvider
from lentic.errors import Conflict, LockTimeout
from lentic.storage.base import Storage
from lentic.testing.simulation import START_MS, Crashed, Deadlock, Returned, Simulation
from lentic.world import World

SEEDS = range(200)


# Two counters: one checks and then writes, the other lets the storage decide.


def _racy_increment(storage: Storage) -> None:
    count = int(storage.read("count"))
    storage.replace("count", b"%d" % (count + 1))


def _safe_increment(storage: Storage) -> None:
    while not storage.put_if_absent(f"count/{len(storage.list_files('count'))}", b""):
        pass


def _three_actors(seed: int, work: Callable[[Simulation, str], object]) -> Simulation:
    sim = Simulation(seed)
    for name in ("a", "b", "c"):
        sim.actor(name, lambda name=name: work(sim, name))  # type: ignore[misc]
    return sim


def _counting(seed: int) -> Simulation:
    def work(sim: Simulation, name: str) -> str:
        world, storage = sim.world(name), sim.storage()
        for _ in range(3):
            _safe_increment(storage)
            world.clock.sleep(world.entropy.integer(5) / 1000)
        return world.entropy.uuid()

    return _three_actors(seed, work)


# Replay


def test_the_same_seed_gives_the_same_trace_and_outcome() -> None:
    first = _counting(7)
    outcome, trace = first.run(), first.trace
    assert len(trace) > 20
    for _ in range(100):
        again = _counting(7)
        assert again.run() == outcome
        assert again.trace == trace
        assert again.memory.walk("") == first.memory.walk("")
        assert again.storage().root == first.storage().root == first.memory.root


def test_different_seeds_give_different_traces() -> None:
    traces = set()
    for seed in range(20):
        sim = _counting(seed)
        sim.run()
        traces.add("\n".join(sim.trace))
    assert len(traces) == 20


def test_a_trace_line_has_fixed_columns() -> None:
    sim = Simulation()
    storage = sim.storage()
    sim.actor("writer", lambda: storage.put_if_absent("dir/a b", b"x"))
    sim.actor("reader", lambda: storage.read("nothing"))
    sim.run()
    lines = sorted((line[16:26].strip(), line[27:41].strip(), line[42:]) for line in sim.trace)
    assert lines == [
        ("reader", "read", "MissingFile    nothing"),
        ("writer", "put_if_absent", "True           dir/a b"),
    ]


# It can fail, and it does not cry wolf


def _final_count(seed: int, increment: Callable[[Storage], None]) -> Simulation:
    sim = _three_actors(seed, lambda sim, name: increment(sim.storage()))
    sim.memory.replace("count", b"0")
    assert all(isinstance(outcome, Returned) for outcome in sim.run().values())
    return sim


def test_a_check_then_write_counter_loses_updates_in_some_seed() -> None:
    counts = {int(_final_count(seed, _racy_increment).memory.read("count")) for seed in SEEDS}
    assert counts == {1, 2, 3}


def test_a_put_if_absent_counter_never_loses_an_update() -> None:
    for seed in SEEDS:
        sim = _final_count(seed, _safe_increment)
        assert len(sim.memory.list_files("count")) == 3, sim.trace


def test_two_callers_of_put_if_absent_win_in_turn_over_the_seeds() -> None:
    winners = set()
    for seed in range(50):
        sim = _three_actors(seed, lambda sim, name: sim.storage().put_if_absent("x", b""))
        outcome = sim.run()
        won = [name for name, end in outcome.items() if end == Returned(True)]
        assert len(won) == 1
        winners.update(won)
    assert winners == {"a", "b", "c"}


# Lock


def _locked_increment(sim: Simulation, lock: LockProvider, *, calls: int = 1) -> None:
    storage = sim.storage()
    for _ in range(calls):
        with lock.hold() as held:
            _racy_increment(storage)
            held.save_last_time(f"{held.epoch}")


def test_the_lock_excludes_and_counts_epochs() -> None:
    for seed in SEEDS:
        sim = Simulation(seed)
        lock = sim.lock()
        sim.memory.replace("count", b"0")
        for name in ("a", "b", "c"):
            sim.actor(name, lambda lock=lock, sim=sim: _locked_increment(sim, lock, calls=2))  # type: ignore[misc]
        sim.run()
        assert sim.memory.read("count") == b"6", sim.trace
        with lock.hold() as held:
            assert (held.epoch, held.last_time) == (7, "6")


def test_a_crash_in_the_lock_frees_it() -> None:
    for seed in range(50):
        sim = Simulation(seed)
        lock = sim.lock(timeout_ms=None)
        sim.memory.replace("count", b"0")
        for name in ("a", "b"):
            sim.actor(name, lambda lock=lock, sim=sim: _locked_increment(sim, lock))  # type: ignore[misc]
        sim.crash_at("a", call=2, when="before")
        outcome = sim.run()
        assert outcome == {"a": Crashed(), "b": Returned(None)}
        assert sim.memory.read("count") == b"1"
        with lock.hold() as held:
            assert held.epoch == 3


def test_an_actor_that_ends_without_releasing_frees_its_lock_and_no_later_one() -> None:
    sim = Simulation()
    lock = sim.lock(timeout_ms=None)
    kept = [lock.hold()]
    sim.actor("leaver", lambda: kept[0].__enter__().epoch)
    assert sim.run() == {"leaver": Returned(1)}

    def successor() -> str:
        with lock.hold():
            kept.clear()  # the leaver's block ends only now
            assert lock.holder is not None
            return lock.holder.name

    sim.actor("successor", successor)
    assert sim.run()["successor"] == Returned("successor")


def test_killed_holders_leave_the_lock_to_one_successor_at_a_time() -> None:
    sim = Simulation(3)
    storage, lock = sim.storage(), sim.lock()
    inside: list[str] = []

    def work(name: str) -> None:
        with lock.hold():
            inside.append(name)
            storage.info("x")
            storage.info("x")
            assert inside[-1] == name
            inside.append("")

    for name in "abcd":
        sim.actor(name, lambda name=name: work(name))  # type: ignore[misc]
    sim.crash_at("a", call=1, when="after")
    sim.crash_at("c", call=2, when="before")
    assert set(map(type, sim.run().values())) == {Returned, Crashed}


def test_waiting_for_a_lock_ends_with_its_time_out() -> None:
    sim = Simulation()
    lock, world = sim.lock(timeout_ms=5000), sim.world("a")

    def work() -> float:
        with lock.hold():
            before = world.clock.monotonic()
            with pytest.raises(LockTimeout, match="held by a"), lock.hold():
                raise AssertionError("not reentrant")
            return world.clock.monotonic() - before

    sim.actor("a", work)
    (end,) = sim.run().values()
    assert isinstance(end, Returned)
    assert end.value >= 5


def test_a_proof_is_worth_nothing_after_its_block() -> None:
    lock = Simulation().lock()
    with lock.hold() as held:
        held.ensure_held()
        held.save_last_time("1")
    with pytest.raises(Conflict):
        held.ensure_held()
    with pytest.raises(Conflict):
        held.save_last_time("2")


# Deadlock


def test_a_deadlock_is_reported_with_who_waits_for_whom() -> None:
    threads = threading.active_count()
    reported = 0
    for seed in range(50):
        sim = Simulation(seed)
        one, two, storage = sim.lock(timeout_ms=None), sim.lock(timeout_ms=None), sim.storage()

        def work(first: LockProvider, second: LockProvider, storage: Storage = storage) -> None:
            with first.hold():
                storage.info("x")
                with second.hold():
                    pass

        sim.actor("a", lambda one=one, two=two, work=work: work(one, two))  # type: ignore[misc]
        sim.actor("b", lambda one=one, two=two, work=work: work(two, one))  # type: ignore[misc]
        try:
            sim.run()
        except Deadlock as error:
            reported += 1
            assert "a: waits for b" in str(error)
            assert "b: waits for a" in str(error)
            assert f"seed {seed}" in str(error)
    assert 0 < reported < 50
    assert threading.active_count() <= threads + 2  # the last two may just be ending


def test_a_run_without_end_is_reported() -> None:
    sim = Simulation(steps_max=1000)

    def spin() -> None:
        while True:
            sim.world("a").clock.sleep(1)

    sim.actor("a", spin)
    with pytest.raises(Deadlock, match="no end"):
        sim.run()


# Time


def test_sleep_lets_others_run() -> None:
    for seed in range(50):
        sim = Simulation(seed)
        storage, world = sim.storage(), sim.world("sleeper")

        def wait(storage: Storage = storage, world: World = world) -> int:
            world.clock.sleep(10)
            return len(storage.list_files(""))

        def write(storage: Storage = storage) -> None:
            for name in "abcde":
                storage.put_if_absent(name, b"")

        sim.actor("sleeper", wait)
        sim.actor("writer", write)
        assert sim.run()["sleeper"] == Returned(5), sim.trace


def test_a_polling_loop_sees_what_another_actor_writes() -> None:
    for seed in range(50):
        sim = Simulation(seed)
        storage, world = sim.storage(), sim.world("poll")

        def poll(storage: Storage = storage, world: World = world) -> None:
            while storage.info("done") is None:
                world.clock.sleep(0.01)

        sim.actor("poll", poll)
        sim.actor("work", lambda storage=storage: storage.put_if_absent("done", b""))  # type: ignore[misc]
        assert sim.run()["poll"] == Returned(None)


def test_clocks_advance_with_each_look_and_keep_their_skew() -> None:
    sim = Simulation(jump_ms_max=1)
    here, there = sim.world("a").clock, sim.world("b", skew_ms=-600_000).clock
    assert [here.now_ms(), here.now_ms(), there.now_ms()] == [
        START_MS + 1,
        START_MS + 2,
        START_MS + 3 - 600_000,
    ]
    here.sleep(1.5)
    assert here.monotonic() == there.monotonic() - 0.001 == 1.504


def test_time_jumps_now_and_then() -> None:
    clock = Simulation(1, jump_ms_max=1000).world("a").clock
    times = [clock.now_ms() for _ in range(500)]
    steps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert min(steps) == 1
    assert 100 < max(steps) <= 1000


def test_chance_depends_on_seed_and_name_alone() -> None:
    def draw(seed: int, name: str) -> tuple[str, int]:
        entropy = Simulation(seed).world(name).entropy
        return entropy.uuid(), entropy.integer(10**9)

    assert draw(1, "a") == draw(1, "a")
    assert len({draw(seed, name) for seed in (1, 2) for name in "ab"}) == 4
    assert draw(1, "a")[0][14] == "4"
