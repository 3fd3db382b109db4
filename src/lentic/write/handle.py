"""One attempt at one share of a write: rows in, files out, a status per file.

Runs in a thread or on a worker, maybe twice, maybe at the same time, maybe long after the driver
has moved on. For each file group (robust Spark writes, with R6 and R7):

1. The write is finalized already: this run comes too late. Fail, or serve what was accepted.
2. An attempt has completed the group already: return its statuses and write nothing.
3. Else write the file or files.
4. Finalized or archived meanwhile: remove what was just written; then as in 1.
5. Say durably that the group is complete, unless another attempt was first: then remove what was
   just written and return the other's statuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lentic.config.groups import OnRerun
from lentic.engine import Attempt
from lentic.errors import Corrupt, InstantCancelled
from lentic.format.times import RequestedAt
from lentic.progress import Measure
from lentic.storage.base import Storage
from lentic.timeline.history import load_archived_edge
from lentic.timeline.timeline import Timeline
from lentic.view.files import FileGroup, FileGroupId
from lentic.view.listing import ensure_none_gone, load_partition_files
from lentic.write import completion
from lentic.write.completion import Accepted, Share, decode_accepted, encode_accepted
from lentic.write.early import EarlyConflicts
from lentic.write.fit import conform
from lentic.write.group_writer import GroupWriter, Writing
from lentic.write.placement import Placement
from lentic.write.status import WriteStatus


@dataclass(frozen=True, slots=True)
class WriteHandle:
    """All that an attempt needs to know; a picklable value.

    `timeline` is the one the write began on: what completes later is not merged with. `given` is
    the schema rows are brought into; `carried` are columns that come with them as they are.
    """

    how: Writing
    timeline: Timeline
    placement: Placement
    given: pa.Schema
    carried: tuple[str, ...]
    on_rerun: OnRerun
    early: EarlyConflicts | None = None

    def __call__(self, attempt: Attempt, batches: Iterator[pa.RecordBatch]) -> Iterator[str]:
        once = Once(self.how.storage, self.how.requested_at, self.on_rerun)
        if (accepted := once.after_finalize(attempt.task)) is not None:
            yield from map(encode_accepted, accepted)
            return
        ready = [self._ready(batch) for batch in batches if batch.num_rows]
        if not ready:
            return
        rows = pa.Table.from_batches(ready)
        places: dict[str, _Places] = {}
        written = 0
        for part in self.placement.split(rows):
            if part.partition not in places:
                places[part.partition] = self._places(part.partition)
            group, ended = places[part.partition].group(part.slot), places[part.partition].ended
            file_id = group.id.file_id if group else self.placement.new_file_id(part.slot, ended)
            current = group.latest if group else None
            if self.early is not None:
                self.early.ensure_alone(part.partition, file_id)
            writer = GroupWriter(self.how, attempt, part.partition, file_id, current)
            share = Share(part.partition, file_id, attempt.task)
            yield encode_accepted(once.do(share, partial(writer.write, part, written)))
            written += part.rows.num_rows

    def _ready(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = conform(batch, self.given)
        for name in self.carried:
            rows = rows.append_column(name, batch.column(name))
        return rows

    def _places(self, partition: str) -> _Places:
        files = load_partition_files(self.how.storage, self.timeline, [partition])
        found: dict[str, FileGroup] = {}
        for group in ensure_none_gone(files.groups()):
            slot = self.placement.slot_of(group.id.file_id)
            if slot is None or slot in found:
                raise misplaced(group.id, self.how.storage.root)
            found[slot] = group
        return _Places(found, files.ended(partition))


@dataclass(frozen=True, slots=True)
class _Places:
    """The file groups of a partition by slot, and the file ids that no new one may have."""

    groups: Mapping[str, FileGroup]
    ended: frozenset[str]

    def group(self, slot: str) -> FileGroup | None:
        return self.groups.get(slot)


@dataclass(frozen=True, slots=True)
class EmptyHandle:
    """Empties one file group per call: the group's new base file has no rows."""

    how: Writing
    on_rerun: OnRerun

    def __call__(self, attempt: Attempt, group: FileGroup) -> str:
        once = Once(self.how.storage, self.how.requested_at, self.on_rerun)
        writer = GroupWriter(self.how, attempt, group.id.partition, group.id.file_id, group.latest)
        share = Share(group.id.partition, group.id.file_id, attempt.task, round=1)
        return encode_accepted(once.do(share, writer.empty))


@dataclass(frozen=True, slots=True)
class Once:
    """Has the files of a share written once, however many attempts there are."""

    storage: Storage
    requested_at: RequestedAt
    on_rerun: OnRerun

    def do(self, share: Share, write: Callable[[], tuple[WriteStatus, ...]]) -> Accepted:
        """What the share is committed with: by this attempt, or by the one that was first."""
        if completion.is_finalized(self.storage, self.requested_at):
            return self._late(share)
        if (found := completion.find_completed(self.storage, self.requested_at, share)) is not None:
            return Accepted(share, found)
        statuses = write()
        if self._has_ended():
            for status in statuses:
                self.storage.delete(status.stat.path)
            return self._late(share)
        found = completion.complete(self.storage, self.requested_at, share, statuses)
        return Accepted(share, found)

    def after_finalize(self, task: int) -> Sequence[Accepted] | None:
        """None if the write is still open; else what was accepted of the task."""
        if not completion.is_finalized(self.storage, self.requested_at):
            return None
        return self._accepted(lambda share: share.task == task and share.round == 0)

    def _has_ended(self) -> bool:
        """Whether the write is finalized, or so old that its finalize marker is gone: those go once
        archiving has passed their instant. In this order: who finds the marker gone because of
        that finds the instant passed."""
        if completion.is_finalized(self.storage, self.requested_at):
            return True
        return self._is_archived()

    def _is_archived(self) -> bool:
        return self.requested_at <= load_archived_edge(self.storage)

    def _late(self, share: Share) -> Accepted:
        accepted = self._accepted(lambda one: one == share)
        return accepted[0] if accepted else Accepted(share, ())

    def _accepted(self, is_asked: Callable[[Share], bool]) -> Sequence[Accepted]:
        if self.on_rerun is OnRerun.FAIL or self._is_archived():
            raise InstantCancelled(
                f"A task of {self.requested_at} ran again after the write was finalized.",
                where=self.storage.root,
                safe="its files were removed; what was accepted before is not touched",
                next_step="nothing, if the write was committed; else write again, or set "
                "lentic.write.finalize.on_rerun=recover",
            )
        accepted = completion.load_accepted(self.storage, self.requested_at)
        return [one for one in accepted if is_asked(one.share)]


def measure_write(text: str) -> Measure:
    """What a handle's text says it wrote: records that it changed, as `Commit` counts them."""
    statuses = decode_accepted(text).statuses
    return Measure(
        rows=sum(status.inserted + status.updated + status.deleted for status in statuses),
        files=len(statuses),
        bytes=sum(status.stat.size for status in statuses),
    )


def measure_rewrite(text: str) -> Measure:
    """What the text of rewritten slices says was written: all rows of the new files."""
    stats = [status.stat for status in decode_accepted(text).statuses]
    return Measure(
        rows=sum(stat.writes for stat in stats),
        files=len(stats),
        bytes=sum(stat.size for stat in stats),
    )


def misplaced(group: FileGroupId, root: str) -> Corrupt:
    """A file group that no slot of the table's index is for."""
    return Corrupt(
        f"File group {group} does not fit the table's bucket count.",
        where=root,
        safe="nothing was committed",
        next_step="open the table with the bucket count it was written with: "
        'options={"hoodie.bucket.index.num.buckets": N}',
    )
