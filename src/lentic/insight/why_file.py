"""Why a data file is there, who sees it, and what keeps it from being deleted. Pure.

The planner of cleans is asked, so that what is said is what the next clean does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lentic.config.retention import CleanPolicy
from lentic.errors import Corrupt
from lentic.format.names import (
    Action,
    BaseFileName,
    LogFileName,
    parse_base_file,
    parse_log_file,
)
from lentic.format.times import CompletedAt, RequestedAt, parse_epoch_ms
from lentic.insight.answers import Answer, Reason
from lentic.insight.damage import (
    committed_size,
    find_way_back,
    list_damaged,
    list_whole,
    say_mending,
    take_back,
)
from lentic.insight.facts import Facts, say_moment
from lentic.insight.why_small import why_small
from lentic.services import next_steps
from lentic.services.clean_plan import plan_clean
from lentic.services.next_steps import NextStep
from lentic.storage.base import FileInfo
from lentic.timeline.instant import WRITES, Instant
from lentic.timeline.timeline import Timeline
from lentic.view.files import FileGroupId, FileSlice
from lentic.view.table_view import Committed

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class _Asked:
    """The file, and where it stands among the others."""

    path: str
    name: BaseFileName | LogFileName
    info: FileInfo | None
    write: Committed | None
    """The completed write that names it."""
    slices: tuple[FileSlice, ...]
    """All slices of its file group, newest first; none if the group has ended or is not visible."""
    index: int | None
    """Which of these it is in."""
    ended_by: RequestedAt | None
    """The replacement that ended its file group."""

    @property
    def at(self) -> RequestedAt:
        return self.name.requested_at

    @property
    def is_current(self) -> bool:
        return self.index == 0


def explain_file(facts: Facts, path: str) -> Answer:
    """All there is to say about the data file at `path`, whose partition is among the facts."""
    asked = _find(facts, path)
    damaged = list_damaged(facts)
    back = None
    reasons = [*_why_visible(facts, asked)]
    if path in damaged:
        back = find_way_back(facts, path, list_whole(facts, damaged))
        reasons += _why_damaged(facts, asked, back)
    if asked.info is not None:
        named = _why_kept(facts, asked) if asked.write else _why_left(facts, asked)
        reasons += named
        if asked.is_current and isinstance(asked.name, BaseFileName):
            reasons += why_small(facts, asked.slices[0])
    return Answer(
        question=path,
        kind="file",
        facts=tuple(_list_facts(facts, asked)),
        reasons=tuple(reasons),
        next_steps=(
            *_list_next_steps(facts, asked, reasons),
            *([take_back(facts, back)] if back else []),
        ),
    )


def _find(facts: Facts, path: str) -> _Asked:
    partition, _, name = path.rpartition("/")
    parsed = parse_base_file(name) or parse_log_file(name)
    assert parsed is not None, path
    group = FileGroupId(partition, parsed.file_id)
    write = facts.files.writes.get(parsed.requested_at)
    named = write if write and path in write.paths else None
    slices = facts.groups[group].slices if group in facts.groups else ()
    index = next((n for n, part in enumerate(slices) if path in part.paths), None)
    ends = [
        (str(other.completed_at), at)
        for at, other in facts.files.writes.items()
        if group in other.replaced
    ]
    return _Asked(
        path=path,
        name=parsed,
        info=next((file for file in facts.files.files if file.path == path), None),
        write=named,
        slices=slices,
        index=index,
        ended_by=min(ends)[1] if ends and index is None else None,
    )


def _list_facts(facts: Facts, asked: _Asked) -> Iterator[tuple[str, str]]:
    name = asked.name
    kind = "base file" if isinstance(name, BaseFileName) else "log file"
    yield "what", "change log" if isinstance(name, LogFileName) and name.suffix else kind
    yield "file group", str(FileGroupId(asked.path.rpartition("/")[0], name.file_id))
    yield "bytes", str(asked.info.size) if asked.info else "it is not there"
    yield "made by", _maker(facts, asked)
    if asked.write:
        yield "completed at", str(asked.write.completed_at)
    if asked.index is not None:
        part = asked.slices[asked.index]
        which = "the latest" if asked.is_current else f"{asked.index + 1} of {len(asked.slices)}"
        yield "slice", f"{part.barrier}, {which}"
    yield "visible", "yes" if asked.is_current and asked.info else "no"
    if asked.ended_by:
        yield "replaced by", f"replacecommit {asked.ended_by}"


def _maker(facts: Facts, asked: _Asked) -> str:
    for instant in facts.timeline.instants:
        if instant.requested_at == asked.at and instant.action is not Action.SAVEPOINT:
            return f"{instant}, {instant.state}"
    return f"{asked.at}, archived" if asked.at in facts.files.writes else f"{asked.at}"


# --- who sees it --------------------------------------------------------------------------------


def _why_visible(facts: Facts, asked: _Asked) -> Iterator[Reason]:
    if asked.info is None:
        yield _why_gone(facts, asked)
    elif asked.write is None:
        yield _why_unnamed(facts, asked)
    elif isinstance(asked.name, LogFileName) and asked.name.suffix:
        yield Reason("change-log", "it tells what one write changed, and goes with its files")
    elif asked.ended_by:
        done = facts.files.writes[asked.ended_by].completed_at
        yield Reason(
            "replaced",
            f"replacecommit {asked.ended_by} ended its file group at {done}: only readers of "
            "earlier states see it",
        )
    elif asked.is_current:
        yield Reason("current", "readers read it now: it is in the latest slice of its file group")
    elif (following := _following(asked)) is not None:
        yield Reason(
            "older",
            f"{following.barrier} wrote the next slice of its file group: only readers of earlier "
            "states see it",
        )


def _why_gone(facts: Facts, asked: _Asked) -> Reason:
    if clean := facts.cleans.get(str(asked.name)):
        return Reason("cleaned", f"{clean} deleted it: no retained state has it")
    if asked.write is None:
        if undo := facts.undone.get(asked.at):
            return Reason("undone", f"{undo} undid the write that made it, and deleted it")
        return Reason("never-there", "no commit names it, and there is no such file")
    if asked.is_current:
        return Reason("missing", "it holds current rows and is not there: somebody else deleted it")
    return Reason("cleaned", "it was deleted since: no retained state has it")


def _why_damaged(facts: Facts, asked: _Asked, back: Instant | None) -> Iterator[Reason]:
    if asked.info is not None:
        yield Reason(
            "size-differs",
            f"it is damaged: it has {asked.info.size} bytes, and its commit says "
            f"{committed_size(facts, asked.path)}",
        )
    yield Reason("mend", say_mending(facts, back))


def _why_unnamed(facts: Facts, asked: _Asked) -> Reason:
    if undo := facts.undone.get(asked.at):
        return Reason("undone", f"{undo} undoes the instant that made it: nobody sees it")
    if asked.at in facts.pending:
        return Reason("pending-maker", f"{asked.at} has not completed: nobody sees it yet")
    if asked.at in facts.files.writes:
        return Reason(
            "stray",
            f"{asked.at} completed and does not name it: a repeated attempt left it, and nobody "
            "ever sees it",
        )
    return Reason(
        "unknown-maker",
        f"neither the timeline nor the history has a write {asked.at}: nobody sees it",
    )


def _following(asked: _Asked) -> FileSlice | None:
    """The slice that came after the file's own."""
    return asked.slices[asked.index - 1] if asked.index else None


# --- why it is not cleaned ----------------------------------------------------------------------


def _why_kept(facts: Facts, asked: _Asked) -> Iterator[Reason]:
    if asked.is_current:
        yield Reason("latest-slice", "no clean takes a file of a latest slice")
        return
    held = facts.holders.get(asked.path, ())
    for holder in held:
        if holder.action is Action.SAVEPOINT:
            yield Reason("held-by-savepoint", f"{holder} keeps it until the savepoint is removed")
        elif holder.requested_at in facts.cancelled:
            says = f"{holder} was to read it; it is cancelled, and keeps the file until its abort"
            yield Reason("held-by-plan", says)
        else:
            yield Reason("held-by-plan", f"{holder} is pending and is going to read it")
    if (clean := facts.cleans.get(str(asked.name))) and clean.is_pending and not held:
        yield Reason("clean-planned", f"{clean} names it and has not been finished")
    elif facts.timeline.pending(Action.RESTORE):
        yield Reason("restore-pending", "nothing is cleaned while a restore is pending")
    elif _is_due(facts, facts.timeline, asked.path):
        if not held:
            off = "" if facts.services.clean.automatic else "; hoodie.clean.automatic is off"
            yield Reason("clean-due", f"nothing keeps it: the next clean deletes it{off}")
    elif _is_due(facts, _without_pending_writes(facts.timeline), asked.path):
        write = facts.timeline.pending(*WRITES)[0]
        yield Reason(
            "pending-write",
            f"{write} is pending and may be reading what was there when it was requested",
        )
    else:
        yield _by_policy(facts, asked)


def _is_due(facts: Facts, timeline: Timeline, path: str) -> bool:
    """Whether a clean would take the file if no plan and no savepoint held it."""
    options, zone = facts.services.clean, facts.config.zone
    plan = plan_clean(facts.files, timeline, options, frozenset(), now=facts.now, zone=zone)
    return plan is not None and path in plan.files


def _without_pending_writes(timeline: Timeline) -> Timeline:
    return Timeline(tuple(i for i in timeline.instants if not _is_pending_write(i)))


def _is_pending_write(instant: Instant) -> bool:
    return instant.is_pending and instant.action in WRITES


def _by_policy(facts: Facts, asked: _Asked) -> Reason:
    options = facts.services.clean
    if options.policy is CleanPolicy.KEEP_LATEST_FILE_VERSIONS:
        return Reason(
            "retained-by-versions",
            f"hoodie.clean.fileversions.retained={options.versions} keeps the newest "
            f"{options.versions} slices of each file group, and it is in number "
            f"{(asked.index or 0) + 1}",
        )
    until = _current_until(facts, asked)
    later = [w for w in facts.timeline.writes() if w.completed_at and w.completed_at > until]
    if options.policy is CleanPolicy.KEEP_LATEST_BY_HOURS:
        return Reason("retained-by-hours", _say_hours(facts, until, later))
    retained = facts.timeline.writes()[-options.commits :]
    oldest = f" since {retained[0]}" if retained else ""
    return Reason(
        "retained-by-commits",
        f"hoodie.clean.commits.retained={options.commits} keeps every state{oldest} and the one "
        f"before readable. It was current until {until}, {len(later)} commit(s) ago: it may go "
        f"after {max(1, options.commits - len(later))} more",
    )


def _say_hours(facts: Facts, until: CompletedAt, later: list[Instant]) -> str:
    hours = facts.services.clean.hours
    says = f"hoodie.clean.hours.retained={hours} keeps every state of that time readable, and it "
    says += f"was current until {until}: it may go "
    try:
        done_ms = parse_epoch_ms(str(later[0].completed_at), facts.config.zone) if later else None
    except Corrupt:
        done_ms = None
    if done_ms is None:
        return says + f"{hours} h after the next commit"
    return says + f"at {say_moment(done_ms + hours * _HOUR_MS)}"


def _current_until(facts: Facts, asked: _Asked) -> CompletedAt:
    """When the file stopped to be in the latest slice of its group."""
    if asked.ended_by:
        return facts.files.writes[asked.ended_by].completed_at
    following = _following(asked)
    if following is not None and following.base is not None:
        return following.base.completed_at
    assert asked.write is not None
    return asked.write.completed_at


# --- why it is not swept ------------------------------------------------------------------------


def _why_left(facts: Facts, asked: _Asked) -> Iterator[Reason]:
    assert asked.info is not None
    if asked.at in facts.pending:
        yield Reason("maker-works", "it is made or removed by whoever ends that instant")
        return
    if asked.at in facts.marked:
        yield Reason(
            "orphan-marked", "its instant's markers are still there: undoing that takes it along"
        )
        return
    if asked.path in facts.holders:
        yield Reason("held-by-plan", f"{facts.holders[asked.path][0]} names it")
    if asked.at not in facts.ended:
        yield Reason(
            "orphan-unknown",
            "it is older than all that the timeline and its history know: nobody can say what it "
            "is, and no clean sweeps it",
        )
        return
    may_go_ms = asked.info.modified_ms + facts.orphan_age_ms
    if facts.now_ms <= may_go_ms:
        yield Reason(
            "orphan-young",
            f"an orphan is swept when it is {facts.orphan_age_ms // 60_000} minutes old: this one "
            f"by a clean after {say_moment(may_go_ms)}",
        )
    elif not facts.services.clean.sweeps_orphans:
        yield Reason("orphan-kept", "lentic.clean.sweep_orphans is off: orphans stay")
    else:
        yield Reason(
            "orphan-due",
            "it is an orphan, and old enough: a clean by hand sweeps it now, any other "
            "lentic.clean.sweep_interval_minutes="
            f"{facts.services.clean.sweep_minutes} after the sweep before",
        )


def _list_next_steps(facts: Facts, asked: _Asked, reasons: list[Reason]) -> Iterator[NextStep]:
    codes = {reason.code for reason in reasons}
    if codes & {"clean-due", "orphan-due", "clean-planned", "undone", "orphan-marked"}:
        yield next_steps.clean(facts.root)
    for holder in facts.holders.get(asked.path, ()) if asked.info else ():
        if holder.action is Action.SAVEPOINT and not asked.is_current:
            yield next_steps.remove_savepoint(facts.root, holder.requested_at)
        elif holder.requested_at in facts.executed:
            yield next_steps.ask_why(facts.root, holder.requested_at)
        elif holder.requested_at in facts.cancelled:
            yield next_steps.abort(facts.root, holder.requested_at)
        elif holder.is_pending:
            yield next_steps.execute(facts.root, holder.requested_at)
    if codes & {"pending-write", "pending-maker"}:
        at = asked.at if "pending-maker" in codes else facts.timeline.pending(*WRITES)[0]
        yield next_steps.ask_why(facts.root, str(getattr(at, "requested_at", at)))
    if "small-has-logs" in codes:
        yield next_steps.compact(facts.root)
    if codes & {"small-no-clustering", "small-next-clustering", "small-plan-limit"}:
        yield next_steps.cluster(facts.root)
    if codes & {"missing", "size-differs"}:  # which names all that has to be brought back
        yield next_steps.verify(facts.root)
