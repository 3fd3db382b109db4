"""Which writes of others stand in the way of mine: those that touched one of my file groups."""

from __future__ import annotations

from lentic.format.names import Action, State
from lentic.timeline.instant import Instant
from lentic.timeline.timeline import Timeline
from lentic.txn.conflicts import completed_since, overlapping_groups
from tests.unit.builders import base_file, completed, log_file, metadata, requested


def _done(at: int, by: int, action: Action = Action.COMMIT) -> Instant:
    return Instant(requested(at), action, State.COMPLETED, completed(by))


def test_only_writes_that_completed_meanwhile_count() -> None:
    before = _done(1, 2)
    was_pending = Instant(requested(3), Action.COMMIT, State.INFLIGHT)
    compaction = Instant(requested(4), Action.COMPACTION, State.REQUESTED)
    begun = Timeline((before, was_pending, compaction))
    now = Timeline(
        (
            before,
            was_pending.at(State.COMPLETED, completed(9)),
            compaction.at(State.INFLIGHT).at(State.COMPLETED, completed(8)),
            _done(5, 6, Action.DELTACOMMIT),
            _done(7, 7, Action.CLEAN),
            Instant(requested(10), Action.COMMIT, State.INFLIGHT),
        )
    )
    assert [i.requested_at for i in completed_since(begun, now)] == [
        requested(5),
        requested(4),
        requested(3),
    ]
    assert completed_since(now, now) == ()


def test_groups_overlap_by_partition_and_file_id() -> None:
    mine = metadata(base_file(9, 9).path, base_file(9, 9, file_id="b").path)
    theirs = {
        _done(1, 2): metadata(log_file(1, 2).path, log_file(1, 2, file_id="other").path),
        _done(3, 4): metadata(base_file(3, 4, partition="q").path),
        _done(5, 6): metadata(replaced={"p": ("b", "c"), "q": ("fg",)}),
        _done(7, 8): metadata(),
    }
    assert overlapping_groups(mine, theirs) == {_done(1, 2): ("p/fg",), _done(5, 6): ("p/b",)}
    assert overlapping_groups(metadata(), theirs) == {}


def test_what_i_replace_is_mine_too() -> None:
    mine = metadata(replaced={"p": ("fg",)})
    assert overlapping_groups(mine, {_done(1, 2): metadata(log_file(1, 2).path)})
