"""An instant moves along its diagram only, and keeps its identity on the way."""

from __future__ import annotations

import itertools

import pytest

from lentic.format.names import Action, State
from lentic.timeline.instant import Instant
from tests.rfc.claims import says
from tests.unit.builders import completed, requested, time


def _instant(state: State, action: Action = Action.DELTACOMMIT) -> Instant:
    at = completed(2) if state is State.COMPLETED else None
    return Instant(requested(1), action, state, at)


LEGAL = {(State.REQUESTED, State.INFLIGHT), (State.INFLIGHT, State.COMPLETED)}


@says("cancel.format.state")
@pytest.mark.parametrize(
    ("before", "after"),
    list(itertools.product([State.REQUESTED, State.INFLIGHT, State.COMPLETED], repeat=2)),
)
def test_only_the_steps_of_the_diagram_can_be_taken(before: State, after: State) -> None:
    at = completed(3) if after is State.COMPLETED else None
    if (before, after) in LEGAL:
        moved = _instant(before).at(after, at)
        assert (moved.state, moved.completed_at) == (after, at)
        assert moved.identity == _instant(before).identity
    else:
        with pytest.raises(AssertionError):
            _instant(before).at(after, at)


@pytest.mark.parametrize("state", [State.REQUESTED, State.INFLIGHT])
def test_an_instant_has_a_completion_time_exactly_when_it_is_completed(state: State) -> None:
    with pytest.raises(AssertionError):
        Instant(requested(1), Action.COMMIT, state, completed(2))
    with pytest.raises(AssertionError):
        Instant(requested(1), Action.COMMIT, State.COMPLETED)
    with pytest.raises(AssertionError):
        _instant(State.INFLIGHT).at(State.COMPLETED)


@pytest.mark.parametrize(
    ("action", "becomes"),
    [
        (Action.COMPACTION, Action.COMMIT),
        (Action.LOGCOMPACTION, Action.DELTACOMMIT),
        (Action.CLUSTERING, Action.REPLACECOMMIT),
        (Action.DELTACOMMIT, Action.DELTACOMMIT),
        (Action.ROLLBACK, Action.ROLLBACK),
    ],
)
def test_completing_changes_the_action_but_not_the_identity(
    action: Action, becomes: Action
) -> None:
    inflight = _instant(State.INFLIGHT, action)
    done = inflight.at(State.COMPLETED, completed(2))
    assert done.action is becomes
    assert done.identity == inflight.identity == _instant(State.REQUESTED, action).identity


def test_pending_is_everything_before_a_terminal_state() -> None:
    assert _instant(State.REQUESTED).is_pending
    assert _instant(State.INFLIGHT).is_pending
    done = _instant(State.COMPLETED)
    assert done.is_completed
    assert not done.is_pending
    aborted = Instant(requested(1), Action.CLUSTERING, State.ABORTED)
    assert not aborted.is_pending
    assert not aborted.is_completed


@pytest.mark.parametrize(
    ("action", "state", "name"),
    [
        (Action.COMMIT, State.REQUESTED, "{r}.commit.requested"),
        (Action.COMMIT, State.INFLIGHT, "{r}.inflight"),
        (Action.COMMIT, State.COMPLETED, "{r}_{c}.commit"),
        (Action.DELTACOMMIT, State.INFLIGHT, "{r}.deltacommit.inflight"),
        (Action.COMPACTION, State.REQUESTED, "{r}.compaction.requested"),
        (Action.ROLLBACK, State.COMPLETED, "{r}_{c}.rollback"),
    ],
)
def test_the_file_of_an_instant_is_named_as_hudi_names_it(
    action: Action, state: State, name: str
) -> None:
    assert _instant(state, action).file_name == name.format(r=time(1), c=time(2))


def test_an_instant_reads_as_action_and_time() -> None:
    assert str(_instant(State.INFLIGHT)) == f"deltacommit {time(1)}"
