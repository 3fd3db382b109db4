"""What is unhealthy about a table, told from facts. Pure.

A warning is something that gets worse by itself or holds something up. What is merely good to know
is a note: a small table has small files, and nothing is wrong with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from lentic.config.services import Trigger
from lentic.format.names import Action, requested_at_of
from lentic.format.table_config import TableType
from lentic.format.times import RequestedAt, is_before
from lentic.insight.answers import Finding, Severity
from lentic.insight.damage import find_way_back, list_damaged, list_whole, say_mending, take_back
from lentic.insight.facts import Facts, Stop, say_age
from lentic.insight.why_small import is_small, next_clustered, why_small
from lentic.services import next_steps
from lentic.services.clean_plan import plan_clean
from lentic.services.compaction_plan import is_compaction_due
from lentic.services.pending import ALERT_CANCELS, PendingPlan
from lentic.timeline.instant import Instant

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE

PLAN_AGE_S = 6 * 3_600
"""A plan that is pending for longer is looked upon as forgotten."""
LOGS_MANY = 20
"""So many logs on one base file make reading it slow."""
SMALL_MANY = 10
"""So many small files in one partition are worth merging."""
CLEAN_COMMITS_MANY = 10
CLEAN_FILES_MANY = 10
"""After so many commits without a clean, so many files that could go are a pile."""
SKEW_MS_MAX = 5_000
_SMALL_SAMPLE = 200
_LATEST_VERSION = 9


@dataclass(frozen=True, slots=True)
class Lock:
    """What a lock with a lease says of itself."""

    owner: str
    is_free: bool
    age_s: float
    over_s: float
    """For how long its lease has been over; negative while it lasts."""


@dataclass(frozen=True, slots=True)
class Writer:
    """A pending write, and whether its writer is alive as far as one look tells."""

    instant: Instant
    owner: str
    age_s: float
    heartbeat_age_s: float | None


@dataclass(frozen=True, slots=True)
class HealthFacts:
    """All that a check-up looks at."""

    facts: Facts
    ttl_s: float
    broken: tuple[str, ...] = ()
    """What does not hold of the table that must."""
    plans: tuple[PendingPlan, ...] = ()
    writers: tuple[Writer, ...] = ()
    stale_heartbeats: tuple[str, ...] = ()
    """Signs of life of instants that have ended."""
    archive_stop: Stop | None = None
    """What archiving cannot go past."""
    archive_due: int = 0
    """How many instants would be archived now."""
    lock: Lock | None = None
    skews_ms: tuple[tuple[RequestedAt, int], ...] = ()
    """By how much the storage dates an instant later than its time says, newest first."""


def check_table(now: HealthFacts) -> tuple[Finding, ...]:
    """Every finding, the worst first."""
    checks = (
        _check_invariants,
        _check_plans,
        _check_starvation,
        _check_writers,
        _check_logs,
        _check_clean,
        _check_archive,
        _check_small_files,
        _check_orphans,
        _check_lock,
        _check_clock,
        _check_properties,
        _check_savepoints,
    )
    found = [finding for check in checks for finding in check(now)]
    order = list(Severity)
    return tuple(sorted(found, key=lambda finding: order.index(finding.severity)))


def _check_invariants(now: HealthFacts) -> Iterator[Finding]:
    facts, damaged = now.facts, list_damaged(now.facts)
    whole = list_whole(facts, damaged)
    for says in now.broken:
        path = _starting_path(says, damaged)
        if path is None:  # of which nothing in lentic is known to mend it
            yield Finding(ERROR, "invariant", f"{says}.")
            continue
        back = find_way_back(facts, path, whole)
        step = take_back(facts, back) if back else None
        yield Finding(ERROR, "invariant", f"{says}: {say_mending(facts, back)}.", step)


def _starting_path(says: str, paths: frozenset[str]) -> str | None:
    """Which of the paths a sentence begins with; there may be spaces in either."""
    words = says.split(" ")
    starts = (" ".join(words[:count]) for count in range(1, len(words)))
    return next((start for start in starts if start in paths), None)


# --- plans and writers --------------------------------------------------------------------------


def _check_plans(now: HealthFacts) -> Iterator[Finding]:
    for plan in now.plans:
        step = next_steps.NextStep(plan.next_command, plan.next_step)
        what = f"{plan.action} {plan.requested_at}"
        if plan.cancellation.is_requested and plan.is_alive:
            says = f"{what} is cancelled, and ends as aborted when {plan.owner} stops."
            yield Finding(NOTE, "cancelled-ending", says, step)
        elif plan.cancellation.is_requested:
            says = f"{what} is cancelled and not yet aborted: archiving waits for it."
            yield Finding(WARNING, "cancelled-not-aborted", says, step)
        elif plan.heartbeat_age_s is not None and not plan.is_alive:
            age = say_age(plan.heartbeat_age_s)
            says = f"{what} was begun by {plan.owner}, last seen {age} ago."
            yield Finding(WARNING, "dead-executor", says, step)
        elif plan.age_s >= PLAN_AGE_S:
            says = f"{what} is pending for {say_age(plan.age_s)}: cleans and archiving wait for it."
            if plan.is_alive:
                says += f" {plan.owner} executes it."
            yield Finding(WARNING, "old-plan", says, step)


def _check_starvation(now: HealthFacts) -> Iterator[Finding]:
    """C10: clustering gives way to writes, and where these never pause it never comes to an end.
    Whether it was writes that had plans cancelled the counts do not say."""
    counts = dict(now.facts.cancels)
    for plan in now.plans:
        for group, count in plan.cancellation.cancels_before:
            counts[group] = max(count, counts.get(group, 0))
    starved = {group: count for group, count in counts.items() if count >= ALERT_CANCELS}
    if not starved:
        return
    group, count = max(starved.items(), key=lambda one: (one[1], one[0]))
    yield Finding(
        WARNING,
        "starved",
        f"Clusterings of {len(starved)} file group(s) were cancelled {ALERT_CANCELS} times in a "
        f"row or more, of {group} {count} times, and none completed.",
        next_steps.cluster_for_sure(now.facts.root),
    )


def _check_writers(now: HealthFacts) -> Iterator[Finding]:
    clean = next_steps.clean(now.facts.root)
    for writer in now.writers:
        silent_s = writer.age_s if writer.heartbeat_age_s is None else writer.heartbeat_age_s
        if silent_s >= now.ttl_s:
            who = f" of {writer.owner}" if writer.owner else ""
            says = f"{writer.instant}{who} gave no sign of life for {say_age(silent_s)}."
            yield Finding(WARNING, "dead-writer", says, clean)
    if now.stale_heartbeats:
        says = f"{len(now.stale_heartbeats)} heartbeat(s) of instants that have ended lie about."
        yield Finding(NOTE, "stale-heartbeats", says, clean)


# --- services that do not run -------------------------------------------------------------------


def _check_logs(now: HealthFacts) -> Iterator[Finding]:
    facts, compact = now.facts, next_steps.compact(now.facts.root)
    if facts.config.table_type is not TableType.MERGE_ON_READ:
        return
    long = [g for g in facts.groups.values() if len(g.latest.logs) >= LOGS_MANY]
    if long:
        worst = max(long, key=lambda group: len(group.latest.logs))
        says = f"{len(long)} file slice(s) have {LOGS_MANY} logs or more, {worst.id} has "
        says += f"{len(worst.latest.logs)}: reading them is slow."
        yield Finding(WARNING, "many-logs", says, compact)
    options, zone = facts.services.compaction, facts.config.zone
    twice = replace(
        options, trigger=Trigger.NUM_COMMITS, trigger_commits=2 * options.trigger_commits
    )
    if is_compaction_due(facts.timeline, twice, facts.now_ms, zone):
        says = f"{twice.trigger_commits} commits or more since the last compaction, which is due "
        says += f"after {options.trigger_commits} (hoodie.compact.inline.max.delta.commits)."
        yield Finding(WARNING, "compaction-overdue", says, compact)


def _check_clean(now: HealthFacts) -> Iterator[Finding]:
    facts = now.facts
    options, zone = facts.services.clean, facts.config.zone
    last = max((i.requested_at for i in facts.timeline.completed(Action.CLEAN)), default=None)
    since = [
        write
        for write in facts.timeline.writes()
        if last is None or (write.completed_at and is_before(last, write.completed_at))
    ]
    if len(since) < CLEAN_COMMITS_MANY or facts.timeline.pending(Action.RESTORE):
        return
    held = frozenset(facts.holders)
    plan = plan_clean(facts.files, facts.timeline, options, held, now=facts.now, zone=zone)
    if plan is None:
        return
    doomed = frozenset(plan.files)
    size = sum(file.size for file in facts.files.files if file.path in doomed)
    says = f"{len(doomed)} file(s) with {size} bytes could be cleaned, and the last clean was "
    says += f"{len(since)} commits ago." if last else "never."
    severity = WARNING if len(doomed) >= CLEAN_FILES_MANY else NOTE
    yield Finding(severity, "clean-overdue", says, next_steps.clean(facts.root))


def _check_archive(now: HealthFacts) -> Iterator[Finding]:
    facts, options = now.facts, now.facts.services.archive
    active = len(facts.timeline.writes())
    if active <= options.commits_max:
        return
    says = f"{active} commits are on the active timeline, archiving is due beyond "
    says += f"hoodie.keep.max.commits={options.commits_max}"
    if now.archive_due:
        says += f": {now.archive_due} instant(s) could go."
        yield Finding(WARNING, "archive-overdue", says, next_steps.archive(facts.root))
    elif stop := now.archive_stop:
        says += f", and nothing can go: {stop.why}."
        yield Finding(WARNING, "archive-blocked", says, stop.step)


# --- files --------------------------------------------------------------------------------------


def _check_small_files(now: HealthFacts) -> Iterator[Finding]:
    """R41: small files, and for a sample of them why nobody merged them."""
    facts = now.facts
    small = [g.latest for g in facts.groups.values() if is_small(facts, g.latest)]
    if not small:
        return
    by_partition = Counter(part.group.partition for part in small)
    partition, most = by_partition.most_common(1)[0]
    clustered = next_clustered(facts)
    sample = small[:_SMALL_SAMPLE]
    why = Counter(reason for part in sample for reason in why_small(facts, part, clustered))
    is_mergeable = most >= SMALL_MANY and facts.config.buckets is None
    where = f", {most} of them in partition {partition!r}" if partition else ""
    yield Finding(
        WARNING if is_mergeable else NOTE,
        "small-files",
        f"{len(small)} base file(s) are small{where}.",
        next_steps.cluster(facts.root) if is_mergeable else None,
    )
    for reason, count in why.most_common(4):
        says = f"Of {len(sample)} small file(s) looked at, {count}: {reason.says}."
        yield Finding(NOTE, reason.code, says)


def _check_orphans(now: HealthFacts) -> Iterator[Finding]:
    facts = now.facts
    unknown, young, due = 0, 0, 0
    for file in facts.files.files:
        at = requested_at_of(file.name)
        if at is None or at in facts.pending or at in facts.marked:
            continue
        write = facts.files.writes.get(at)
        if (write and file.path in write.paths) or file.path in facts.holders:
            continue
        if at not in facts.ended:
            unknown += 1
        elif facts.now_ms - file.modified_ms > facts.orphan_age_ms:
            due += 1
        else:
            young += 1
    clean = next_steps.clean(facts.root)
    if due and not facts.services.clean.sweeps_orphans:
        says = f"{due} data file(s) are orphans, and stay: lentic.clean.sweep_orphans is off."
        yield Finding(NOTE, "orphan-kept", says)
    elif due:
        says = f"{due} data file(s) are orphans: no commit names them, and nobody sees them."
        yield Finding(WARNING, "orphans", says, clean)
    if young:
        says = f"{young} data file(s) that no commit names are too young to be swept."
        yield Finding(NOTE, "young-orphans", says)
    if unknown:
        says = f"{unknown} data file(s) that no commit names are older than all that the timeline "
        says += "and its history know: nobody can say what they are, and no clean sweeps them."
        yield Finding(NOTE, "orphan-unknown", says)
    left = {at for at in facts.marked if at not in facts.pending}
    if left:
        says = f"{len(left)} instant(s) that have ended left markers behind."
        yield Finding(NOTE, "left-markers", says, clean)


def _check_savepoints(now: HealthFacts) -> Iterator[Finding]:
    facts = now.facts
    latest = {path for group in facts.groups.values() for path in group.latest.paths}
    for savepoint in facts.timeline.completed(Action.SAVEPOINT):
        held = {p for p, by in facts.holders.items() if savepoint in by and p not in latest}
        size = sum(file.size for file in facts.files.files if file.path in held)
        if held:
            says = f"{savepoint} keeps {len(held)} file(s) that are not current, {size} bytes."
            step = next_steps.remove_savepoint(facts.root, savepoint.requested_at)
            yield Finding(NOTE, "savepoint", says, step)


# --- surroundings -------------------------------------------------------------------------------


def _check_lock(now: HealthFacts) -> Iterator[Finding]:
    lock, root = now.lock, now.facts.root
    if lock is None or lock.is_free:
        return
    if lock.over_s > 0:
        says = f"The table lock was left by {lock.owner}; its lease ended {say_age(lock.over_s)} "
        says += "ago, and whoever comes next takes it. Do not delete it."
        yield Finding(WARNING, "lock-left", says, next_steps.list_plans(root))
    else:
        says = f"The table lock is held by {lock.owner} for {say_age(lock.age_s)}."
        yield Finding(NOTE, "lock-held", says)


def _check_clock(now: HealthFacts) -> Iterator[Finding]:
    """Nothing rests on clocks that agree, but people read times, and policies count hours."""
    ahead = [(at, -skew) for at, skew in now.skews_ms if -skew > SKEW_MS_MAX]
    if ahead:
        at, ms = max(ahead, key=lambda one: one[1])
        says = f"{len(ahead)} instant(s) are dated later than the storage dates their files, {at} "
        says += f"by {say_age(ms / 1000)}: the clock of a writer or of the storage is wrong."
        yield Finding(WARNING, "clock-skew", says, next_steps.show_timeline(now.facts.root))


def _check_properties(now: HealthFacts) -> Iterator[Finding]:
    config = now.facts.config
    if config.metadata_partitions:
        says = f"The table lists a metadata table ({', '.join(config.metadata_partitions)}): "
        says += "writes of this release are refused unless lentic.metadata.on_write=drop is set."
        yield Finding(NOTE, "metadata-table", says)
    if config.version < _LATEST_VERSION:
        says = f"The table has version {config.version}; new ones have {_LATEST_VERSION}."
        yield Finding(NOTE, "table-version", says)
