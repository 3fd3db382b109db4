"""What a table needs done now, the most urgent first. Pure.

Facts about a table become duties. Nothing here says which process does them: of several that come
to the same duty the guard lets one through (RFC-79), and the others find it busy or done. Order:

    0  undo what the dead left, abort what was cancelled
    1  carry out plans that nobody executes, or whose executor is dead
    2  compaction   3  log compaction   4  clustering   5  clean   6  archive, each when it is due

A plan is nobody's when it has no heartbeat: who ends in good order takes the heartbeat away. Who
dies leaves it, and it counts as dead when it was seen unchanged for its time to live. A write
without a heartbeat may be that of a single writer, who gives none and undoes its own failures; so
it is only given up where the options say that there are several.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from enum import StrEnum

from lentic.config.services import ServiceOptions
from lentic.errors import ConfigError
from lentic.format.names import Action, State
from lentic.format.times import RequestedAt
from lentic.services.due import Situation, is_due
from lentic.timeline.instant import PLANS, WRITES, Instant


class Service(StrEnum):
    """What the runner can be told to see to."""

    FAILED_WRITES = "failed_writes"
    COMPACTION = "compaction"
    LOG_COMPACTION = "log_compaction"
    CLUSTERING = "clustering"
    CLEAN = "clean"
    ARCHIVE = "archive"


class Verb(StrEnum):
    """What is done about a service."""

    ROLL_BACK = "rollback"
    ABORT = "abort"
    EXECUTE = "execute"
    RUN = "run"
    """Schedule and execute."""


USUAL = frozenset({Service.FAILED_WRITES, Service.COMPACTION, Service.CLEAN, Service.ARCHIVE})
"""What is seen to unless told; besides clustering where the options turn it on."""

_PLANNED: Mapping[Action, Service] = {
    Action.COMPACTION: Service.COMPACTION,
    Action.LOGCOMPACTION: Service.LOG_COMPACTION,
    Action.CLUSTERING: Service.CLUSTERING,
}
_SCHEDULED: Mapping[Service, Action | None] = {
    Service.COMPACTION: Action.COMPACTION,
    Service.LOG_COMPACTION: Action.LOGCOMPACTION,
    Service.CLUSTERING: Action.CLUSTERING,
    Service.CLEAN: Action.CLEAN,
    Service.ARCHIVE: None,
}
"""Services that become due, in their order, and the action of their plans."""

_UNDOING = 0
_EXECUTING = 1
_URGENCY = {service: place for place, service in enumerate(_SCHEDULED, start=_EXECUTING + 1)}


@dataclass(frozen=True, slots=True)
class Duty:
    """One thing to do for a table; `at` names the plan, if it is about one."""

    verb: Verb
    service: Service
    at: RequestedAt | None = None

    @property
    def name(self) -> str:
        """What lines, metrics and rests call it."""
        undoes = self.verb in (Verb.ROLL_BACK, Verb.ABORT)
        return self.verb.value if undoes else self.service.value

    @property
    def urgency(self) -> int:
        """The lower the sooner."""
        if self.verb is Verb.RUN:
            return _URGENCY[self.service]
        return _EXECUTING if self.verb is Verb.EXECUTE else _UNDOING


@dataclass(frozen=True, slots=True)
class Seen:
    """A pending instant as this process sees it. Silent: its heartbeat, or that there is none, was
    seen unchanged for the time to live."""

    instant: Instant
    has_heartbeat: bool
    is_silent: bool
    silent_s: float = 0.0
    age_s: float = 0.0
    is_removable: bool = False
    is_cancelled: bool = False

    @property
    def is_free(self) -> bool:
        """Whether nobody executes it."""
        return self.is_silent or not self.has_heartbeat


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is known of a table at one look. `is_shared`: the options say that there are several
    writers, each of which gives signs of life."""

    now: Situation
    pending: tuple[Seen, ...] = ()
    is_shared: bool = False


def decide(
    facts: Facts, asked: frozenset[Service] | None = None, resting: Set[str] = frozenset()
) -> tuple[Duty, ...]:
    """The duties of the services `asked` for, or of the usual ones, but for those that rest."""
    wanted = choose_services(asked, facts.now.options)
    found = [
        *_undo(facts, wanted),
        *_execute(facts, frozenset(Service) if asked is None else asked),
        *_run(facts, wanted),
    ]
    kept = (duty for duty in found if duty.name not in resting)
    return tuple(sorted(kept, key=lambda duty: duty.urgency))


def choose_services(
    asked: frozenset[Service] | None, options: ServiceOptions
) -> frozenset[Service]:
    """The services that are seen to: those asked for, or the usual ones."""
    if asked is not None:
        return asked
    clusters = options.clustering.inline or options.clustering.schedule_inline
    folds = options.log_compact_inline
    more = {Service.CLUSTERING: clusters, Service.LOG_COMPACTION: folds}
    return USUAL | {service for service, is_on in more.items() if is_on}


def parse_services(text: str) -> frozenset[Service] | None:
    """The services of a list with commas; None, the usual ones, if nothing is given."""
    names = [name.strip().replace("-", "_") for name in text.split(",") if name.strip()]
    if unknown := [name for name in names if name not in tuple(Service)]:
        raise ConfigError(
            f"There is no service {unknown[0]!r}.",
            safe="nothing was done",
            next_step=f"choose among {', '.join(Service)}",
        )
    if text and not names:
        raise ConfigError(
            f"{text!r} names no service.",
            safe="nothing was done",
            next_step=f"choose among {', '.join(Service)}, or leave the option out",
        )
    return frozenset(map(Service, names)) or None


def _undo(facts: Facts, wanted: Set[Service]) -> Iterator[Duty]:
    if Service.FAILED_WRITES not in wanted:
        return
    if any(_is_dead(seen, facts.is_shared) for seen in facts.pending):
        yield Duty(Verb.ROLL_BACK, Service.FAILED_WRITES)
    for seen in facts.pending:
        if seen.is_cancelled and seen.is_free:
            yield Duty(Verb.ABORT, _PLANNED[seen.instant.action], seen.instant.requested_at)


def is_dead_write(seen: Seen, *, is_shared: bool) -> bool:
    """Whether a write has failed: its signs of life have ended."""
    return seen.is_silent and (seen.has_heartbeat or is_shared)


def _is_dead(seen: Seen, is_shared: bool) -> bool:
    """Whether somebody has to undo it, or to finish undoing."""
    if seen.instant.action in WRITES:
        return is_dead_write(seen, is_shared=is_shared)
    if seen.instant.action in (Action.ROLLBACK, Action.RESTORE):
        return seen.is_silent
    return seen.is_silent and _is_spent(seen) and not seen.is_cancelled


def _is_spent(seen: Seen) -> bool:
    """Whether it is a plan that can be executed only once, and was begun."""
    return seen.is_removable and seen.instant.state is State.INFLIGHT


def _execute(facts: Facts, wanted: Set[Service]) -> Iterator[Duty]:
    if _is_restored(facts):
        return
    for seen in facts.pending:
        at, service = seen.instant.requested_at, _PLANNED.get(seen.instant.action)
        can_run = seen.is_free and not (_is_spent(seen) or seen.is_cancelled)
        if service is not None and service in wanted and can_run:
            yield Duty(Verb.EXECUTE, service, at)
        # Two at once may clean by one plan, but need not: who has just planned it is at it.
        if seen.instant.action is Action.CLEAN and seen.is_silent and Service.CLEAN in wanted:
            yield Duty(Verb.RUN, Service.CLEAN)


def _run(facts: Facts, wanted: Set[Service]) -> Iterator[Duty]:
    if _is_restored(facts):
        return
    pending = {seen.instant.action for seen in facts.pending}
    for service, action in _SCHEDULED.items():
        if service in wanted and action not in pending and is_due(service.value, facts.now):
            yield Duty(Verb.RUN, service)


def _is_restored(facts: Facts) -> bool:
    """Whether it is being decided which writes there are; nothing is built upon them meanwhile."""
    return any(seen.instant.action is Action.RESTORE for seen in facts.pending)


# --- among tables -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Candidate:
    """The most urgent duty of one table. `deferred`: how many cycles it has waited for its budget.
    `served`: when the table was last served, as a number that rises. `place`: its turn."""

    table: str
    duty: Duty
    deferred: int = 0
    served: int = 0
    place: int = 0


def choose(candidates: Iterable[Candidate]) -> Candidate | None:
    """Whose turn it is: the most urgent, and among equals whoever was served longest ago. Waiting
    makes urgent, so that a table which is always busy cannot starve the others."""

    def order(one: Candidate) -> tuple[int, int, int]:
        return max(0, one.duty.urgency - one.deferred), one.served, one.place

    return min(candidates, key=order, default=None)


assert set(_PLANNED) == set(PLANS)
