"""Whether my write may commit after what others did meanwhile. Pure.

A base file holds what its writer read. If someone else's write to the same group completed after
that, committing would lose it without a word. That goes for a group I began, too: in buckets every
writer gives it the same name. A log adds to whatever is there and loses nothing, unless its group
has ended. A log that stands for others (a log compaction's) must stay upon the base file that these
were upon: on top of a later one it would bring old rows back. A compaction that was planned
meanwhile makes a base file later than mine from what was there before me, and would undo my write.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from lentic.config.sharing import ConcurrencyMode
from lentic.format.commit_metadata import LOG_COMPACT, CommitMetadata
from lentic.format.names import Action
from lentic.timeline.instant import Instant
from lentic.timeline.timeline import Timeline

Group = tuple[str, str]
"""Partition and file id."""

_NOTHING: frozenset[Group] = frozenset()


@dataclass(frozen=True, slots=True)
class Touched:
    """What a write did to which file groups."""

    appended: frozenset[Group] = _NOTHING
    """Got a log of it."""
    rewritten: frozenset[Group] = _NOTHING
    """Got a base file of it: their content was decided anew, or first."""
    ended: frozenset[Group] = _NOTHING
    """Are hidden by it."""
    folded: frozenset[Group] = _NOTHING
    """Got a log that stands for logs that were there."""
    grown: frozenset[str] = frozenset()
    """Partitions in which it gave new keys a place; empty where a key's place follows from the
    key, or where keys are not looked up at all."""

    @property
    def groups(self) -> frozenset[Group]:
        return self.appended | self.rewritten | self.ended | self.folded

    def across_partitions(self) -> Touched:
        """The same where keys are unique in the whole table: it has grown as one."""
        return replace(self, grown=frozenset({"the table"} if self.grown else ()))


@dataclass(frozen=True, slots=True)
class Mine:
    """My write, about to commit."""

    touched: Touched
    mode: ConcurrencyMode
    is_computed: bool = False
    """Its rows were computed from the table's own."""
    is_planned: bool = False
    """It executes a plan. The base files it rewrote are named by the plan's time and hold what had
    completed by then, so that logs which completed later come on top of them (R10)."""


@dataclass(frozen=True, slots=True)
class Theirs:
    """Another's write that completed, or a compaction that was planned, while mine ran; if mine
    executes a plan, after the plan was made."""

    instant: Instant
    touched: Touched
    since_begun: bool = True
    """It came after my write had begun; otherwise only after my rows were computed."""
    is_compaction: bool = False
    """It changes no row, planned or done; a clustering is one, too."""


@dataclass(frozen=True, slots=True)
class Proceed:
    """Nothing stands against the commit."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """The commit would lose or double rows: whose write stands against it, and where."""

    instant: Instant
    places: tuple[str, ...]


Verdict = Proceed | Refuse


def judge(mine: Mine, theirs: Iterable[Theirs]) -> Verdict:
    """Whether `mine` may commit after `theirs`.

    Operations by what they do to a file group: upsert, insert and delete append logs on
    MERGE_ON_READ and rewrite base files on COPY_ON_WRITE; bulk_insert rewrites; insert_overwrite
    and delete_partitions rewrite in buckets and end groups elsewhere; a compaction rewrites without
    changing a row, and so does a log compaction, which folds logs, and a clustering in buckets,
    which elsewhere ends groups. In one and the same group:

        mine \\ theirs            | appended | rewrote | ended | compacted | plans to compact
        --------------------------+----------+---------+-------+-----------+-----------------
        appends, one writer       |    ok    |   ok    |  no   |    ok     |       ok
        appends, non-blocking     |    ok    |   ok    |  no   |    ok     |       ok
        appends, optimistic       |    no    |   no    |  no   |    ok     |       ok
        rewrites or ends          |    no    |   no    |  no   |    no     |       no
        rewrites, as planned      |    ok    |   no    |  no   |    no     |       no
        rows computed from it     |    no    |   no    |  no   |    ok     |       ok
        folds logs                |    ok    |   no    |  no   |    no     |       no

    Beside a log compaction of others every write stands as beside a compaction.
    "ok": both stay, ordered by completion. What a plan is executed for must have stayed as it was
    since the plan was made: a clustering that ends a group yields to whatever was written to it.
    Nobody yields to a clustering that is only planned. Besides, without buckets, two optimistic
    writers that both gave new keys a place in one partition may have met the same key: no.
    """
    for other in theirs:
        if both := _shared_places(mine, other):
            return Refuse(other.instant, both)
    return Proceed()


def _shared_places(mine: Mine, other: Theirs) -> tuple[str, ...]:
    """The places where `mine` and `other` cannot both stay."""
    my, their = mine.touched, other.touched
    against: frozenset[Group] = _NOTHING
    grown: frozenset[str] = frozenset()
    if other.since_begun:
        undone = their.rewritten | their.ended | their.folded if mine.is_planned else their.groups
        against |= (my.rewritten & undone) | (my.ended & their.groups)
        against |= my.appended & their.ended
        against |= my.folded & (their.rewritten | their.ended)
        if mine.mode is ConcurrencyMode.OPTIMISTIC and not other.is_compaction:
            against |= my.appended & their.groups
            grown = my.grown & their.grown
    if mine.is_computed and not other.is_compaction:
        against |= my.groups & their.groups
    return (*sorted("/".join(filter(None, group)) for group in against), *sorted(grown))


def touched_by(metadata: CommitMetadata) -> Touched:
    """What a write did, by its metadata."""
    logged = frozenset((s.partition, s.file_id) for s in metadata.stats if s.is_log)
    folds = metadata.operation == LOG_COMPACT
    return Touched(
        appended=_NOTHING if folds else logged,
        folded=logged if folds else _NOTHING,
        rewritten=frozenset((s.partition, s.file_id) for s in metadata.stats if not s.is_log),
        ended=frozenset((p, i) for p, file_ids in metadata.replaced.items() for i in file_ids),
        grown=frozenset(s.partition for s in metadata.stats if s.inserts),
    )


def may_stand_against(mine: Mine, instant: Instant) -> bool:
    """Whether `judge` needs to know what `instant` touched: logs of mine that stay beside whatever
    comes can only be hidden, which takes a replacement."""
    my = mine.touched
    only_appends = not (my.rewritten or my.ended or my.folded or mine.is_computed)
    if only_appends and mine.mode is not ConcurrencyMode.OPTIMISTIC:
        return instant.action is Action.REPLACECOMMIT
    return bool(my.groups)


def completed_since(begun: Timeline, now: Timeline) -> tuple[Instant, ...]:
    """Writes that completed after `begun` was loaded."""
    known = {instant.identity for instant in begun.writes()}
    return tuple(instant for instant in now.writes() if instant.identity not in known)


def undone_since(begun: Timeline, now: Timeline) -> tuple[Instant, ...]:
    """Writes that had completed in `begun` and were undone since. Those that are gone without a
    rollback or restore having come were archived."""
    known = {instant.identity for instant in begun.instants}
    undoing = (Action.ROLLBACK, Action.RESTORE)
    if all(i.identity in known or i.action not in undoing for i in now.instants):
        return ()
    still = {instant.identity for instant in now.writes()}
    return tuple(instant for instant in begun.writes() if instant.identity not in still)


def planned_since(begun: Timeline, now: Timeline) -> tuple[Instant, ...]:
    """Compactions that were planned after `begun` was loaded and are still pending."""
    known = {instant.identity for instant in begun.instants}
    plans = now.pending(Action.COMPACTION)
    return tuple(instant for instant in plans if instant.identity not in known)
