"""Every flow is killed at every storage call, in every way, and the table must not care.

After each kill a fresh process looks: readers see all of the commit or nothing of it, the checkers
find nothing, and the next upsert works and leaves no debris. The write operations have a sweep of
their own, `test_crash_matrix`; this is the rest, and the clean-up itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lentic.errors import TableExists
from lentic.format.names import Action
from lentic.testing.checkers import check_table, list_leftovers
from lentic.testing.crash_sweep import (
    CrashRun,
    Scene,
    crash_points,
    run_with_crash,
    set_scene,
    sweep,
)
from lentic.testing.simulation import START_MS
from lentic.testing.tables import open_on
from lentic.timeline.reader import load_timeline
from tests.rfc.claims import says
from tests.simulation import flows
from tests.simulation.cases import distinct, sample
from tests.simulation.flows import Rows, after, compact, create, fold, log_compact, upsert

FIRST: Rows = {"a0": 1, "b0": 1, "c1": 1, "d1": 1}
SECOND: Rows = {"a0": 2, "b0": 0, "e1": 2, "f2": 2}
THIRD: Rows = {"a0": 3, "g0": 3}


def read(run: CrashRun) -> Rows:
    return flows.read(run.storage, run.world, run.lock)


def ensure_sound(run: CrashRun, *allowed: Rows) -> None:
    """The table is one of `allowed`, and stays usable: the next upsert works and cleans up."""
    seen = read(run)
    assert seen in allowed, f"{seen} is none of {allowed}\n{run}"
    assert check_table(run.storage) == [], run
    upsert(THIRD)(run.storage, run.world, run.lock)
    assert read(run) == fold(seen, THIRD), run
    assert check_table(run.storage) == [], run
    assert list_leftovers(run.storage) == [] or is_open_compaction(run), run


def is_open_compaction(run: CrashRun) -> bool:
    """A killed compaction keeps its plan, and its files until the plan is executed again."""
    return bool(load_timeline(run.storage).pending(Action.COMPACTION, Action.LOGCOMPACTION))


TYPES = pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])


@TYPES
def test_a_killed_create_leaves_a_whole_table_or_none(table_type: str) -> None:
    runs = 0
    for run in sweep(create(table_type)):
        runs += 1
        try:
            create(table_type)(run.storage, run.world, run.lock)
        except TableExists:
            assert run.point is not None and run.point.when == "after", run
        ensure_sound(run, {})
    assert runs >= 2


@TYPES
def test_a_killed_first_upsert_shows_all_or_nothing(table_type: str) -> None:
    seen = set()
    for run in distinct(sweep(upsert(FIRST), create(table_type))):
        seen.add(len(read(run)))
        ensure_sound(run, {}, FIRST)
    assert seen == {0, len(FIRST)}, "both outcomes must occur, or the sweep proves nothing"


def killed_compactions() -> Iterator[CrashRun]:
    start = set_scene(after(create("MERGE_ON_READ"), upsert(FIRST, SECOND)))
    points = sample(crash_points(compact, start), 50, "compaction")
    return distinct(run_with_crash(compact, point, start) for point in points)


@says("rfc79.immutable.rollback")
def test_a_killed_compaction_changes_no_row_and_can_be_run_again() -> None:
    expected = fold(FIRST, SECOND)
    for run in killed_compactions():
        assert read(run) == expected, run
        assert check_table(run.storage) == [], run
        compact(run.storage, run.world, run.lock)
        assert read(run) == expected, run
        slices = open_on(run.storage, run.world, run.lock).file_slices()
        assert all(not part.logs and part.base for part in slices), run
        ensure_sound(run, expected)
        assert list_leftovers(run.storage) == [], run


def test_a_killed_compaction_does_not_stop_upserts() -> None:
    for run in killed_compactions():
        ensure_sound(run, fold(FIRST, SECOND))
        compact(run.storage, run.world, run.lock)
        assert read(run) == fold(FIRST, SECOND, THIRD), run
        assert list_leftovers(run.storage) == [], run


def killed_log_compactions() -> Iterator[CrashRun]:
    start = set_scene(after(create("MERGE_ON_READ"), upsert(FIRST, SECOND)))
    points = sample(crash_points(log_compact, start), 50, "log compaction")
    return distinct(run_with_crash(log_compact, point, start) for point in points)


def test_a_killed_log_compaction_changes_no_row_and_can_be_run_again() -> None:
    expected, was_open = fold(FIRST, SECOND), 0
    for run in killed_log_compactions():
        was_open += is_open_compaction(run)
        assert read(run) == expected, run
        assert check_table(run.storage) == [], run
        log_compact(run.storage, run.world, run.lock)
        assert read(run) == expected, run
        slices = open_on(run.storage, run.world, run.lock).file_slices()
        assert sum(log.folds for part in slices for log in part.logs) == 3, run
        assert not is_open_compaction(run), run
        ensure_sound(run, expected)
        assert list_leftovers(run.storage) == [], run
    assert was_open, "some must die half-way, or the sweep proves nothing"


def test_a_killed_log_compaction_stops_neither_upserts_nor_compactions() -> None:
    for run in killed_log_compactions():
        ensure_sound(run, fold(FIRST, SECOND))
        compact(run.storage, run.world, run.lock)
        assert read(run) == fold(FIRST, SECOND, THIRD), run
        log_compact(run.storage, run.world, run.lock)
        compact(run.storage, run.world, run.lock)
        assert read(run) == fold(FIRST, SECOND, THIRD), run
        assert list_leftovers(run.storage) == [], run


@says("R16")
@TYPES
def test_a_killed_clean_up_after_a_kill_converges(table_type: str) -> None:
    """The upsert that rolls a dead write back is itself killed at every call."""
    start = set_scene(after(create(table_type), upsert(FIRST)))
    points = sample(crash_points(upsert(SECOND), start), 30, f"deaths {table_type}")
    every = (run_with_crash(upsert(SECOND), point, start) for point in points)
    deaths = [run for run in distinct(every, always=True) if list_leftovers(run.storage)]
    assert deaths
    for death in sample(deaths, 3, f"deaths {table_type}"):
        files = tuple((file.path, death.storage.read(file.path)) for file in death.storage.walk(""))
        left = Scene(files, now_ms=death.world.clock.now_ms() - START_MS)
        points = crash_points(upsert(THIRD), left)
        for point in sample(points, 16, f"clean-up {table_type} {death.point}"):
            run = run_with_crash(upsert(THIRD), point, left)
            seen = read(run)
            base = (FIRST, fold(FIRST, SECOND))
            assert seen in (*base, *(fold(rows, THIRD) for rows in base)), run
            ensure_sound(run, seen)
