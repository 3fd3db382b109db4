"""How long duties rest."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lentic.runner.rest import CHANCES, FIRST_S, IDLE_S, LONGEST_S, Rests, plan_rest_s


def test_each_failure_doubles_the_rest_up_to_an_hour() -> None:
    rests = [plan_rest_s(failures, chance=0) for failures in range(1, 13)]
    assert rests[:4] == [FIRST_S, 2 * FIRST_S, 4 * FIRST_S, 8 * FIRST_S]
    assert rests[-1] == LONGEST_S
    assert plan_rest_s(10_000, 0) == LONGEST_S


@given(failures=st.integers(1, 10_000), chance=st.integers(0, CHANCES - 1))
def test_chance_takes_up_to_half_of_a_rest_away(failures: int, chance: int) -> None:
    whole = plan_rest_s(failures, 0)
    assert whole / 2 < plan_rest_s(failures, chance) <= whole


def test_a_failed_duty_rests_and_the_others_do_not() -> None:
    rests = Rests().after_failure("compaction", now_s=100.0, chance=0)
    assert rests.resting(100.0, "d") == {"compaction"}
    assert rests.resting(100.0 + FIRST_S, "d") == frozenset()
    assert rests.waits_s(104.0) == {"compaction": FIRST_S - 4}


def test_failures_in_a_row_add_up_until_a_success() -> None:
    rests = Rests()
    for _ in range(3):
        rests = rests.after_failure("clean", 0.0, 0)
    assert rests.waits_s(0.0) == {"clean": 4 * FIRST_S}
    rests = rests.after_success("clean").after_failure("clean", 0.0, 0)
    assert rests.waits_s(0.0) == {"clean": FIRST_S}


def test_where_there_was_nothing_to_do_a_duty_rests_until_the_timeline_changes() -> None:
    rests = Rests().after_nothing("clean", 0.0, digest="one")
    assert rests.resting(1.0, "one") == {"clean"}
    assert rests.resting(1.0, "two") == frozenset()


def test_where_there_was_nothing_to_do_it_is_looked_again_after_a_while() -> None:
    rests = Rests().after_nothing("clean", 0.0, digest="one")
    assert rests.resting(IDLE_S, "one") == frozenset()
    assert rests.waits_s(1.0) == {}, "it is no failure"
