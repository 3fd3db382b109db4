"""`lentic`: the commands. Each opens a table, asks it one thing, and renders the answer."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console

from lentic.cli.demo import run_demo
from lentic.cli.facts import instant_facts, table_facts, take
from lentic.cli.given import Json, Options, Path, answering, open_given, print_json
from lentic.cli.operators import add_operator_commands
from lentic.cli.render import (
    display,
    format_csv,
    render_rows,
    render_table_facts,
    render_timeline,
)
from lentic.cli.serve import serve
from lentic.cli.services import add_commands
from lentic.config.options import UnknownOption
from lentic.errors import LenticError

app = typer.Typer(
    help="Tables in the Apache Hudi 1.x format, from Python.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
@answering
def show(path: Path, option: Options = None, as_json: Json = False) -> None:
    """Facts about a table: type, key, columns, partitions and their files."""
    facts = table_facts(open_given(path, option))
    if as_json:
        print_json(facts.to_json())
    else:
        display(render_table_facts(facts))


@app.command()
@answering
def timeline(
    path: Path,
    everything: Annotated[bool, typer.Option("--all", help="The archived part too.")] = False,
    option: Options = None,
    as_json: Json = False,
) -> None:
    """Every instant of the active timeline, oldest first."""
    table = open_given(path, option)
    instants = [*(table.history() if everything else []), *table.timeline()]
    if as_json:
        print_json([instant_facts(instant) for instant in instants])
    else:
        display(render_timeline(instants))


@app.command()
@answering
def read(
    path: Path,
    as_of: Annotated[str, typer.Option(help="An instant, an ISO date-time or a date.")] = "",
    where: Annotated[str, typer.Option(help='A condition, such as "amount > 10".')] = "",
    columns: Annotated[str, typer.Option(help="Comma-separated columns; all by default.")] = "",
    limit: Annotated[int, typer.Option(min=0, help="How many rows; 0 is all of them.")] = 20,
    option: Options = None,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """The rows of a table, now or as of a moment."""
    stream = open_given(path, option).stream(
        as_of=as_of or None,
        columns=[name.strip() for name in columns.split(",")] if columns else None,
        filter=where or None,
    )
    shown = take(stream, limit)
    if as_json:
        print_json(shown.to_pylist())
    elif as_csv:
        typer.echo(format_csv(shown), nl=False)
    else:
        display(render_rows(shown))


@app.command()
@answering
def verify(path: Path, option: Options = None, as_json: Json = False) -> None:
    """Check every invariant of a table; exit code 1 if one does not hold."""
    findings = open_given(path, option).verify()
    if as_json:
        print_json(findings)
    else:
        for line in findings or [f"{path} is sound."]:
            typer.echo(line)
    if findings:
        raise typer.Exit(1)


@app.command()
@answering
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
app.command()(answering(serve))
add_operator_commands(app)


def _show_warning(
    otherwise: Callable[..., None], message: Warning | str, category: type[Warning], *more: Any
) -> None:
    """Of an option that nobody reads what it says, without the line of our source that said so."""
    if issubclass(category, UnknownOption):
        typer.echo(f"warning: {message}", err=True)
    else:
        otherwise(message, category, *more)


def main() -> None:
    """Entry point: our errors become one message and exit code 1, our warnings a line each."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = partial(_show_warning, warnings.showwarning)
            app()
    except LenticError as error:
        told = f"{type(error).__name__}: {error}"
        Console(stderr=True).print(told, style="red", markup=False, soft_wrap=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
