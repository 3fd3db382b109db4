"""Whether a table kept its promises, judged from a history alone. Pure.

    ok        seen exactly once, by every read that could see it, and by the commit the writer knows
    unknown   seen not at all or exactly once, and then like one that is ok
    refused   never seen
    anyone    whole or not at all; never before it completed; never gone once seen
    hot keys  the greatest ordering value among the writes seen, then the last to complete
    times     no two alike, rising with the order in which writers were told
    reads     of one moment are alike for ever; changes deliver each write in one window

Each kind of violation can be found: `test_checker.py` plants them all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from tests.writers.history import History, Outcome, Sight, Write
from tests.writers.workload import Share, WriteId, order_value


class Kind(StrEnum):
    """What is wrong."""

    LOST = "committed, but not seen"
    PARTIAL = "seen in part"
    DOUBLED = "seen or committed twice"
    REFUSED_SEEN = "refused, but seen"
    UNCOMMITTED_SEEN = "seen before it was committed, or never committed"
    ODD = "nobody wrote this"
    WRONG_WINNER = "the wrong version won"
    WENT_BACK = "a later read saw less"
    STALE = "a read began after a write was told ok, and did not know of it"
    NOT_REPEATABLE = "one moment, two answers"
    TIMES = "times do not rise"
    CHANGES = "a change was not delivered exactly once"
    ABORTED = "work was done for nothing"


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken promise, and where it shows."""

    kind: Kind
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


def check(history: History, *, may_abort: bool = False) -> list[Violation]:
    """All violations. `may_abort`: writers may be told to start over; else only one that was
    frozen may, whom others had to take for dead."""
    writes = {write.id: write for write in history.writes}
    completed = {id: history.completed_at(write) for id, write in writes.items()}
    sights = (*history.sights, history.last)
    found = [v for sight in sights for v in _check_sight(history, sight, writes, completed)]
    found += _check_order_of_reads(history, completed)
    found += _check_repeats(sights)
    found += _check_instants(history, completed)
    found += _check_order_of_writes(history)
    found += _check_windows(history, completed)
    if not may_abort:
        found += [
            Violation(Kind.ABORTED, f"{write.id}: {write.error}") for write in aborted(history)
        ]
    return found


def aborted(history: History) -> list[Write]:
    """Writes that another actor's precedence ended, other than those of a frozen writer."""
    return [
        write
        for write in history.writes
        if write.is_aborted and not any(freeze.touches(write) for freeze in history.freezes)
    ]


Completions = dict[WriteId, str | None]


def _check_sight(
    history: History, sight: Sight, writes: dict[WriteId, Write], completed: Completions
) -> Iterator[Violation]:
    where = f"by {sight.reader} at {sight.floor} to {sight.ceiling}"
    for key in sight.seen.doubled:
        yield Violation(Kind.DOUBLED, f"key {key} {where}")
    for key in sight.seen.odd:
        yield Violation(Kind.ODD, f"key {key} {where}")
    for id, share in sight.seen.shares.items():
        yield from _check_share(history, sight, id, share, writes.get(id), completed.get(id))
    for id, at in completed.items():
        if at is not None and at <= sight.floor and id not in sight.seen.shares:
            yield Violation(Kind.LOST, f"{id}, completed {at}, {where}")
    yield from _check_hot(history, sight, completed)
    for write in history.writes:
        is_known = write.outcome is not Outcome.OK or write.completed_at <= sight.floor
        if write.ended_ns is not None and write.ended_ns < sight.begun_ns and not is_known:
            yield Violation(Kind.STALE, f"{write.id}, completed {write.completed_at}, {where}")


def _check_share(
    history: History,
    sight: Sight,
    id: WriteId,
    share: Share,
    write: Write | None,
    completed_at: str | None,
) -> Iterator[Violation]:
    where = f"{id} by {sight.reader} at {sight.floor} to {sight.ceiling}"
    if write is None:
        yield Violation(Kind.ODD, where)
        return
    if write.outcome is Outcome.REFUSED:
        yield Violation(Kind.REFUSED_SEEN, f"{where}: {write.error}")
    elif completed_at is None or completed_at > sight.ceiling:
        yield Violation(Kind.UNCOMMITTED_SEEN, f"{where}, completed {completed_at}")
    if share.rows < history.shape.own:
        yield Violation(Kind.PARTIAL, f"{where}: {share.rows} rows")
    if share.rows > history.shape.own or len(share.commits) > 1:
        yield Violation(Kind.DOUBLED, f"{where}: {share.rows} rows by {share.commits}")
    if write.outcome is Outcome.OK and share.commits != (write.requested_at,):
        yield Violation(Kind.DOUBLED, f"{where}: by {share.commits}, not {write.requested_at}")


def _check_hot(history: History, sight: Sight, completed: Completions) -> Iterator[Violation]:
    if not sight.seen.shares:
        return
    for key in history.shape.hot_keys():
        ranks = {id: _rank(key, id, completed) for id in sight.seen.shares}
        winner = max(ranks, key=lambda id: ranks[id])
        found = sight.seen.hot.get(key)
        if found is None:
            yield Violation(Kind.LOST, f"key {key} by {sight.reader} at {sight.floor}")
        elif found != winner:
            told = f"{found}, not {winner} of rank {ranks[winner]}"
            yield Violation(Kind.WRONG_WINNER, f"{key} by {sight.reader} at {sight.floor}: {told}")


def _rank(key: str, id: WriteId, completed: Completions) -> tuple[int, str]:
    return order_value(key, id), completed.get(id) or ""


def _check_order_of_reads(history: History, completed: Completions) -> Iterator[Violation]:
    """What was seen stays seen: to each reader, and to all of them as moments go by."""
    by_reader = defaultdict[str, list[Sight]](list)
    for sight in sorted(history.sights, key=lambda sight: sight.begun_ns):
        by_reader[sight.reader].append(sight)
    exact = sorted((s for s in history.sights if s.is_exact), key=lambda sight: sight.floor)
    for sights in (*by_reader.values(), exact):
        for earlier, later in pairwise((*sights, history.last)):
            where = f"by {later.reader} at {later.floor}, seen at {earlier.floor}"
            if later.floor < earlier.floor:
                yield Violation(Kind.WENT_BACK, f"time itself, {where}")
                continue
            for id in earlier.seen.shares.keys() - later.seen.shares.keys():
                yield Violation(Kind.WENT_BACK, f"{id} {where}")
            for key in earlier.seen.hot.keys() & later.seen.hot.keys():
                before, after = earlier.seen.hot[key], later.seen.hot[key]
                if _rank(key, before, completed) > _rank(key, after, completed):
                    yield Violation(Kind.WENT_BACK, f"{key}: {after} after {before} {where}")


def _check_repeats(sights: Iterable[Sight]) -> Iterator[Violation]:
    digests = defaultdict[str, set[str]](set)
    for sight in sights:
        if sight.is_exact:
            digests[sight.floor].add(sight.seen.digest)
    for at, answers in digests.items():
        if len(answers) > 1:
            yield Violation(Kind.NOT_REPEATABLE, f"as of {at}: {sorted(answers)}")


def _check_instants(history: History, completed: Completions) -> Iterator[Violation]:
    """Every write that is ok has its instant, every completed instant has one write."""
    instants = {i.requested_at: i.completed_at for i in history.instants if i.completed_at}
    claimed = set[str]()
    for write in history.writes:
        if write.outcome is Outcome.OK:
            claimed.add(write.requested_at)
            if instants.get(write.requested_at) != write.completed_at:
                told = f"completed {write.completed_at}, instant {write.requested_at}"
                yield Violation(Kind.LOST, f"{write.id}, {told} is not on the timeline")
        elif completed[write.id] is not None:
            claimed.update(history.last.seen.shares[write.id].commits)
    for requested_at in sorted(instants.keys() - claimed):
        yield Violation(Kind.DOUBLED, f"instant {requested_at} completed, but is no write's own")


def _check_order_of_writes(history: History) -> Iterator[Violation]:
    owners = dict[str, str]()
    for instant in history.instants:
        at = instant.completed_at
        if at and at <= instant.requested_at:
            yield Violation(Kind.TIMES, f"{instant.requested_at} completed {at}")
        for time in (instant.requested_at, at):
            if time and owners.setdefault(time, instant.requested_at) != instant.requested_at:
                yield Violation(Kind.TIMES, f"{time}: {owners[time]} and {instant.requested_at}")
    told = [write for write in history.writes if write.outcome is Outcome.OK]
    by_end = sorted(told, key=lambda write: write.ended_ns or 0)
    number, newest = 0, ""
    for write in sorted(told, key=lambda write: write.begun_ns):
        while number < len(by_end) and (by_end[number].ended_ns or 0) < write.begun_ns:
            newest = max(newest, by_end[number].completed_at)
            number += 1
        if write.requested_at <= newest:
            begun = f"{write.id} began after {newest} was told"
            yield Violation(Kind.TIMES, f"{begun}, but is {write.requested_at}")


def _check_windows(history: History, completed: Completions) -> Iterator[Violation]:
    for window in history.windows:
        where = f"by {window.reader} after {window.after} up to {window.upto}"
        due = {id for id, at in completed.items() if at and window.after < at <= window.upto}
        for id in due - set(window.writes):
            yield Violation(Kind.CHANGES, f"{id} is missing {where}")
        for id in set(window.writes) - due:
            yield Violation(Kind.CHANGES, f"{id} does not belong there, {where}")
        if len(set(window.writes)) != len(window.writes):
            yield Violation(Kind.CHANGES, f"a write comes twice {where}")
