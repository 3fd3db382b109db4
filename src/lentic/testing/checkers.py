"""What must hold of a table at any moment, whatever crashed. Each finding is one sentence."""

from __future__ import annotations

from collections import Counter

from lentic.format import layout
from lentic.format.names import requested_at_of
from lentic.format.times import RequestedAt
from lentic.storage.base import FileInfo, Storage
from lentic.timeline.reader import load_commit_metadata, load_timeline
from lentic.view.listing import load_table_view


def check_table(storage: Storage) -> list[str]:
    """Findings against the invariants that hold at every moment; an empty list is a sound table."""
    timeline = load_timeline(storage)
    findings = []
    times = [t for i in timeline.instants for t in (i.requested_at, i.completed_at) if t]
    findings += [f"time {t} was issued twice" for t, n in Counter(map(str, times)).items() if n > 1]
    for instant in timeline.completed():
        if str(instant.completed_at) <= str(instant.requested_at):
            findings.append(f"{instant} completed before it was requested")
    present = {file.path: file.size for file in storage.walk("")}
    for instant in timeline.writes():
        for stat in load_commit_metadata(storage, instant).stats:
            if stat.path not in present:
                findings.append(f"{instant} names {stat.path}, which is not there")
            elif present[stat.path] != stat.size:
                findings.append(
                    f"{stat.path} has {present[stat.path]} bytes, its commit says {stat.size}"
                )
    shown = [
        path
        for group in load_table_view(storage, timeline)
        for s in group.slices
        for path in s.paths
    ]
    findings += [f"{path} is in two slices" for path, n in Counter(shown).items() if n > 1]
    return findings


def list_leftovers(storage: Storage) -> list[str]:
    """Data files no completed write names, markers, and what attempts and driver agreed on. None
    should be left once a later write has cleaned up after a crash.

    The finalize marker of an instant that has ended is none: it stays for attempts that wake up
    late.
    """
    timeline = load_timeline(storage)
    named = {p for i in timeline.writes() for p in load_commit_metadata(storage, i).paths()}
    pending = {layout.finalized(i.requested_at) for i in timeline.pending()}
    return [
        file.path
        for file in storage.walk("")
        if file.path.startswith(layout.TEMP + "/")
        or (file.path.startswith(layout.COMPLETIONS + "/") and not _is_finalize_marker(file))
        or file.path in pending
        or (requested_at_of(file.name) and file.path not in named)
    ]


def _is_finalize_marker(file: FileInfo) -> bool:
    at = RequestedAt(file.name.partition(".")[0])
    return file.path == layout.finalized(at)
