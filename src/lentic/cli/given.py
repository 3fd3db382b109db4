"""What is given on the command line to every command about a table: its path, and its options.

A command that is suggested carries the options on. Without them it would open the same table as
something else: as one with a single writer, with another retention, under another lock.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Annotated, Any

import typer

from lentic.api import open as open_table
from lentic.cli.render import json_value
from lentic.config.options import STORAGE_PREFIX
from lentic.errors import ConfigError, LenticError
from lentic.services.next_steps import NextStep
from lentic.services.pending import PendingPlan
from lentic.table import Table

Path = Annotated[str, typer.Argument(help="Path or URL of the table.", show_default=False)]
At = Annotated[str, typer.Argument(help="An instant's requested time.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        help="An option of the table, hoodie.…=value, as its writers have it; may be repeated.",
        show_default=False,
        metavar="KEY=VALUE",
    ),
]

Given = Sequence[str] | None
"""The texts after each `--option`."""

_COMMAND = re.compile(r"(?<!\S)'[^']*'|(^|[:;] )lentic ([a-z-]+) ")
"""A command in a text; what is quoted, such as a path, is passed over."""
_SECRET = re.compile(r"secret|token|key|password|credential|sas", re.IGNORECASE)


def parse_options(given: Sequence[str]) -> dict[str, str]:
    """`key=value` texts as a mapping."""
    options: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not (key.strip() and equals):
            raise ConfigError(
                f"{text!r} is no option with a value, which is key=value.",
                safe="nothing was done",
                next_step="write it like --option hoodie.clean.commits.retained=5",
            )
        options[key.strip()] = value.strip()
    return options


def ensure_number(option: str, value: float, *, most: float) -> float:
    """The number itself; `ConfigError` if it is none, or more than anybody can wait for."""
    if not value <= most:  # which of two numbers is the larger has no answer where one is none
        raise ConfigError(
            f"{option} cannot be {value:g}.",
            safe="nothing was done",
            next_step=f"give a number up to {most:,.0f}",
        )
    return value


def open_given(path: str, given: Given) -> Table:
    """The table at `path`, with the options that were given."""
    return open_table(path, options=parse_options(given or ()))


# --- carrying options on ------------------------------------------------------------------------


def carry(text: str, given: Given) -> str:
    """A text with commands in it, which now take the options that were given. Secrets of a storage
    are left out: what is printed is read by others."""
    options = [word for option in given or () if not _is_secret(option) for word in ("-o", option)]
    if not options:
        return text
    said = shlex.join(options)
    return _COMMAND.sub(lambda found: f"{found[0]}{said} " if found[2] else found[0], text)


def carry_step(step: NextStep, given: Given) -> NextStep:
    """The same for what may be done next."""
    return replace(step, shell=carry(step.shell, given))


def carry_plan(plan: PendingPlan, given: Given) -> PendingPlan:
    """The same for a pending plan."""
    return replace(plan, next_command=carry(plan.next_command, given))


def _is_secret(option: str) -> bool:
    key, _, value = option.strip().partition("=")
    return key.startswith(STORAGE_PREFIX) and bool(_SECRET.search(key) or "@" in value)


def answering(command: Callable[..., None]) -> Callable[..., None]:
    """The command, whose errors suggest commands with the options that were given, and are JSON as
    well where that was asked for: one object on one line."""

    @wraps(command)
    def answer(**arguments: Any) -> None:
        try:
            command(**arguments)
        except LenticError as error:
            error.next_step = carry(error.next_step, arguments.get("option"))
            if arguments.get("as_json"):
                typer.echo(json.dumps({"error": error.to_fields()}))
            raise

    return answer


def print_json(value: Any) -> None:
    """Print a value as JSON that every program reads."""
    typer.echo(json.dumps(json_value(value), indent=2, allow_nan=False))
