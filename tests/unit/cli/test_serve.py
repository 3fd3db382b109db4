"""`lentic serve` on small tables: text, JSON, metrics, and what it refuses."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import Result
from typer.testing import CliRunner

import lentic
from lentic.cli.main import app
from lentic.cli.serve import parse_options, parse_size
from lentic.coordination.lock_file import FileLock
from lentic.errors import ConfigError, Unavailable
from lentic.runner.find import Place
from lentic.runner.loop import Orders, Outside, Runner
from lentic.table import Table

SCHEMA = pa.schema([("id", pa.string()), ("at", pa.int64())])


def _make(path: Path, commits: int = 6) -> Table:
    table = lentic.create(str(path), SCHEMA, key="id", ordering="at", buckets=1)
    for number in range(commits):
        table.upsert(pa.table([[f"k{number}"], [number]], schema=SCHEMA))
    return table


def _serve(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["serve", *arguments, "--once"], env={"COLUMNS": "120"})


def test_one_pass_over_a_folder_does_what_is_due_and_says_so(tmp_path: Path) -> None:
    one, two = _make(tmp_path / "one"), _make(tmp_path / "team" / "two")
    _make(tmp_path / "three", commits=1)
    done = _serve(str(tmp_path))
    assert done.exit_code == 0, done.output
    lines = sorted(line.split("  ")[1:5:3] for line in done.stdout.splitlines())
    assert lines == [[one.path, "done"], [two.path, "done"]]
    assert "6 rows, 1 file" in done.stdout


def test_json_lines_are_one_object_each(tmp_path: Path) -> None:
    table = _make(tmp_path / "one")
    (line,) = _serve(table.path, "--json").stdout.splitlines()
    told: dict[str, Any] = json.loads(line)
    assert (told["table"], told["action"], told["outcome"]) == (table.path, "compaction", "done")
    assert told["rows"] == 6
    assert told["instant"] in {str(instant.requested_at) for instant in table.timeline()}


def test_only_the_services_asked_for_are_seen_to(tmp_path: Path) -> None:
    table = _make(tmp_path / "one")
    assert _serve(table.path, "--services", "clean,archive").stdout == ""
    assert _serve(table.path, "--services", "compaction").stdout != ""


def test_options_say_when_services_are_due(tmp_path: Path) -> None:
    table = _make(tmp_path / "one", commits=3)
    assert _serve(table.path).stdout == ""
    due = "hoodie.compact.inline.max.delta.commits=3"
    assert "compaction" in _serve(table.path, "--option", due).stdout


def test_clustering_runs_where_options_turn_it_on(tmp_path: Path) -> None:
    path = str(tmp_path / "plain")
    table = lentic.create(path, SCHEMA, key="id", ordering="at", table_type="COPY_ON_WRITE")
    for number in range(5):
        table.insert(pa.table([[f"k{number}"], [number]], schema=SCHEMA))
    options = ["-o", "hoodie.clustering.inline=true", "-o", "hoodie.clean.commits.retained=100"]
    done = _serve(path, *options)
    assert "clustering" in done.stdout, done.output
    assert table.read().num_rows == 5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_end_while_it_begins_it_does_and_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    table, signals = _make(tmp_path / "one"), [number]

    def find_and_hear(paths: list[str], options: dict[str, str], *, depth: int) -> tuple[Place]:
        if signals:
            os.kill(os.getpid(), signals.pop())
        return (Place(table.path, table.path),)

    monkeypatch.setattr("lentic.cli.serve.find_tables", find_and_hear)
    before = signal.signal(number, lambda number, frame: None)
    try:
        done = _serve(table.path)
    finally:
        signal.signal(number, before)
    assert done.exit_code == 0
    assert done.stdout == ""


def test_a_path_that_is_no_table_is_told_and_the_exit_code_says_so(tmp_path: Path) -> None:
    table = _make(tmp_path / "one")
    done = _serve(str(tmp_path / "nowhere"), table.path)
    assert done.exit_code == 1
    assert "TableNotFound" in done.stdout
    assert "compaction" in done.stdout, "the other one was looked after"


def test_metrics_are_written_to_a_file(tmp_path: Path) -> None:
    table, file = _make(tmp_path / "one"), tmp_path / "lentic.prom"
    assert _serve(table.path, "--metrics-file", str(file)).exit_code == 0
    text = file.read_text("utf-8")
    assert f'hoodie_compaction_total_records_written{{table="{table.path}"}} 6\n' in text
    labels = f'{{table="{table.path}",action="compaction",outcome="done"}}'
    assert f"lentic_actions_total{labels} 1\n" in text


def test_metrics_can_be_asked_for_over_http_on_this_machine_alone(tmp_path: Path) -> None:
    done = _serve(_make(tmp_path / "one").path, "--metrics-port", "0")
    assert done.exit_code == 0
    assert "metrics: http://127.0.0.1:" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--services", "vacuum"], "'vacuum'"),
        (["--option", "nothing"], "key=value"),
        (["--option", "hoodie.keep.min.commits=50"], "hoodie.keep.max.commits"),
        (["--services", ","], "names no service"),
        (["--services", " "], "names no service"),
        (["--max-bytes", "much"], "no size"),
        (["--max-bytes", "1.5.5GB"], "no size"),
        (["--max-bytes", ".GB"], "no size"),
        (["ftp://host/lake"], "Unknown kind"),
        (["--metrics-file", ""], "names no file"),
        (["--metrics-file", "no/such/folder/lentic.prom"], "does not exist"),
    ],
)
def test_a_wrong_call_is_refused_before_anything_begins(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    table = _make(tmp_path / "one")
    done = _serve(table.path, *arguments)
    assert isinstance(done.exception, ConfigError)
    assert said in str(done.exception)
    assert done.stdout == ""


def test_tables_are_opened_in_a_world_where_waiting_for_a_lock_can_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Outside] = []

    class Noting(Runner):
        def __init__(self, orders: Orders, outside: Outside) -> None:
            given.append(outside)
            super().__init__(orders, outside)

    monkeypatch.setattr("lentic.cli.serve.Runner", Noting)
    table = _make(tmp_path / "one")
    assert _serve(table.path).exit_code == 0
    (outside,) = given
    opened, _ = outside.open_table(Place(table.path, table.path))
    assert isinstance(opened.lock, FileLock)
    for world in (opened.world, opened.lock.world):
        with outside.brake.ready() as pull, pytest.raises(Unavailable, match="stopped"):
            pull()
            world.clock.sleep(3600)


def test_sizes_and_options_are_read_as_people_write_them() -> None:
    sizes = {
        "": 0,
        "0": 0,
        "7": 7,
        "1.5 kB": 1536,
        "0.5GB": 1 << 29,
        "0.1": 1,
        "2k": 2048,
        "3MB": 3 << 20,
        "20 GiB": 20 << 30,
        "1T": 1 << 40,
    }
    assert {text: parse_size(text) for text in sizes} == sizes
    assert parse_options(["a=b=c", " d = e "]) == {"a": "b=c", "d": "e"}


@pytest.mark.parametrize(
    "option", ["--interval", "--rescan", "--max-minutes", "--max-action-minutes", "--grace"]
)
def test_a_time_that_nobody_can_wait_for_is_refused(option: str) -> None:
    for value in ("inf", "1e12"):
        done = _serve("nowhere", option, value)
        assert isinstance(done.exception, ConfigError)
        assert option in str(done.exception) and done.exception.next_step
    assert _serve("nowhere", option, "nan").exit_code == 2, "it is no number"


def test_the_help_names_every_option() -> None:
    text = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "120"}).output
    for name in ("--services", "--once", "--max-bytes", "--metrics-port", "--spark", "--json"):
        assert name in text
