"""RFC-79, "Test Plan": each row of its two tables of scenarios, over many schedules with faults.

`LENTIC_SCENARIO_SEEDS` says how many schedules each is played in; `make scenarios` plays 2000.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest

from lentic.errors import PlanMustBeRolledBack
from lentic.format.names import Action
from lentic.testing.simulation import Crashed
from lentic.timeline.reader import load_timeline
from tests.rfc.claims import says
from tests.rfc.guard_plays import (
    Play,
    begin,
    ensure_it_ends,
    inflight,
    judge,
    requested,
)
from tests.rfc.guard_scenes import OLD_S, REMOVABLE_KINDS, STAYING_KINDS

FIRST_SEED = int(os.environ.get("LENTIC_SCENARIO_SEED", "0"))
SEEDS = int(os.environ.get("LENTIC_SCENARIO_SEEDS", "25"))


def seeds() -> Iterator[int]:
    yield from range(FIRST_SEED, FIRST_SEED + SEEDS)


def staying(seed: int) -> str:
    return STAYING_KINDS[seed % len(STAYING_KINDS)]


def removable(seed: int) -> str:
    return REMOVABLE_KINDS[seed % len(REMOVABLE_KINDS)]


def targeted(play: Play) -> bool:
    """Whether anybody ever planned to roll the plan back; nothing else is rolled back here."""
    timeline = load_timeline(play.scene.memory)
    return any(instant.action is Action.ROLLBACK for instant in timeline.instants)


# --- "Compaction and table service plans that are not removable-plan" ----------------------------


@says("rfc79.stays.a", "rfc79.design.one", "rfc79.design.race", "rfc79.execute.note")
def test_a_plan_that_stays_scenario_a_many_execute_a_new_plan_and_one_completes_it() -> None:
    """Table 1, A. However many begin at once, the plan is completed once, by one of them; all
    others hear that it is busy or that it is done. If nothing happens to them, somebody does it."""
    ends: Counter[str] = Counter()
    for seed in seeds():
        play = begin(staying(seed), seed, "1A", requested)
        play.harm("x", "y", "z")
        for name in ("x", "y", "z"):
            play.executes(name)
        play.run()
        judge(play)
        if play.is_calm:
            assert sum(map(play.has_committed, ("x", "y", "z"))) == 1, play
        ends[f"{play.is_done()}"] += 1
        ensure_it_ends(play, is_removable=False)
    assert ends["True"], ends


def play_b(kind: str, seed: int, scenario: str) -> Play:
    play = begin(kind, seed, scenario, requested)
    play.harm("x", "y")
    play.executes("x")
    play.executes("y", after=lambda: play.is_begun() or play.is_over("x"))
    play.run()
    judge(play)
    return play


@says("rfc79.stays.b", "rfc79.execute.3")
def test_a_plan_that_stays_scenario_b_who_comes_later_undoes_the_first_before_it_completes() -> (
    None
):
    """Table 1, B. Whoever finds the plan begun leaves it alone while the first one lives, and else
    removes what that one made before it completes the plan with files of its own. Nobody completes
    what another completed."""
    ends: Counter[str] = Counter()
    for seed in seeds():
        play = play_b(staying(seed), seed, "1B")
        ends["y"] += play.has_committed("y")
        if play.has_committed("x"):
            assert play.has_failed("y") or play.was_told_completed("y"), play
        if play.has_committed("y") and play.ends["x"] == Crashed():
            assert play.scene.files() == play.scene.named(), f"what x left is gone\n{play}"
        ensure_it_ends(play, is_removable=False)
    assert ends["y"] or SEEDS < 25, ends


@says("rfc79.stays.c")
def test_a_plan_that_stays_scenario_c_an_execution_that_died_is_undone_by_whoever_completes() -> (
    None
):
    """Table 1, C. Two find a plan that somebody began and left. At most one of them completes it,
    and no file of the dead one is left when it does."""
    ends: Counter[str] = Counter()
    for seed in seeds():
        play = begin(staying(seed), seed, "1C", inflight)
        before = play.scene.files()
        play.harm("x", "y")
        for name in ("x", "y"):
            play.executes(name)
        play.run()
        judge(play)
        if play.is_done():
            assert not before & play.scene.named(), play
            assert not before & play.scene.files(), play
        if play.is_calm:
            assert play.has_committed("x") != play.has_committed("y"), play
        ends[f"{play.is_done()}"] += 1
        ensure_it_ends(play, is_removable=False)
    assert ends["True"], ends


# --- "Removable-plan clustering / logcompaction" -------------------------------------------------


@says("rfc79.goes.a", "rfc79.design.race")
def test_a_removable_plan_scenario_a_many_execute_a_new_plan_and_one_at_most_completes_it() -> None:
    """Table 2, A. As for a plan that stays, only that an execution which fails is the last one."""
    for seed in seeds():
        play = begin(removable(seed), seed, "2A", requested)
        play.harm("x", "y", "z")
        for name in ("x", "y", "z"):
            play.executes(name)
        play.run()
        judge(play)
        if play.is_calm:
            assert sum(map(play.has_committed, ("x", "y", "z"))) == 1, play
        ensure_it_ends(play, is_removable=True)


@says("rfc79.goes.b")
def test_a_removable_plan_scenario_b_who_comes_later_never_executes_what_was_begun() -> None:
    """Table 2, B. Whoever finds the plan begun does not execute it, whatever became of the first
    one: if that one completes the plan the other may hear so, else both have failed."""
    ends: Counter[str] = Counter()
    for seed in seeds():
        play = play_b(removable(seed), seed, "2B")
        has_begun = play.when("x", "put_if_absent", ".inflight") is not None
        if has_begun or play.scene.has_lease:
            assert not (play.has_committed("y") and _began_first(play)), play
        if not play.is_done():
            assert play.has_failed("y"), play
        ends["refused"] += isinstance(play.error("y"), PlanMustBeRolledBack)
        ensure_it_ends(play, is_removable=True)
    assert ends["refused"] or SEEDS < 25, ends


def _began_first(play: Play) -> bool:
    """Whether the plan was inflight, by x, before y took its guard."""
    mine = play.when("y", "put_if_absent", "/.guard/")
    theirs = play.when("x", "put_if_absent", ".inflight")
    return theirs is not None and (mine is None or theirs < mine)


@says("rfc79.goes.c")
def test_a_removable_plan_scenario_c_what_was_begun_and_left_is_executed_by_nobody() -> None:
    """Table 2, C. Two find a plan that somebody began and left: both are refused, and told to roll
    it back."""
    told: Counter[str] = Counter()
    for seed in seeds():
        play = begin(removable(seed), seed, "2C", inflight)
        play.harm("x", "y", calls=12)
        for name in ("x", "y"):
            play.executes(name)
        play.run()
        judge(play)
        assert play.has_failed("x") and play.has_failed("y"), play
        assert not play.is_done(), play
        for name in ("x", "y"):
            told[type(play.error(name)).__name__] += 1
            if play.is_calm:
                assert isinstance(play.error(name), PlanMustBeRolledBack), play
        ensure_it_ends(play, is_removable=True)
    assert told["PlanMustBeRolledBack"], told


@says("rfc79.goes.d", "rfc79.clean.note")
@pytest.mark.parametrize("is_old", [False, True], ids=["young", "old"])
def test_a_removable_plan_scenario_d_clean_leaves_alone_what_is_executed_or_young(
    is_old: bool,
) -> None:
    """Table 2, D. A clean beside an execution: a plan that is young, or that somebody executes, is
    not rolled back. An old one is, before its execution begins or after the executor died; then
    it is never completed."""
    ends: Counter[str] = Counter()
    for seed in seeds():
        play = begin(removable(seed), seed, "2D", requested)
        play.harm("x", "y")
        if is_old:
            play.scene.sleep(OLD_S)
        play.executes("x")
        play.cleans("y")
        play.run()
        judge(play)
        if targeted(play):
            assert is_old, f"it is young\n{play}"
            assert not play.is_done(), play
            begun = play.when("x", "put_if_absent", "/.guard/")
            picked = play.when("y", "put_if_absent", ".rollback.requested")
            if begun is not None and picked is not None and begun < picked:
                assert "x" in play.faults, f"x was alive\n{play}"
        elif play.is_calm:
            assert play.has_committed("x"), play
        ends[f"{targeted(play)}"] += 1
        ensure_it_ends(play, is_removable=True)
    assert ends["True"] > 0 or not is_old or SEEDS < 25, ends


@says("rfc79.goes.e")
@pytest.mark.parametrize("is_old", [False, True], ids=["young", "old"])
def test_a_removable_plan_scenario_e_after_a_clean_only_what_it_left_alone_is_executed(
    is_old: bool,
) -> None:
    """Table 2, E. A clean, and then an execution: a young plan is still there and can be executed.
    An old one is rolled back, and whoever comes to execute it fails, unless the clean failed
    before it had planned so."""
    for seed in seeds():
        play = begin(removable(seed), seed, "2E", requested)
        play.harm("x", "y")
        if is_old:
            play.scene.sleep(OLD_S)
        play.cleans("x")
        play.executes("y", after=lambda play=play: play.is_over("x") or targeted(play))
        play.run()
        judge(play)
        if not is_old:
            assert not targeted(play), f"it is young\n{play}"
            assert play.has_committed("y") or "y" in play.faults, play
        elif targeted(play):
            assert play.has_failed("y") and not play.is_done(), play
        else:
            # To a cleaner whose clock is behind the plan looks younger than it is.
            is_behind = play.skews_ms["x"] < 0
            assert is_behind or "x" in play.faults, f"x had no reason to leave it\n{play}"
        ensure_it_ends(play, is_removable=True)
