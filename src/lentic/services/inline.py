"""Services that run after a commit, where the options ask for them.

The commit has landed before the first of them begins, so that none can make it fail: what goes
wrong is logged, and the next commit tries again. Order: what makes files before what removes them,
and the timeline last.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from lentic.engine import Engine
from lentic.errors import LenticError, PlanBusy
from lentic.format import layout
from lentic.format.names import Action, State
from lentic.format.table_config import TableType
from lentic.format.times import RequestedAt
from lentic.services.archive import archive_timeline, is_archive_due
from lentic.services.clean import run_clean
from lentic.services.clean_plan import is_clean_due
from lentic.services.clustering import execute_clustering, schedule_clustering
from lentic.services.clustering_plan import is_clustering_due
from lentic.services.compaction import execute_compaction, schedule_compaction
from lentic.services.compaction_plan import is_compaction_due
from lentic.services.log_compaction import execute_log_compaction, schedule_log_compaction
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_timeline
from lentic.timeline.timeline import Timeline
from lentic.txn.transaction import OpenTable

_log = logging.getLogger(__name__)

Due = tuple[str, Callable[[], object]]


def run_due_services(table: OpenTable, engine: Engine) -> None:
    """Run what is due now. Raises only where `hoodie.fail.writes.on.inline...` says so."""
    options = table.services
    if not options.enabled:
        return
    for name, run in _due(table, engine):
        try:
            run()
        except PlanBusy as error:
            _log.info("%s after the commit is left to others: %s", name, error.what)
        except LenticError as error:
            if options.fails_writes:
                raise
            _log.warning("%s after the commit failed; the commit stands: %s", name, error)


def _due(table: OpenTable, engine: Engine) -> Iterator[Due]:
    """Lazily, so that each is judged on the timeline that the one before it left."""
    options, is_mor = table.services, table.config.table_type is TableType.MERGE_ON_READ
    if options.log_compact_inline and is_mor:
        yield "log compaction", lambda: _log_compact(table, engine)
    if (options.compaction.inline or options.compaction.schedule_inline) and is_mor:
        yield "compaction", lambda: _compact(table, engine)
    if options.clustering.inline or options.clustering.schedule_inline:
        yield "clustering", lambda: _cluster(table, engine)
    if options.clean.automatic:
        yield "clean", lambda: _clean(table)
    if options.archive.automatic:
        yield "archive", lambda: _archive(table)


def _log_compact(table: OpenTable, engine: Engine) -> None:
    if (at := schedule_log_compaction(table)) is not None:
        execute_log_compaction(table, engine, at)


def _compact(table: OpenTable, engine: Engine) -> None:
    options = table.services.compaction
    timeline = load_timeline(table.storage)
    if not is_compaction_due(timeline, options, table.world.clock.now_ms(), table.config.zone):
        return
    if (at := schedule_compaction(table)) is not None and options.inline:
        execute_compaction(table, engine, at)


def _cluster(table: OpenTable, engine: Engine) -> None:
    options = table.services.clustering
    timeline = load_timeline(table.storage)
    for plan in timeline.pending(Action.CLUSTERING) if options.inline else ():
        execute_clustering(table, engine, plan.requested_at)  # somebody left it; new ones avoid it
    if not is_clustering_due(timeline, options, _last_clustering(table, timeline)):
        return
    if (at := schedule_clustering(table)) is not None and options.inline:
        execute_clustering(table, engine, at)


def _last_clustering(table: OpenTable, timeline: Timeline) -> RequestedAt | None:
    """The newest replacement that was planned as a clustering."""
    for done in reversed(timeline.completed(Action.REPLACECOMMIT)):
        plan = Instant(done.requested_at, Action.CLUSTERING, State.REQUESTED)
        if table.storage.info(layout.timeline_file(plan.file_name)) is not None:
            return done.requested_at
    return None


def _clean(table: OpenTable) -> None:
    if is_clean_due(load_timeline(table.storage), table.services.clean):
        run_clean(table)


def _archive(table: OpenTable) -> None:
    if is_archive_due(load_timeline(table.storage), table.services.archive):
        archive_timeline(table)
