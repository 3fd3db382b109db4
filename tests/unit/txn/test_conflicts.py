"""Which writes of others stand in the way of mine: those that touched one of my file groups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lentic.config.sharing import ConcurrencyMode
from lentic.format.names import Action, State
from lentic.timeline.instant import Instant
from lentic.timeline.timeline import Timeline
from lentic.txn.conflicts import (
    Mine,
    Proceed,
    Refuse,
    Theirs,
    Touched,
    completed_since,
    judge,
    may_stand_against,
    planned_since,
    touched_by,
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


GROUP = ("p", "fg")
ONE, OCC, NBCC = ConcurrencyMode
MINE = {
    "appends": Touched(appended=frozenset({GROUP, ("p", "mine")})),
    "rewrites": Touched(rewritten=frozenset({GROUP, ("p", "mine")})),
    "ends": Touched(ended=frozenset({GROUP, ("p", "mine")})),
    "folds": Touched(folded=frozenset({GROUP, ("p", "mine")})),
}
THEIRS = {
    "appended": Theirs(_done(1, 2), Touched(appended=frozenset({GROUP, ("p", "b")}))),
    "rewrote": Theirs(_done(1, 2), Touched(rewritten=frozenset({GROUP}))),
    "ended": Theirs(_done(1, 2), Touched(ended=frozenset({GROUP, ("q", "mine")}))),
    "compacted": Theirs(_done(1, 2), Touched(rewritten=frozenset({GROUP})), is_compaction=True),
    "folded": Theirs(_done(1, 2), Touched(folded=frozenset({GROUP})), is_compaction=True),
}
MATRIX = [
    # mine, mode, computed, their deeds that mine may not follow
    ("appends", ONE, False, {"ended"}),
    ("appends", NBCC, False, {"ended"}),
    ("appends", OCC, False, {"appended", "rewrote", "ended"}),
    *(
        (mine, mode, False, {"appended", "rewrote", "ended", "compacted", "folded"})
        for mine in ("rewrites", "ends")
        for mode in ConcurrencyMode
    ),
    *(("appends", mode, True, {"appended", "rewrote", "ended"}) for mode in ConcurrencyMode),
    *(("folds", mode, False, {"rewrote", "ended", "compacted"}) for mode in ConcurrencyMode),
]


@pytest.mark.parametrize("deed", THEIRS)
@pytest.mark.parametrize(("mine", "mode", "computed", "refused"), MATRIX)
def test_the_matrix(
    mine: str, mode: ConcurrencyMode, computed: bool, refused: set[str], deed: str
) -> None:
    verdict = judge(Mine(MINE[mine], mode, is_computed=computed), [THEIRS[deed]])
    expected = Refuse(_done(1, 2), ("p/fg",)) if deed in refused else Proceed()
    assert verdict == expected
    elsewhere = Touched(
        appended=frozenset({("q", "fg")}),
        rewritten=frozenset({("p", "x")}),
        ended=frozenset({("", "fg")}),
    )
    other = replace(THEIRS[deed], touched=elsewhere)
    assert judge(Mine(MINE[mine], mode, is_computed=computed), [other]) == Proceed()


@pytest.mark.parametrize("deed", THEIRS)
@pytest.mark.parametrize("mode", ConcurrencyMode)
def test_later_logs_lie_on_base_files_that_were_planned_but_not_on_groups_that_end(
    mode: ConcurrencyMode, deed: str
) -> None:
    rewrites = judge(Mine(MINE["rewrites"], mode, is_planned=True), [THEIRS[deed]])
    assert rewrites == (Proceed() if deed == "appended" else Refuse(_done(1, 2), ("p/fg",)))
    ends = judge(Mine(MINE["ends"], mode, is_planned=True), [THEIRS[deed]])
    assert ends == Refuse(_done(1, 2), ("p/fg",))


@pytest.mark.parametrize("mine", MINE)
@pytest.mark.parametrize("mode", ConcurrencyMode)
def test_what_came_before_my_write_counts_only_for_rows_computed_earlier(
    mine: str, mode: ConcurrencyMode
) -> None:
    early = [replace(theirs, since_begun=False) for theirs in THEIRS.values()]
    assert judge(Mine(MINE[mine], mode), early) == Proceed()
    assert isinstance(judge(Mine(MINE[mine], mode, is_computed=True), early), Refuse)


@pytest.mark.parametrize("mode", ConcurrencyMode)
def test_two_that_give_new_keys_a_place_in_one_partition_may_have_met_the_same_key(
    mode: ConcurrencyMode,
) -> None:
    mine = Touched(rewritten=frozenset({("p", "a")}), grown=frozenset({"p"}))
    theirs = Touched(rewritten=frozenset({("p", "b")}), grown=frozenset({"p", "q"}))
    verdict = judge(Mine(mine, mode), [Theirs(_done(1, 2), theirs)])
    assert verdict == (Refuse(_done(1, 2), ("p",)) if mode is OCC else Proceed())
    apart = replace(mine, grown=frozenset({"r"}))
    assert judge(Mine(apart, mode), [Theirs(_done(1, 2), theirs)]) == Proceed()
    across = apart.across_partitions(), theirs.across_partitions()
    verdict = judge(Mine(across[0], mode), [Theirs(_done(1, 2), across[1])])
    assert isinstance(verdict, Refuse if mode is OCC else Proceed)


def test_groups_are_named_by_their_path_and_in_order() -> None:
    both = frozenset({("p", "b"), ("", "x"), ("p/q", "a"), ("p", "a")})
    mine = Mine(Touched(rewritten=both | {("p", "mine")}), ONE)
    verdict = judge(mine, [Theirs(_done(1, 2), Touched(appended=both | {("p", "theirs")}))])
    assert verdict == Refuse(_done(1, 2), ("p/a", "p/b", "p/q/a", "x"))


def test_metadata_says_what_was_touched() -> None:
    """In buckets the first base file of a group has the same file id, whoever writes it."""
    assert touched_by(metadata(log_file(1, 2).path)).appended == {GROUP}
    first = metadata(base_file(1, 2).path, log_file(1, 2, file_id="other").path)
    assert first.stats[0].prev_commit is None
    assert touched_by(first).rewritten == {GROUP}
    ended = metadata(base_file(1, 2).path, replaced={"q": ("a", "b"), "r": ()})
    assert touched_by(ended).ended == {("q", "a"), ("q", "b")}
    folded = touched_by(replace(metadata(log_file(1, 2).path), operation="LOG_COMPACT"))
    assert (folded.folded, folded.appended) == ({GROUP}, frozenset())
    grown = replace(first, stats=tuple(replace(stat, inserts=3) for stat in first.stats))
    assert touched_by(grown).grown == {"p"}


@pytest.mark.parametrize(("mine", "mode", "computed", "refused"), MATRIX)
def test_what_need_not_be_looked_at_cannot_stand_in_the_way(
    mine: str, mode: ConcurrencyMode, computed: bool, refused: set[str]
) -> None:
    me = Mine(MINE[mine], mode, is_computed=computed)
    if not may_stand_against(me, _done(1, 2, Action.DELTACOMMIT)):
        assert refused == {"ended"}
    assert may_stand_against(me, _done(1, 2, Action.REPLACECOMMIT))
    assert not may_stand_against(Mine(Touched(), OCC), _done(1, 2))


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
