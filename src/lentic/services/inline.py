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
from lentic.format.names import Action
from lentic.services.archive import archive_timeline
from lentic.services.clean import run_clean
from lentic.services.clustering import execute_clustering, schedule_clustering
from lentic.services.compaction import execute_compaction, schedule_compaction
from lentic.services.due import Situation, is_due
from lentic.services.log_compaction import execute_log_compaction, schedule_log_compaction
from lentic.services.situation import load_situation
from lentic.timeline.reader import load_timeline
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
    options = table.services
    if options.log_compact_inline:
        yield "log compaction", lambda: _log_compact(table, engine)
    if options.compaction.inline or options.compaction.schedule_inline:
        yield "compaction", lambda: _compact(table, engine)
    if options.clustering.inline or options.clustering.schedule_inline:
        yield "clustering", lambda: _cluster(table, engine)
    if options.clean.automatic:
        yield "clean", lambda: _clean(table)
    if options.archive.automatic:
        yield "archive", lambda: _archive(table)


def _situation(table: OpenTable, *, clusters: bool = False) -> Situation:
    return load_situation(table, load_timeline(table.storage), clusters=clusters)


def _log_compact(table: OpenTable, engine: Engine) -> None:
    if not is_due("log_compaction", _situation(table)):
        return
    if (at := schedule_log_compaction(table)) is not None:
        execute_log_compaction(table, engine, at)


def _compact(table: OpenTable, engine: Engine) -> None:
    if not is_due("compaction", _situation(table)):
        return
    if (at := schedule_compaction(table)) is not None and table.services.compaction.inline:
        execute_compaction(table, engine, at)


def _cluster(table: OpenTable, engine: Engine) -> None:
    now, executes = _situation(table, clusters=True), table.services.clustering.inline
    for plan in now.timeline.pending(Action.CLUSTERING) if executes else ():
        execute_clustering(table, engine, plan.requested_at)  # somebody left it; new ones avoid it
    if not is_due("clustering", now):
        return
    if (at := schedule_clustering(table)) is not None and executes:
        execute_clustering(table, engine, at)


def _clean(table: OpenTable) -> None:
    if is_due("clean", _situation(table)):
        run_clean(table)


def _archive(table: OpenTable) -> None:
    if is_due("archive", _situation(table)):
        archive_timeline(table)
