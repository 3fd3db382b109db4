"""Give up before writing where the commit would be refused anyway (optimistic writers).

Markers tell which file groups others are writing into. Of two that meet, the one that began later
gives way, so that never both do. A marker of somebody who died counts for nothing: the dead are on
the timeline without a heartbeat, or not on it at all.
"""

from __future__ import annotations

from dataclasses import dataclass

from lentic.coordination.heartbeat import load_heartbeat
from lentic.errors import WriteConflict
from lentic.format.names import parse_base_file, parse_log_file
from lentic.format.times import RequestedAt, is_before
from lentic.storage.base import Storage
from lentic.timeline.instant import WRITES
from lentic.timeline.reader import load_timeline
from lentic.write import markers


@dataclass(frozen=True, slots=True)
class EarlyConflicts:
    """Looks for others in a file group, on the worker that is about to write into it."""

    storage: Storage
    requested_at: RequestedAt

    def ensure_alone(self, partition: str, file_id: str) -> None:
        """`WriteConflict` if a living writer that began earlier is at the same file group."""
        others = markers.list_marked(self.storage) - {self.requested_at}
        older = {at for at in others if is_before(at, self.requested_at)}
        if not older:
            return
        pending = {i.requested_at for i in load_timeline(self.storage).pending(*WRITES)}
        for at in sorted(older & pending):
            if (partition, file_id) in self._groups(at) and load_heartbeat(self.storage, at):
                raise WriteConflict(
                    f"{at} is writing into {'/'.join(filter(None, (partition, file_id)))}, too, "
                    "and began earlier.",
                    where=self.storage.root,
                    safe="nothing of this write is visible",
                    next_step="write again, or let that happen by itself: "
                    "hoodie.write.num.retries.on.conflict.failures",
                )

    def _groups(self, at: RequestedAt) -> set[tuple[str, str]]:
        groups = set()
        for path in markers.list_announced(self.storage, at):
            partition, _, name = path.rpartition("/")
            if parsed := parse_base_file(name) or parse_log_file(name):
                groups.add((partition, parsed.file_id))
        return groups
