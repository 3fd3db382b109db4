"""Data files that are gone or not as long as their commits say, and what mends that. Pure.

Nothing in the table can make such a file anew. It comes from a copy of the table; or the table goes
back to a savepoint from before it, if there is one whose own files are whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from lentic.format.names import Action, requested_at_of
from lentic.format.times import CompletedAt
from lentic.insight.facts import Facts
from lentic.services import next_steps
from lentic.services.next_steps import NextStep
from lentic.timeline.instant import Instant
from lentic.view.table_view import Committed, gone_paths

FROM_A_COPY = "bring it back from a copy of the table"


def list_damaged(facts: Facts) -> frozenset[str]:
    """The files, of the partitions that were listed, that a reader or a savepoint needs and that
    are gone, and all that are not as long as their commits say."""
    present = {file.path: file.size for file in facts.files.files}
    wrong = {p for p, size in present.items() if committed_size(facts, p) not in (None, size)}
    saved = {path for path in facts.holders if path not in present and _is_saved(facts, path)}
    return frozenset(wrong | saved).union(gone_paths(facts.groups.values()))


def committed_size(facts: Facts, path: str) -> int | None:
    """How long the write that made the file says it is; None if nobody says."""
    write = _maker(facts, path)
    return write.sizes.get(path) if write else None


def list_whole(facts: Facts, damaged: frozenset[str]) -> tuple[Instant, ...]:
    """The savepoints, oldest first, none of whose own files are damaged."""
    lost = {holder for path in damaged for holder in facts.holders.get(path, ())}
    savepoints = facts.timeline.completed(Action.SAVEPOINT)
    return tuple(savepoint for savepoint in savepoints if savepoint not in lost)


def find_way_back(facts: Facts, path: str, whole: Sequence[Instant]) -> Instant | None:
    """The newest of these savepoints whose state is from before the file."""
    write = _maker(facts, path)
    if write is None:
        return None
    states = ((savepoint, _state_of(facts, savepoint)) for savepoint in reversed(whole))
    return next((savepoint for savepoint, at in states if at and at < write.completed_at), None)


def say_mending(facts: Facts, savepoint: Instant | None) -> str:
    """What mends a file, in words; `savepoint` is its way back."""
    if savepoint is None:
        return FROM_A_COPY
    state = _state_of(facts, savepoint)
    times = (write.completed_at for write in facts.timeline.writes())
    later = [at for at in times if at and state and at > state]
    return f"{FROM_A_COPY}, or restore {savepoint}, which undoes {len(later)} commit(s) made since"


def take_back(facts: Facts, savepoint: Instant) -> NextStep:
    return next_steps.restore(facts.root, str(savepoint.requested_at))


def _state_of(facts: Facts, savepoint: Instant) -> CompletedAt | None:
    """When the write completed right after which the table was as the savepoint keeps it."""
    own = (w for w in facts.timeline.writes() if w.requested_at == savepoint.requested_at)
    return next((write.completed_at for write in own), None)


def _maker(facts: Facts, path: str) -> Committed | None:
    """The completed write that names the file."""
    at = requested_at_of(path.rpartition("/")[2])
    write = facts.files.writes.get(at) if at else None
    return write if write and path in write.paths else None


def _is_saved(facts: Facts, path: str) -> bool:
    listed = facts.files.partitions
    is_listed = listed is None or path.rpartition("/")[0] in listed
    return is_listed and any(i.action is Action.SAVEPOINT for i in facts.holders[path])
