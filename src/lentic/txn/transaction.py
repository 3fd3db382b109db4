"""A transaction: hold the lock, load the timeline inside it, take steps, let go.

The `with` block is the transaction. Every check and the step it licenses stand in the same block,
on the timeline loaded in it. All changes of the timeline go through the methods here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from lentic.config.groups import WriteOptions
from lentic.config.services import ServiceOptions
from lentic.config.sharing import LockOptions, SharingOptions
from lentic.coordination.heartbeat import Pulse, Watch
from lentic.coordination.lock import Held, LockProvider
from lentic.coordination.time_generator import issue_time
from lentic.errors import InstantCancelled, shell_command
from lentic.format import layout
from lentic.format.names import Action, State
from lentic.format.properties import decode_properties, encode_properties
from lentic.format.table_config import TableConfig, decode_table_config
from lentic.format.times import CompletedAt, RequestedAt, is_before
from lentic.storage.base import Storage
from lentic.timeline import history_store, store
from lentic.timeline.cancel_requests import (
    CancelRequest,
    encode_cancel_request,
    is_cancelled,
)
from lentic.timeline.instant import Instant
from lentic.timeline.reader import (
    list_rollbacks_of,
    load_active,
    load_restored,
    load_timeline,
    load_to_hide,
)
from lentic.timeline.timeline import Timeline
from lentic.world import World


@dataclass(frozen=True, slots=True)
class OpenTable:
    """A table with all that its flows need of the outside. Only shell functions receive it."""

    storage: Storage
    config: TableConfig
    lock: LockProvider
    world: World
    write_options: WriteOptions
    lock_options: LockOptions
    sharing: SharingOptions
    services: ServiceOptions
    watch: Watch

    @property
    def pulse(self) -> Pulse:
        return Pulse(self.sharing.heartbeat_interval_ms, self.sharing.heartbeat_misses)


class Transaction:
    """Steps on the timeline, valid inside `transaction`'s block only."""

    def __init__(self, table: OpenTable, held: Held, timeline: Timeline) -> None:
        self.table = table
        self.timeline = timeline
        self._held = held
        self._seen = timeline.last_time()

    @property
    def epoch(self) -> int:
        """Rises with every transaction on the table."""
        return self._held.epoch

    def next_time(self) -> str:
        """A time later than every time the table knows."""
        self._seen = issue_time(
            self._held,
            self.table.world.clock,
            self.table.config.zone,
            seen=self._seen,
            skew_ms_max=self.table.lock_options.clock_skew_ms,
        )
        return self._seen

    def request(self, action: Action, content: bytes = b"") -> Instant:
        """A new REQUESTED instant, at a time issued in this transaction (R9, P4)."""
        return self.request_at(RequestedAt(self.next_time()), action, content)

    def request_at(self, at: RequestedAt, action: Action, content: bytes) -> Instant:
        """Like `request`, at a time that `next_time` gave in this transaction (R12)."""
        assert at == self._seen, "the time must come from this transaction"
        return store.request(self.table.storage, self._held, action, at, content)

    def take_guard(self, plan: Instant) -> int:
        """The number under which this caller may execute `plan`, until somebody takes the next."""
        return store.take_guard(self.table.storage, self._held, plan.requested_at)

    def start(self, instant: Instant, content: bytes = b"") -> Instant:
        """REQUESTED -> INFLIGHT."""
        return store.start(self.table.storage, self._held, instant, content)

    def complete(
        self, instant: Instant, content: bytes, *, settled: frozenset[RequestedAt] = frozenset()
    ) -> Instant:
        """INFLIGHT -> COMPLETED, at a time issued here; the one door to it.

        R1: refused when the instant is no longer inflight, or a rollback or restore undoes it, but
        for those in `settled`.
        """
        self.ensure_still_ours(instant, settled=settled)
        at = CompletedAt(self.next_time())
        return store.complete(self.table.storage, self._held, instant, at, content)

    def finish_rollback(self, rollback: Instant, content: bytes) -> Instant:
        """INFLIGHT -> COMPLETED for a rollback or restore, which nothing can undo in turn."""
        at = CompletedAt(self.next_time())
        return store.complete(self.table.storage, self._held, rollback, at, content)

    def save(self, write: Instant, content: bytes) -> Instant:
        """(nothing) -> COMPLETED for the savepoint of a completed write."""
        at = CompletedAt(self.next_time())
        return store.save(self.table.storage, self._held, write.requested_at, at, content)

    def remove_savepoint(self, savepoint: Instant) -> None:
        """Take a savepoint off the timeline."""
        store.remove_savepoint(self.table.storage, self._held, savepoint)

    def hide_undone(self) -> None:
        """Take the completed files of all that a published plan undoes away, newest first.

        Every transaction begins with it, so that none builds on a write whose files are going:
        what was decided happens, whoever has to carry it out. For readers each step leaves a state
        that the table was in before.
        """
        undone = load_to_hide(self.table.storage, self.timeline)
        for instant in undone:
            store.hide(self.table.storage, self._held, instant)
        if undone:
            self.timeline = load_timeline(self.table.storage)

    def reload(self) -> None:
        """See what this transaction itself has published, too."""
        self.timeline = load_timeline(self.table.storage)

    def remove(self, instant: Instant) -> None:
        """Take a pending instant off the timeline, after its files are gone."""
        store.remove_pending(self.table.storage, self._held, instant)

    def cancel(self, plan: Instant, why: str) -> None:
        """Have a pending plan end without completing, whoever executes it. Not to be taken back."""
        request = CancelRequest(str(self.table.world.process), why)
        content = encode_cancel_request(request)
        store.request_cancel(self.table.storage, self._held, plan.requested_at, content)

    def abort(self, plan: Instant, content: bytes) -> Instant:
        """REQUESTED or INFLIGHT -> ABORTED for a plan that was cancelled; its files are gone."""
        return store.abort(self.table.storage, self._held, plan, content)

    def discard_cancel(self, at: RequestedAt) -> None:
        """Take the request to cancel the plan at `at` away, after it has ended."""
        store.discard_cancel(self.table.storage, self._held, at)

    def archive(self, instants: Sequence[Instant]) -> None:
        """Move completed instants, the oldest of the timeline, to its history."""
        assert all(instant.is_completed for instant in instants), instants
        batch = self.table.services.archive.batch
        history_store.archive(self.table.storage, self._held, instants, batch)

    def archive_aborted(self, instants: Sequence[Instant]) -> None:
        """Take aborted plans off the active timeline; that they were aborted stays known."""
        history_store.archive_aborted(self.table.storage, self._held, instants)

    def ensure_still_ours(
        self, instant: Instant, *, settled: frozenset[RequestedAt] = frozenset()
    ) -> None:
        """R1: on the timeline of this transaction, `instant` is inflight and nobody undoes it.

        `settled`: rollbacks that undid earlier executions of a plan before this one began.
        """
        now = self.timeline.find(instant)
        if now is None or now.state is not State.INFLIGHT:
            state = "gone" if now is None else now.state.value
            raise InstantCancelled(
                f"{instant} is {state}: another job finished it or rolled it back meanwhile.",
                where=self.table.storage.root,
                safe="nothing of this attempt is visible; start over",
                next_step=shell_command("timeline", self.table.storage.root),
            )
        self.ensure_not_cancelled(instant)
        undoing = (*self.rollbacks_of(instant), self.restore_of(instant))
        for rollback in undoing:
            if rollback is None or rollback.requested_at in settled:
                continue
            raise InstantCancelled(
                f"{instant} is being rolled back by {rollback}.",
                where=self.table.storage.root,
                safe="nothing of this attempt is visible; start over",
                next_step=shell_command("timeline", self.table.storage.root),
            )

    def ensure_not_cancelled(self, instant: Instant) -> None:
        """R3. That it is not aborted yet says nothing, so the request is looked for as well."""
        if instant.action is Action.CLUSTERING and is_cancelled(
            self.table.storage, instant.requested_at
        ):
            raise InstantCancelled(
                f"{instant} was asked to end: it must not complete any more.",
                where=self.table.storage.root,
                safe="nothing of this attempt is visible, and no row was changed",
                next_step=shell_command("abort", self.table.storage.root, instant.requested_at),
            )

    def rollbacks_of(self, instant: Instant) -> tuple[Instant, ...]:
        """The rollbacks, pending or completed, that target `instant`."""
        return list_rollbacks_of(self.table.storage, self.timeline, instant)

    def rollback_of(self, instant: Instant) -> Instant | None:
        """The first of them, where there can only be one: a write is undone once."""
        return next(iter(self.rollbacks_of(instant)), None)

    def restore_of(self, instant: Instant) -> Instant | None:
        """The restore, pending or completed, that undoes `instant`."""
        for restore in self.timeline.instants:
            if restore.action is not Action.RESTORE:
                continue
            if not is_before(instant.requested_at, restore.requested_at):
                continue
            if instant.identity in load_restored(self.table.storage, [restore]):
                return restore
        return None

    def note_window(self, action: Action, data: bytes) -> None:
        """Say what a planner looked at where it published no plan that would say so. A later note
        may be overwritten by an earlier one that was slow: the next planner then looks at more."""
        self._held.ensure_held()
        self.table.storage.replace(layout.planned(action), data)

    def change_properties(
        self, change: Callable[[Mapping[str, str]], Mapping[str, str]], why: str
    ) -> None:
        """Rewrite hoodie.properties with what `change` makes of its values."""

        def rewrite(data: bytes) -> bytes:
            decode_table_config(data, layout.PROPERTIES)  # else damage would be given a new date
            values = change(decode_properties(data, layout.PROPERTIES))
            return encode_properties(values, f"{why}, epoch {self.epoch}")

        store.revise(self.table.storage, self._held, layout.PROPERTIES, rewrite)


@contextmanager
def transaction(table: OpenTable) -> Iterator[Transaction]:
    """Hold the table's lock and load the timeline inside it, rid of what is gone already and of
    what is to be undone."""
    with table.lock.hold() as held:
        timeline, gone = load_active(table.storage)
        history_store.remove_gone(table.storage, held, gone)
        txn = Transaction(table, held, timeline)
        txn.hide_undone()
        yield txn
