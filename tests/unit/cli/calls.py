"""How tests of the commands call them, and the small table that they call them on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from typer.testing import CliRunner

import lentic
from lentic.cli.main import app
from lentic.table import Table


def make_orders(path: Path, *, commits: int) -> Table:
    """A table of one bucket in which `a` was updated by every commit, and each brought a key."""
    made = lentic.create(str(path), "id string, v bigint", key="id", ordering="v", buckets=1)
    for number in range(commits):
        made.upsert(pa.table([["a", f"k{number}"], [number, number]], schema=made.schema))
    return made


def run(*arguments: str, code: int = 0) -> str:
    """What the command prints, which ends with this exit code."""
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result.output


def run_json(*arguments: str, code: int = 0) -> Any:
    """The same for programs."""
    return json.loads(run(*arguments, "--json", code=code))
