"""The façade: one short method per verb. It opens rooms and holds no logic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lentic.engine import Engine
from lentic.errors import ConfigError
from lentic.format.table_config import TableConfig
from lentic.format.times import RequestedAt
from lentic.ingest import operations as verbs
from lentic.ingest.merge import MergeBuilder
from lentic.insight.answers import Answer, Health
from lentic.insight.ask import ask_why
from lentic.insight.doctor import check_health
from lentic.query.cdc import read_cdc
from lentic.query.incremental import read_changed_rows
from lentic.query.snapshot import read_rows, stream_rows
from lentic.query.source import load_source
from lentic.services import catalog
from lentic.services.abort import execute_abort
from lentic.services.archive import archive_timeline
from lentic.services.clean import CleanRun, run_clean
from lentic.services.explain import Explanation, explain_service
from lentic.services.outcome import Aborted, Outcome
from lentic.services.pending import PendingPlan
from lentic.services.plans import list_plans
from lentic.services.restore import restore_table
from lentic.services.savepoint import make_savepoint, remove_savepoint
from lentic.services.undo_completed import roll_back_instant
from lentic.services.verify import verify_table
from lentic.timeline.aborted_history import load_aborted
from lentic.timeline.history import load_history
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_timeline
from lentic.txn.cancellation import BY_HAND, request_cancel
from lentic.txn.transaction import OpenTable
from lentic.view.files import FileSlice
from lentic.view.listing import load_table_view
from lentic.write.commit import Commit
from lentic.write.operations import Operation


class Table:
    """A table. Get one from `lentic.create` or `lentic.open`."""

    def __init__(self, opened: OpenTable, engine: Engine) -> None:
        self._opened = opened
        self._engine = engine

    @property
    def path(self) -> str:
        """Where the table is."""
        return self._opened.storage.root

    @property
    def config(self) -> TableConfig:
        """What the table is, as its properties say."""
        return self._opened.config

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table's rows, as `read` gives them now."""
        return load_source(self._opened).schema

    def upsert(self, rows: Any, *, partial: bool = False) -> Commit:
        """Insert rows with new keys and update those whose key exists, as one commit.

        With an ordering field the row with the greater value wins, late rows change nothing. All
        of the rows become visible at once or, if this raises, none. `partial`: columns that the
        rows lack stay as they are instead of becoming null.
        """
        return verbs.upsert(self._opened, self._engine, rows, partial=partial)

    def insert(self, rows: Any) -> Commit:
        """Insert rows, as one commit.

        With buckets this is an upsert: readers merge by key. Without, keys are not looked up, so
        that a key which exists already is there twice afterwards; upsert if that may be.
        """
        return verbs.write_rows(self._opened, self._engine, rows, Operation.INSERT)

    def bulk_insert(self, rows: Any, *, sort_by: str | Sequence[str] = ()) -> Commit:
        """Insert many rows at once into files of the target size, sorted by `sort_by`.

        For first loads. As `insert` otherwise, but small files are left as they are.
        """
        names = (sort_by,) if isinstance(sort_by, str) else sort_by
        return verbs.bulk_insert(self._opened, self._engine, rows, names)

    def delete(self, what: Any) -> Commit:
        """Delete rows: those a predicate such as `"amount < 0"` describes, or those whose key and
        partition columns are in the rows given. Keys that do not exist are ignored."""
        return verbs.delete(self._opened, self._engine, what)

    def merge(self, rows: Any) -> MergeBuilder:
        """Merge rows into the table by key: see `when_matched_update`, `when_matched_delete` and
        `when_not_matched_insert` of what this returns, and `execute` at the end."""
        return MergeBuilder(self._opened, self._engine, rows)

    def insert_overwrite(self, rows: Any) -> Commit:
        """Replace the partitions that occur in `rows` by these rows; others stay."""
        return verbs.write_rows(self._opened, self._engine, rows, Operation.INSERT_OVERWRITE)

    def insert_overwrite_table(self, rows: Any) -> Commit:
        """Replace all rows of the table by these."""
        return verbs.write_rows(self._opened, self._engine, rows, Operation.INSERT_OVERWRITE_TABLE)

    def delete_partitions(self, partitions: Sequence[str]) -> Commit:
        """Delete all rows of some partitions, named as their folders are."""
        return verbs.delete_partitions(self._opened, self._engine, partitions)

    def read(
        self,
        *,
        as_of: object = None,
        mode: str = "snapshot",
        columns: Sequence[str] | None = None,
        filter: str | None = None,
        meta: bool = False,
    ) -> Any:
        """The rows: a DataFrame on Spark, else an Arrow table.

        `as_of`: an instant, ISO date-time or date: all that had completed by then; an instant's
        requested time means the moment it completed. `mode`: "snapshot", or "read_optimized" for
        base files alone. `filter`: a condition such as `"day = '2026-01-01' and amount > 10"`.
        `meta=True` adds the `_hoodie_*` columns.
        """
        return read_rows(
            self._opened,
            self._engine,
            as_of=as_of,
            mode=mode,
            columns=columns,
            filter=filter,
            meta=meta,
        )

    def stream(
        self,
        *,
        as_of: object = None,
        mode: str = "snapshot",
        columns: Sequence[str] | None = None,
        filter: str | None = None,
        meta: bool = False,
    ) -> pa.RecordBatchReader:
        """The rows of `read` as a stream of Arrow batches in this process.

        Memory is bounded by the largest file slice, however large the table is.
        """
        return stream_rows(
            self._opened, as_of=as_of, mode=mode, columns=columns, filter=filter, meta=meta
        )

    def changes(
        self,
        *,
        after: str = "000",
        upto: str | None = None,
        kind: str = "rows",
        columns: Sequence[str] | None = None,
        filter: str | None = None,
        meta: bool = False,
    ) -> Any:
        """What changed after one completion time (exclusive) and up to another (inclusive, now).

        `kind="rows"`: the latest version of every row that changed. `kind="cdc"`: every change,
        with op (i, u, d), ts (the write's requested time), before and after. `after="000"` is the
        beginning.
        """
        if kind == "rows":
            return read_changed_rows(
                self._opened,
                self._engine,
                after=after,
                upto=upto,
                columns=columns,
                filter=filter,
                meta=meta,
            )
        if kind != "cdc" or columns is not None or filter is not None or meta:
            raise ConfigError(
                f"Changes of kind {kind!r} cannot be read so.",
                safe="nothing was read",
                next_step='kind="rows", or kind="cdc" without columns, filter and meta',
            )
        return read_cdc(self._opened, self._engine, after=after, upto=upto)

    def schedule(self, service: str, **params: Any) -> RequestedAt | None:
        """Publish a plan of `service` and return its time; None if there is nothing to do.

        "compaction", "log_compaction" (`removable`), "clustering" (`sort_by`, `curve`,
        `partitions`, `removable`, `cancellable`, `cancel_after_hours`, `cancel_after_instants`) or
        "clean". Where a plan is pending already, that one is meant.
        """
        return catalog.schedule(self._opened, service, params)

    def execute(self, requested_at: str) -> Outcome:
        """Carry out the plan at `requested_at`, alone: `PlanBusy` while another job does."""
        return catalog.execute(self._opened, self._engine, RequestedAt(requested_at))

    def explain(self, service: str, **params: Any) -> Explanation:
        """What `schedule` with the same arguments and `execute` would do now; nothing is done."""
        return explain_service(self._opened, service, params)

    def plans(self) -> list[PendingPlan]:
        """Plans that have not ended: whose they are, how old, and what to do next."""
        return list(list_plans(self._opened))

    def why(self, what: str, *, kind: str | None = None, partition: str | None = None) -> Answer:
        """Why an instant, a data file or a record key is as it is, and what to do about it.

        `kind`: "instant", "file" or "key" where the form of `what` would mislead. `partition`: of
        a key, to search there alone.
        """
        return ask_why(self._opened, what, kind=kind, partition=partition)

    def doctor(self, *, everything: bool = False) -> Health:
        """What ails the table, worst first, each with what mends it. Looks at the partitions that
        were written to last, or at everything; says what it did not look at."""
        return check_health(self._opened, everything=everything)

    def compact(self) -> Outcome | None:
        """Fold the logs of every file slice into its next base file; None if there are no logs."""
        return self._run("compaction")

    def log_compact(self, *, removable: bool | None = None) -> Outcome | None:
        """Fold the logs of slices that have many into one; None if none has enough."""
        return self._run("log_compaction", removable=removable)

    def cluster(
        self,
        *,
        sort_by: str | Sequence[str] = (),
        curve: str | None = None,
        partitions: Sequence[str] | None = None,
        removable: bool | None = None,
        cancellable: bool | None = None,
        cancel_after_hours: float | None = None,
        cancel_after_instants: int | None = None,
    ) -> Outcome | None:
        """Write small files anew as large ones, their rows sorted by `sort_by` along `curve`
        ("linear", "zorder", "hilbert"); None if there is nothing to cluster.

        `Aborted` if somebody wrote to the same file groups meanwhile: their write stands. With
        `cancellable=False` it is their write that is refused. The other two say when a clean may
        cancel a plan that nobody executes.
        """
        names = (sort_by,) if isinstance(sort_by, str) else tuple(sort_by)
        return self._run(
            "clustering",
            sort_by=names,
            curve=curve,
            partitions=partitions,
            removable=removable,
            cancellable=cancellable,
            cancel_after_hours=cancel_after_hours,
            cancel_after_instants=cancel_after_instants,
        )

    def request_cancel(self, requested_at: str, *, why: str = BY_HAND) -> None:
        """Promise that the clustering at `requested_at` will never complete, and wait for nobody.

        `PlanCompleted` if it has. It ends as aborted when its executor, a clean or
        `execute_abort` comes to it.
        """
        request_cancel(self._opened, RequestedAt(requested_at), why=why)

    def execute_abort(self, requested_at: str) -> Aborted:
        """End a cancelled clustering and delete all it has written: `PlanBusy` while somebody
        still executes it."""
        return execute_abort(self._opened, self._engine, RequestedAt(requested_at))

    def clean(self, *, wait: bool = False) -> Outcome | None:
        """Roll back what failed, delete files that no retained commit, savepoint or plan needs,
        sweep orphans now and then. None if no file was due.

        Whether a writer is dead shows only while its signs of life are watched: with `wait` the
        call lasts until that is known of all that are pending, and orphans are swept in any case.
        """
        done = self.run_clean(wait=wait).cleans
        return done[-1] if done else None

    def run_clean(self, *, wait: bool = False) -> CleanRun:
        """The same as `clean`, and all that was done: what was aborted, undone, finished, cleaned
        and swept."""
        return run_clean(self._opened, self._engine, waits=wait)

    def archive(self) -> list[Instant]:
        """Move the oldest instants from the active timeline to the history, if there are more
        than `hoodie.keep.max.commits`; the instants that were moved."""
        return list(archive_timeline(self._opened))

    def rollback(self, requested_at: str) -> Instant:
        """Undo one instant: a write or plan that is pending, or the newest commit. The rollback."""
        return roll_back_instant(self._opened, RequestedAt(requested_at))

    def savepoint(self, requested_at: str | None = None, *, comment: str = "") -> Instant:
        """Keep the table as it was right after a commit, the newest by default, from being cleaned
        or archived, so that `restore` can bring it back."""
        at = None if requested_at is None else RequestedAt(requested_at)
        return make_savepoint(self._opened, at, comment=comment)

    def remove_savepoint(self, requested_at: str) -> None:
        """Let go of the savepoint of the commit at `requested_at`."""
        remove_savepoint(self._opened, RequestedAt(requested_at))

    def restore(self, requested_at: str) -> Instant:
        """Bring the table back to what it was right after a commit: everything later is undone."""
        return restore_table(self._opened, RequestedAt(requested_at))

    def _run(self, service: str, **params: Any) -> Outcome | None:
        at = self.schedule(service, **params)
        return None if at is None else self.execute(at)

    def verify(self) -> list[str]:
        """Check every invariant the table must keep; each finding is a sentence, none is a sound
        table."""
        return verify_table(self._opened.storage)

    def history(self) -> list[Instant]:
        """Every instant that has left the active timeline, oldest first."""
        storage = self._opened.storage
        archived = (*load_history(storage).instants, *load_aborted(storage))
        return sorted(archived, key=lambda i: (i.requested_at, i.action))

    def timeline(self) -> list[Instant]:
        """Every instant of the active timeline, oldest first."""
        return list(load_timeline(self._opened.storage).instants)

    def file_slices(self, partition: str | None = None) -> list[FileSlice]:
        """The slices that readers read now, of one partition or of all."""
        storage = self._opened.storage
        groups = load_table_view(storage, load_timeline(storage))
        return [g.latest for g in groups if partition in (None, g.id.partition)]

    def __repr__(self) -> str:
        return f"Table({self.path!r}, {self.config.table_type.value})"
