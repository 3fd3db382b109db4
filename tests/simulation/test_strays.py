"""Attempts that outlive their write (the design "Robust Spark writes", cases 1 and 2).

A worker sleeps at one of its storage calls and wakes up when the driver has committed, or given up,
or stands anywhere in between. Nobody stops it; whatever it then does must change nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from lentic.coordination.lock import LockProvider
from lentic.errors import InstantCancelled, InvalidRecord, LenticError
from lentic.format.names import Action, requested_at_of
from lentic.storage.base import Storage
from lentic.testing.checkers import check_table, list_leftovers
from lentic.testing.crash_sweep import Scene
from lentic.testing.simulation import Crashed, Raised, Returned, Simulation, When
from lentic.testing.tables import open_on
from lentic.timeline.reader import load_timeline
from lentic.world import World
from tests.rfc.claims import says
from tests.simulation.cases import (
    BEFORE,
    COW,
    COW_BUCKETS,
    FIRST_SEED,
    MOR,
    MOR_BUCKETS,
    NEXT,
    SEEDS,
    STRICT,
    Case,
    Shape,
    arrow,
    case_named,
    ensure_sound,
    read,
    rows,
    sample,
    scene,
    storage_calls,
    upserted,
)
from tests.simulation.cluster import (
    COMPACT,
    ClusterRun,
    ensure_next_writer_works,
    ensure_written_once,
    play,
)

NIGHT_MS = 1_000_000
"""Longer than everything else that happens."""
FAIL: dict[str, object] = {"lentic.write.finalize.on_rerun": "fail"}
RECOVER: dict[str, object] = {"lentic.write.finalize.on_rerun": "recover"}
SAMPLE = 6
WAYS: tuple[When, When] = ("before", "after")
TORN: When = "torn"

UPSERT = case_named("upsert")
SOME = pytest.mark.parametrize(
    ("case", "shape"),
    [
        (UPSERT, MOR_BUCKETS),
        (UPSERT, COW),
        (case_named("insert_overwrite_table"), COW_BUCKETS),
        (COMPACT, MOR),
    ],
    ids=lambda value: value.name,
)
BOTH_ANSWERS = pytest.mark.parametrize("options", [FAIL, RECOVER], ids=["fail", "recover"])


def stray_first(sim: Simulation) -> None:
    """Worker 1 goes ahead, until it sleeps somewhere; worker 0 then does the work."""
    sim.pause_at("worker-0", call=1, pause_ms=20_000)


def stray_sleeps(call: int) -> Callable[[Simulation], None]:
    """Worker 1 sleeps at its storage call number `call` until all others have ended."""

    def plan(sim: Simulation) -> None:
        stray_first(sim)
        sim.pause_at("worker-1", call=call, pause_ms=NIGHT_MS)

    return plan


def stray_call(case: Case, start: Scene, what: str, after: int = 0) -> int:
    """The first storage call of worker 1 that says `what`, when it goes ahead and never sleeps."""
    calls = storage_calls(play(case.act, start, plan=stray_first).sim.trace, "worker-1")
    return next(n for n, line in enumerate(calls, 1) if n > after and what in line)


def calls_of_stray(case: Case, start: Scene) -> int:
    return play(case.act, start, plan=stray_first).sim.calls("worker-1")


def written_by(run: ClusterRun, worker: str) -> list[str]:
    """The lines of the trace in which the worker made a data file."""
    return [line for line in run.sim.trace if worker in line and "close_output" in line]


# Case 1: the driver committed meanwhile


@says("robust.case1", "S3")
@BOTH_ANSWERS
@SOME
def test_case_1_a_stray_that_wakes_up_after_the_commit_leaves_no_file(
    case: Case, shape: Shape, options: dict[str, object]
) -> None:
    """S3: it may have looked for the finalize marker before there was one. Whatever it had done,
    it ends on its own, and no file is there that the commit does not name."""
    start = scene(shape)
    calls = range(1, calls_of_stray(case, start) + 1)
    refused = 0
    name = f"stray {case.name}-{shape.name} {options}"
    for call in sample(calls, SAMPLE, name):
        run = play(case.act, start, options=options, plan=stray_sleeps(call))
        assert run.sim.outcomes["worker-1"] == Returned(None), run
        ensure_written_once(run, case, start)
        refused += any(isinstance(error, InstantCancelled) for error in run.failures)
        ensure_next_writer_works(run, [case.after], start)
    assert refused


@says("S3", "robust.case1.missing", "robust.fm.order", "R7")
@SOME
def test_s3_a_stray_that_writes_while_the_driver_finalizes_is_seen_by_it_or_sees_it(
    case: Case, shape: Shape
) -> None:
    """The driver stands at each of its calls, from finalizing on. The stray wakes up, writes its
    file, looks for the finalize marker, and falls asleep again before it makes its completion
    marker; the commit has removed those of the others when it wakes up for the last time."""
    start = scene(shape)
    opens = stray_call(case, start, "open_output")
    completes = stray_call(case, start, ".completed.json", after=opens)
    stands = driver_calls_after_work(case, start, FAIL)
    for stand, wakes in sample([(d, k) for d in stands for k in (0, 1)], 4 * SAMPLE, "s3"):

        def plan(sim: Simulation, stand: int = stand, wakes: int = wakes) -> None:
            stray_first(sim)
            sim.pause_at("worker-1", call=opens, pause_ms=100_000)
            sim.pause_at("driver", call=stand, pause_ms=300_000)
            sim.pause_at("worker-1", call=completes - wakes, pause_ms=NIGHT_MS)

        run = play(case.act, start, plan=plan)
        ensure_written_once(run, case, start)
        ensure_next_writer_works(run, [case.after], start)


def killed_after_its_sleep(case: Case, start: Scene, sleep: int, name: str) -> Iterator[ClusterRun]:
    """Worker 1 sleeps at call `sleep`, wakes up after the commit, writes a file, and dies between
    creating and removing it."""
    awake = play(case.act, start, plan=stray_sleeps(sleep))
    calls = storage_calls(awake.sim.trace, "worker-1")
    opens = next(n for n, line in enumerate(calls, 1) if "open_output" in line)
    removes = next(n for n, line in enumerate(calls, 1) if "delete" in line)
    torn = set(awake.sim.torn_calls("worker-1"))
    points: list[tuple[int, When]] = []
    for call in range(max(sleep, opens) + 1, removes + 1):
        points += [(call, "before"), (call, "after"), *([(call, TORN)] if call in torn else [])]
    for call, when in sample(points, SAMPLE, name):

        def plan(sim: Simulation, call: int = call, when: When = when) -> None:
            stray_sleeps(sleep)(sim)
            sim.crash_at("worker-1", call=call, when=when)

        run = play(case.act, start, plan=plan)
        assert run.sim.outcomes["worker-1"] == Crashed(), run
        assert isinstance(run.outcome, Returned), run
        yield run


@says("S2", "robust.both")
@SOME
def test_s2_a_stray_that_is_killed_after_the_commit_is_cleaned_up_after_by_the_next_writer(
    case: Case, shape: Shape
) -> None:
    """It slept before it announced its file, and dies before it can remove it: nobody sees the
    file, and the begin marker still tells of it."""
    start = scene(shape)
    announces = stray_call(case, start, ".marker.")
    name = f"killed stray {case.name}-{shape.name}"
    left: list[str] = []
    for run in killed_after_its_sleep(case, start, announces, name):
        left += list_leftovers(run.sim.memory)
        ensure_next_writer_works(run, [case.after], start)
    assert any(requested_at_of(path.rpartition("/")[2]) for path in left), "none left a file"


@says("S2", "robust.both")
@SOME
def test_s2_a_killed_stray_whose_announcement_is_gone_stays_invisible(
    case: Case, shape: Shape
) -> None:
    """It slept between announcing and writing, and the commit removed the begin marker: its file
    may stay, but it counts for nobody, because the commit does not name it (R5)."""
    start = scene(shape)
    opens = stray_call(case, start, "open_output")
    name = f"forgotten stray {case.name}-{shape.name}"
    for run in killed_after_its_sleep(case, start, opens, name):
        memory, world = run.sim.memory, run.sim.world("next")
        assert read(memory, world, run.lock) == case.after, run
        assert check_table(memory) == [], run
        upsert_next(memory, world, run.lock)
        assert read(memory, world, run.lock) == upserted(case.after, NEXT), run
        assert check_table(memory) == [], run


# Case 2: all tasks run again while the driver stands at each of its calls


def rerun_while_driver_stands_at(call: int) -> Callable[[Simulation], None]:
    def plan(sim: Simulation) -> None:
        sim.pause_at("worker-1", call=1, pause_ms=100_000)
        sim.pause_at("driver", call=call, pause_ms=NIGHT_MS)

    return plan


def driver_calls_after_work(case: Case, start: Scene, options: dict[str, object]) -> range:
    """The calls that the driver makes once it has every result, but for the last."""
    whole = play(case.act, start, options=options, plan=rerun_while_driver_stands_at(100_000))
    calls = storage_calls(whole.sim.trace, "driver")
    first = next(n for n, line in enumerate(calls, 1) if ".finalized.json" in line)
    return range(first, len(calls) + 1)


@says("robust.case2", "robust.fm.fail")
@SOME
def test_case_2_a_rerun_of_all_tasks_under_fail_is_refused_and_harms_nothing(
    case: Case, shape: Shape
) -> None:
    start, refused = scene(shape), 0
    calls = driver_calls_after_work(case, start, FAIL)
    for call in sample(calls, SAMPLE, f"rerun fail {case.name}-{shape.name}"):
        run = play(case.act, start, options=FAIL, plan=rerun_while_driver_stands_at(call))
        assert all(isinstance(error, InstantCancelled) for error in run.failures), run
        assert all("safe: " in str(error) for error in run.failures), run
        assert written_by(run, "worker-1") == [], run
        ensure_written_once(run, case, start)
        refused += bool(run.failures)
        ensure_next_writer_works(run, [case.after], start)
    assert refused


@says("robust.case2", "robust.case2.same", "robust.fm.recover", "S4")
@SOME
def test_case_2_s4_a_rerun_under_recover_serves_exactly_what_was_accepted(
    case: Case, shape: Shape
) -> None:
    """Until the write has ended; from then on there is nothing to serve, and it is refused."""
    start, served, refused = scene(shape), 0, 0
    calls = driver_calls_after_work(case, start, RECOVER)
    ended = calls.stop  # the driver never comes to that call
    for call in [*sample(calls, SAMPLE, f"rerun recover {case.name}-{shape.name}"), ended]:
        run = play(case.act, start, options=RECOVER, plan=rerun_while_driver_stands_at(call))
        assert written_by(run, "worker-1") == [], run
        for stage in run.cluster.job.stages:
            for attempt, texts in stage.done.items():
                assert sorted(texts) == sorted(stage.first(attempt.task) or ()), run
                served += attempt.number == 1
            assert all(isinstance(e, InstantCancelled) for e in stage.failed.values()), run
            refused += bool(stage.failed)
        ensure_written_once(run, case, start)
        ensure_next_writer_works(run, [case.after], start)
    assert served
    assert refused


# The driver gave up meanwhile


def ensure_nothing_came_of_it(run: ClusterRun, start: Scene) -> None:
    memory, world = run.sim.memory, run.sim.world("next")
    assert read(memory, world, run.lock) == BEFORE, run
    assert check_table(memory) == [], run
    ensure_sound(memory, world, run.lock, began=start, allowed=[BEFORE], trace=run)


@says("robust.case1.after")
@pytest.mark.parametrize("finalized", [False, True], ids=["open", "finalized"])
@pytest.mark.parametrize("shape", [MOR_BUCKETS, COW], ids=lambda shape: shape.name)
def test_a_stray_that_wakes_up_after_a_rollback_changes_nothing(
    shape: Shape, finalized: bool
) -> None:
    """The driver failed, before the finalize marker or after it, and rolled its write back."""
    start = scene(shape)
    first = driver_calls_after_work(UPSERT, start, FAIL).start
    fails_at = first + 5 if finalized else first
    for call in sample(range(1, calls_of_stray(UPSERT, start) + 1), SAMPLE, f"undone {shape}"):

        def plan(sim: Simulation, call: int = call) -> None:
            stray_sleeps(call)(sim)
            sim.fail_at("driver", call=fails_at, when="before")

        run = play(UPSERT.act, start, plan=plan)
        assert isinstance(run.outcome, Raised) and isinstance(run.outcome.error, LenticError), run
        assert run.sim.outcomes["worker-1"] == Returned(None), run
        ensure_nothing_came_of_it(run, start)


@pytest.mark.parametrize("shape", [MOR_BUCKETS, COW], ids=lambda shape: shape.name)
def test_a_stray_of_a_write_that_was_refused_changes_nothing(shape: Shape) -> None:
    """One task refuses its rows while nobody has announced a file: the instant is withdrawn, and
    nothing on the timeline tells of it any more."""
    start = scene(shape, STRICT)
    bad = arrow(rows(("a0", 3, 1)) | {"f1": {"id": "f1", "ts": 3, "part": "p1"}})
    ends = set()
    for call in sample(range(1, 25), 2 * SAMPLE, f"refused {shape}"):
        run = play(
            lambda table: table.upsert(bad),
            start,
            seed=call,
            tries=1,
            options={"hoodie.upsert.shuffle.parallelism": 16},
            plan=stray_sleeps(call),
        )
        assert isinstance(run.outcome, Raised), run
        assert isinstance(run.outcome.error, InvalidRecord), run
        ends.add(len(load_timeline(run.sim.memory).completed(Action.ROLLBACK)))
        ensure_nothing_came_of_it(run, start)
    assert 0 in ends, "none was withdrawn: too little was tried"


# The driver died meanwhile


def driver_dies(seed: int, calls: int) -> Callable[[Simulation], None]:
    chance = random.Random(f"{seed}/death")
    call, when = 1 + chance.randrange(calls), chance.choice(WAYS)
    return lambda sim: sim.crash_at("driver", call=call, when=when)


@says("S5")
@pytest.mark.parametrize(
    ("case", "shape"),
    [(UPSERT, MOR_BUCKETS), (case_named("insert_overwrite"), COW), (UPSERT, COW_BUCKETS)],
    ids=lambda value: value.name,
)
def test_s5_workers_that_outlive_their_driver_do_not_hinder_the_next_writer(
    case: Case, shape: Shape
) -> None:
    """The driver dies anywhere, also between finalizing and completing; the next writer rolls its
    write back, or finds it completed, while its workers still write."""
    start, ends = scene(shape), []
    calls = play(case.act, start).sim.calls("driver")
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        plan = driver_dies(seed, calls)
        run = play(case.act, start, seed=seed, plan=plan, then=upsert_next)
        end = run.sim.outcomes["next"]
        assert isinstance(end, Returned), f"{end}\n{run}"
        allowed = [upserted(rows, NEXT) for rows in (BEFORE, case.after)]
        ends.append(ensure_next_writer_works(run, allowed, start))
    assert any(end != ends[0] for end in ends) or SEEDS < 20, "both ends must occur"


def upsert_next(storage: Storage, world: World, lock: LockProvider) -> None:
    open_on(storage, world, lock).upsert(arrow(NEXT))


@says("S5", "S10")
def test_s5_s10_a_compaction_is_run_again_while_workers_of_a_dead_driver_still_write() -> None:
    """Tokens of both runs begin at 0, and still no name is shared. The second run may be told to
    start over, and nothing else; the third, on its own, works."""
    start = scene(MOR_BUCKETS)
    calls = play(COMPACT.act, start).sim.calls("driver")
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        plan = driver_dies(seed, calls)
        run = play(COMPACT.act, start, seed=seed, plan=plan, then=COMPACT.flow)
        end = run.sim.outcomes["next"]
        refused = isinstance(end, Raised) and isinstance(end.error, LenticError)
        assert refused or isinstance(end, Returned), f"{end}\n{run}"
        memory, world = run.sim.memory, run.sim.world("third")
        assert read(memory, world, run.lock) == BEFORE, run
        assert check_table(memory) == [], run
        COMPACT.flow(memory, world, run.lock)
        slices = open_on(memory, world, run.lock).file_slices()
        assert all(part.base and not part.logs for part in slices), run
        ensure_next_writer_works(run, [BEFORE], start)
