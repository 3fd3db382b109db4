"""The active timeline as one immutable value, and every question one may ask it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from lentic.errors import Corrupt
from lentic.format.names import Action, InstantFile, State, parse_instant_file
from lentic.format.times import CompletedAt, RequestedAt
from lentic.timeline.instant import WRITES, Instant

_WORK = tuple(action for action in Action if action is not Action.SAVEPOINT)
_RANK = {State.REQUESTED: 0, State.INFLIGHT: 1, State.ABORTED: 2, State.COMPLETED: 3}


@dataclass(frozen=True, slots=True)
class Timeline:
    """Every instant at its furthest state, ordered by requested time."""

    instants: tuple[Instant, ...]

    def completed(self, *actions: Action) -> tuple[Instant, ...]:
        """Completed instants, of the given actions if any are given."""
        return tuple(i for i in self.instants if i.is_completed and _is_one_of(i, actions))

    def pending(self, *actions: Action) -> tuple[Instant, ...]:
        """Instants that are requested or inflight, of the given actions if any are given.

        A savepoint that was begun and not finished is listed only if it is asked for: nobody works
        on it, and its requested time is that of a write which has ended.
        """
        chosen = actions or _WORK
        return tuple(i for i in self.instants if i.is_pending and i.action in chosen)

    def aborted(self, *actions: Action) -> tuple[Instant, ...]:
        """Instants that were cancelled and have ended, of the given actions if any are given."""
        return tuple(i for i in self.instants if i.is_aborted and _is_one_of(i, actions))

    def writes(self) -> tuple[Instant, ...]:
        """Completed instants that changed rows, in the order in which they completed."""
        done = [i for i in self.instants if i.is_completed and i.action in WRITES]
        return tuple(sorted(done, key=lambda i: str(i.completed_at)))

    def find(self, instant: Instant) -> Instant | None:
        """The same action as it stands on this timeline."""
        return next((i for i in self.instants if i.identity == instant.identity), None)

    def completions(self) -> dict[RequestedAt, CompletedAt]:
        """When each completed write became visible, by its requested time."""
        return {i.requested_at: i.completed_at for i in self.writes() if i.completed_at}

    def upto(self, at: RequestedAt) -> Timeline:
        """The timeline as it stood at `at`, as far as instants are still on it: what was requested
        later is not there, and what completed later is inflight, as what it completed as."""
        known = (i for i in self.instants if i.requested_at <= at)
        return Timeline(tuple(i if _is_done_by(i, at) else _reopened(i) for i in known))

    def last_time(self) -> str:
        """The latest time of any kind on the timeline, or ""."""
        times = (str(t) for i in self.instants for t in (i.requested_at, i.completed_at) if t)
        return max(times, default="")


def _is_done_by(instant: Instant, at: RequestedAt) -> bool:
    return not instant.is_completed or str(instant.completed_at) <= str(at)


def _reopened(instant: Instant) -> Instant:
    return replace(instant, state=State.INFLIGHT, completed_at=None)


def _is_one_of(instant: Instant, actions: tuple[Action, ...]) -> bool:
    return not actions or instant.action in actions


def parse_timeline(names: Iterable[str], where: str) -> Timeline:
    """The timeline of a folder with these file names; others are ignored, as Hudi does.

    `Corrupt` if one action completed twice: readers could not agree on what it made.
    """
    furthest: dict[tuple[RequestedAt, Action], Instant] = {}
    for file in filter(None, map(parse_instant_file, sorted(names))):
        instant = _instant_of(file)
        known = furthest.get(instant.identity)
        if known and known.is_completed and instant.is_completed:
            raise Corrupt(
                f"Instant {instant} completed twice, at {known.completed_at} and "
                f"{instant.completed_at}.",
                where=where,
                safe="nothing was read",
                next_step="keep the completed file that the other readers of the table use",
            )
        if known is None or _RANK[known.state] < _RANK[instant.state]:
            furthest[instant.identity] = instant
    ordered = sorted(furthest.values(), key=lambda i: (i.requested_at, i.action))
    for one, other in pairwise(i for i in ordered if i.is_completed and i.action in WRITES):
        if one.requested_at == other.requested_at:
            raise Corrupt(
                f"{one} and {other} have one requested time, which names one write.",
                where=f"{where}/{other.file_name}",
                safe="nothing was read",
                next_step="keep the completed file that the other readers of the table use",
            )
    return Timeline(tuple(ordered))


def _instant_of(file: InstantFile) -> Instant:
    return Instant(file.requested_at, file.action, file.state, file.completed_at)
