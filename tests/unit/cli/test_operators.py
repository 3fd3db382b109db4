"""The operator's commands: text for people, JSON for programs, exit codes, typed errors."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lentic
from lentic.cli.main import main
from lentic.format import layout
from lentic.format.times import RequestedAt
from lentic.table import Table
from tests.rfc.claims import says
from tests.unit.cli.calls import make_orders, run, run_json


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return make_orders(tmp_path / "my orders", commits=3)


def _fails(monkeypatch: pytest.MonkeyPatch, capsys: Any, *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", ["lentic", *arguments])
    with pytest.raises(SystemExit) as raised:
        main()
    assert raised.value.code == 1
    return str(capsys.readouterr().err)


def test_why_answers_for_an_instant_a_file_and_a_key(table: Table) -> None:
    at = table.timeline()[0].requested_at
    path = table.file_slices()[0].logs[0].path
    for kind, what in (("instant", at), ("file", path), ("key", "a")):
        told = run_json("why", table.path, what)
        assert (told["kind"], told["question"]) == (kind, what)
        assert all(reason["code"] and reason["says"] for reason in told["reasons"])
        shown = " ".join(run("why", table.path, what).split())
        assert told["reasons"][0]["says"] in shown


def test_why_takes_the_path_of_a_file_as_a_shell_completes_it(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table.file_slices()[0].logs[0].path
    stray = f"stray-0_9-9-9_{table.timeline()[0].requested_at}.parquet"
    root = Path(table.path)
    (root / stray).write_bytes(b"x")
    for name in (path, stray):
        for folder, text in (
            (root, f"./{name}"),
            (root.parent, f"{root.name}/{name}"),
            (root / ".hoodie", f"../{name}"),
            (root, str(root / name)),
            (root.parent, f"file://{root / name}"),
        ):
            monkeypatch.chdir(folder)
            assert run_json("why", table.path, text)["question"] == name, text
    link = root.parent / "link"
    link.symlink_to(root)
    monkeypatch.chdir(link)
    assert run_json("why", str(root), f"./{path}")["question"] == path


def test_why_shows_the_versions_of_a_key_and_who_won(table: Table) -> None:
    told = run_json("why", table.path, "a")
    assert [version["ordering"] for version in told["versions"]] == [["0"], ["1"], ["2"]]
    assert [version["won"] for version in told["versions"]] == [False, False, True]
    text = run("why", table.path, "a")
    assert "versions, in merge order" in text
    for log in table.file_slices()[0].logs:
        assert f": {log.path}\n" in text, "as it may be asked about"
    assert run_json("why", table.path, "a", "--partition", "nowhere")["versions"] == []


def test_why_takes_the_options_that_its_answer_depends_on(table: Table) -> None:
    at = table.timeline()[0].requested_at
    keep = ("--option", "hoodie.keep.min.commits=1", "-o", "hoodie.keep.max.commits=2")
    codes = [reason["code"] for reason in run_json("why", table.path, at, *keep)["reasons"]]
    assert "archive-due" in codes


def test_next_steps_can_be_typed_as_they_stand(table: Table) -> None:
    at = table.schedule("compaction")
    (plan,) = run_json("plans", table.path)
    command = f"lentic execute '{table.path}' {at}"
    assert (plan["next_command"], plan["next_step"]) == (command, f't.execute("{at}")')
    assert run_json("why", table.path, str(at))["next_steps"][0]["shell"] == command
    assert (plan["partitions"], plan["files"]) == (1, 3) and plan["bytes"] > 0
    assert plan["cancellation"]["cancellable"] is False
    assert "3 file(s)" in " ".join(run("plans", table.path).split())
    assert run_json("execute", table.path, str(at))["outcome"] == "Committed"
    assert "AlreadyCommitted" in run("execute", table.path, str(at))


def test_errors_keep_their_commands_whole(
    table: Table, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    lines = _fails(monkeypatch, capsys, "cancel", table.path, "2020").splitlines()
    assert lines[-1] == f"  next: lentic plans '{table.path}'"


def test_doctor_is_content_with_a_sound_table_and_not_with_a_damaged_one(table: Table) -> None:
    assert run_json("doctor", table.path)["healthy"] is True
    assert "is healthy" in run("doctor", table.path)
    path = table.file_slices()[0].logs[0].path
    Path(table.path, path).unlink()
    told = run_json("doctor", table.path, "--all", code=1)
    assert told["findings"][0]["severity"] == "error"
    shown = run("doctor", table.path, code=1)
    assert "needs care" in shown and "from a copy of the table" in " ".join(shown.split())


def test_an_error_is_json_where_json_was_asked_for(
    clustered: tuple[Table, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table, at = clustered
    monkeypatch.setattr(sys, "argv", ["lentic", "abort", table.path, at, "--json"])
    with pytest.raises(SystemExit) as raised:
        main()
    out, err = capsys.readouterr()
    assert raised.value.code == 1 and "was not cancelled" in err
    assert json.loads(out)["error"] == {
        "kind": "Refused",
        "what": f"clustering {at} was not cancelled.",
        "where": table.path,
        "safe": "nothing was changed",
        "next_step": f"lentic cancel {table.path} {at}",
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("why", "{path}", "20200101000000000"), "There is no instant"),
        (("why", "{path}", "x", "--kind", "row"), "no kind 'row'"),
        (("why", "{path}", "../x_0-0-0_1.parquet"), "no data file"),
        (("why", "{path}", "a", "-o", "nothing"), "no option with a value"),
        (("why", "{path}/nowhere", "a"), "TableNotFound"),
        (("doctor", "{path}/nowhere"), "TableNotFound"),
        (("execute", "{path}", "20200101000000000"), "There is no plan"),
    ],
)
def test_bad_input_is_one_typed_message(
    table: Table,
    arguments: tuple[str, ...],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = [text.format(path=table.path) for text in arguments]
    assert said in _fails(monkeypatch, capsys, *given)


# --- cancel and abort ---------------------------------------------------------------------------


@pytest.fixture
def clustered(tmp_path: Path) -> tuple[Table, str]:
    made = lentic.create(str(tmp_path / "small"), "id string, v bigint", key="id", buckets=None)
    for number in range(2):
        made.bulk_insert(pa.table([[f"k{number}"], [number]], schema=made.schema))
    return made, str(made.schedule("clustering"))


@says("cancel.utility")
def test_cancel_says_what_is_promised_and_abort_ends_it(clustered: tuple[Table, str]) -> None:
    table, at = clustered
    said = run_json("cancel", table.path, at, "--dry-run")
    assert said["steps"][0] | {"bytes": 0} == {
        "what": "give up rewriting",
        "files": 2,
        "bytes": 0,
        "rows": 2,
    }
    assert not table.plans()[0].cancellation.is_requested, "a dry run does nothing"
    told = run_json("cancel", table.path, at, "--why", "the night is over")
    assert (told["state"], told["why"]) == ("cancelled", "the night is over")
    assert told["promise"] == "it will not be committed"
    assert told["next_step"]["shell"] == f"lentic abort {table.path} {at}"
    shown = " ".join(run("cancel", table.path, at).split())
    assert f"clustering {at} is cancelled: it will not be committed" in shown
    assert table.plans()[0].cancellation.why == "the night is over", "who came first stays"
    assert run_json("abort", table.path, at, "--dry-run")["steps"][0]["what"] == "delete"
    assert table.plans()
    assert run_json("abort", table.path, at)["outcome"] == "Aborted"
    assert table.plans() == [] and table.read().num_rows == 2 and table.verify() == []
    assert "never committed" in run("abort", table.path, at)
    assert run_json("abort", table.path, at, "--dry-run")["steps"] == []
    assert "aborted already" in run("cancel", table.path, at)
    ended = run_json("cancel", table.path, at, "--why", "another reason")
    assert ended == told | {"state": "aborted", "next_step": None}, "who came first is still told"
    assert "aborted" in run("timeline", table.path)


def test_cancel_leaves_the_end_to_an_executor_that_lives(clustered: tuple[Table, str]) -> None:
    table, at = clustered
    heartbeat = Path(table.path, layout.heartbeat(RequestedAt(at)))
    heartbeat.parent.mkdir(parents=True, exist_ok=True)
    heartbeat.write_text('{"host": "far", "pid": 7, "seq": 1}')
    shown = " ".join(run("cancel", table.path, at).split())
    assert f"It ends as aborted when far:7 stops; to look again: lentic why {table.path}" in shown
    told = run_json("cancel", table.path, at)
    assert told["executor"] == "far:7"
    assert told["next_step"]["shell"] == f"lentic why {table.path} {at}"


@says("cancel.utility")
def test_abort_with_a_reason_cancels_first(clustered: tuple[Table, str]) -> None:
    table, at = clustered
    said = run_json("abort", table.path, at, "--why", "now", "--dry-run")
    assert [step["what"] for step in said["steps"]] == ["give up rewriting", "delete"]
    assert not table.plans()[0].cancellation.is_requested, "a dry run does nothing"
    assert "is aborted" in run("abort", table.path, at, "--why", "now")
    assert table.plans() == []
    assert "nothing to do" in run("abort", table.path, at, "--why", "now", "--dry-run")


def test_a_dry_run_of_cancelling_and_aborting_tells_who_executes_the_plan(
    clustered: tuple[Table, str],
) -> None:
    table, at = clustered
    beat = Path(table.path, layout.heartbeat(RequestedAt(at)))
    beat.parent.mkdir(parents=True, exist_ok=True)
    beat.write_text('{"host": "far", "pid": 7, "seq": 1}')
    (conflict,) = run_json("abort", table.path, at, "--why", "now", "--dry-run")["conflicts"]
    assert "far:7 executes it" in conflict


def test_plans_show_the_policy_and_what_was_cancelled_before(clustered: tuple[Table, str]) -> None:
    table, at = clustered
    for _ in range(3):
        run("abort", table.path, at, "--why", "again")
        at = str(table.schedule("clustering", cancel_after_hours=6))
    shown = " ".join(run("plans", table.path).split())
    assert "ALERT" in shown and "cancellable" in shown
    (plan,) = run_json("plans", table.path)
    assert plan["cancellation"]["after_hours"] == 6.0
    assert [count for _, count in plan["cancellation"]["cancels_before"]] == [3, 3]


def test_plans_show_one_that_does_not_read_with_what_ends_it(table: Table) -> None:
    at = str(table.schedule("compaction"))
    Path(table.path, layout.TIMELINE, f"{at}.compaction.requested").write_bytes(b"")
    text = run("plans", table.path)
    assert "extent        unknown" in text and "in the way    its plan does not read: " in text
    (plan,) = run_json("plans", table.path)
    assert (plan["files"], plan["partitions"], plan["bytes"]) == (None, None, None)
    run(*shlex.split(plan["next_command"])[1:])
    assert run_json("plans", table.path) == []


def test_a_clustering_that_does_not_give_way_can_be_asked_for(table: Table) -> None:
    done = run_json("cluster", table.path, "--sort-by", "v", "--no-cancellable")
    assert done["outcome"] == "Committed"


def test_what_cannot_be_cancelled_is_one_typed_message(
    clustered: tuple[Table, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table, at = clustered
    path = table.path
    assert "was not cancelled" in _fails(monkeypatch, capsys, "abort", path, at)
    assert "was not cancelled" in _fails(monkeypatch, capsys, "abort", path, at, "--dry-run")
    table.execute(at)
    for command in ("cancel", "abort"):
        for more in ((), ("--dry-run",)):
            said = _fails(monkeypatch, capsys, command, path, at, *more)
            assert "PlanCompleted" in said and "has completed" in said
    assert "no clustering" in _fails(monkeypatch, capsys, "cancel", path, "20200101000000000")
