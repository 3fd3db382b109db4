"""Where a window begins, what it holds, and when there is none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from lentic.format.commit_metadata import CLUSTER, CommitMetadata
from lentic.format.names import Action, State
from lentic.format.plan_window import WINDOW_KEY, Look, PlanWindow, encode_window
from lentic.format.times import CompletedAt, RequestedAt
from lentic.timeline.instant import Instant
from lentic.timeline.timeline import Timeline
from lentic.view.changed_partitions import (
    FULL_LOOK_EVERY,
    Doubt,
    Fates,
    Now,
    Start,
    changed_partitions,
    digest_options,
    find_floor,
    find_last,
    find_start,
    find_undecided,
    list_completed,
    needs_history,
    order_carry,
)
from tests.unit.builders import completed, metadata, requested


def window(at: int, **more: object) -> PlanWindow:
    told = {"lo": CompletedAt(""), "hi": completed(at), "floor": requested(at), "options": "o"}
    return PlanWindow(at=requested(at), kind=Look.INCREMENTAL, **(told | more))  # type: ignore[arg-type]


def now(*, gone: tuple[int, ...] = (), aborted: tuple[int, ...] = (), **more: object) -> Now:
    def fates(relies: tuple[RequestedAt, ...]) -> Fates:
        return Fates(
            aborted=tuple(at for at in relies if at in {requested(n) for n in aborted}),
            gone=tuple(at for at in relies if at in {requested(n) for n in gone}),
        )

    told = {"is_undone": lambda at: False, "rolled_back": lambda after: ()} | more
    return Now(options="o", fates=fates, **told)  # type: ignore[arg-type]


def write(requested_at: int, completed_at: int | None, action: Action = Action.COMMIT) -> Instant:
    if completed_at is None:
        return Instant(requested(requested_at), action, State.INFLIGHT)
    return Instant(requested(requested_at), action, State.COMPLETED, completed(completed_at))


# --- where it begins ----------------------------------------------------------------------------


def test_the_newest_window_is_where_the_next_begins() -> None:
    newest = window(8, carry=("a",))
    assert find_start([newest, window(4, carry=("b",))], now()) == Start(newest, ("a",), ())


def test_no_more_plans_are_read_than_it_takes() -> None:
    def windows() -> Iterator[PlanWindow]:
        yield window(8)
        raise AssertionError("the second plan was asked for")

    assert isinstance(find_start(windows(), now()), Start)


def test_without_a_window_all_is_looked_at() -> None:
    assert isinstance(find_start([], now()), Doubt)


def test_a_plan_for_partitions_that_somebody_chose_is_passed_over() -> None:
    chosen = replace(window(8), kind=Look.CHOSEN)
    found = find_start([chosen, window(4)], now())
    assert isinstance(found, Start) and found.base == window(4)


def test_a_plan_that_says_nothing_casts_doubt_even_if_an_older_one_speaks() -> None:
    assert find_start([Doubt("it does not read"), window(4)], now()) == Doubt("it does not read")


def test_aborted_plans_that_were_relied_on_are_named_and_others_are_not() -> None:
    found = find_start([window(8, relies=(requested(3), requested(5)))], now(aborted=(5, 7)))
    assert isinstance(found, Start) and found.aborted == (requested(5),)


def test_a_window_that_relied_on_a_plan_that_is_gone_is_passed_over_with_its_carry_kept() -> None:
    newest = window(8, relies=(requested(3), requested(5)), carry=("a",), dropped=("c",))
    older = window(4, relies=(requested(3),), carry=("b",))
    found = find_start([newest, older], now(gone=(5,)))
    assert found == Start(older, ("b", "a", "c"), ())


def test_where_every_window_relied_on_what_is_gone_the_reason_names_it() -> None:
    relies = (requested(1),)
    found = find_start([window(8, relies=relies), window(4, relies=relies)], now(gone=(1,)))
    assert found == Doubt(f"the plan at {requested(1)} was rolled back", ())


def test_in_doubt_it_is_known_all_the_same_what_was_left_undone() -> None:
    newest = window(8, relies=(requested(5),), carry=("a",), dropped=("c",))
    said = Doubt("it does not say what it looked at", ("z",))
    assert find_start([newest, said], now(gone=(5,))) == replace(said, carry=("z", "a", "c"))
    other = window(4, options="other", carry=("b",))
    found = find_start([newest, other], now(gone=(5,)))
    assert isinstance(found, Doubt) and found.carry == ("b", "a", "c")


@pytest.mark.parametrize(
    ("changed", "judged", "why"),
    [
        ({}, {"restored_at": completed(9)}, "restored"),
        ({"options": "other"}, {}, "options"),
        ({"plans": FULL_LOOK_EVERY - 1}, {}, "50th"),
        ({"last": requested(3)}, {"is_undone": lambda at: at == requested(3)}, "rolled back"),
        ({"savepoints": (requested(2),)}, {"savepoints": frozenset({requested(3)})}, "savepoint"),
    ],
)
def test_doubt_has_a_reason(
    changed: dict[str, object], judged: dict[str, object], why: str
) -> None:
    found = find_start([window(8, **changed)], now(**judged))
    assert isinstance(found, Doubt) and why in found.why


def test_what_lies_before_the_window_casts_no_doubt() -> None:
    held = frozenset({requested(2), requested(3)})
    judged = now(restored_at=completed(7), savepoints=held)
    found = find_start([window(8, plans=FULL_LOOK_EVERY - 2, savepoints=(requested(2),))], judged)
    assert isinstance(found, Start)


@pytest.mark.parametrize(("target", "is_doubt"), [(2, True), (3, False), (5, False), (9, False)])
def test_a_rollback_casts_doubt_only_if_it_undid_what_had_completed(
    target: int, is_doubt: bool
) -> None:
    def rolled_back(after: RequestedAt) -> tuple[RequestedAt, ...]:
        return (requested(target),) if after == requested(8) else ()

    newest = window(8, undecided=(requested(3), requested(5)))
    found = find_start([newest, window(4)], now(rolled_back=rolled_back))
    assert isinstance(found, Doubt) == is_doubt
    assert not is_doubt or "rolled back" in str(found)


# --- what it holds ------------------------------------------------------------------------------


def test_a_window_is_half_open_and_goes_by_when_writes_completed() -> None:
    slow, first, last = write(1, 7), write(2, 4), write(5, 9)
    timeline = Timeline((slow, first, write(3, None), last))
    assert list_completed(timeline, completed(4), completed(9)) == (first, slow)
    assert list_completed(timeline, completed(5), completed(10)) == (slow, last)


def test_partitions_change_by_files_and_by_groups_that_end() -> None:
    written = metadata(f"a/fg_0-0-0_{requested(1)}.parquet", replaced={"b": ("fg",), "c": ()})
    assert changed_partitions([written], "", "x") == {"a", "b", "c"}


def test_what_a_service_did_itself_is_no_change_but_what_it_left_undone_is() -> None:
    own = metadata(f"a/fg_0-0-0_{requested(1)}.parquet", replaced={"a": ("fg",)})
    assert own.operation == CLUSTER
    assert changed_partitions([own], CLUSTER, "x") == frozenset()
    told = {WINDOW_KEY: encode_window(window(3, carry=("b",), dropped=("c",)))}
    left = CommitMetadata(CLUSTER, False, own.stats, told)
    assert changed_partitions([left], CLUSTER, "x") == {"c"}
    assert changed_partitions([left], "COMPACT", "x") == {"a"}


def test_the_last_write_is_the_one_that_completed_last_before_the_edge() -> None:
    timeline = Timeline((write(1, 7), write(2, 4), write(3, 9), write(5, None)))
    assert find_last(timeline, completed(9)) == requested(1)
    assert find_last(timeline, completed(4)) == ""


def test_what_was_left_undone_longest_comes_first() -> None:
    assert order_carry(("z", "gone", "b"), {"a", "b", "c", "z"}) == ("z", "b", "a", "c")
    assert order_carry((), {"b", "a"}) == ("a", "b")


def test_the_floor_is_the_oldest_write_that_may_complete_at_the_edge_or_later() -> None:
    timeline = Timeline((write(1, 2), write(3, 9), write(4, None), write(5, 6)))
    assert find_undecided(timeline, completed(8)) == (requested(3), requested(4))
    assert find_floor(timeline, requested(8), completed(8)) == requested(3)
    assert find_floor(Timeline((write(1, 2),)), requested(8), completed(8)) == requested(8)
    plan = write(2, None, Action.COMPACTION)
    assert find_floor(Timeline((plan,)), requested(8), completed(8)) == requested(2)


def test_the_history_is_asked_only_once_archiving_has_passed_the_floor() -> None:
    base = window(8, floor=requested(5))
    assert not needs_history(base, requested(4))
    assert not needs_history(base, RequestedAt(""))
    assert needs_history(base, requested(5))


def test_a_digest_tells_options_apart_and_not_the_order_they_come_in() -> None:
    assert digest_options({"a": 1, "b": 2}) == digest_options({"b": 2, "a": 1})
    assert digest_options({"a": 1}) != digest_options({"a": 2})
