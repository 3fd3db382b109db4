"""What a clustering would do, drafted under the lock: where to look, what lies there, the plan."""

from __future__ import annotations

from dataclasses import replace

from lentic.config.clustering import PartitionFilter
from lentic.format.clustering_plan import ClusteringPlan
from lentic.format.commit_metadata import CLUSTER
from lentic.format.names import Action
from lentic.format.plan_window import Look, PlanWindow
from lentic.services.clustering_plan import (
    ClusteringQuestion,
    may_be_clustered,
    newest_partitions,
    order_partitions,
    plan_clustering,
    selection_options,
)
from lentic.services.plan_windows import Subject
from lentic.services.schedule import (
    Looked,
    OnLook,
    describe_look,
    load_looked_at,
    look,
    look_again_at_all,
    look_at_chosen,
    note_look,
    planned_groups,
    tell_look,
    window_extra,
)
from lentic.txn.transaction import Transaction
from lentic.view.listing import ensure_none_gone, load_partition_files

_PORTION = 64


def draft_clustering(
    txn: Transaction, asked: ClusteringQuestion, on_look: OnLook | None
) -> ClusteringPlan | None:
    """The plan to publish at `asked.at`; None if there is nothing to cluster."""
    options = txn.table.services.clustering
    looked = _look(txn, asked)
    if not looked.is_idle:
        busy = planned_groups(txn.table.storage, txn.timeline)
        asked = replace(asked, busy=busy, waiting=looked.waiting)
    if looked.partitions is None or options.filter is PartitionFilter.RECENT_DAYS:
        looked, window, plan = _plan_at_once(txn, looked, asked)
    else:
        looked, window, plan = _plan_in_portions(txn, looked, asked)
    tell_look(Action.CLUSTERING, window, on_look)
    if not plan.groups:
        note_look(txn, looked, Action.CLUSTERING, window)
        return None
    return replace(
        plan,
        extra={**plan.extra, **window_extra(window)},
        missing=window.carry,
        edge=None if window.kind is Look.CHOSEN else (asked.at, Action.CLUSTERING),
    )


_Planned = tuple[Looked, PlanWindow, ClusteringPlan]


def _plan_at_once(txn: Transaction, looked: Looked, asked: ClusteringQuestion) -> _Planned:
    """What is chosen depends on all that is found."""
    storage, options = txn.table.storage, txn.table.services.clustering
    files = load_looked_at(storage, txn.timeline, looked)
    groups = ensure_none_gone(files.groups())
    if looked.base and looked.partitions is not None:
        found = {group.id.partition for group in groups}
        if (looked.partitions & {*looked.base.recent}) - found:
            # An older partition takes its place among the newest, and nobody knows which.
            looked = look_again_at_all(looked, "one of the newest partitions is gone")
            return _plan_at_once(txn, looked, asked)
    asked = replace(asked, recent=looked.base.recent if looked.base else ())
    plan = plan_clustering(groups, options, asked)
    newest = newest_partitions((group.id.partition for group in groups), options, asked)
    return looked, describe_look(looked, files, carry=plan.missing, recent=newest), plan


def _plan_in_portions(txn: Transaction, looked: Looked, asked: ClusteringQuestion) -> _Planned:
    """A plan takes on so many groups and no more, so that where much was left undone only the first
    of it are looked at."""
    storage, options = txn.table.storage, txn.table.services.clustering
    ahead, later = order_partitions(looked.partitions or (), options, asked)
    plan, at, size = ClusteringPlan(()), 0, max(_PORTION, options.groups)
    # Of those whose turn comes later, earlier plans left only what is worth coming back to.
    new = frozenset(later) - {*asked.waiting}
    missing = {*later} - new | {*_find_waiting(txn, new, asked)}
    while not plan.groups and at < len(ahead):
        portion = ahead[at : at + size]
        files = load_partition_files(storage, txn.timeline, portion)
        groups = ensure_none_gone(files.groups())
        plan = plan_clustering(groups, options, replace(asked, partitions=portion))
        missing |= {*plan.missing}
        at += size
    missing |= {*ahead[at:]}
    looked = replace(looked, partitions=new.union(ahead[:at]))
    return looked, describe_look(looked, carry=missing), plan


def _find_waiting(
    txn: Transaction, names: frozenset[str], asked: ClusteringQuestion
) -> tuple[str, ...]:
    """Of partitions that the filter does not let pass yet, those in which there is something to
    do."""
    if not names:
        return ()
    files = load_partition_files(txn.table.storage, txn.timeline, names)
    groups = ensure_none_gone(files.groups())
    return plan_clustering(groups, txn.table.services.clustering, asked).missing


def _look(txn: Transaction, asked: ClusteringQuestion) -> Looked:
    storage, services = txn.table.storage, txn.table.services
    told = selection_options(services.clustering, asked)
    by_change = services.incremental or asked.partitions is not None
    subject = Subject(Action.CLUSTERING, CLUSTER, told, by_change)
    looked = look(storage, txn.timeline, asked.at, subject)
    looked = looked.without(lambda name: not may_be_clustered(name, services.clustering))
    return looked if asked.partitions is None else look_at_chosen(looked, asked.partitions)
