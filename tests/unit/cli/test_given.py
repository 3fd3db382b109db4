"""Every command takes the options of the table, and what it suggests carries them on."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import typer
from typer.testing import CliRunner

import lentic
from lentic.cli import given
from lentic.cli.given import carry, parse_options
from lentic.cli.main import app
from lentic.errors import LenticError
from lentic.table import Table
from tests.unit.cli.calls import make_orders

KEEP = "hoodie.clean.commits.retained=1"
SHARED = ("-o", KEEP, "--option", "hoodie.clean.failed.writes.policy=LAZY")
SAID = f"-o {KEEP} -o hoodie.clean.failed.writes.policy=LAZY"
AT = "20260101000000000"
COMMANDS = {
    **dict.fromkeys(("show", "timeline", "read", "verify", "plans", "doctor", "savepoint"), ()),
    **dict.fromkeys(("compact", "log-compact", "cluster", "clean", "archive"), ()),
    **dict.fromkeys(("why", "execute", "cancel", "abort", "rollback", "restore"), (AT,)),
}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return make_orders(tmp_path / "my orders", commits=3)


def _json(*arguments: str) -> Any:
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return json.loads(result.stdout)


def test_there_is_no_command_about_a_table_without_options() -> None:
    commands: Any = typer.main.get_command(app)
    takes = {
        name: any("--option" in option.opts for option in command.params)
        for name, command in commands.commands.items()
    }
    assert takes == dict.fromkeys(COMMANDS, True) | {"serve": True, "demo": False}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_opens_the_table_with_the_options_given(
    command: str, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []

    def opened(path: str, *, options: object) -> Table:
        seen.append(options)
        return lentic.open(path)

    monkeypatch.setattr(given, "open_table", opened)
    CliRunner().invoke(app, [command, table.path, *COMMANDS[command], *SHARED])
    assert seen == [parse_options(SHARED[1::2])]


def test_a_clean_keeps_to_the_retention_given(table: Table) -> None:
    for number in (7, 8):
        table.compact()
        table.upsert(pa.table([["a"], [number]], schema=table.schema))
    assert _json("clean", table.path) is None
    assert _json("clean", table.path, "-o", KEEP)["outcome"] == "Committed"


def test_what_is_suggested_carries_the_options_given(table: Table) -> None:
    at = str(table.schedule("compaction"))
    command = f"lentic execute {SAID} '{table.path}' {at}"
    (plan,) = _json("plans", table.path, *SHARED)
    assert plan["next_command"] == command
    assert _json("why", table.path, at, *SHARED)["next_steps"][0]["shell"] == command
    assert _json(*shlex.split(command)[1:])["outcome"] == "Committed"
    saved = table.savepoint().requested_at
    table.upsert(pa.table([["a"], [9]], schema=table.schema))
    Path(table.path, table.file_slices()[0].paths[-1]).unlink()
    finding = _json("doctor", table.path, *SHARED)["findings"][0]
    assert finding["remedy"]["shell"] == f"lentic restore {SAID} '{table.path}' {saved}"


def test_what_a_cancellation_suggests_carries_them(tmp_path: Path) -> None:
    table = lentic.create(str(tmp_path / "small"), "id string, v bigint", key="id", buckets=None)
    for number in range(2):
        table.bulk_insert(pa.table([[f"k{number}"], [number]], schema=table.schema))
    at = str(table.schedule("clustering"))
    told = _json("cancel", table.path, at, *SHARED)
    assert told["next_step"]["shell"] == f"lentic abort {SAID} {table.path} {at}"


def test_what_an_error_suggests_carries_them(table: Table) -> None:
    result = CliRunner().invoke(app, ["cancel", table.path, AT, *SHARED])
    assert isinstance(result.exception, LenticError)
    assert result.exception.next_step.startswith(f"lentic plans {SAID} ")


def test_options_are_carried_into_every_command_of_a_text() -> None:
    text = "roll it back first: lentic rollback 'a; lentic show b' 1; or wait"
    assert carry(text, ["k=a b"]) == text.replace("lentic rollback", "lentic rollback -o 'k=a b'")
    for other in ("pip install 'lentic[spark]'", "check it: lentic.create(path)", "wait"):
        assert carry(other, ["k=v"]) == other
    assert carry(text, None) == text


def test_secrets_are_not_carried() -> None:
    kept = ["lentic.storage.region=r", "lentic.storage.endpoint=http://host"]
    secret = [
        "lentic.storage.aws_secret_access_key=x",
        "lentic.storage.session_token=x",
        "lentic.storage.endpoint=http://me:x@host",
    ]
    said = f"lentic plans -o {kept[0]} -o {kept[1]} t"
    assert carry("lentic plans t", [*kept, *secret]) == said
