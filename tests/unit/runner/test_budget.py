"""How much one cycle may take on."""

from __future__ import annotations

from lentic.config.groups import REGISTRY
from lentic.config.options import resolve
from lentic.config.services import ServiceOptions
from lentic.runner.budget import Budget, Spent
from lentic.runner.decide import Duty, Service, Verb

COMPACT = Duty(Verb.RUN, Service.COMPACTION)
UNDO = Duty(Verb.ROLL_BACK, Service.FAILED_WRITES)
ABORT = Duty(Verb.ABORT, Service.CLUSTERING)
GIB = 1024**3


def test_without_a_budget_everything_may_begin() -> None:
    assert Budget().allows(COMPACT, Spent(10**15, 10**9))


def test_what_begins_while_something_is_left_may_spend_more() -> None:
    budget = Budget(bytes_max=100)
    assert budget.allows(COMPACT, Spent(bytes=99))
    assert not budget.allows(COMPACT, Spent(bytes=100))


def test_minutes_end_a_cycle_as_bytes_do() -> None:
    budget = Budget(seconds_max=60)
    assert budget.allows(COMPACT, Spent(seconds=59))
    assert not budget.allows(COMPACT, Spent(seconds=60))


def test_undoing_is_never_kept_waiting() -> None:
    spent = Spent(10**15, 10**9)
    assert Budget(1, 1).allows(UNDO, spent)
    assert Budget(1, 1).allows(ABORT, spent)


def test_new_plans_are_no_larger_than_the_budget() -> None:
    options = ServiceOptions.parse(resolve({}, REGISTRY))
    small = Budget(bytes_max=GIB).limit(options)
    assert small.compaction.io_mb == 2048
    assert small.clustering.group_bytes * small.clustering.groups <= GIB
    assert Budget().limit(options) == options
    large = Budget(bytes_max=10**6 * GIB).limit(options)
    assert large.compaction == options.compaction
    assert large.clustering.groups == options.clustering.groups


def test_a_tiny_budget_still_lets_plans_be_made() -> None:
    tiny = Budget(bytes_max=1).limit(ServiceOptions.parse(resolve({}, REGISTRY)))
    assert tiny.compaction.io_mb == 1
    assert tiny.clustering.groups == 1
    assert tiny.clustering.group_bytes >= 1


def test_what_was_spent_adds_up() -> None:
    assert Spent(1, 2.0) + Spent(3, 4.0) == Spent(4, 6.0)
