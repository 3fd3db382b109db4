"""The commands on a small table: text for people, JSON for programs, exit code 1 for errors."""

from __future__ import annotations

import json
import runpy
import sys
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import lentic
from lentic.cli.main import app, main
from lentic.table import Table
from tests.unit.cli.calls import run, run_json

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        ("amount", pa.decimal128(10, 2)),
        ("day", pa.string()),
    ]
)


def _rows(*keys: str) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": key, "amount": None, "day": f"d{ord(key) % 2}"} for key in keys], schema=SCHEMA
    )


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = lentic.create(
        str(tmp_path / "orders"), SCHEMA, key="id", partition_by="day", ordering="amount", buckets=1
    )
    made.upsert(_rows("a", "b", "c"))
    made.compact()
    made.upsert(_rows("c", "d"))
    return made


def test_show_says_what_the_table_is(table: Table) -> None:
    text = run("show", table.path)
    for said in (
        "orders",
        table.path,
        "MERGE_ON_READ, version 9",
        "EVENT_TIME_ORDERING",
        "decimal128(10, 2)",
        "3 completed, 0 pending",
        "d0",
        "d1",
    ):
        assert said in text, said


def test_show_as_json_has_every_fact(table: Table) -> None:
    facts = run_json("show", table.path)
    assert facts["path"] == table.path
    assert facts["name"] == "orders"
    assert facts["table_type"] == "MERGE_ON_READ"
    assert facts["version"] == 9
    assert facts["key"] == ["id"]
    assert facts["partition_by"] == ["day"]
    assert facts["ordering"] == ["amount"]
    assert facts["merge_mode"] == "EVENT_TIME_ORDERING"
    assert facts["buckets"] == 1
    assert facts["columns"] == {"id": "string", "amount": "decimal128(10, 2)", "day": "string"}
    assert (facts["completed"], facts["pending"]) == (3, 0)
    partitions = {part["partition"]: part for part in facts["partitions"]}
    assert set(partitions) == {"d0", "d1"}
    for name, part in partitions.items():
        (part_slice,) = table.file_slices(name)
        assert part["file_groups"] == 1
        assert part["base_bytes"] == (part_slice.base.size if part_slice.base else 0) > 0
        assert part["log_files"] == len(part_slice.logs) == 1
        assert part["log_bytes"] == sum(log.size for log in part_slice.logs) > 0


def test_timeline_lists_every_instant_oldest_first(table: Table) -> None:
    text = run("timeline", table.path)
    times = [str(instant.requested_at) for instant in table.timeline()]
    assert [text.index(time) for time in times] == sorted(text.index(time) for time in times)
    assert text.count("completed") >= 3
    assert "deltacommit" in text


def test_timeline_as_json_has_both_times_action_and_state(table: Table) -> None:
    assert run_json("timeline", table.path) == [
        {
            "requested_at": instant.requested_at,
            "completed_at": instant.completed_at,
            "action": instant.action.value,
            "state": "completed",
        }
        for instant in table.timeline()
    ]
    assert [instant["action"] for instant in run_json("timeline", table.path)] == [
        "deltacommit",
        "commit",
        "deltacommit",
    ]


def test_a_new_table_shows_no_partition_and_an_empty_timeline(tmp_path: Path) -> None:
    made = lentic.create(str(tmp_path / "new"), "id string, v int", key="id", buckets=2)
    assert run_json("show", made.path)["partitions"] == []
    assert run_json("timeline", made.path) == []
    assert "nothing" in run("show", made.path)
    run("timeline", made.path)


def test_a_pending_plan_is_counted_and_listed(table: Table) -> None:
    table.schedule("compaction")
    assert run_json("show", table.path)["pending"] == 1
    assert run_json("timeline", table.path)[-1] | {"requested_at": ""} == {
        "requested_at": "",
        "completed_at": None,
        "action": "compaction",
        "state": "requested",
    }


def _main(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    monkeypatch.setattr(sys, "argv", ["lentic", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    return caught.value.code


def _plain(text: str) -> str:
    """Text without the line breaks of a narrow terminal."""
    return " ".join(text.split())


@pytest.mark.parametrize("command", ["show", "timeline"])
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_an_error_is_one_message_and_exit_code_1(
    command: str,
    as_json: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = str(tmp_path / "no [such] table")
    assert _main(monkeypatch, command, path, *as_json) == 1
    out, err = capsys.readouterr()
    if as_json:
        error = json.loads(out)["error"]
        assert (error["kind"], error["safe"]) == ("TableNotFound", "nothing was read or written")
        assert path in error["what"] + error["where"] and "check the path" in error["next_step"]
    else:
        assert out == ""
    assert "TableNotFound: There is no table at" in _plain(err)
    assert "[such]" in err, "what looks like markup is shown as it is"
    assert "safe: nothing was read or written" in _plain(err)
    assert "next: check the path" in _plain(err)
    assert "Traceback" not in err


def _strict(text: str) -> Any:
    """JSON as its standard has it: without NaN and Infinity."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_numbers_that_json_does_not_have_are_null(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            ("amount", pa.float64()),
            ("more", pa.list_(pa.float32())),
            ("inner", pa.struct([("x", pa.float64()), ("raw", pa.binary())])),
        ]
    )
    made = lentic.create(str(tmp_path / "odd"), schema, key="id", buckets=1)
    nan, inf = float("nan"), float("inf")
    row = {"id": "a", "amount": nan, "more": [inf, 1.5, None], "inner": {"x": -inf, "raw": b"\xff"}}
    made.upsert(pa.Table.from_pylist([row], schema=schema))
    (shown,) = _strict(run("read", made.path, "--json"))
    assert shown == {
        "id": "a",
        "amount": None,
        "more": [None, 1.5, None],
        "inner": {"x": None, "raw": "ff"},
    }
    cells = run("read", made.path, "--csv").splitlines()[1]
    assert "[null, 1.5, null]" in cells and "Infinity" not in cells


def test_an_error_in_a_condition_is_json_too(
    table: Table, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main(monkeypatch, "read", table.path, "--where", "nope > 1", "--json") == 1
    out, err = capsys.readouterr()
    error = _strict(out)["error"]
    assert set(error) == {"kind", "what", "where", "safe", "next_step"}
    assert _plain(err).startswith(f"{error['kind']}: {_plain(error['what'])}")


def test_success_is_exit_code_0(
    table: Table, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not _main(monkeypatch, "timeline", table.path, "--json")
    assert len(json.loads(capsys.readouterr().out)) == 3


@pytest.mark.filterwarnings("default")
def test_an_option_that_nobody_reads_is_one_line_on_standard_error(
    table: Table, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def warns(of: Table) -> list[str]:
        warnings.warn("of another kind", DeprecationWarning, stacklevel=1)
        return []

    unknown = ("-o", "hoodie.clean.comits.retained=5")
    assert not _main(monkeypatch, "timeline", table.path, "--json", *unknown)
    out, err = capsys.readouterr()
    assert len(json.loads(out)) == 3
    said = "Option hoodie.clean.comits.retained has no effect in lentic."
    assert err == f"warning: {said} Did you mean hoodie.clean.commits.retained?\n"
    monkeypatch.setattr(Table, "verify", warns)
    with pytest.warns(DeprecationWarning, match="of another kind"):
        assert not _main(monkeypatch, "verify", table.path)


def test_a_corrupt_table_is_told_with_its_file(
    table: Table, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(table.path, ".hoodie", "hoodie.properties").write_bytes(b"hoodie.table.version=9\n")
    assert _main(monkeypatch, "show", table.path) == 1
    assert "hoodie.properties" in capsys.readouterr().err


def test_run_as_a_module_it_is_the_command_and_not_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["lentic", "verify", "nowhere"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(sys.modules[main.__module__].__file__ or "", run_name="__main__")
    assert ended.value.code == 1
    assert "TableNotFound" in capsys.readouterr().err


def test_wrong_usage_is_exit_code_2_and_names_the_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main(monkeypatch, "nonsense") == 2
    assert _main(monkeypatch, "show") == 2
    capsys.readouterr()
    assert not _main(monkeypatch, "--help")
    text = capsys.readouterr().out
    assert all(command in text for command in ("show", "timeline", "demo"))


def test_verify_says_whether_a_table_is_sound(table: Table) -> None:
    result = CliRunner().invoke(app, ["verify", table.path])
    assert (result.exit_code, result.stdout) == (0, f"{table.path} is sound.\n")
    Path(table.path, table.file_slices()[0].paths[0]).unlink()
    result = CliRunner().invoke(app, ["verify", table.path])
    assert result.exit_code == 1
    assert "is not there" in result.stdout
    assert (
        "is not there"
        in json.loads(CliRunner().invoke(app, ["verify", table.path, "--json"]).stdout)[0]
    )
