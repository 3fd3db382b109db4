"""`lentic`: the commands. Each opens a table, asks it one thing, and renders the answer."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from rich.console import Console

from lentic.api import open as open_table
from lentic.cli.demo import run_demo
from lentic.cli.facts import instant_facts, table_facts, take
from lentic.cli.operators import add_operator_commands
from lentic.cli.render import (
    display,
    format_csv,
    json_value,
    render_rows,
    render_table_facts,
    render_timeline,
)
from lentic.cli.serve import serve
from lentic.cli.services import add_commands
from lentic.errors import LenticError

app = typer.Typer(
    help="Tables in the Apache Hudi 1.x format, from Python.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Path = Annotated[str, typer.Argument(help="Path or URL of the table.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text tables.")]


@app.command()
def show(path: Path, as_json: Json = False) -> None:
    """Facts about a table: type, key, columns, partitions and their files."""
    facts = table_facts(open_table(path))
    if as_json:
        typer.echo(json.dumps(facts.to_json(), indent=2))
    else:
        display(render_table_facts(facts))


@app.command()
def timeline(
    path: Path,
    everything: Annotated[bool, typer.Option("--all", help="The archived part too.")] = False,
    as_json: Json = False,
) -> None:
    """Every instant of the active timeline, oldest first."""
    table = open_table(path)
    instants = [*(table.history() if everything else []), *table.timeline()]
    if as_json:
        typer.echo(json.dumps([instant_facts(instant) for instant in instants], indent=2))
    else:
        display(render_timeline(instants))


@app.command()
def read(
    path: Path,
    as_of: Annotated[str, typer.Option(help="An instant, an ISO date-time or a date.")] = "",
    where: Annotated[str, typer.Option(help='A condition, such as "amount > 10".')] = "",
    columns: Annotated[str, typer.Option(help="Comma-separated columns; all by default.")] = "",
    limit: Annotated[int, typer.Option(min=0, help="How many rows; 0 is all of them.")] = 20,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """The rows of a table, now or as of a moment."""
    stream = open_table(path).stream(
        as_of=as_of or None,
        columns=[name.strip() for name in columns.split(",")] if columns else None,
        filter=where or None,
    )
    shown = take(stream, limit)
    if as_json:
        typer.echo(json.dumps(shown.to_pylist(), indent=2, default=json_value))
    elif as_csv:
        typer.echo(format_csv(shown), nl=False)
    else:
        display(render_rows(shown))


@app.command()
def verify(path: Path, as_json: Json = False) -> None:
    """Check every invariant of a table; exit code 1 if one does not hold."""
    findings = open_table(path).verify()
    if as_json:
        typer.echo(json.dumps(findings, indent=2))
    else:
        for line in findings or [f"{path} is sound."]:
            typer.echo(line)
    if findings:
        raise typer.Exit(1)


@app.command()
def demo(
    path: Annotated[
        str,
        typer.Option(help="Where to make the demo table; by default a new folder in lentic-demo/."),
    ] = "",
    as_json: Json = False,
) -> None:
    """Write, compact and read a small table on Spark in local mode."""
    run_demo(path, as_json=as_json)


add_commands(app)
app.command()(serve)
add_operator_commands(app)


def main() -> None:
    """Entry point: our errors become one message and exit code 1."""
    try:
        app()
    except LenticError as error:
        told = f"{type(error).__name__}: {error}"
        Console(stderr=True).print(told, style="red", markup=False, soft_wrap=True)
        sys.exit(1)
