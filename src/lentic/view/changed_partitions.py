"""Which partitions a planner has to look at: those that changed since the last plan (RFC-83). Pure.

INSTANT 1 is the right edge of the last plan's window, INSTANT 2 the time of the plan that is made.
In between it is the time at which writes *completed* that counts: one that was requested long ago
and completed now was seen by nobody yet (I1).

Nothing is ever forgotten (R11, P20). The newest live plan, pending or completed, is where the next
window begins. With it come what it has seen and not taken on, its carry, and the partitions of
plans that it relied on and that were aborted since. A plan it relied on that is gone without a
list, because it was rolled back, takes it along: the window then begins where the plan before it
ends. Plans that came later need no look: what they saw lies in the window again.

Where anything is in doubt there is no window and the whole table is looked at, with the reason.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass

from lentic.format.commit_metadata import CommitMetadata
from lentic.format.plan_window import WINDOW_KEY, Look, PlanWindow, decode_window
from lentic.format.times import CompletedAt, RequestedAt, is_before, is_upto
from lentic.timeline.instant import PLANS, WRITES, Instant
from lentic.timeline.timeline import Timeline

FULL_LOOK_EVERY = 50
"""Plans of a service of which one looks at the whole table, come what may."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why the whole table has to be looked at. What the last plan left undone is known all the
    same where it says so."""

    why: str
    carry: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fates:
    """What became of the plans that a window relied on, as far as they are not live."""

    aborted: tuple[RequestedAt, ...] = ()
    """Their lists are still there."""
    gone: tuple[RequestedAt, ...] = ()


@dataclass(frozen=True, slots=True)
class Now:
    """What a window is judged by."""

    options: str
    fates: Callable[[tuple[RequestedAt, ...]], Fates]
    is_undone: Callable[[RequestedAt], bool]
    """Whether a write that had completed is there no more, though it was not archived."""
    rolled_back: Callable[[RequestedAt], Iterable[RequestedAt]]
    """What the rollbacks undo, or have undone, that were requested after a time."""
    restored_at: CompletedAt | None = None
    """When the last restore had ended; later than any other time if one is under way."""
    savepoints: frozenset[RequestedAt] = frozenset()


@dataclass(frozen=True, slots=True)
class Start:
    """Where the next window begins, and what it takes along."""

    base: PlanWindow
    carry: tuple[str, ...]
    """Oldest first."""
    aborted: tuple[RequestedAt, ...]
    """Plans whose partitions are to be looked at again."""


def find_start(windows: Iterable[PlanWindow | Doubt], now: Now) -> Start | Doubt:
    """The window to go on from, of those of the live plans, newest first. No more of them are asked
    for than it takes."""
    doubt = Doubt("no earlier plan says what it looked at")
    carry: tuple[str, ...] = ()
    for window in windows:
        if isinstance(window, Doubt):
            return Doubt(window.why, tuple(dict.fromkeys((*window.carry, *carry))))
        if window.kind is Look.CHOSEN:
            continue  # it looked at nothing but what it was told to
        carry = tuple(dict.fromkeys((*window.carry, *window.dropped, *carry)))
        if why := _find_doubt(window, now):
            return Doubt(why, carry)
        fates = now.fates(window.relies)
        if not fates.gone:
            return Start(window, carry, fates.aborted)
        doubt = Doubt(f"the plan at {fates.gone[0]} was rolled back", carry)
    return doubt


def _find_doubt(window: PlanWindow, now: Now) -> str:
    if now.restored_at and is_before(window.at, now.restored_at):
        return f"the table was restored at {now.restored_at}"
    if window.options != now.options:
        return "options that decide what is planned have changed"
    if window.last and now.is_undone(window.last):
        return why_undone(window.last)
    for target in now.rolled_back(window.at):
        if was_complete(window, target):
            return why_undone(target)
    if window.plans + 1 >= FULL_LOOK_EVERY:
        return f"it is the {FULL_LOOK_EVERY}th plan since the last full look"
    if removed := sorted({*window.savepoints} - now.savepoints):
        return f"the savepoint of {removed[0]} was removed"
    return ""


def was_complete(window: PlanWindow, write: RequestedAt) -> bool:
    """Whether what the write had put an end to was passed over: if it was there then, and had
    completed. Other engines undo writes upon which others were built."""
    return write < window.at and write not in window.undecided


def why_undone(write: RequestedAt) -> str:
    """Why the whole table is looked at once a completed write was rolled back."""
    return f"the write at {write} was rolled back, and what it had put an end to is back"


def list_completed(timeline: Timeline, lo: CompletedAt, hi: CompletedAt) -> tuple[Instant, ...]:
    """The writes that completed from `lo` on and before `hi`."""
    return tuple(i for i in timeline.writes() if i.completed_at and lo <= i.completed_at < hi)


def changed_partitions(writes: Iterable[CommitMetadata], own: str, where: str) -> frozenset[str]:
    """The partitions that these writes wrote to or ended groups of.

    What the service did by itself, the operation `own`, is no change to it, but for what an
    execution left undone of its plan.
    """
    found: set[str] = set()
    for metadata in writes:
        if not own or metadata.operation != own:
            found |= {partition for partition, _ in metadata.groups()}
            found |= metadata.replaced.keys()
        elif text := metadata.extra.get(WINDOW_KEY):
            found |= {*decode_window(text, where).dropped}
    return frozenset(found)


def find_last(timeline: Timeline, hi: CompletedAt) -> RequestedAt:
    """The write that completed last before `hi`; "" if the active timeline has none."""
    done = [i.requested_at for i in timeline.writes() if i.completed_at and i.completed_at < hi]
    return done[-1] if done else RequestedAt("")


def order_carry(before: Iterable[str], missing: Set[str]) -> tuple[str, ...]:
    """What a plan leaves undone, what was left by those before it first: whoever takes it on in
    this order gets to everything, however often other partitions change."""
    return tuple(dict.fromkeys([*(name for name in before if name in missing), *sorted(missing)]))


def find_undecided(timeline: Timeline, hi: CompletedAt) -> tuple[RequestedAt, ...]:
    """The writes and plans that complete at `hi` or later, if they do, by requested time."""
    pending = (i.requested_at for i in timeline.pending(*sorted(WRITES | PLANS)))
    later = (i.requested_at for i in timeline.writes() if i.completed_at and hi <= i.completed_at)
    return tuple(sorted({*pending, *later}))


def find_floor(timeline: Timeline, at: RequestedAt, hi: CompletedAt) -> RequestedAt:
    """The requested time before which no write can have been that completes at `hi` or later."""
    return min((at, *find_undecided(timeline, hi)))


def needs_history(base: PlanWindow, archived_upto: RequestedAt) -> bool:
    """Whether a write that completed since `base` may have been archived."""
    return is_upto(base.floor, archived_upto)


def digest_options(options: Mapping[str, object]) -> str:
    """A few characters that change when one of these options does."""
    text = json.dumps({name: str(value) for name, value in options.items()}, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
