"""Which writes of others stand in the way of mine: those that touched one of my file groups."""

from __future__ import annotations

from dataclasses import replace

from lentic.format.names import Action, State
from lentic.timeline.instant import Instant
from lentic.timeline.timeline import Timeline
from lentic.txn.conflicts import (
    completed_since,
    overlapping_groups,
    planned_since,
    rewritten_groups,
)
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
    mine = rewritten_groups(metadata(base_file(9, 9).path, base_file(9, 9, file_id="b").path))
    theirs = {
        _done(1, 2): metadata(log_file(1, 2).path, log_file(1, 2, file_id="other").path).groups(),
        _done(3, 4): metadata(base_file(3, 4, partition="q").path).groups(),
        _done(5, 6): metadata(replaced={"p": ("b", "c"), "q": ("fg",)}).groups(),
        _done(7, 8): metadata().groups(),
    }
    assert overlapping_groups(mine, theirs) == {_done(1, 2): ("p/fg",), _done(5, 6): ("p/b",)}
    assert overlapping_groups(rewritten_groups(metadata()), theirs) == {}


def test_groups_are_named_by_their_path_and_in_order() -> None:
    both = {("p", "b"), ("", "x"), ("p/q", "a"), ("p", "a")}
    found = overlapping_groups(both | {("p", "mine")}, {_done(1, 2): both | {("p", "theirs")}})
    assert found == {_done(1, 2): ("p/a", "p/b", "p/q/a", "x")}


def test_what_i_replace_is_mine_too() -> None:
    mine = rewritten_groups(metadata(replaced={"p": ("fg",)}))
    assert overlapping_groups(mine, {_done(1, 2): metadata(log_file(1, 2).path).groups()})


def test_logs_rewrite_nothing_and_base_files_do_even_where_a_group_begins() -> None:
    """In buckets the first base file of a group has the same file id, whoever writes it."""
    log = metadata(log_file(1, 2).path)
    assert rewritten_groups(log) == frozenset()
    first = metadata(base_file(1, 2).path, log_file(1, 2, file_id="other").path)
    assert first.stats[0].prev_commit is None
    assert rewritten_groups(first) == {("p", "fg")}
    next_ = replace(first, stats=(replace(first.stats[0], prev_commit=requested(1)),))
    assert rewritten_groups(next_) == {("p", "fg")}
    ended = metadata(base_file(1, 2).path, replaced={"q": ("a", "b"), "r": ()})
    assert rewritten_groups(ended) == {("p", "fg"), ("q", "a"), ("q", "b")}


def test_only_compactions_planned_meanwhile_and_still_pending_count() -> None:
    known = Instant(requested(1), Action.COMPACTION, State.REQUESTED)
    finished = Instant(requested(2), Action.COMPACTION, State.INFLIGHT)
    begun = Timeline((known, finished, _done(3, 4)))
    now = Timeline(
        (
            known.at(State.INFLIGHT),
            finished.at(State.COMPLETED, completed(9)),
            Instant(requested(5), Action.COMPACTION, State.REQUESTED),
            Instant(requested(6), Action.COMPACTION, State.INFLIGHT),
            Instant(requested(7), Action.COMPACTION, State.INFLIGHT).at(
                State.COMPLETED, completed(8)
            ),
            Instant(requested(8), Action.DELTACOMMIT, State.INFLIGHT),
            Instant(requested(9), Action.ROLLBACK, State.REQUESTED),
        )
    )
    assert [i.requested_at for i in planned_since(begun, now)] == [requested(5), requested(6)]
    assert planned_since(now, now) == ()
    assert [i.requested_at for i in completed_since(begun, now)] == [requested(7), requested(2)]
