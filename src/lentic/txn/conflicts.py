"""Whether my write may commit after what others committed meanwhile. Pure.

    mine \\ theirs       | appended logs   | rewrote base files
    --------------------+-----------------+----------------------------------
    appends logs        | both stay       | both stay: slicing by completion
    rewrites base files | refused if they touched one of my file groups

A rewritten base file holds what its writer read. If someone else's write to the same group
completed after that, committing would lose it without a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lentic.format.commit_metadata import CommitMetadata
from lentic.timeline.instant import Instant
from lentic.timeline.timeline import Timeline


def completed_since(begun: Timeline, now: Timeline) -> tuple[Instant, ...]:
    """Writes that completed after `begun` was loaded."""
    known = {instant.identity for instant in begun.writes()}
    return tuple(instant for instant in now.writes() if instant.identity not in known)


def overlapping_groups(
    mine: CommitMetadata, theirs: Mapping[Instant, CommitMetadata]
) -> dict[Instant, tuple[str, ...]]:
    """For each of their writes that touched groups of mine: those groups."""
    groups = _groups(mine)
    touched = {instant: _groups(metadata) & groups for instant, metadata in theirs.items()}
    return {instant: tuple(sorted(both)) for instant, both in touched.items() if both}


def _groups(metadata: CommitMetadata) -> set[str]:
    named: Iterable[tuple[str, str]] = [(s.partition, s.file_id) for s in metadata.stats]
    replaced = [(p, file_id) for p, ids in metadata.replaced.items() for file_id in ids]
    return {f"{partition}/{file_id}" for partition, file_id in [*named, *replaced]}
