"""`lentic`: the operator's view. Why something is as it is, what ails a table, and carrying out or
ending one plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated

import typer

from lentic.cli.facts import cancelled_facts, outcome_facts
from lentic.cli.given import (
    At,
    DryRun,
    Json,
    Options,
    Path,
    answering,
    carry_plan,
    carry_step,
    open_given,
    print_json,
)
from lentic.cli.render import display
from lentic.cli.render_insight import render_answer, render_health, say_cancelled
from lentic.cli.services import explain
from lentic.insight.answers import Finding

Why = Annotated[
    str, typer.Option(help="Why the plan has to go, for whoever asks later.", show_default=False)
]


def add_operator_commands(app: typer.Typer) -> None:
    """Put the commands of this module on `app`."""
    for name, command in _COMMANDS.items():
        app.command(name)(answering(command))


def why(
    path: Path,
    what: Annotated[
        str,
        typer.Argument(help="An instant, a data file or a record key.", show_default=False),
    ],
    kind: Annotated[str, typer.Option(help="instant, file or key; else told by its form.")] = "",
    partition: Annotated[
        str | None, typer.Option(help="Of a key: the partition to search.", show_default=False)
    ] = None,
    option: Options = None,
    as_json: Json = False,
) -> None:
    """Why an instant, a file or a record is as it is, and what to do about it."""
    found = open_given(path, option).why(what, kind=kind or None, partition=partition)
    steps = tuple(carry_step(step, option) for step in found.next_steps)
    answer = replace(found, next_steps=steps)
    if as_json:
        print_json(answer.to_json())
    else:
        display(render_answer(answer))


def doctor(
    path: Path,
    everything: Annotated[
        bool, typer.Option("--all", help="Every partition, however long that takes.")
    ] = False,
    option: Options = None,
    as_json: Json = False,
) -> None:
    """What ails a table, and what mends it; exit code 1 if anything does."""
    found = open_given(path, option).doctor(everything=everything)
    health = replace(found, findings=tuple(_carry_finding(f, option) for f in found.findings))
    if as_json:
        print_json(health.to_json())
    else:
        display(render_health(health))
    if not health.is_healthy:
        raise typer.Exit(1)


def _carry_finding(finding: Finding, option: Options) -> Finding:
    remedy = finding.remedy
    return replace(finding, remedy=carry_step(remedy, option)) if remedy else finding


def execute(path: Path, at: At, option: Options = None, as_json: Json = False) -> None:
    """Carry out one plan that is pending, alone."""
    outcome = open_given(path, option).execute(at)
    if as_json:
        print_json(outcome_facts(outcome))
    else:
        typer.echo(f"{outcome.instant}: {type(outcome).__name__}")


def cancel(
    path: Path,
    at: At,
    why: Why = "",
    dry_run: DryRun = False,
    option: Options = None,
    as_json: Json = False,
) -> None:
    """Promise that a clustering plan will not be committed; nobody is waited for."""
    table = open_given(path, option)
    if dry_run:
        return explain(table.explain("cancel", requested_at=at), as_json)
    table.request_cancel(at, **({"why": why} if why else {}))
    found = next((plan for plan in table.plans() if plan.requested_at == at), None)
    told = cancelled_facts(carry_plan(found, option) if found else table.why(at, kind="instant"))
    print_json(told) if as_json else typer.echo(say_cancelled(told))


def abort(
    path: Path,
    at: At,
    why: Why = "",
    dry_run: DryRun = False,
    option: Options = None,
    as_json: Json = False,
) -> None:
    """End a cancelled plan and delete what it wrote; with --why it is cancelled first."""
    table = open_given(path, option)
    if dry_run:
        return explain(table.explain("abort", requested_at=at, why=why), as_json)
    if why:
        table.request_cancel(at, why=why)
    outcome = table.execute_abort(at)
    if as_json:
        print_json(outcome_facts(outcome))
    else:
        typer.echo(
            f"{outcome.instant} is aborted: it was never committed, and nothing of it is left."
        )


_COMMANDS: dict[str, Callable[..., None]] = {
    "why": why,
    "doctor": doctor,
    "execute": execute,
    "cancel": cancel,
    "abort": abort,
}
