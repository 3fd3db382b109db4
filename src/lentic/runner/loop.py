"""The loop of a runner: look at every table, do what is due, the most urgent first, and again.

Any number of runners may look after the same tables. None leads, and none knows of the others: what
two of them decide at once, the guard and the table's lock sort out (ADR 0020). Of what a runner
remembers nothing is needed by anybody: it can be killed at any moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from lentic.errors import LenticError
from lentic.runner import metrics as told
from lentic.runner.brake import Brake, heeding_storage
from lentic.runner.budget import Budget, Spent
from lentic.runner.decide import Candidate, Duty, Facts, Service, Verb, choose, decide
from lentic.runner.events import Event, Result, Work, say_error
from lentic.runner.exposition import Labels
from lentic.runner.find import Place
from lentic.runner.metrics import Metrics, record_event, record_facts, record_look
from lentic.runner.perform import Performed, perform
from lentic.runner.rest import CHANCES
from lentic.runner.stop import Stop, StoppableEngine
from lentic.runner.ward import LOOK, Open, Ward
from lentic.world import World

_CHECK_S = 0.5
"""How often it is looked whether work under way has to be stopped."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What a runner is told. `services` is None for the usual ones; times are in seconds, and 0 is
    without limit."""

    services: frozenset[Service] | None = None
    budget: Budget = field(default_factory=Budget)
    interval_s: float = 30.0
    rescan_s: float = 300.0
    action_s_max: float = 0.0
    grace_s: float = 20.0


Task = tuple[str, Duty]
"""A duty of a table, by the table's name."""


@dataclass(frozen=True, slots=True)
class Outside:
    """All that a runner needs besides its orders. What `open_table` opens has a world that heeds
    `brake`, or else waits for its locks come what may."""

    world: World
    stop: Stop
    find: Callable[[], tuple[Place, ...]]
    open_table: Open
    emit: Callable[[Event], object]
    metrics: Metrics
    brake: Brake = field(default_factory=Brake)


class Runner:
    """Looks after tables until it is told to stop."""

    def __init__(self, orders: Orders, outside: Outside) -> None:
        self.orders = orders
        self._out = outside
        self._clock = outside.world.clock
        self._wards: dict[str, Ward] = {}
        self._found_at_s: float | None = None
        self._actions = 0
        self._failures = 0
        # Runners that begin together begin with different tables.
        self._turn = outside.world.entropy.integer(1_000_000)

    def run(self, after_cycle: Callable[[], object]) -> None:
        """Cycle after cycle, until it is asked to stop."""
        while not self._out.stop.is_asked:
            self.run_cycle()
            after_cycle()
            self._out.stop.wait(self.orders.interval_s)

    def run_cycle(self) -> int:
        """Look at every table once and do what is due, as far as the budget goes; how many of the
        looks and actions failed."""
        began, failed_before = self._clock.monotonic(), self._failures
        self._find_tables()
        self._turn += 1
        for ward in self._in_turn():
            if self._out.stop.is_asked:
                break
            self._look(ward)
        self._work()
        metrics = self._out.metrics
        metrics.add(told.CYCLES)
        metrics.set(told.CYCLE_S, self._clock.monotonic() - began)
        return self._failures - failed_before

    # Which tables

    def _find_tables(self) -> None:
        now_s, rescan_s = self._clock.monotonic(), self.orders.rescan_s
        if self._found_at_s is not None and now_s - self._found_at_s < rescan_s:
            return
        try:
            found = {place.name: place for place in self._out.find()}
        except LenticError as error:
            self._tell("", "find", now_s, Performed(Result.FAILED, note=say_error(error)))
            self._failures += 1
            return
        self._found_at_s = now_s
        for name in self._wards.keys() - found.keys():
            del self._wards[name]
            self._out.metrics.forget(name)
        for name in found.keys() - self._wards.keys():
            self._wards[name] = Ward(found[name])
        self._out.metrics.set(told.TABLES, len(self._wards))

    def _in_turn(self) -> Iterator[Ward]:
        wards = [self._wards[name] for name in sorted(self._wards)]
        first = self._turn % len(wards) if wards else 0
        yield from (*wards[first:], *wards[:first])

    # Looking

    def _look(self, ward: Ward) -> None:
        name, now_s = ward.place.name, self._clock.monotonic()
        ward.duties, ward.seen_after = (), self._actions
        self._show_rests(ward, now_s)
        if LOOK in ward.rests.resting(now_s, ""):
            return
        try:
            facts = ward.look(self._out.open_table, self.orders.budget)
        except Exception as error:
            # Whatever it is, the other tables must not wait for it.
            ward.close()
            self._out.metrics.set(told.TABLE_UP, 0, table=name)
            failed = Performed(Result.FAILED, note=say_error(error))
            self._settle(ward, LOOK, failed)
            self._tell(name, LOOK, now_s, failed)
            return
        ward.rests = ward.rests.after_success(LOOK)
        resting = ward.rests.resting(now_s, ward.digest)
        ward.duties = decide(facts, self.orders.services, resting)
        record_facts(self._out.metrics, name, facts)
        self._count_cancels(ward, facts)

    def _count_cancels(self, ward: Ward, facts: Facts) -> None:
        found = {plan.requested_at for plan in facts.now.timeline.aborted()}
        found |= {s.instant.requested_at for s in facts.pending if s.is_cancelled}
        if new := found - ward.cancelled:
            self._out.metrics.add(told.CANCELS, len(new), table=ward.place.name)
        ward.cancelled = found

    # Working

    def _work(self) -> None:
        tried: set[Task] = set()
        spent = Spent()
        while not self._out.stop.is_asked:
            chosen = choose(self._candidates(tried))
            if chosen is None:
                return
            ward = self._wards[chosen.table]
            if not self.orders.budget.allows(chosen.duty, spent):
                tried.add((chosen.table, chosen.duty))
                ward.deferred[chosen.duty.name] = chosen.deferred + 1
                self._out.metrics.add(told.DEFERRED, table=chosen.table, action=chosen.duty.name)
            elif ward.seen_after != self._actions:
                self._look(ward)  # it was some time ago: others may have done it since
            else:
                tried.add((chosen.table, chosen.duty))
                spent += self._do(ward, chosen.duty)
                self._look(ward)

    def _candidates(self, tried: set[Task]) -> Iterator[Candidate]:
        """The first duty of each table that was not tried in this cycle."""
        for place, ward in enumerate(self._in_turn()):
            name = ward.place.name
            for duty in ward.duties:
                if (name, duty) not in tried:
                    deferred = ward.deferred.get(duty.name, 0)
                    yield Candidate(name, duty, deferred, ward.served, place)
                    break

    def _do(self, ward: Ward, duty: Duty) -> Spent:
        assert ward.opened is not None and ward.engine is not None
        began_s, storage = self._clock.monotonic(), ward.opened.storage
        table = replace(ward.opened, storage=heeding_storage(storage, self._out.brake))
        with self._limited(ward.engine, began_s) as limit:
            done = perform(table, ward.engine, duty)
        if done.result is Result.FAILED and limit.is_reached(self._clock.monotonic()):
            done = replace(done, result=Result.STOPPED, note=limit.why)
        self._actions += 1
        ward.served = self._actions
        ward.deferred.pop(duty.name, None)
        self._settle(ward, duty.name, done)
        self._tell(ward.place.name, duty.name, began_s, done)
        if done.looked is not None:
            record_look(self._out.metrics, ward.place.name, duty.name, done.looked)
        return Spent(done.work.bytes, self._clock.monotonic() - began_s)

    @contextmanager
    def _limited(self, engine: StoppableEngine, began_s: float) -> Iterator[_Limit]:
        """Stop the work of this block when it takes too long, or the process has to end."""
        limit = _Limit(self.orders, self._out.stop, began_s)

        def check() -> None:
            if limit.is_reached(self._clock.monotonic()):
                pull()
                engine.stop()

        every = self._out.world.background.every
        with self._out.brake.ready() as pull, engine.stoppable(), every(_CHECK_S, check):
            yield limit

    # What came of it

    def _settle(self, ward: Ward, name: str, done: Performed) -> None:
        """Rest after a failure or where there was nothing to do."""
        now_s = self._clock.monotonic()
        self._failures += done.result is Result.FAILED
        is_wanted = name == Verb.ABORT and done.result is Result.ABORTED
        if done.result.rests and not is_wanted:
            chance = self._out.world.entropy.integer(CHANCES)
            ward.rests = ward.rests.after_failure(name, now_s, chance)
        elif done.result is Result.NOTHING:
            ward.rests = ward.rests.after_nothing(name, now_s, ward.digest)
        elif done.result is not Result.BUSY:
            ward.rests = ward.rests.after_success(name)
        self._show_rests(ward, now_s)

    def _show_rests(self, ward: Ward, now_s: float) -> None:
        waits: dict[Labels, float] = {}
        for other, wait_s in ward.rests.waits_s(now_s).items():
            waits[(("action", other),)] = wait_s
        self._out.metrics.replace(told.BACKOFF, waits, table=ward.place.name)

    def _tell(self, table: str, action: str, began_s: float, done: Performed) -> None:
        world = self._out.world
        event = Event(
            at_ms=self._clock.now_ms(),
            worker=str(world.process),
            table=table,
            action=action,
            result=done.result,
            instant=done.instant,
            seconds=self._clock.monotonic() - began_s,
            work=done.work,
            note=done.note,
        )
        record_event(self._out.metrics, event)
        if done.result is not Result.NOTHING or done.work != Work():
            self._out.emit(event)


class _Limit:
    """When work under way has to stop, and why."""

    def __init__(self, orders: Orders, stop: Stop, began_s: float) -> None:
        self._orders, self._stop, self._began_s = orders, stop, began_s
        self._asked_s: float | None = None
        self.why = ""

    def is_reached(self, now_s: float) -> bool:
        longest_s, grace_s = self._orders.action_s_max, self._orders.grace_s
        if self._stop.is_asked and self._asked_s is None:
            self._asked_s = now_s
        if longest_s and now_s - self._began_s > longest_s:
            self.why = f"it took longer than {longest_s:g} s"
        if self._stop.is_urgent or (self._asked_s is not None and now_s - self._asked_s > grace_s):
            self.why = "the process was told to end"
        return bool(self.why)
