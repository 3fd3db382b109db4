"""Facts about a table become duties, the most urgent first."""

from __future__ import annotations

from typing import Any

import pytest

from lentic.config.groups import REGISTRY
from lentic.config.options import resolve
from lentic.config.services import ServiceOptions
from lentic.errors import ConfigError
from lentic.format.names import Action, State
from lentic.format.times import Zone
from lentic.runner.decide import (
    Candidate,
    Duty,
    Facts,
    Seen,
    Service,
    Verb,
    choose,
    decide,
    parse_services,
)
from lentic.services.due import Situation
from lentic.timeline.instant import Instant
from lentic.timeline.timeline import Timeline
from tests.unit.builders import START_MS, completed, requested

EAGERLY = {
    "hoodie.compact.inline.max.delta.commits": 2,
    "hoodie.clustering.inline.max.commits": 2,
    "hoodie.clean.commits.retained": 1,
    "hoodie.keep.min.commits": 1,
    "hoodie.keep.max.commits": 2,
}
ALL = frozenset(Service)


def write(number: int) -> Instant:
    return Instant(requested(number), Action.DELTACOMMIT, State.COMPLETED, completed(number + 1))


def pending(number: int, action: Action, state: State = State.INFLIGHT, **more: Any) -> Seen:
    told: dict[str, Any] = {"has_heartbeat": False, "is_silent": False} | more
    return Seen(Instant(requested(number), action, state), **told)


def facts(*seen: Seen, writes: int = 0, shared: bool = False, **options: object) -> Facts:
    done = [write(10 * number + 10) for number in range(writes)]
    known = resolve(EAGERLY | {k.replace("_", "."): v for k, v in options.items()}, REGISTRY)
    now = Situation(
        timeline=Timeline((*done, *(one.instant for one in seen))),
        options=ServiceOptions.parse(known),
        is_merge_on_read=True,
        now_ms=START_MS + 10_000,
        zone=Zone.UTC,
    )
    return Facts(now, tuple(seen), shared)


def names(found: tuple[Duty, ...]) -> list[str]:
    return [duty.name for duty in found]


ALIVE = {"has_heartbeat": True}
DEAD = {"has_heartbeat": True, "is_silent": True}
UNSEEN = {"has_heartbeat": False, "is_silent": True}


def test_a_table_at_rest_has_no_duties() -> None:
    assert decide(facts(), ALL) == ()


def test_what_is_due_comes_in_the_order_of_its_urgency() -> None:
    found = names(decide(facts(writes=3), ALL))
    assert found == ["compaction", "log_compaction", "clustering", "clean", "archive"]


def test_undoing_comes_first_then_plans_then_what_is_due() -> None:
    found = decide(
        facts(
            pending(401, Action.LOGCOMPACTION),
            pending(402, Action.DELTACOMMIT, **DEAD),
            pending(403, Action.CLUSTERING, is_cancelled=True),
            writes=3,
        ),
        ALL,
    )
    assert names(found) == [
        "rollback",
        "abort",
        "log_compaction",
        "compaction",
        "clean",
        "archive",
    ]
    assert found[1] == Duty(Verb.ABORT, Service.CLUSTERING, requested(403))
    assert found[2] == Duty(Verb.EXECUTE, Service.LOG_COMPACTION, requested(401))


def test_unless_asked_there_is_no_clustering_nor_log_compaction() -> None:
    assert names(decide(facts(writes=3))) == ["compaction", "clean", "archive"]
    on = facts(writes=3, hoodie_clustering_inline=True, hoodie_log_compaction_inline=True)
    assert {"clustering", "log_compaction"} <= set(names(decide(on)))


def test_plans_that_others_left_are_executed_whatever_their_service() -> None:
    left = facts(pending(1, Action.CLUSTERING, State.REQUESTED))
    assert decide(left) == (Duty(Verb.EXECUTE, Service.CLUSTERING, requested(1)),)
    assert decide(left, frozenset({Service.COMPACTION})) == ()


@pytest.mark.parametrize("action", [Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING])
def test_a_plan_is_executed_when_nobody_is_at_it_or_its_executor_is_dead(action: Action) -> None:
    assert decide(facts(pending(1, action)), ALL)
    assert decide(facts(pending(1, action, **DEAD)), ALL)
    assert not decide(facts(pending(1, action, **ALIVE)), ALL)


def test_no_second_plan_is_made_while_one_is_pending() -> None:
    found = decide(facts(pending(401, Action.COMPACTION, **ALIVE), writes=3), ALL)
    assert "compaction" not in names(found)
    assert "clean" in names(found)


def test_a_removable_plan_that_was_begun_is_rolled_back_and_not_executed() -> None:
    begun = pending(1, Action.CLUSTERING, is_removable=True, **DEAD)
    assert names(decide(facts(begun), ALL)) == ["rollback"]
    fresh = pending(1, Action.CLUSTERING, State.REQUESTED, is_removable=True)
    assert names(decide(facts(fresh), ALL)) == ["clustering"]


def test_a_cancelled_plan_is_aborted_once_its_executor_has_let_go_and_never_executed() -> None:
    assert decide(facts(pending(1, Action.CLUSTERING, is_cancelled=True, **ALIVE)), ALL) == ()
    free = facts(pending(1, Action.CLUSTERING, is_cancelled=True))
    assert decide(free, ALL) == (Duty(Verb.ABORT, Service.CLUSTERING, requested(1)),)


def test_a_write_is_given_up_when_its_signs_of_life_have_ended() -> None:
    assert names(decide(facts(pending(1, Action.DELTACOMMIT, **DEAD)), ALL)) == ["rollback"]
    assert decide(facts(pending(1, Action.DELTACOMMIT, **ALIVE)), ALL) == ()


def test_a_write_that_never_gave_a_sign_is_given_up_only_among_several_writers() -> None:
    """A single writer gives none, and undoes what it left itself."""
    silent = pending(1, Action.DELTACOMMIT, **UNSEEN)
    assert decide(facts(silent), ALL) == ()
    assert names(decide(facts(silent, shared=True), ALL)) == ["rollback"]


def test_a_rollback_or_clean_that_stands_still_is_finished() -> None:
    assert names(decide(facts(pending(1, Action.ROLLBACK, **UNSEEN)), ALL)) == ["rollback"]
    assert decide(facts(pending(1, Action.ROLLBACK)), ALL) == ()
    assert names(decide(facts(pending(1, Action.CLEAN, **UNSEEN)), ALL)) == ["clean"]
    assert decide(facts(pending(1, Action.CLEAN)), ALL) == ()


def test_while_a_restore_is_under_way_nothing_is_built_upon_the_table() -> None:
    busy = facts(pending(400, Action.RESTORE), pending(401, Action.COMPACTION), writes=3)
    assert decide(busy, ALL) == ()
    stuck = facts(pending(400, Action.RESTORE, **UNSEEN), writes=3)
    assert names(decide(stuck, ALL)) == ["rollback"]


def test_what_rests_is_left_out() -> None:
    assert names(decide(facts(writes=3), ALL, {"compaction", "clean"})) == [
        "log_compaction",
        "clustering",
        "archive",
    ]


def test_nothing_is_compacted_in_a_table_without_logs() -> None:
    on_read = facts(writes=3)
    copied = Facts(
        Situation(
            on_read.now.timeline,
            on_read.now.options,
            is_merge_on_read=False,
            now_ms=START_MS,
            zone=Zone.UTC,
        )
    )
    assert names(decide(copied, ALL)) == ["clustering", "clean", "archive"]


def test_services_are_named_with_commas() -> None:
    assert parse_services("") is None
    assert parse_services("clean, log-compaction") == {Service.CLEAN, Service.LOG_COMPACTION}
    with pytest.raises(ConfigError, match="'vacuum'"):
        parse_services("clean,vacuum")


# --- among tables -------------------------------------------------------------------------------


COMPACT = Duty(Verb.RUN, Service.COMPACTION)
CLEAN = Duty(Verb.RUN, Service.CLEAN)
UNDO = Duty(Verb.ROLL_BACK, Service.FAILED_WRITES)


def test_the_most_urgent_duty_of_all_tables_comes_first() -> None:
    chosen = choose([Candidate("a", CLEAN), Candidate("b", COMPACT), Candidate("c", UNDO)])
    assert chosen is not None and chosen.table == "c"
    assert choose([]) is None


def test_among_equals_whoever_was_served_longest_ago_comes_first() -> None:
    chosen = choose([Candidate("a", CLEAN, served=7), Candidate("b", CLEAN, served=3)])
    assert chosen is not None and chosen.table == "b"
    chosen = choose([Candidate("a", CLEAN, place=1), Candidate("b", CLEAN, place=0)])
    assert chosen is not None and chosen.table == "b"


def test_waiting_makes_urgent_so_that_nothing_starves() -> None:
    busy = Candidate("a", COMPACT, served=1)
    waits = [Candidate("b", CLEAN, deferred=number) for number in range(5)]
    chosen = [choose([busy, one]) for one in waits]
    assert [one.table for one in chosen if one] == ["a", "a", "a", "b", "b"]
