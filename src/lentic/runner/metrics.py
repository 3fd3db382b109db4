"""What the runner counts and measures: the families, and the numbers as they stand.

The numbers of one table lie together, so that a look at a table costs what that table has, and a
table that is gone takes its numbers along.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from threading import Lock

from lentic.format.names import Action
from lentic.format.plan_window import PlanWindow
from lentic.format.times import RequestedAt
from lentic.runner.decide import Facts
from lentic.runner.events import Event, Result
from lentic.runner.exposition import Family, Labels, Sample, format_metrics

ACTIONS = Family("lentic_actions_total", "counter", "Actions by how they ended.")
BACKOFF = Family("lentic_backoff_seconds", "gauge", "How long an action that failed still rests.")
CANCELS = Family("lentic_plan_cancels_total", "counter", "Plans seen cancelled or aborted.")
CONSIDERED = Family(
    "lentic_partitions_considered", "gauge", "Partitions that the last plan of a service looked at."
)
CYCLE_S = Family("lentic_cycle_seconds", "gauge", "How long the last cycle took.")
CYCLES = Family("lentic_cycles_total", "counter", "Cycles over all tables.")
DEFERRED = Family("lentic_deferred_total", "counter", "Actions that waited for a later budget.")
HEARTBEAT_AGE = Family(
    "lentic_heartbeat_age_seconds",
    "gauge",
    "For how long this process has seen the heartbeat of a pending instant unchanged.",
)
PARTITIONS = Family(
    "lentic_partitions_total", "gauge", "Partitions of the table at the last full look."
)
PLAN_AGE = Family("lentic_plan_age_seconds", "gauge", "Age of a pending plan.")
STRAYS = Family("lentic_strays_swept_total", "counter", "Data files swept that no commit names.")
TABLE_UP = Family("lentic_table_up", "gauge", "Whether the last look at the table succeeded.")
TABLES = Family("lentic_tables", "gauge", "Tables that this process looks after.")

_REWRITES = ("compaction", "log_compaction", "clustering")
_PENDING: Mapping[Action, str] = {
    Action.COMPACTION: "compaction",
    Action.LOGCOMPACTION: "logcompaction",
    Action.CLUSTERING: "clustering",
    Action.CLEAN: "clean",
    Action.ROLLBACK: "rollback",
}
"""The actions whose pending instants Hudi counts, and what it calls them."""


class Metrics:
    """The numbers as they stand. Safe to use from several threads."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[tuple[Family, Labels], float]] = {}
        self._lock = Lock()

    def add(self, family: Family, amount: float = 1, *, table: str = "", **labels: str) -> None:
        """Count up."""
        key = (family, _labels(labels))
        with self._lock:
            known = self._tables.setdefault(table, {})
            known[key] = known.get(key, 0) + amount

    def set(self, family: Family, value: float, *, table: str = "", **labels: str) -> None:
        """What is so now."""
        with self._lock:
            self._tables.setdefault(table, {})[(family, _labels(labels))] = value

    def replace(self, family: Family, values: Mapping[Labels, float], *, table: str) -> None:
        """What is so now of a family on one table; its other samples there are gone."""
        with self._lock:
            known = self._tables.setdefault(table, {})
            for key in [key for key in known if key[0] == family]:
                del known[key]
            known |= {(family, labels): value for labels, value in values.items()}

    def forget(self, table: str) -> None:
        """The table is not looked after any more."""
        with self._lock:
            self._tables.pop(table, None)

    def text(self) -> str:
        """All of it, for Prometheus."""
        with self._lock:
            samples = [
                Sample(family, (("table", table), *labels) if table else labels, value)
                for table, known in self._tables.items()
                for (family, labels), value in known.items()
            ]
        return format_metrics(samples)


def _labels(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


def record_event(metrics: Metrics, event: Event) -> None:
    """What one action adds to the numbers."""
    table, work = event.table, event.work
    metrics.add(ACTIONS, table=table, action=event.action, outcome=event.result.value)
    if work.strays:
        metrics.add(STRAYS, work.strays, table=table)
    if event.result is not Result.DONE:
        return
    told: dict[str, float] = {"duration_ms": round(event.seconds * 1000)}
    if event.action in _REWRITES:
        told |= {
            "total_records_written": work.rows,
            "total_bytes_written": work.bytes,
            "total_files_insert": work.first_files,
            "total_files_update": work.files - work.first_files,
            "total_partitions_written": work.partitions,
        }
    elif event.action == "clean":
        told["num_files_deleted"] = work.deleted
    elif event.action == "archive":
        told["num_instants_archived"] = work.instants
    for name, value in told.items():
        metrics.set(_hudis(event.action.replace("_", ""), name), value, table=table)


def record_look(metrics: Metrics, table: str, action: str, looked: PlanWindow) -> None:
    """What a planner looked at. How many partitions there are it knows only from a full look."""
    metrics.set(CONSIDERED, looked.considered, table=table, action=action)
    if looked.total is not None:
        metrics.set(PARTITIONS, looked.total, table=table, action=action)


def record_facts(metrics: Metrics, table: str, facts: Facts) -> None:
    """What one look at a table says."""
    plans, ages, beats = facts.pending, {}, {}
    for seen in plans:
        labels = _labels(
            {"action": str(seen.instant.action), "instant": str(seen.instant.requested_at)}
        )
        if seen.instant.action in _PENDING:
            ages[labels] = seen.age_s
        if seen.has_heartbeat:
            beats[labels] = seen.silent_s
    metrics.replace(PLAN_AGE, ages, table=table)
    metrics.replace(HEARTBEAT_AGE, beats, table=table)
    metrics.set(TABLE_UP, 1, table=table)
    for action, name in _PENDING.items():
        pending = [seen.instant.requested_at for seen in plans if seen.instant.action is action]
        count = _hudis("pending", f"{name}_instant_count")
        metrics.set(count, len(pending), table=table)
        first: dict[Labels, float] = {(): int(min(pending))} if pending else {}
        metrics.replace(_hudis("earliest_inflight", f"{name}_instant"), first, table=table)
    for name, done in _latest(facts).items():
        metrics.set(_hudis("latest_completed", f"{name}_instant"), int(done), table=table)


def _latest(facts: Facts) -> dict[str, RequestedAt]:
    """The newest completed instant of each kind that Hudi tells of."""
    timeline, found = facts.now.timeline, {}
    kinds = {"clean": Action.CLEAN, "rollback": Action.ROLLBACK}
    if facts.now.is_merge_on_read:
        kinds["compaction"] = Action.COMMIT
    for name, action in kinds.items():
        if done := timeline.completed(action):
            found[name] = done[-1].requested_at
    if facts.now.last_clustering:
        found["clustering"] = facts.now.last_clustering
    return found


@cache
def _hudis(first: str, name: str) -> Family:
    """A number that Apache Hudi has, too: of the last run, or of the timeline as it stands."""
    return Family(f"hoodie_{first}_{name}", "gauge", "As Apache Hudi's metric of that name.")
