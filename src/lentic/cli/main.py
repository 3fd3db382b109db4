"""`lentic`: the commands. Each opens a table, asks it one thing, and renders the answer."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from rich.console import Console

from lentic.api import open as open_table
from lentic.cli.demo import run_demo
from lentic.cli.facts import instant_facts, table_facts
from lentic.cli.render import console, render_table_facts, render_timeline
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
        console().print(render_table_facts(facts))


@app.command()
def timeline(path: Path, as_json: Json = False) -> None:
    """Every instant of the active timeline, oldest first."""
    instants = open_table(path).timeline()
    if as_json:
        typer.echo(json.dumps([instant_facts(instant) for instant in instants], indent=2))
    else:
        console().print(render_timeline(instants))


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


def main() -> None:
    """Entry point: our errors become one message and exit code 1."""
    try:
        app()
    except LenticError as error:
        Console(stderr=True).print(f"{type(error).__name__}: {error}", style="red", markup=False)
        sys.exit(1)
