"""Whether my write may commit after what others did meanwhile. Pure.

    mine \\ theirs           | appended logs   | wrote base files   | planned a compaction
    ------------------------+-----------------+--------------------+---------------------------
    appends logs            | both stay       | both stay: slicing by completion
    writes base files       | refused if they touched, or are going to compact, one of the groups
    computed from the table | refused if they touched one of its groups and did more than compact

A base file holds what its writer read. If someone else's write to the same group completed after
that, committing would lose it without a word. That goes for a group I began, too: in buckets every
writer gives it the same name. A compaction that was planned meanwhile makes a base file later than
mine from what was there before me, and would undo my write.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from lentic.format.commit_metadata import CommitMetadata
from lentic.format.names import Action
from lentic.timeline.instant import Instant
from lentic.timeline.timeline import Timeline

Group = tuple[str, str]
"""Partition and file id."""


def completed_since(begun: Timeline, now: Timeline) -> tuple[Instant, ...]:
    """Writes that completed after `begun` was loaded."""
    known = {instant.identity for instant in begun.writes()}
    return tuple(instant for instant in now.writes() if instant.identity not in known)


def planned_since(begun: Timeline, now: Timeline) -> tuple[Instant, ...]:
    """Compactions that were planned after `begun` was loaded and are still pending."""
    known = {instant.identity for instant in begun.instants}
    plans = now.pending(Action.COMPACTION)
    return tuple(instant for instant in plans if instant.identity not in known)


def rewritten_groups(mine: CommitMetadata) -> frozenset[Group]:
    """The groups whose content the write decided anew, or first."""
    rewritten = {(s.partition, s.file_id) for s in mine.stats if not s.is_log}
    ended = {(p, file_id) for p, file_ids in mine.replaced.items() for file_id in file_ids}
    return frozenset(rewritten | ended)


def overlapping_groups(
    mine: Set[Group], theirs: Mapping[Instant, Set[Group]]
) -> dict[Instant, tuple[str, ...]]:
    """For each of their instants that touched groups of mine: those groups."""
    both = {instant: mine & groups for instant, groups in theirs.items()}
    return {
        instant: tuple(sorted("/".join(filter(None, group)) for group in groups))
        for instant, groups in both.items()
        if groups
    }
