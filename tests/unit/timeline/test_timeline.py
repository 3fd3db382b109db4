"""A folder of names becomes one timeline: every instant once, at its furthest state."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lentic.errors import Corrupt, UnsupportedFormat
from lentic.format.names import Action, State
from lentic.timeline.instant import Instant
from lentic.timeline.timeline import Timeline, parse_timeline
from tests.rfc.claims import says
from tests.unit.builders import completed, requested, time


def _parse(*names: str) -> Timeline:
    return parse_timeline(names, where="timeline")


def test_an_empty_folder_is_an_empty_timeline() -> None:
    timeline = _parse()
    assert timeline.instants == ()
    assert timeline.last_time() == ""
    assert timeline.writes() == ()
    assert timeline.completions() == {}


def test_of_one_instant_the_furthest_state_counts() -> None:
    requested_only = (f"{time(1)}.deltacommit.requested",)
    inflight = (*requested_only, f"{time(1)}.deltacommit.inflight")
    done = (*inflight, f"{time(1)}_{time(2)}.deltacommit")
    states = [_parse(*names).instants[0].state for names in (requested_only, inflight, done)]
    assert states == [State.REQUESTED, State.INFLIGHT, State.COMPLETED]
    assert [len(_parse(*names).instants) for names in (requested_only, inflight, done)] == [1] * 3


def test_a_completed_file_alone_is_enough() -> None:
    (instant,) = _parse(f"{time(1)}_{time(2)}.commit").instants
    assert instant == Instant(requested(1), Action.COMMIT, State.COMPLETED, completed(2))


def test_a_compaction_and_the_commit_it_became_are_one_instant() -> None:
    timeline = _parse(
        f"{time(1)}.compaction.requested",
        f"{time(1)}.compaction.inflight",
        f"{time(1)}_{time(9)}.commit",
    )
    assert timeline.pending() == ()
    assert [i.action for i in timeline.completed()] == [Action.COMMIT]


def test_a_pending_compaction_is_found_by_its_own_action() -> None:
    timeline = _parse(f"{time(1)}.compaction.requested")
    assert [i.action for i in timeline.pending(Action.COMPACTION)] == [Action.COMPACTION]
    assert timeline.pending(Action.COMMIT) == ()


def test_a_savepoint_shares_its_requested_time_with_the_commit_it_protects() -> None:
    timeline = _parse(
        f"{time(1)}_{time(2)}.commit",
        f"{time(1)}.savepoint.inflight",
        f"{time(1)}_{time(5)}.savepoint",
    )
    assert [(i.action, i.completed_at) for i in timeline.completed()] == [
        (Action.COMMIT, completed(2)),
        (Action.SAVEPOINT, completed(5)),
    ]
    assert timeline.completions() == {requested(1): completed(2)}


@pytest.mark.parametrize(
    "names",
    [
        (f"{time(1)}_{time(2)}.deltacommit", f"{time(1)}_{time(3)}.deltacommit"),
        (
            f"{time(1)}.deltacommit.inflight",
            f"{time(1)}_{time(2)}.commit",
            f"{time(1)}_{time(3)}.commit",
        ),
    ],
)
def test_one_action_that_completed_twice_is_corrupt_and_both_times_are_named(
    names: tuple[str, ...],
) -> None:
    with pytest.raises(Corrupt) as caught:
        _parse(*names)
    assert time(2) in caught.value.what
    assert time(3) in caught.value.what
    assert caught.value.where == "timeline"
    assert caught.value.safe
    assert caught.value.next_step


@pytest.mark.parametrize(
    "name",
    [
        "history",
        ".hidden",
        f"{time(1)}.commit.requested.7f1a",
        f"{time(1)}.commit.requested.crc",
        f".{time(1)}.commit.requested.crc",
        f"{time(1)}.unknownaction",
        f"{time(1)}_{time(2)}.commit.inflight",
        f"{time(1)}.commit.done",
        "commit.requested",
        f"{time(1)}_{time(2)}.compaction",
        f"{time(1)}.savepoint.requested",
        "",
        "x" * 500,
        "\udcff",
    ],
)
def test_files_of_other_kinds_are_ignored(name: str) -> None:
    assert _parse(name).instants == ()


def test_a_completed_file_of_an_older_layout_is_refused_not_ignored() -> None:
    with pytest.raises(UnsupportedFormat):
        _parse(f"{time(1)}.commit")


@says("cancel.rollout.readers")
def test_an_aborted_plan_is_neither_pending_nor_completed() -> None:
    timeline = _parse(f"{time(1)}.clustering.requested", f"{time(1)}.clustering.aborted")
    assert timeline.pending() == ()
    assert timeline.completed() == ()
    assert timeline.instants[0].state is State.ABORTED


def test_writes_come_in_the_order_of_completion_not_of_request() -> None:
    timeline = _parse(
        f"{time(1)}_{time(9)}.deltacommit",
        f"{time(2)}_{time(3)}.deltacommit",
        f"{time(4)}_{time(5)}.rollback",
        f"{time(6)}_{time(7)}.replacecommit",
        f"{time(8)}.deltacommit.inflight",
    )
    assert [i.requested_at for i in timeline.instants] == [requested(n) for n in (1, 2, 4, 6, 8)]
    assert [i.requested_at for i in timeline.writes()] == [requested(n) for n in (2, 6, 1)]
    assert timeline.completions() == {
        requested(1): completed(9),
        requested(2): completed(3),
        requested(6): completed(7),
    }


def test_the_last_time_is_the_greatest_of_any_kind() -> None:
    assert _parse(f"{time(1)}_{time(9)}.commit", f"{time(5)}.inflight").last_time() == time(9)
    assert _parse(f"{time(1)}_{time(4)}.commit", f"{time(5)}.inflight").last_time() == time(5)
    assert _parse(
        f"{time(1)}_{time(2)}.clean", f"{time(8)}_{time(9)}.rollback"
    ).last_time() == time(9)


def test_an_instant_is_found_in_whatever_state_it_is() -> None:
    mine = Instant(requested(1), Action.COMPACTION, State.INFLIGHT)
    assert _parse().find(mine) is None
    assert _parse(f"{time(2)}.compaction.inflight").find(mine) is None
    found = _parse(f"{time(1)}.compaction.requested").find(mine)
    assert found is not None
    assert found.state is State.REQUESTED
    found = _parse(f"{time(1)}.compaction.requested", f"{time(1)}_{time(3)}.commit").find(mine)
    assert found is not None
    assert found.is_completed


HISTORIES = st.dictionaries(
    st.integers(1, 400),
    st.tuples(
        st.sampled_from([Action.COMMIT, Action.DELTACOMMIT, Action.COMPACTION, Action.CLEAN]),
        st.integers(0, 2),
    ),
    max_size=12,
)


@given(HISTORIES, st.randoms(use_true_random=False))
def test_any_history_reads_back_whatever_the_order_of_its_files(
    history: dict[int, tuple[Action, int]], chance: random.Random
) -> None:
    names = []
    expected = []
    for number, (action, reached) in sorted(history.items()):
        instant = Instant(requested(number), action, State.REQUESTED)
        names.append(instant.file_name)
        if reached >= 1:
            instant = instant.at(State.INFLIGHT)
            names.append(instant.file_name)
        if reached == 2:
            instant = instant.at(State.COMPLETED, completed(number + 500))
            names.append(instant.file_name)
        expected.append(instant)
    chance.shuffle(names)
    timeline = _parse(*names, "unrelated")
    assert list(timeline.instants) == expected
    assert set(timeline.completed()) | set(timeline.pending()) == set(expected)
    assert not set(timeline.completed()) & set(timeline.pending())


def test_a_timeline_as_it_stood_knows_nothing_of_later() -> None:
    done = Instant(requested(1), Action.COMMIT, State.COMPLETED, completed(4))
    late = Instant(requested(2), Action.COMMIT, State.COMPLETED, completed(9))
    open = Instant(requested(3), Action.COMPACTION, State.REQUESTED)
    plan = Instant(requested(5), Action.CLUSTERING, State.INFLIGHT)
    after = Instant(requested(6), Action.DELTACOMMIT, State.COMPLETED, completed(7))
    timeline = Timeline((done, late, open, plan, after))
    then = timeline.upto(requested(5))
    assert [i.requested_at for i in then.instants] == [requested(n) for n in (1, 2, 3, 5)]
    assert then.writes() == (done,)
    assert then.find(late) == Instant(requested(2), Action.COMMIT, State.INFLIGHT)
    assert timeline.upto(requested(20)) == timeline
