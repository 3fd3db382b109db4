"""Reading the timeline and the contents of its files."""

from __future__ import annotations

import pytest

from lentic.errors import Corrupt, MissingFile
from lentic.format.layout import HISTORY, timeline_file
from lentic.format.names import Action, State
from lentic.format.plans import (
    CompactionOperation,
    CompactionPlan,
    RollbackPlan,
    encode_compaction_plan,
    encode_rollback_plan,
)
from lentic.storage.memory import MemoryStorage
from lentic.timeline.instant import PLANS, Instant
from lentic.timeline.reader import (
    load_active,
    load_commit_metadata,
    load_compaction_plan,
    load_rollback_plan,
    load_rollback_target,
    load_timeline,
)
from lentic.timeline.timeline import Timeline
from tests.unit.builders import base_file, completed, metadata, put_commit, requested, time

PLAN = CompactionPlan(
    (CompactionOperation("p", "fg", requested(1), None, (f".fg_{time(1)}.log.1_0-0-0",)),)
)


def test_only_files_directly_in_the_timeline_folder_count() -> None:
    storage = MemoryStorage()
    assert load_timeline(storage).instants == ()
    instant = put_commit(storage, 1, 2, metadata())
    storage.put_if_absent(f"{HISTORY}/{time(3)}_{time(4)}.commit", b"")
    storage.put_if_absent(f".hoodie/metadata/.hoodie/timeline/{time(5)}_{time(6)}.commit", b"")
    assert load_timeline(storage).instants == (instant,)


@pytest.mark.parametrize("action", sorted(PLANS))
def test_the_inflight_file_of_a_plan_that_is_gone_is_no_instant(action: Action) -> None:
    """Who lost the lock long ago wakes and creates what the next holder had made for it, after the
    plan was taken off the timeline."""
    storage = MemoryStorage()
    kept = put_commit(storage, 1, 2, metadata())
    plan = Instant(requested(3), action, State.REQUESTED)
    inflight = timeline_file(plan.at(State.INFLIGHT).file_name)
    storage.put_if_absent(inflight, b"")
    assert load_active(storage) == (Timeline((kept,)), (inflight,))
    storage.put_if_absent(timeline_file(plan.file_name), b"plan")
    assert load_active(storage) == (Timeline((kept, plan.at(State.INFLIGHT))), ())


def test_commit_metadata_is_read_from_the_completed_file() -> None:
    storage = MemoryStorage()
    path = base_file(1, 2).path
    instant = put_commit(storage, 1, 2, metadata(path))
    assert load_commit_metadata(storage, instant).paths() == {path}


def test_damaged_commit_metadata_is_corrupt_and_names_its_file() -> None:
    storage = MemoryStorage()
    instant = put_commit(storage, 1, 2, metadata())
    storage.replace(timeline_file(instant.file_name), b"Obj\x01 and then nothing")
    with pytest.raises(Corrupt) as caught:
        load_commit_metadata(storage, instant)
    assert instant.file_name in caught.value.where


@pytest.mark.parametrize("state", [State.REQUESTED, State.INFLIGHT])
def test_the_plan_of_a_pending_compaction_is_read_from_its_requested_file(state: State) -> None:
    storage = MemoryStorage()
    path = timeline_file(f"{time(5)}.compaction.requested")
    storage.put_if_absent(path, encode_compaction_plan(PLAN))
    instant = Instant(requested(5), Action.COMPACTION, state)
    assert load_compaction_plan(storage, instant) == PLAN


def test_the_plan_of_a_completed_compaction_is_read_too() -> None:
    """The contract says: in whatever state it is."""
    storage = MemoryStorage()
    path = timeline_file(f"{time(5)}.compaction.requested")
    storage.put_if_absent(path, encode_compaction_plan(PLAN))
    storage.put_if_absent(timeline_file(f"{time(5)}_{time(6)}.commit"), b"")
    (done,) = load_timeline(storage).instants
    assert load_compaction_plan(storage, done) == PLAN


def test_a_plan_without_its_file_is_missing() -> None:
    with pytest.raises(MissingFile):
        load_compaction_plan(
            MemoryStorage(), Instant(requested(5), Action.COMPACTION, State.INFLIGHT)
        )


def _rollback(state: State) -> Instant:
    at = completed(6) if state is State.COMPLETED else None
    return Instant(requested(5), Action.ROLLBACK, state, at)


STATES = [State.REQUESTED, State.INFLIGHT, State.COMPLETED]


@pytest.mark.parametrize("state", STATES)
def test_the_plan_and_the_target_of_a_rollback_are_read_in_every_state(state: State) -> None:
    storage = MemoryStorage()
    plan = RollbackPlan(requested(1), Action.DELTACOMMIT, (base_file(1, 2).path,))
    path = timeline_file(f"{time(5)}.rollback.requested")
    storage.put_if_absent(path, encode_rollback_plan(plan, storage.root))
    assert load_rollback_plan(storage, _rollback(state)) == plan
    assert load_rollback_target(storage, _rollback(state)) == requested(1)


@pytest.mark.parametrize("state", STATES)
def test_a_rollback_whose_plan_is_gone_has_no_target(state: State) -> None:
    assert load_rollback_target(MemoryStorage(), _rollback(state)) is None


def test_a_damaged_rollback_plan_is_corrupt_and_names_its_file() -> None:
    storage = MemoryStorage()
    path = timeline_file(f"{time(5)}.rollback.requested")
    storage.put_if_absent(path, b"nothing of the kind")
    for load in (load_rollback_plan, load_rollback_target):
        with pytest.raises(Corrupt) as caught:
            load(storage, _rollback(State.INFLIGHT))
        assert path in caught.value.where
