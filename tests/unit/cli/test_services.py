"""The commands that look after a table: what they do, and that a dry run does nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import lentic
from lentic.cli.main import app
from lentic.errors import ConfigError
from lentic.table import Table
from tests.unit.cli.calls import make_orders, run, run_json


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return make_orders(tmp_path / "orders", commits=6)


def _files(table: Table) -> dict[str, bytes]:
    root = Path(table.path)
    return {str(f.relative_to(root)): f.read_bytes() for f in root.rglob("*") if f.is_file()}


@pytest.mark.parametrize("command", ["compact", "log-compact", "cluster"])
def test_a_service_says_what_it_would_do_then_does_it(table: Table, command: str) -> None:
    more = ("--sort-by", "v,id", "--curve", "zorder") if command == "cluster" else ()
    before, rows = _files(table), table.read().num_rows
    said = run_json(command, table.path, *more, "--dry-run")
    assert _files(table) == before
    assert said["steps"][0]["what"] == "read" and said["steps"][0]["files"] == 6
    assert "read" in run(command, table.path, *more, "--dry-run")
    done = run_json(command, table.path, *more)
    assert done["outcome"] == "Committed" and done["state"] == "completed"
    assert table.read().num_rows == rows
    assert table.verify() == []


@pytest.mark.parametrize("value", ["nan", "inf", "1e9"])
def test_a_policy_of_no_number_of_hours_is_refused(table: Table, value: str) -> None:
    before = _files(table)
    arguments = ["cluster", table.path, "--cancellable", "--cancel-after-hours", value]
    refused = CliRunner().invoke(app, arguments).exception
    assert isinstance(refused, ConfigError)
    assert "--cancel-after-hours" in str(refused)
    assert _files(table) == before


def test_clean_and_archive_with_nothing_to_do_say_so(table: Table) -> None:
    assert run_json("clean", table.path) is None
    assert "nothing to do" in run("clean", table.path)
    assert "nothing to do" in run("archive", table.path, "--dry-run")
    assert run_json("archive", table.path) == []


def test_plans_show_what_is_pending_and_what_to_do(table: Table) -> None:
    assert run_json("plans", table.path) == []
    at = table.schedule("compaction")
    (plan,) = run_json("plans", table.path)
    assert plan["requested_at"] == at and plan["action"] == "compaction"
    assert plan["next_step"] == f't.execute("{at}")'
    shown = run("plans", table.path)
    assert str(at) in shown and "nobody" in shown
    assert plan["next_command"] in shown.splitlines()[-1], "whole, so that it can be copied"


def test_a_savepoint_is_kept_gone_back_to_and_let_go(table: Table) -> None:
    at = table.timeline()[-1].requested_at
    assert run_json("savepoint", table.path, "--dry-run")["steps"][0]["what"] == "keep"
    assert run_json("savepoint", table.path)["requested_at"] == at
    later = table.upsert(pa.table([["z"], [9]], schema=table.schema)).requested_at
    assert run_json("rollback", table.path, later, "--dry-run")["steps"][0]["files"] == 1
    assert run_json("rollback", table.path, later)["action"] == "rollback"
    table.upsert(pa.table([["y"], [9]], schema=table.schema))
    assert run_json("restore", table.path, at, "--dry-run")["steps"][0]["files"] == 1
    assert run_json("restore", table.path, at)["action"] == "restore"
    assert {row["id"] for row in table.read().to_pylist()} == {"a", *(f"k{n}" for n in range(6))}
    before = _files(table)
    said = run_json("savepoint", table.path, "--at", at, "--remove", "--dry-run")
    assert (said["service"], said["steps"][0]["what"]) == ("remove_savepoint", "let go of")
    assert said["steps"][0]["files"] == 6 and _files(table) == before
    assert run_json("savepoint", table.path, "--at", at, "--remove") == at
    assert table.verify() == []
    missing = CliRunner().invoke(
        app, ["savepoint", table.path, "--at", at, "--remove", "--dry-run"]
    )
    assert "no savepoint" in str(missing.exception)


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_which_savepoint_to_remove_has_to_be_said(table: Table, more: tuple[str, ...]) -> None:
    table.savepoint()
    refused = CliRunner().invoke(app, ["savepoint", table.path, "--remove", *more])
    assert isinstance(refused.exception, lentic.ConfigError)
    assert "of which commit" in str(refused.exception) and "--at" in refused.exception.next_step
    assert any(instant.action == "savepoint" for instant in table.timeline())


def test_a_clean_tells_all_that_it_did(tmp_path: Path) -> None:
    table = lentic.create(str(tmp_path / "small"), "id string, v bigint", key="id", buckets=None)
    for number in range(2):
        table.bulk_insert(pa.table([[f"k{number}"], [number]], schema=table.schema))
    at = str(table.schedule("clustering"))
    table.request_cancel(at)
    before = _files(table)
    assert [s["what"] for s in run_json("clean", table.path, "--dry-run")["steps"]] == [
        f"abort clustering {at}"
    ]
    assert f"abort clustering {at}" in run("clean", table.path, "--dry-run")
    assert _files(table) == before
    told = run_json("clean", table.path)
    assert [plan["requested_at"] for plan in told["aborted"]] == [at]
    assert (told["outcome"], told["cleans"], told["orphans"]) == (None, [], [])
    again = str(table.schedule("clustering"))
    table.request_cancel(again)
    assert run("clean", table.path) == f"clustering {again} is aborted.\n"


def test_a_clean_that_deleted_files_tells_it_as_every_service_does(table: Table) -> None:
    for number in (7, 8):
        table.compact()
        table.upsert(pa.table([["a"], [number]], schema=table.schema))
    told = run_json("clean", table.path, "-o", "hoodie.clean.commits.retained=1")
    assert (told["outcome"], told["action"], told["state"]) == ("Committed", "clean", "completed")
    assert [clean["requested_at"] for clean in told["cleans"]] == [told["requested_at"]]
