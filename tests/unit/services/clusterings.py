"""Clustering as tests call it, and what they look at."""

from __future__ import annotations

from typing import Any

from lentic.engine import LocalEngine
from lentic.format.clustering_plan import ClusteringPlan
from lentic.format.names import Action
from lentic.format.times import RequestedAt
from lentic.services.clustering import execute_clustering, schedule_clustering
from lentic.services.outcome import Outcome
from lentic.storage.base import Storage
from lentic.table import Table
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_clustering_plan, load_timeline
from lentic.txn.transaction import OpenTable

ENGINE = LocalEngine(threads=1)


def opened(table: Table | OpenTable) -> OpenTable:
    return table if isinstance(table, OpenTable) else table._opened


def schedule(table: Table | OpenTable, **asked: Any) -> RequestedAt:
    at = schedule_clustering(opened(table), **asked)
    assert at is not None, "there should be something to cluster"
    return at


def execute(table: Table | OpenTable, at: RequestedAt) -> Outcome:
    return execute_clustering(opened(table), ENGINE, at)


def cluster(table: Table | OpenTable, **asked: Any) -> Instant:
    """Plan and execute; the completed instant."""
    return execute(table, schedule(table, **asked)).instant


def plan_at(table: Table | OpenTable, at: RequestedAt) -> ClusteringPlan:
    storage = opened(table).storage
    instant = next(i for i in load_timeline(storage).instants if i.requested_at == at)
    return load_clustering_plan(storage, instant)


def pending(table: Table | OpenTable) -> tuple[Instant, ...]:
    return load_timeline(opened(table).storage).pending(Action.CLUSTERING)


def storage_of(table: Table | OpenTable) -> Storage:
    return opened(table).storage
