"""A dry run of a clean names all that the clean then does, and does nothing."""

from __future__ import annotations

from typing import Any

import pytest

from lentic.format.names import Action
from lentic.services.clean import CleanRun
from lentic.services.explain import Explanation
from lentic.services.rollback import plan_undo
from lentic.timeline.reader import load_timeline
from lentic.txn.transaction import transaction
from lentic.write import markers
from tests.unit.insight.cases import HOUR_MS, Case

LAZY: dict[str, Any] = {"hoodie.clean.failed.writes.policy": "LAZY"}
REMOVABLE: dict[str, Any] = {"lentic.services.rollback_delay_minutes": 60}


def explain(case: Case, *, wait: bool = True) -> Explanation:
    """Look, and make sure that looking changed nothing."""
    before = {file.path: file for file in case.storage.walk("")}
    said = case.table.explain("clean", wait=wait)
    assert {file.path: file for file in case.storage.walk("")} == before
    return said


def whats(case: Case, *, wait: bool = True) -> list[str]:
    return [step.what for step in explain(case, wait=wait).steps]


def clustered(**given: Any) -> tuple[Case, str]:
    case = Case(options=given.pop("options", {}))
    case.write("a")
    case.write("b", day="e")
    return case, str(case.table.schedule("clustering", **given))


def test_with_nothing_to_do_nothing_is_said_and_done() -> None:
    case = Case()
    case.write("a")
    assert whats(case) == [] and case.table.run_clean(wait=True) == CleanRun()


def test_a_plan_that_was_cancelled_is_aborted() -> None:
    case, at = clustered()
    case.table.request_cancel(at)
    assert whats(case) == [f"abort clustering {at}"]
    run = case.table.run_clean(wait=True)
    assert [str(plan) for plan in run.aborted] == [f"clustering {at}"]
    assert run.cleans == () and whats(case) == []


def test_a_plan_whose_policy_is_met_is_cancelled_and_aborted() -> None:
    case, at = clustered(cancel_after_instants=1)
    assert whats(case) == []
    case.write("c", day="f")
    assert whats(case) == [
        f"cancel clustering {at}, which waits for too long",
        f"abort clustering {at}",
    ]
    assert [str(plan) for plan in case.table.run_clean(wait=True).aborted] == [f"clustering {at}"]


def test_a_cancelled_plan_is_left_to_an_executor_that_lives() -> None:
    case, at = clustered()
    case.table.request_cancel(at)
    case.beat(at)
    said = explain(case)
    assert said.steps == () and "far:7" in said.conflicts[0]
    assert "far:7" in str(said)
    case.clock.ms += HOUR_MS
    assert whats(case) == [f"abort clustering {at}"]


def test_plans_stay_where_cleans_may_not_end_them() -> None:
    case, at = clustered(options={"lentic.clean.cancels": False})
    case.table.request_cancel(at)
    assert whats(case) == [] and case.table.run_clean(wait=True) == CleanRun()


@pytest.mark.parametrize("options", [{}, LAZY])
def test_a_write_that_gives_no_sign_of_life_is_rolled_back(options: dict[str, Any]) -> None:
    case = Case(options=options)
    case.write("a")
    at = case.begin_write()
    case.beat(at)
    assert whats(case) == []
    case.clock.ms += HOUR_MS
    markers.announce(case.storage, at, case.put_stray(at), "CREATE")
    said = explain(case)
    assert [(step.what, step.files) for step in said.steps] == [(f"roll back commit {at}", 1)]
    run = case.table.run_clean(wait=True)
    assert [str(write) for write in run.undone] == [f"commit {at}"] and run.cleans == ()


def test_a_removable_plan_that_waits_for_too_long_is_rolled_back() -> None:
    case, at = clustered(removable=True, options=REMOVABLE)
    assert whats(case) == []
    case.clock.ms += 2 * HOUR_MS
    assert whats(case) == [f"roll back clustering {at}"]
    run = case.table.run_clean(wait=True)
    assert [str(plan) for plan in run.undone] == [f"clustering {at}"]


def test_a_rollback_that_another_began_is_finished() -> None:
    case = Case()
    case.write("a")
    at = case.begin_write()
    with transaction(case.opened) as txn:
        undo = plan_undo(txn, load_timeline(case.storage).pending(Action.COMMIT)[0])
    assert whats(case) == [f"finish {undo.rollback}"]
    run = case.table.run_clean(wait=True)
    assert [str(done) for done in run.finished] == [str(undo.rollback)]
    assert at not in {instant.requested_at for instant in case.table.timeline()}


def test_orphans_are_swept_by_hand_or_when_it_is_due() -> None:
    case = Case()
    at = case.write("a")
    path = case.put_stray(at)
    assert whats(case) == [], "it is too young"
    case.clock.ms += 2 * HOUR_MS
    assert [(s.what, s.files, s.bytes) for s in explain(case).steps] == [("delete orphans", 1, 1)]
    assert whats(case, wait=False) == ["delete orphans"], "no sweep was made yet"
    assert case.table.run_clean().orphans == (path,)
    case.put_stray(at)
    case.clock.ms += 2 * HOUR_MS
    assert case.table.run_clean(wait=True).orphans == (path,)


def test_what_is_cleaned_comes_in_between() -> None:
    case = Case(options={"hoodie.clean.commits.retained": 1})
    case.versions(4)
    case.put_stray(case.write("b", day="e"))
    case.clock.ms += 2 * HOUR_MS
    assert whats(case) == ["delete", "delete orphans"]
    run = case.table.run_clean(wait=True)
    assert len(run.cleans) == 1 and len(run.orphans) == 1
    assert case.table.clean() is None
