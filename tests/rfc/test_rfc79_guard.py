"""RFC-79, "Changes to compaction/cluster plan execution" and "Changes to clean's rollback of failed
writers": the holes G1-G7 of the design, played step by step; G8-G13 are in `test_rfc79_rollbacks`.

X stands still before one of its storage calls, others act meanwhile, and X goes on. Nothing here
depends on chance; `test_rfc79_scenarios` plays the scenarios of the design by the thousand.
"""

from __future__ import annotations

import pytest

from lentic.coordination.heartbeat import Heart, load_heartbeat
from lentic.errors import (
    Conflict,
    PlanBusy,
)
from lentic.format import layout
from lentic.services.failed_writes import clean_up_failed_writes, roll_back_expired
from lentic.services.outcome import AlreadyCommitted, Committed
from lentic.services.rollback import roll_back
from lentic.timeline.instant import Instant
from lentic.txn.transaction import transaction
from tests.rfc.claims import says
from tests.rfc.guard_scenes import (
    COMPACTION,
    REMOVABLE,
    STAYING,
    TTL_S,
    Gate,
    PowerCut,
    Stage,
    after_its_files,
    attempt,
    before_its_commit,
    calls_of,
    die_at,
    ensure_done_once,
    ensure_sound,
    execute,
    keep_beating,
    nth_call,
    outside_the_lock,
    planned,
    requests,
    stage,
)

LEASE_ENDS_S = 6
KINDS = pytest.mark.parametrize("kind", [COMPACTION, STAYING, REMOVABLE])
STAYS = pytest.mark.parametrize("kind", [COMPACTION, STAYING])


# --- G1, G2: a pause is no death ----------------------------------------------------------------


@says("G1", "rfc79.design.expiry")
@STAYS
def test_g1_whoever_slept_before_its_commit_quits_and_the_plan_is_done_once(kind: str) -> None:
    scene = stage(planned(kind))
    outcomes: list[object] = []

    def take_over() -> None:
        scene.sleep(2 * TTL_S)
        outcomes.append(execute(scene.table("y"), scene.plan))

    # Its files are all there, and the next thing it asks for is the lock.
    gate = Gate(scene.memory, after_its_files, take_over)
    result = execute(scene.table("x", gate), scene.plan)
    assert gate.is_passed
    assert [type(outcome) for outcome in outcomes] == [Committed]
    assert isinstance(result, AlreadyCommitted)
    ensure_done_once(scene)


@says("G2")
@STAYS
def test_g2_a_sleeper_deletes_nothing_of_whoever_took_over_wherever_it_slept(kind: str) -> None:
    """Also while it lists what earlier executions left, and before each delete of that."""
    scene = stage(planned(kind))
    die_at(scene, after_its_files)
    left = scene.files()
    assert left, "there must be something to delete"
    slept = 0
    for number in range(1, 70):
        again = stage(planned(kind))
        die_at(again, after_its_files)

        def take_over(again: Stage = again) -> None:
            again.sleep(2 * TTL_S)
            assert isinstance(execute(again.table("y"), again.plan), Committed | AlreadyCommitted)

        gate = Gate(again.memory, lambda op, path: False, take_over)
        table = again.table("x", gate)
        gate._when = outside_the_lock(again, nth_call(number))
        again.sleep(2 * TTL_S)
        result = attempt(lambda table=table, again=again: execute(table, again.plan))
        assert isinstance(result, (Committed, AlreadyCommitted, Conflict))
        ensure_done_once(again)
        slept += gate.is_passed
    assert slept >= 20


# --- G3, G4: the lock may be lost ---------------------------------------------------------------


@says("G3", "rfc79.execute.note")
@KINDS
def test_g3_a_lease_that_ends_at_any_call_makes_no_second_owner(kind: str) -> None:
    """No heartbeat expires here: only the lock is lost, while its holder sleeps a little."""
    calls = len(calls_of(kind)) + 20
    slow = {"hoodie.client.heartbeat.interval_in_ms": 60_000}
    passed = 0
    for number in range(1, calls):
        scene = stage(planned(kind, has_lease=True), has_lease=True)
        outcomes: list[object] = []

        def meanwhile(scene: Stage = scene, outcomes: list[object] = outcomes) -> None:
            scene.sleep(LEASE_ENDS_S)
            other = scene.table("y", options=slow)
            looks = iter(range(50))

            def look(seconds: float) -> None:
                if next(looks, None) is None:
                    raise PowerCut

            other.world.clock.sleep = look  # type: ignore[method-assign]
            try:
                outcomes.append(attempt(lambda: execute(other, scene.plan)))
            except PowerCut:
                outcomes.append("it waits, as the heartbeat is alive")

        gate = Gate(scene.memory, lambda op, path: False, meanwhile)
        table = scene.table("x", gate, options=slow)
        gate._when = nth_call(number)
        outcomes.append(attempt(lambda table=table, scene=scene: execute(table, scene.plan)))
        passed += gate.is_passed
        assert sum(isinstance(outcome, Committed) for outcome in outcomes) <= 1, number
        with transaction(scene.table("next")):
            pass  # what was decided is carried out
        ensure_sound(scene)
    assert passed >= 40


@says("G4")
@STAYS
def test_g4_a_lease_that_ends_before_the_completed_file_lets_nobody_act_on_not_committed(
    kind: str,
) -> None:
    scene = stage(planned(kind, has_lease=True), has_lease=True)
    seen: list[object] = []

    def meanwhile() -> None:
        scene.sleep(LEASE_ENDS_S)
        other = scene.table("i")
        with transaction(other) as txn:
            seen.append(txn.timeline.find(scene.plan))
        seen.append(roll_back(other, scene.plan))

    gate = Gate(scene.memory, before_its_commit, meanwhile)
    result = attempt(lambda: execute(scene.table("x", gate), scene.plan))
    assert gate.is_passed
    found = seen[0]
    assert isinstance(found, Instant) and found.is_completed, "the decision was carried out first"
    assert isinstance(result, Committed)
    assert requests(scene) == ()
    ensure_done_once(scene)


# --- G5, G6, G7: signs of life ------------------------------------------------------------------


@says("G5")
@pytest.mark.parametrize("is_alive", [True, False])
@pytest.mark.parametrize("skew_s", [-600, -60, 60, 600])
def test_g5_an_observer_s_clock_changes_no_decision(skew_s: int, is_alive: bool) -> None:
    scene = stage(planned(COMPACTION))
    die_at(scene, after_its_files)
    observer = scene.table("y", skew_ms=skew_s * 1000)
    if is_alive:
        keep_beating(scene, observer)
    result = attempt(lambda: execute(observer, scene.plan))
    assert isinstance(result, PlanBusy if is_alive else Committed), result


@says("G6")
def test_g6_after_a_take_over_the_sleeper_neither_renews_nor_ends_the_owner_s_heartbeat() -> None:
    scene = stage(planned(COMPACTION))
    x, at = scene.table("x"), scene.plan.requested_at
    heart = Heart(scene.memory, x.world, at, x.pulse, epoch=1)
    heart.beat()
    scene.sleep(2 * TTL_S)
    scene.memory.replace(layout.heartbeat(at), b'{"owner": "y"}')
    heart.beat()
    assert load_heartbeat(scene.memory, at) == b'{"owner": "y"}'
    assert not heart.is_shown()


@says("G6")
def test_g6_one_who_was_not_even_late_does_not_end_another_s_heartbeat() -> None:
    """Without the guard a plan is taken over at once, while the first one's heart still beats."""
    scene = stage(planned(COMPACTION))
    at, options = scene.plan.requested_at, {"lentic.services.guard.enabled": "false"}
    shown: list[bytes] = []

    def take_over() -> None:
        scene.memory.replace(layout.heartbeat(at), b'{"owner": "y"}')
        scene.memory.put_if_absent(layout.guard(at, 2), b"")

    gate = Gate(scene.memory, after_its_files, take_over)
    with pytest.raises(Conflict):
        execute(scene.table("x", gate, options=options), scene.plan)
    shown.append(load_heartbeat(scene.memory, at))
    assert shown == [b'{"owner": "y"}']


@says("G7", "P9")
@KINDS
def test_g7_who_looked_before_a_commit_and_sees_no_heartbeat_after_it_undoes_nothing(
    kind: str,
) -> None:
    scene = stage(planned(kind))
    options = {"lentic.services.rollback_delay_minutes": 0}
    observer = scene.table("cleaner", options=options)
    assert clean_up_failed_writes(observer) == ()  # has seen that there is no heartbeat
    scene.sleep(2 * TTL_S)

    def commit() -> None:
        assert isinstance(execute(scene.table("x"), scene.plan), Committed)

    # Between the look at the timeline, which shows the plan pending, and the transaction.
    gate = Gate(scene.memory, lambda op, path: path.startswith(layout.HEARTBEATS), commit)
    stale = scene.table("cleaner", gate, options=options)
    stale.watch._since.update(observer.watch._since)
    roll_back_expired(stale)
    assert gate.is_passed
    assert requests(scene) == ()
    ensure_done_once(scene)
