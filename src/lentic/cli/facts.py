"""What the inspection commands show, as plain values; the renderings only lay it out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from lentic.insight.answers import Answer
from lentic.services.clean import CleanRun
from lentic.services.outcome import Outcome
from lentic.services.pending import PendingPlan
from lentic.table import Table
from lentic.timeline.instant import Instant
from lentic.view.files import FileSlice

SMALL_FILE = 100 * 1024 * 1024
"""Base files below this size count as small (`hoodie.parquet.small.file.limit`)."""


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One partition's files as readers see them."""

    partition: str
    file_groups: int
    base_bytes: int
    log_files: int
    log_bytes: int
    small_files: int


@dataclass(frozen=True, slots=True)
class TableFacts:
    """One table."""

    path: str
    name: str
    table_type: str
    version: int
    key: list[str]
    partition_by: list[str]
    ordering: list[str]
    merge_mode: str
    buckets: int | None
    columns: dict[str, str]
    completed: int
    pending: int
    partitions: list[PartitionFacts]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def table_facts(table: Table) -> TableFacts:
    """Everything `lentic show` says about a table."""
    config = table.config
    instants = table.timeline()
    return TableFacts(
        path=table.path,
        name=config.name,
        table_type=config.table_type.value,
        version=config.version,
        key=list(config.key_fields),
        partition_by=list(config.partition_fields),
        ordering=list(config.ordering_fields),
        merge_mode=config.merge_mode.value,
        buckets=config.buckets,
        columns={field.name: str(field.type) for field in table.schema},
        completed=sum(instant.is_completed for instant in instants),
        pending=sum(instant.is_pending for instant in instants),
        partitions=partition_facts(table.file_slices()),
    )


def partition_facts(slices: Iterable[FileSlice]) -> list[PartitionFacts]:
    """Slices summed up by partition."""
    by_partition: dict[str, list[FileSlice]] = {}
    for part in slices:
        by_partition.setdefault(part.group.partition, []).append(part)
    return [
        PartitionFacts(
            partition=partition,
            file_groups=len(parts),
            base_bytes=sum(part.base.size for part in parts if part.base),
            log_files=sum(len(part.logs) for part in parts),
            log_bytes=sum(log.size for part in parts for log in part.logs),
            small_files=sum(bool(part.base and part.base.size < SMALL_FILE) for part in parts),
        )
        for partition, parts in sorted(by_partition.items())
    ]


def take(stream: pa.RecordBatchReader, limit: int) -> pa.Table:
    """The first `limit` rows of a stream, or all if it is 0; no more is read than that needs."""
    taken: list[pa.RecordBatch] = []
    left = limit
    for batch in stream:
        taken.append(batch.slice(0, left) if limit else batch)
        left -= taken[-1].num_rows
        if limit and left <= 0:
            break
    return pa.Table.from_batches(taken, stream.schema)


def instant_facts(instant: Instant) -> dict[str, str | None]:
    """One instant as `lentic timeline --json` prints it."""
    return {
        "requested_at": instant.requested_at,
        "completed_at": instant.completed_at,
        "action": instant.action.value,
        "state": instant.state.value,
    }


def plan_facts(plan: PendingPlan) -> dict[str, Any]:
    """One pending plan as `lentic plans --json` prints it."""
    return asdict(plan) | {"action": plan.action.value, "state": plan.state.value}


def cancelled_facts(plan: PendingPlan | Answer) -> dict[str, Any]:
    """What `lentic cancel --json` prints: what was promised, by whom, and what to do next. A plan
    that is not pending any more has ended as aborted, and why it did is its answer."""
    if isinstance(plan, PendingPlan):
        said = plan.cancellation
        told: dict[str, Any] = {
            "requested_at": str(plan.requested_at),
            "state": "cancelled",
            "by": said.by,
            "why": said.why,
            "next_step": {"shell": plan.next_command, "python": plan.next_step},
            "executor": plan.owner if plan.is_alive else "",
        }
    else:
        told = {
            "requested_at": plan.question,
            "state": "aborted",
            "by": plan.fact("cancelled by"),
            "why": plan.fact("cancelled because"),
            "next_step": None,
            "executor": "",
        }
    return {"promise": "it will not be committed"} | told


def outcome_facts(outcome: Outcome | None) -> dict[str, str | None] | None:
    """How a plan ended, as the commands of services print it with --json."""
    if outcome is None:
        return None
    return {"outcome": type(outcome).__name__} | instant_facts(outcome.instant)


def clean_run_facts(run: CleanRun) -> dict[str, Any] | None:
    """What `lentic clean --json` prints: its last clean, as for every service, and all it did."""
    if run == CleanRun():
        return None
    last = outcome_facts(run.cleans[-1]) if run.cleans else None
    return (last or {"outcome": None}) | {
        "aborted": [instant_facts(plan) for plan in run.aborted],
        "undone": [instant_facts(instant) for instant in run.undone],
        "finished": [instant_facts(instant) for instant in run.finished],
        "cleans": [outcome_facts(outcome) for outcome in run.cleans],
        "orphans": list(run.orphans),
    }
