"""`lentic`: the operator's view. Why something is as it is, what ails a table, and carrying out or
ending one plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import typer

from lentic.api import open as open_table
from lentic.cli.facts import cancelled_facts, outcome_facts
from lentic.cli.render import display
from lentic.cli.render_insight import render_answer, render_health, say_cancelled
from lentic.cli.services import explain
from lentic.errors import ConfigError
from lentic.table import Table

Path = Annotated[str, typer.Argument(help="Path or URL of the table.", show_default=False)]
At = Annotated[str, typer.Argument(help="An instant's requested time.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
Why = Annotated[
    str, typer.Option(help="Why the plan has to go, for whoever asks later.", show_default=False)
]
Options = Annotated[
    list[str],
    typer.Option("--option", "-o", help="KEY=VALUE: an option that the answer depends on."),
]


def add_operator_commands(app: typer.Typer) -> None:
    """Put the commands of this module on `app`."""
    for name, command in _COMMANDS.items():
        app.command(name)(command)


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
    option: Options = [],  # noqa: B006  typer copies it
    as_json: Json = False,
) -> None:
    """Why an instant, a file or a record is as it is, and what to do about it."""
    answer = _open(path, option).why(what, kind=kind or None, partition=partition)
    if as_json:
        _print_json(answer.to_json())
    else:
        display(render_answer(answer))


def doctor(
    path: Path,
    everything: Annotated[
        bool, typer.Option("--all", help="Every partition, however long that takes.")
    ] = False,
    option: Options = [],  # noqa: B006  typer copies it
    as_json: Json = False,
) -> None:
    """What ails a table, and what mends it; exit code 1 if anything does."""
    health = _open(path, option).doctor(everything=everything)
    if as_json:
        _print_json(health.to_json())
    else:
        display(render_health(health))
    if not health.is_healthy:
        raise typer.Exit(1)


def execute(path: Path, at: At, as_json: Json = False) -> None:
    """Carry out one plan that is pending, alone."""
    outcome = open_table(path).execute(at)
    if as_json:
        _print_json(outcome_facts(outcome))
    else:
        typer.echo(f"{outcome.instant}: {type(outcome).__name__}")


def cancel(
    path: Path, at: At, why: Why = "", dry_run: DryRun = False, as_json: Json = False
) -> None:
    """Promise that a clustering plan will not be committed; nobody is waited for."""
    table = open_table(path)
    if dry_run:
        return explain(table.explain("cancel", requested_at=at), as_json)
    table.request_cancel(at, **({"why": why} if why else {}))
    told = cancelled_facts(table, at)
    _print_json(told) if as_json else typer.echo(say_cancelled(told))


def abort(
    path: Path, at: At, why: Why = "", dry_run: DryRun = False, as_json: Json = False
) -> None:
    """End a cancelled plan and delete what it wrote; with --why it is cancelled first."""
    table = open_table(path)
    if why and not dry_run:
        table.request_cancel(at, why=why)
    if dry_run:
        return explain(table.explain("abort", requested_at=at), as_json)
    outcome = table.execute_abort(at)
    if as_json:
        _print_json(outcome_facts(outcome))
    else:
        typer.echo(
            f"{outcome.instant} is aborted: it was never committed, and nothing of it is left."
        )


def _open(path: str, given: list[str]) -> Table:
    pairs = [text.partition("=") for text in given]
    for key, sign, _ in pairs:
        if not (key and sign):
            raise ConfigError(
                f"{key!r} is no option with a value.",
                safe="nothing was read",
                next_step="write it like --option hoodie.clean.commits.retained=5",
            )
    return open_table(path, options={key: value for key, _, value in pairs})


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2))


_COMMANDS: dict[str, Callable[..., None]] = {
    "why": why,
    "doctor": doctor,
    "execute": execute,
    "cancel": cancel,
    "abort": abort,
}
