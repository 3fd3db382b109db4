"""`lentic`: the commands that look after a table. Each says what it did, or with `--dry-run` what
it would do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from lentic.cli.facts import clean_run_facts, outcome_facts, plan_facts
from lentic.cli.given import (
    At,
    DryRun,
    Json,
    Options,
    Path,
    answering,
    carry_plan,
    ensure_number,
    open_given,
    print_json,
)
from lentic.cli.render import display, render_explanation, render_plans, say_clean_run
from lentic.errors import ConfigError
from lentic.services.explain import Explanation
from lentic.services.next_steps import show_timeline

_HOURS_MAX = 100 * 366 * 24


def add_commands(app: typer.Typer) -> None:
    """Put the commands of this module on `app`."""
    for name, command in _COMMANDS.items():
        app.command(name)(answering(command))


def plans(path: Path, option: Options = None, as_json: Json = False) -> None:
    """Pending plans: whose they are, how old, what stands in the way, what to do next."""
    found = [carry_plan(plan, option) for plan in open_given(path, option).plans()]
    if as_json:
        print_json([plan_facts(plan) for plan in found])
    else:
        display(render_plans(found))


def compact(
    path: Path, dry_run: DryRun = False, option: Options = None, as_json: Json = False
) -> None:
    """Fold logs into base files."""
    table = open_given(path, option)
    if dry_run:
        return explain(table.explain("compaction"), as_json)
    _tell(table.compact(), as_json)


def log_compact(
    path: Path, dry_run: DryRun = False, option: Options = None, as_json: Json = False
) -> None:
    """Fold many logs into one, which is cheaper than a compaction."""
    table = open_given(path, option)
    if dry_run:
        return explain(table.explain("log_compaction"), as_json)
    _tell(table.log_compact(), as_json)


def cluster(
    path: Path,
    sort_by: Annotated[str, typer.Option(help="Comma-separated columns to sort rows by.")] = "",
    curve: Annotated[str, typer.Option(help="linear, zorder or hilbert.")] = "",
    cancellable: Annotated[
        bool | None, typer.Option(help="Whether the plan gives way to writes.", show_default=False)
    ] = None,
    cancel_after_hours: Annotated[
        float | None, typer.Option(help="A clean may cancel it then.", show_default=False)
    ] = None,
    cancel_after_instants: Annotated[
        int | None, typer.Option(help="The same, in completed writes.", show_default=False)
    ] = None,
    dry_run: DryRun = False,
    option: Options = None,
    as_json: Json = False,
) -> None:
    """Rewrite small files as large ones, rows sorted."""
    given: dict[str, Any] = {
        "cancellable": cancellable,
        "cancel_after_hours": cancel_after_hours,
        "cancel_after_instants": cancel_after_instants,
    }
    if cancel_after_hours is not None:
        ensure_number("--cancel-after-hours", cancel_after_hours, most=_HOURS_MAX)
    if sort_by:
        given["sort_by"] = [name.strip() for name in sort_by.split(",")]
    if curve:
        given["curve"] = curve
    table = open_given(path, option)
    if dry_run:
        return explain(table.explain("clustering", **given), as_json)
    _tell(table.cluster(**given), as_json)


def clean(
    path: Path, dry_run: DryRun = False, option: Options = None, as_json: Json = False
) -> None:
    """Roll back what failed, and delete files that no retained commit needs."""
    table = open_given(path, option)
    if dry_run:
        return explain(table.explain("clean", wait=True), as_json)
    run = table.run_clean(wait=True)
    if as_json:
        return print_json(clean_run_facts(run))
    for line in say_clean_run(run) or ["There is nothing to do."]:
        typer.echo(line)


def archive(
    path: Path, dry_run: DryRun = False, option: Options = None, as_json: Json = False
) -> None:
    """Move old instants from the active timeline to the history."""
    table = open_given(path, option)
    if dry_run:
        return explain(table.explain("archive"), as_json)
    moved = table.archive()
    if as_json:
        print_json([str(instant.requested_at) for instant in moved])
    else:
        typer.echo(f"{len(moved)} instant(s) archived.")


def rollback(
    path: Path, at: At, dry_run: DryRun = False, option: Options = None, as_json: Json = False
) -> None:
    """Undo one instant: a write or plan that is pending, or the newest commit."""
    table = open_given(path, option)
    if dry_run:
        return explain(table.explain("rollback", requested_at=at), as_json)
    _tell_instant(table.rollback(at), as_json)


def savepoint(
    path: Path,
    at: Annotated[str, typer.Option(help="The commit to keep; the newest by default.")] = "",
    remove: Annotated[bool, typer.Option("--remove", help="Let go of it instead.")] = False,
    dry_run: DryRun = False,
    option: Options = None,
    as_json: Json = False,
) -> None:
    """Keep the table as of one commit from being cleaned or archived."""
    table = open_given(path, option)
    if remove and not at:
        raise ConfigError(
            "To remove a savepoint it has to be told of which commit it is.",
            safe="nothing was changed",
            next_step=f"add --at with its requested time: {show_timeline(table.path)}",
        )
    if dry_run and remove:
        return explain(table.explain("remove_savepoint", requested_at=at), as_json)
    if dry_run:
        return explain(table.explain("savepoint", requested_at=at or None), as_json)
    if remove:
        table.remove_savepoint(at)
        return print_json(at) if as_json else typer.echo(f"savepoint {at} removed.")
    _tell_instant(table.savepoint(at or None), as_json)


def restore(
    path: Path, at: At, dry_run: DryRun = False, option: Options = None, as_json: Json = False
) -> None:
    """Bring the table back to what it was right after a commit."""
    table = open_given(path, option)
    if dry_run:
        return explain(table.explain("restore", requested_at=at), as_json)
    _tell_instant(table.restore(at), as_json)


def explain(explanation: Explanation, as_json: bool) -> None:
    if as_json:
        print_json(explanation.to_json())
    else:
        display(render_explanation(explanation))


def _tell(outcome: Any, as_json: bool) -> None:
    if as_json:
        print_json(outcome_facts(outcome))
    elif outcome is None:
        typer.echo("There is nothing to do.")
    else:
        typer.echo(f"{outcome.instant}: {type(outcome).__name__}")


def _tell_instant(instant: Any, as_json: bool) -> None:
    if as_json:
        print_json({"action": instant.action.value, "requested_at": str(instant.requested_at)})
    else:
        typer.echo(f"{instant} is {instant.state.value}.")


_COMMANDS: dict[str, Callable[..., None]] = {
    "plans": plans,
    "compact": compact,
    "log-compact": log_compact,
    "cluster": cluster,
    "clean": clean,
    "archive": archive,
    "rollback": rollback,
    "savepoint": savepoint,
    "restore": restore,
}
