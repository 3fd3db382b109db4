"""Why an instant is as it is: what it did, who has it, what it holds up, what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from lentic.config.retention import ArchiveOptions
from lentic.format.cancellable import Cancellation
from lentic.format.commit_metadata import CommitMetadata
from lentic.format.names import Action
from lentic.format.times import RequestedAt
from lentic.insight.answers import Answer, Reason
from lentic.insight.facts import Stop, say_age
from lentic.services import next_steps
from lentic.services.next_steps import NextStep
from lentic.services.pending import UNREADABLE, PendingPlan
from lentic.timeline.instant import WRITES, Instant
from lentic.timeline.timeline import Timeline

_STARVED_TOLD = 3
"""So many starved file groups are named; `plans` has them all."""


@dataclass(frozen=True, slots=True)
class InstantFacts:
    """All that is known of one instant."""

    root: str
    at: RequestedAt
    timeline: Timeline
    options: ArchiveOptions
    found: Instant | None = None
    """As it stands; None if it is on no timeline any more."""
    is_archived: bool = False
    metadata: CommitMetadata | None = None
    """What it did, if it is a completed write."""
    cancelled: Cancellation = field(default_factory=Cancellation)
    """What it says of that, if it is an aborted plan of the active timeline."""
    plan: PendingPlan | None = None
    """If it is a plan that has not ended."""
    owner: str = ""
    heartbeat_age_s: float | None = None
    ttl_s: float = 0.0
    age_s: float = 0.0
    undoing: tuple[Instant, ...] = ()
    """The rollbacks and restores that name it."""
    announced: int = 0
    """Data files that its markers announce."""
    is_alone: bool = False
    """Whether whoever writes next rolls back all that is pending."""
    is_archive_due: bool = False
    """Whether more commits are active than may be."""
    barriers: tuple[Stop, ...] = ()
    """What archiving cannot go past, the oldest first."""
    due: tuple[Instant, ...] = ()
    """What would be archived now."""


def explain_instant(facts: InstantFacts) -> Answer:
    """All there is to say about the instant."""
    return Answer(
        question=str(facts.at),
        kind="instant",
        facts=tuple(_list_facts(facts)),
        reasons=tuple(_list_reasons(facts)),
        next_steps=tuple(dict.fromkeys(_list_next_steps(facts))),
    )


def _list_facts(facts: InstantFacts) -> Iterator[tuple[str, str]]:
    found = facts.found
    yield "action", str(found.action) if found else "unknown"
    yield "state", str(found.state) if found else "gone"
    if facts.is_archived:
        yield "timeline", "archived"
    if found and found.completed_at:
        yield "completed at", str(found.completed_at)
    if facts.cancelled.by:
        yield "cancelled by", facts.cancelled.by
    if facts.cancelled.why:
        yield "cancelled because", facts.cancelled.why
    if found and found.is_pending:
        yield "age", say_age(facts.age_s)
        yield "owner", facts.owner or "nobody"
    if facts.heartbeat_age_s is not None:
        yield "last heartbeat", f"{say_age(facts.heartbeat_age_s)} ago"
    if facts.metadata:
        stats = facts.metadata.stats
        yield "operation", facts.metadata.operation
        yield "files", str(len(stats))
        yield "bytes", str(sum(stat.size for stat in stats))
        inserts, updates = sum(s.inserts for s in stats), sum(s.updates for s in stats)
        deletes = sum(s.deletes for s in stats)
        yield "rows", f"{inserts} inserted, {updates} updated, {deletes} deleted"
    if facts.plan:
        plan = facts.plan
        extent = f"{plan.files} file(s) in {plan.partitions} partition(s)"
        yield "plan", extent if plan.is_readable else "it does not read"
        yield "cancellable", "yes" if plan.cancellation.cancellable else "no"


def _list_reasons(facts: InstantFacts) -> Iterator[Reason]:
    found = facts.found
    if found is None:
        yield from _why_undone(facts)
    elif found.is_aborted:
        yield _why_aborted(facts.cancelled)
        if not facts.is_archived:
            says = "it goes with the next archiving of older commits, once a later plan is there"
            yield Reason("archive-kept", says)
    elif facts.is_archived:
        yield Reason(
            "archived",
            "it is in the history: it completed, and was older than the "
            f"{facts.options.commits_min} commits that stay on the active timeline "
            "(hoodie.keep.min.commits). Its files are seen as before",
        )
    elif found.is_completed:
        yield from _why_completed(facts, found)
    else:
        yield from _why_pending(facts, found)
        yield from _why_undone(facts)
        yield from _what_it_holds_up(facts, found)


# --- ended --------------------------------------------------------------------------------------


def _why_aborted(told: Cancellation) -> Reason:
    asked = "its cancellation was asked for, by a write to its file groups, a clean or by hand"
    if told.by:
        asked = f"{told.by} cancelled it: {told.why or 'why was not said'}"
    return Reason(
        "aborted",
        f"{asked}. It was never committed, its files are deleted, and it can never be executed "
        "again",
    )


def _why_undone(facts: InstantFacts) -> Iterator[Reason]:
    for undo in facts.undoing:
        if undo.is_pending:
            yield Reason("being-undone", f"{undo} undoes it and has not been finished")
        elif undo.action is Action.RESTORE:
            says = f"{undo} took the table back to a state before it, at {undo.completed_at}"
            yield Reason("restored-away", says)
        else:
            says = f"{undo} undid it at {undo.completed_at}: it had failed, or was told to go"
            yield Reason("rolled-back", says)


def _why_completed(facts: InstantFacts, found: Instant) -> Iterator[Reason]:
    if found.action in WRITES:
        yield Reason("completed", f"readers see what it wrote since {found.completed_at}")
    else:
        yield Reason("completed", f"it is done since {found.completed_at}")
    yield from _why_undone(facts)
    if any(
        i.action is Action.SAVEPOINT and i.requested_at == facts.at for i in facts.timeline.instants
    ):
        yield Reason("has-savepoint", "a savepoint keeps the state right after it")
    yield _why_not_archived(facts)


def _why_not_archived(facts: InstantFacts) -> Reason:
    options = facts.options
    active = len(facts.timeline.writes())
    if any(instant.requested_at == facts.at for instant in facts.due):
        return Reason("archive-due", "the next archiving moves it to the history")
    if not facts.is_archive_due:
        return Reason(
            "archive-not-due",
            f"it stays on the active timeline: {active} commit(s) are there, and archiving begins "
            f"beyond hoodie.keep.max.commits={options.commits_max}",
        )
    for stop in facts.barriers:
        if stop.at <= facts.at:
            return Reason("archive-blocked", f"archiving cannot reach it: {stop.why}")
    return Reason(
        "archive-kept",
        f"it is among the commits that stay (hoodie.keep.min.commits={options.commits_min}), or "
        "completed later than one of those",
    )


# --- pending ------------------------------------------------------------------------------------


def _why_pending(facts: InstantFacts, found: Instant) -> Iterator[Reason]:
    if facts.plan is not None:
        yield from _why_plan_pending(facts, facts.plan)
        return
    if found.action is Action.SAVEPOINT:
        yield Reason("unfinished", "whoever made the savepoint died; making it again finishes it")
        return
    age = facts.heartbeat_age_s
    if age is not None and age < facts.ttl_s:
        yield Reason(
            "under-way", f"{facts.owner} is writing; its last sign of life is {age:.0f} s old"
        )
    elif age is not None:
        yield Reason(
            "writer-dead",
            f"{facts.owner} gave no sign of life for {say_age(age)}, and {facts.ttl_s:g} s are "
            "enough to give it up: the next clean or write rolls it back",
        )
    elif facts.is_alone:
        yield Reason(
            "nobody-writes",
            "it gives no sign of life. If its writer is dead, the next write or clean rolls it "
            "back: the table is told to have a single writer",
        )
    else:
        yield Reason(
            "nobody-writes",
            f"it gives no sign of life: a clean that has watched it for {facts.ttl_s:g} s rolls it "
            "back",
        )
    if facts.announced:
        says = f"{facts.announced} data file(s) are announced for it; nobody sees them"
        yield Reason("announced", says)


def _why_plan_pending(facts: InstantFacts, plan: PendingPlan) -> Iterator[Reason]:
    told = plan.cancellation
    for line in plan.blockers:
        is_damage = line.startswith(UNREADABLE)
        yield Reason("plan-unreadable" if is_damage else "blocker", line)
    if told.is_requested:
        yield Reason(
            "cancelled",
            "its cancellation cannot be taken back: its executor once it stops, an abort or a "
            "clean removes what it wrote and ends it",
        )
    elif not plan.is_readable and not plan.is_alive:
        yield Reason("cannot-be-executed", "nobody can execute it: what it was for is not known")
    elif plan.action in (Action.ROLLBACK, Action.RESTORE):
        yield Reason(
            "unfinished", "whoever began it has not finished it: the next clean or write does"
        )
    elif plan.heartbeat_age_s is None:
        yield Reason("waits-for-executor", "it is planned, and nobody executes it")
    elif not plan.is_alive:
        yield Reason("executor-dead", "whoever executed it is dead or asleep: it can be taken over")
    else:
        yield Reason("executing", "it is being executed")
    if told.policy and not told.is_requested:
        yield Reason("cancel-policy", told.policy)
    for group, count in told.starved[:_STARVED_TOLD]:
        yield Reason(
            "starved",
            f"plans of file group {group} were cancelled {count} times in a row, and none "
            "completed",
        )
    if (more := len(told.starved) - _STARVED_TOLD) > 0:
        yield Reason("starved", f"so were plans of {more} more file group(s)")


def _what_it_holds_up(facts: InstantFacts, found: Instant) -> Iterator[Reason]:
    first = next(iter(facts.barriers), None)
    if first is not None and first.at == facts.at:
        newer = sum(w.requested_at > facts.at for w in facts.timeline.writes())
        yield Reason("blocks-archive", f"archiving stops before it; {newer} newer commit(s) wait")
    elif first is not None:
        yield Reason("archive-blocked", f"archiving stops before it comes to this: {first.why}")
    if found.action is Action.RESTORE:
        yield Reason("blocks-clean", "nothing is cleaned or archived until it is finished")
    elif facts.plan is not None and not facts.plan.is_readable:
        says = "cleans fail at it until it is gone or reads again: what it needs is not known"
        yield Reason("blocks-clean", says)
    elif facts.plan is not None and found.action not in (Action.CLEAN, Action.ROLLBACK):
        says = f"cleans leave the {facts.plan.files} file(s) alone that it is going to read"
        yield Reason("blocks-clean", says)
    elif found.action in WRITES:
        yield Reason(
            "blocks-clean", "cleans keep every file that was current when it was requested"
        )


def _list_next_steps(facts: InstantFacts) -> Iterator[NextStep]:
    found, root, own = facts.found, facts.root, str(facts.at)
    if any(undo.is_pending for undo in facts.undoing):
        yield next_steps.clean(root)
    if found is None or facts.is_archived:
        yield next_steps.show_history(root)
    elif facts.plan is not None:
        yield NextStep(facts.plan.next_command, facts.plan.next_step)
        if facts.plan.cancellation.cancellable and not facts.plan.cancellation.is_requested:
            yield next_steps.cancel(root, own)
    elif found.is_pending:
        alive = facts.heartbeat_age_s is not None and facts.heartbeat_age_s < facts.ttl_s
        yield next_steps.ask_why(root, own) if alive else next_steps.clean(root)
    elif found.is_aborted:
        yield next_steps.cluster(root)
    elif facts.due:
        yield next_steps.archive(root)
    else:
        yield from (stop.step for stop in facts.barriers[:1] if facts.is_archive_due)
