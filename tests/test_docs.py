"""The pages under docs/ run as they stand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import lentic
from lentic.cli.main import app

DOCS = Path(__file__).resolve().parents[1] / "docs"


def test_the_page_on_reading_runs(tmp_path: Path) -> None:
    path = str(tmp_path / "orders")
    schema = "id string, amount double, day string"
    table = lentic.create(path, schema, key="id", partition_by="day", buckets=2)
    for n in (1, 2):
        days = [f"2026-01-0{n}"] * 2
        table.upsert(pa.table([[f"a{n}", f"b{n}"], [5.0, 15.0], days], schema=table.schema))
    names = _run("reading.md", path, blocks=4)
    assert names["rows"].num_rows == 4
    assert names["some"].to_pylist() == [{"id": "b2", "amount": 15.0}]
    assert (names["fast"].num_rows, names["then"].num_rows) == (0, 2)
    assert (names["changed"].num_rows, names["everything"].num_rows, names["total"]) == (2, 4, 4)


def test_the_page_on_writing_runs(tmp_path: Path) -> None:
    path = str(tmp_path / "orders")
    names = _run("writing.md", path, blocks=4)
    done, merged = names["done"], names["merged"]
    assert (names["loaded"].inserted, done.inserted, done.updated, done.deleted) == (3, 1, 1, 0)
    assert (merged.inserted, merged.updated, merged.deleted) == (1, 1, 1)
    assert (names["late"].updated, names["none"].updated) == (0, 1)
    assert [tuple(row.values()) for row in names["joined"]] == [
        ("a", 5, 1.5, 3, 7),
        ("b", 6, None, None, None),
    ]
    assert names["names"] == ["id", "amount", "day", "at", "note"]
    rows = sorted(lentic.open(path).read().to_pylist(), key=lambda row: row["id"])
    assert [(row["id"], row["amount"], row["note"]) for row in rows] == [
        ("a", 6.0, None),
        ("f", 1.0, "new"),
    ]


def test_the_page_on_services_runs(tmp_path: Path) -> None:
    path = str(tmp_path / "orders")
    names = _run("services.md", path, blocks=5)
    assert names["look"].kind == "incremental" and not names["look"].why
    assert isinstance(names["done"], lentic.Committed)
    assert isinstance(names["again"], lentic.AlreadyCommitted)
    assert [plan.requested_at for plan in names["pending"]] == [names["plan"]]
    assert isinstance(names["ended"], lentic.Aborted)
    aborted = [i.requested_at for i in names["wide"].timeline() if i.is_aborted]
    assert aborted == [names["ended"].instant.requested_at, names["cancelled"]]
    rows = {row["id"] for row in lentic.open(path).read().to_pylist()}
    assert rows == {f"k{n}" for n in range(3)} | {f"n{n}" for n in range(12)}
    assert lentic.open(path).verify() == []


def test_the_page_on_operating_runs(tmp_path: Path) -> None:
    path = str(tmp_path / "orders")
    names = _run("operating.md", path, blocks=5)
    plan, record = names["plan"], names["record"]
    assert names["pending"].next_command == f"lentic abort {path} {names['layout']}"
    assert names["pending"].cancellation.why == "the night is over"
    assert isinstance(names["ended"], lentic.Aborted) and names["first"] == f't.execute("{plan}")'
    assert names["instant"].has("waits-for-executor") and names["file"].has("latest-slice")
    assert [version.ordering for version in record.versions] == [("1",), ("3",), ("2",)]
    assert [version.won for version in record.versions] == [False, True, False]
    assert names["health"].is_healthy


def test_the_page_on_operating_names_every_reason_that_keeps_a_file_or_keeps_it_small() -> None:
    page = (DOCS / "operating.md").read_text("utf-8")
    insight = Path(lentic.__file__).parent / "insight"
    for module, kept in (
        ("why_small.py", "small-"),
        ("why_file.py", "retained-by-"),
        ("why_file.py", "orphan-"),
    ):
        codes = re.findall(rf'"({kept}[a-z-]+)"', (insight / module).read_text("utf-8"))
        assert codes
        for code in codes:
            short = "-" + code.removeprefix("retained-by-")
            assert f"`{code}`" in page or f"`{short}`" in page, code


def test_the_page_on_sharing_runs(tmp_path: Path) -> None:
    path = str(tmp_path / "orders")
    names = _run("sharing.md", path, blocks=2)
    assert "EAGER" in names["refused"] and "NON_BLOCKING" in names["refused"]
    rows = sorted(lentic.open(path).read().to_pylist(), key=lambda row: row["id"])
    assert [(row["id"], row["amount"]) for row in rows] == [
        ("a", 2.0),
        ("b", 1.0),
        ("c", 3.0),
        ("d", 4.0),
    ]


def test_the_page_on_serving_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = _run("serving.md", "lake", blocks=1)
    once, *_ = re.findall(r"```console\n(lentic .*)\n", (DOCS / "serving.md").read_text("utf-8"))
    done = CliRunner().invoke(app, once.split()[1:])
    assert done.exit_code == 0, done.output
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["action"], line["outcome"]) for line in told] == [("compaction", "done")] * 2
    assert names["left"] in {line["instant"] for line in told}
    help_text = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200"}).output
    for option in re.findall(r"`(--[a-z-]+)", (DOCS / "serving.md").read_text("utf-8")):
        assert option in help_text, option


def _run(page: str, path: str, blocks: int) -> dict[str, Any]:
    """The names that a page's code leaves behind."""
    names: dict[str, Any] = {"path": path}
    found = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)
    assert len(found) == blocks
    for code in found:
        exec(compile(code, page, "exec"), names)
    return names
