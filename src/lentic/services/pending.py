"""A plan that has not ended, as operators see it, and what may be done about it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from lentic.format.cancellable import HOUR_S, Cancellation
from lentic.format.names import Action, State
from lentic.format.times import RequestedAt
from lentic.services import next_steps
from lentic.services.next_steps import NextStep
from lentic.timeline.instant import PLANS, Instant

ALERT_CANCELS = 3
"""So many cancellations in a row, and a file group is being starved of clustering (C10)."""
UNREADABLE = "its plan does not read"
"""How the blocker begins that says so."""


@dataclass(frozen=True, slots=True)
class CancelState:
    """What a plan says of giving way to writes, and whether it has to."""

    cancellable: bool = False
    after_hours: float | None = None
    after_instants: int | None = None
    policy: str = ""
    """When a clean cancels it, in words; "" if the plan sets no limit."""
    is_met: bool = False
    """Whether that time has come, by this machine's clock."""
    is_requested: bool = False
    by: str = ""
    why: str = ""
    cancels_before: tuple[tuple[str, int], ...] = ()
    """How often plans of its file groups were cancelled before, most often first."""

    @property
    def starved(self) -> tuple[tuple[str, int], ...]:
        """The file groups whose plans were cancelled again and again."""
        return tuple((g, count) for g, count in self.cancels_before if count >= ALERT_CANCELS)


@dataclass(frozen=True, slots=True)
class PendingPlan:
    """One plan that has not ended. Ages are in seconds, by this machine's clock."""

    requested_at: RequestedAt
    action: Action
    state: State
    removable: bool
    owner: str
    """Who executes it, `host:pid`; "" if nobody does."""
    age_s: float
    heartbeat_age_s: float | None
    """Since its executor's last sign of life; None if there is none."""
    is_alive: bool
    """Whether somebody seems to be at it: whoever executes or aborts it now is refused."""
    partitions: int | None
    files: int | None
    """How many it names; None if it does not read, so that nobody knows."""
    bytes: int | None
    """Of the files that it names; None also where measuring them would take too long."""
    cancellation: CancelState
    blockers: tuple[str, ...]
    next_step: str
    """A Python call that may be made now, where `t` is the table."""
    next_command: str
    """The same for a shell."""

    @property
    def is_readable(self) -> bool:
        """Whether the plan says what is to be done: one that does not can never be executed."""
        return self.files is not None


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of a pending plan when it is asked what may be done about it."""

    root: str
    plan: Instant
    owner: str
    heartbeat_age_s: float | None
    ttl_s: float
    removable: bool
    undone_by: tuple[Instant, ...]
    cancellation: CancelState
    unread: str = ""
    """Why the plan does not read, and where; "" if it does."""
    doubtful: tuple[Instant, ...] = ()
    """Pending rollbacks that do not read, so that each may undo it."""

    @property
    def is_alive(self) -> bool:
        """Whether somebody seems to be at it."""
        return self.heartbeat_age_s is not None and self.heartbeat_age_s < self.ttl_s


def judge_plan(now: Standing) -> tuple[tuple[str, ...], NextStep]:
    """What stands in the way of the plan, and what may be done next."""
    blockers = [*_say_executor(now), *(f"{rollback} undoes it" for rollback in now.undone_by)]
    root, at = now.root, str(now.plan.requested_at)
    if now.unread:
        blockers.append(f"{UNREADABLE}: {now.unread}")
    blockers += (f"{i} may undo it: the plan of that does not read" for i in now.doubtful)
    if now.cancellation.is_requested:
        by, why = now.cancellation.by or "somebody", now.cancellation.why
        blockers.append(f"{by} cancelled it{': ' + why if why else ''}; it will not be committed")
    if now.doubtful:  # until that file is back nothing is executed, undone or asked about
        return tuple(blockers), next_steps.verify(root)
    if now.is_alive:
        return tuple(blockers), next_steps.ask_why(root, at)
    if now.cancellation.is_requested:
        return tuple(blockers), next_steps.abort(root, at)
    if now.unread:
        return tuple(blockers), _end_unread(now)
    if now.removable and (now.undone_by or now.plan.state is State.INFLIGHT):
        blockers.append("it is removable and was begun: it cannot be executed again")
        return tuple(blockers), next_steps.roll_back(root, at)
    if now.plan.action in PLANS or now.plan.action is Action.CLEAN:
        return tuple(blockers), next_steps.execute(root, at)
    return tuple(blockers), next_steps.clean(root)


def _end_unread(now: Standing) -> NextStep:
    """A rollback ends such a plan of a service without reading it. Nothing ends the others but
    their file, which has to be brought back; that says which."""
    if now.plan.action in PLANS:
        return next_steps.roll_back(now.root, str(now.plan.requested_at))
    return next_steps.verify(now.root)


def _say_executor(now: Standing) -> list[str]:
    if now.heartbeat_age_s is None:
        return []
    age = f"{now.heartbeat_age_s:.0f} s"
    if now.is_alive:
        return [
            f"{now.owner} executes it; its last sign of life is {age} old, and {now.ttl_s:g} s "
            "after the last it can be taken over"
        ]
    return [f"{now.owner} began it and was last seen {age} ago"]


# --- giving way ---------------------------------------------------------------------------------


def judge_cancellation(
    said: Cancellation, request: tuple[str, str] | None, *, age_s: float, writes: int
) -> CancelState:
    """What a plan says of being cancelled, and how far that has come: it is `age_s` old, `writes`
    completed since it was made, and `request` says who cancelled it and why."""
    is_met = said.is_met(writes=writes, age_s=age_s)
    counts = sorted(said.cancelled.items(), key=lambda one: (-one[1], one[0]))
    return CancelState(
        cancellable=said.cancellable,
        after_hours=said.after_hours,
        after_instants=said.after_instants,
        policy=_say_policy(said, age_s, writes, is_met=is_met),
        is_met=is_met,
        is_requested=request is not None,
        by=request[0] if request else "",
        why=request[1] if request else "",
        cancels_before=tuple(counts),
    )


def _say_policy(said: Cancellation, age_s: float, writes: int, *, is_met: bool) -> str:
    limits = []
    if said.after_hours is not None:
        limits.append(f"it is {said.after_hours:g} h old (now {age_s / HOUR_S:.1f} h)")
    if said.after_instants is not None:
        limits.append(f"{said.after_instants} write(s) completed since (now {writes})")
    if not (said.cancellable and limits):
        return ""
    when = "the next clean cancels it unless somebody executes it: " if is_met else ""
    return f"{when}a clean may cancel it once {' or '.join(limits)}"
