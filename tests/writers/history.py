"""What happened to a table, put together from the ledgers of all that worked on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tests.writers.ledger import FROZEN, INTENT, OUTCOME, SIGHT, WINDOW, Entry
from tests.writers.workload import Seen, Shape, Share, WriteId


class Outcome(StrEnum):
    """What a writer was told. One that was killed before it was told anything does not know."""

    OK = "ok"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Write:
    """One call of a writer. Times are completion and requested times if it is ok, else empty."""

    id: WriteId
    begun_ns: int
    ended_ns: int | None = None
    outcome: Outcome = Outcome.UNKNOWN
    requested_at: str = ""
    completed_at: str = ""
    error: str = ""
    is_aborted: bool = False
    """Refused because another actor had precedence: work that was done for nothing."""


@dataclass(frozen=True, slots=True)
class Sight:
    """One read: at least all that had completed by `floor`, at most all by `ceiling`.

    They are the same where the read asked for one moment.
    """

    reader: str
    begun_ns: int
    floor: str
    ceiling: str
    seen: Seen

    @property
    def is_exact(self) -> bool:
        return self.floor == self.ceiling


@dataclass(frozen=True, slots=True)
class Window:
    """One read of changes: which writes were in it."""

    reader: str
    after: str
    upto: str
    writes: tuple[WriteId, ...]


@dataclass(frozen=True, slots=True)
class Instant:
    """A write on the timeline; `completed_at` is empty while it is pending."""

    requested_at: str
    completed_at: str


@dataclass(frozen=True, slots=True)
class Freeze:
    """A writer was stopped from one moment to another."""

    writer: str
    from_ns: int
    to_ns: int

    def touches(self, write: Write) -> bool:
        ended = write.ended_ns
        is_over = ended is not None and ended < self.from_ns
        return write.id[0] == self.writer and write.begun_ns <= self.to_ns and not is_over


@dataclass(frozen=True, slots=True)
class History:
    """All of it. `last` is a read of the whole table when everybody had ended."""

    shape: Shape
    writes: tuple[Write, ...]
    last: Sight
    sights: tuple[Sight, ...] = ()
    windows: tuple[Window, ...] = ()
    instants: tuple[Instant, ...] = ()
    freezes: tuple[Freeze, ...] = field(default=())

    def completed_at(self, write: Write) -> str | None:
        """When it completed, if it did; for an unknown one that is told by the rows at the end."""
        if write.outcome is Outcome.OK:
            return write.completed_at
        share = self.last.seen.shares.get(write.id)
        if write.outcome is Outcome.REFUSED or share is None:
            return None
        return max((at for c in share.commits if (at := self._completions().get(c))), default=None)

    def _completions(self) -> dict[str, str]:
        return {i.requested_at: i.completed_at for i in self.instants if i.completed_at}


def writes_of(entries: Iterable[Entry]) -> tuple[Write, ...]:
    """The writes that ledgers tell of; an intent without an outcome is an unknown one."""
    found: dict[WriteId, Write] = {}
    for entry in entries:
        if entry["kind"] == INTENT:
            write = Write((entry["writer"], entry["seq"]), entry["ns"])
            assert write.id not in found, f"{write.id} was meant twice"
            found[write.id] = write
        elif entry["kind"] == OUTCOME:
            begun = found[entry["writer"], entry["seq"]]
            assert begun.ended_ns is None, f"{begun.id} ended twice"
            found[begun.id] = Write(
                begun.id,
                begun.begun_ns,
                entry["ns"],
                Outcome(entry["outcome"]),
                entry["requested_at"],
                entry["completed_at"],
                entry["error"],
                entry["aborted"],
            )
    return tuple(found.values())


def sights_of(entries: Iterable[Entry]) -> tuple[Sight, ...]:
    return tuple(
        Sight(
            e["reader"],
            e["begun_ns"],
            e["floor"],
            e["ceiling"],
            decode_seen(e["seen"]),
        )
        for e in entries
        if e["kind"] == SIGHT
    )


def windows_of(entries: Iterable[Entry]) -> tuple[Window, ...]:
    return tuple(
        Window(e["reader"], e["after"], e["upto"], tuple((w, s) for w, s in e["writes"]))
        for e in entries
        if e["kind"] == WINDOW
    )


def freezes_of(entries: Iterable[Entry]) -> tuple[Freeze, ...]:
    return tuple(
        Freeze(e["writer"], e["from_ns"], e["to_ns"]) for e in entries if e["kind"] == FROZEN
    )


def encode_seen(seen: Seen) -> Entry:
    """What a read saw, for JSON."""
    return {
        "shares": [[w, s, share.rows, *share.commits] for (w, s), share in seen.shares.items()],
        "hot": {key: list(write) for key, write in seen.hot.items()},
        "doubled": list(seen.doubled),
        "odd": list(seen.odd),
        "digest": seen.digest,
    }


def decode_seen(fields: Mapping[str, object]) -> Seen:
    """The way back."""
    shares, hot = fields["shares"], fields["hot"]
    doubled, odd = fields["doubled"], fields["odd"]
    assert isinstance(shares, list) and isinstance(hot, dict)
    assert isinstance(doubled, list) and isinstance(odd, list)
    return Seen(
        {(w, s): Share(rows, tuple(commits)) for w, s, rows, *commits in shares},
        {key: (w, s) for key, (w, s) in hot.items()},
        tuple(doubled),
        tuple(odd),
        str(fields["digest"]),
    )
