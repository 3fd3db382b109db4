"""The services that work by plans, by name: what schedules each, what executes it, what it may be
told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lentic.engine import Engine
from lentic.errors import ConfigError, shell_command
from lentic.format import layout
from lentic.format.names import Action, State
from lentic.format.times import RequestedAt
from lentic.services.clean import execute_clean, schedule_clean
from lentic.services.clustering import execute_clustering, schedule_clustering
from lentic.services.compaction import execute_compaction, schedule_compaction
from lentic.services.log_compaction import execute_log_compaction, schedule_log_compaction
from lentic.services.outcome import Aborted, Outcome
from lentic.services.schedule import OnLook
from lentic.timeline.aborted_history import load_aborted
from lentic.timeline.instant import Instant
from lentic.timeline.reader import load_timeline
from lentic.txn.transaction import OpenTable


@dataclass(frozen=True, slots=True)
class Service:
    """One service. `params` are what `schedule` takes besides the table."""

    action: Action
    schedule: Callable[..., RequestedAt | None]
    execute: Callable[[OpenTable, Engine, RequestedAt], Outcome]
    params: tuple[str, ...] = ()


def _execute_clean(table: OpenTable, engine: Engine, at: RequestedAt) -> Outcome:
    return execute_clean(table, at, engine)


SERVICES: Mapping[str, Service] = {
    "compaction": Service(Action.COMPACTION, schedule_compaction, execute_compaction),
    "log_compaction": Service(
        Action.LOGCOMPACTION, schedule_log_compaction, execute_log_compaction, ("removable",)
    ),
    "clustering": Service(
        Action.CLUSTERING,
        schedule_clustering,
        execute_clustering,
        (
            "sort_by",
            "curve",
            "partitions",
            "removable",
            "cancellable",
            "cancel_after_hours",
            "cancel_after_instants",
        ),
    ),
    "clean": Service(Action.CLEAN, schedule_clean, _execute_clean),
}


def find_service(name: str, given: Mapping[str, Any]) -> Service:
    """The service called `name`; `ConfigError` if there is none, or it cannot be told this."""
    service = SERVICES.get(name)
    if service is None:
        raise ConfigError(
            f"There is no service {name!r}.",
            safe="nothing was written",
            next_step=f"one of {', '.join(SERVICES)}",
        )
    if unknown := sorted(set(given) - set(service.params)):
        raise ConfigError(
            f"{name} cannot be told {unknown[0]}.",
            safe="nothing was written",
            next_step=f"it takes {', '.join(service.params) or 'nothing'}",
        )
    return service


def schedule(
    table: OpenTable, name: str, given: Mapping[str, Any], *, on_look: OnLook | None = None
) -> RequestedAt | None:
    """Publish a plan of the service; its time, or None if there is nothing to do. `on_look` is told
    where the planner looked, if it did."""
    return find_service(name, given).schedule(table, on_look=on_look, **given)


def execute(table: OpenTable, engine: Engine, at: RequestedAt) -> Outcome:
    """Carry out the plan at `at`, of whatever service it is."""
    for service in SERVICES.values():
        plan = Instant(at, service.action, State.REQUESTED)
        if table.storage.info(layout.timeline_file(plan.file_name)) is not None:
            return service.execute(table, engine, at)
    if aborted := _find_aborted(table, at):
        return Aborted(aborted)
    raise ConfigError(
        f"There is no plan at {at}.",
        where=table.storage.root,
        safe="nothing was written",
        next_step=shell_command("plans", table.storage.root),
    )


def _find_aborted(table: OpenTable, at: RequestedAt) -> Instant | None:
    """The plan, if it was cancelled and has ended: whoever executes it is told so, late or not."""
    known = (*load_timeline(table.storage).aborted(), *load_aborted(table.storage))
    return next((plan for plan in known if plan.requested_at == at), None)
