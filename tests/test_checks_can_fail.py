"""The checks of `make check` fail when they should: each is run on a copy with a planted fault.

A check that cannot fail proves nothing. Every fault below is one that a hurried change could make.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tidy import (
    CHECKS,
    FUNCTION_LINES_MAX,
    Finding,
    find_banned_names,
    find_dead_files,
    find_hidden_imports,
    find_long_files,
    find_long_functions,
    find_machine_text,
    find_undocumented_modules,
    find_unfinished_work,
    find_unsafe_code,
)

ROOT = Path(__file__).resolve().parents[1]
DOC = '"""A planted module."""\n'
LONG_BODY = "    x = 1\n" * (FUNCTION_LINES_MAX - 1)


FLOOR_PLAN_FAULTS = {
    "format/names.py": "import lentic.table, lentic.storage.local, lentic.format.times\n",
    "format/times.py": "import lentic.format.names\n",
    "view/slicing.py": "import threading\n",
    "write/planted.py": DOC + "import lentic.timeline.store\nimport pyspark\n",
    "attic.py": DOC,
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the sources and of what configures the checks."""
    return copy_tree(tmp_path)


@pytest.fixture(scope="module")
def planted_report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What import-linter says of a copy that holds every fault of `FLOOR_PLAN_FAULTS`."""
    tree = copy_tree(tmp_path_factory.mktemp("planted"))
    for module, text in FLOOR_PLAN_FAULTS.items():
        plant(tree, module, text)
    done = run("from importlinter.cli import lint_imports_command as run; run()", tree)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def copy_tree(to: Path) -> Path:
    shutil.copytree(ROOT / "src", to / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", to)
    return to


def plant(tree: Path, module: str, text: str) -> Path:
    """Add `text` at the end of a module of the copy, making the module if there is none."""
    path = tree / "src" / "lentic" / module
    path.write_text((path.read_text("utf-8") if path.exists() else "") + text, "utf-8")
    return path


def run(program: str, tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python program over the copy: started in it, and importing from it."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_floor_plan_holds_for_the_unplanted_copy(tree: Path) -> None:
    done = run("from importlinter.cli import lint_imports_command as run; run()", tree)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("contract", "detail"),
    [
        ("One way down", "lentic.format is not allowed to import lentic.table"),
        ("One way down", "attic"),
        ("One writer of the timeline", "lentic.write.planted -> lentic.timeline.store"),
        ("Only spark and cli import pyspark", "lentic.write.planted -> pyspark"),
        ("Pure modules hold no handle", "lentic.format.names -> lentic.storage.local"),
        ("Pure modules hold no handle", "lentic.view.slicing -> threading"),
        ("No import cycle", "lentic.format"),
    ],
)
def test_the_floor_plan_breaks_for(planted_report: str, contract: str, detail: str) -> None:
    summary, _, details = planted_report.partition("Broken contracts")
    lines = [line for line in summary.splitlines() if line.startswith(contract)]
    assert [" BROKEN" in line for line in lines] == [True], planted_report
    assert detail in details[details.index(contract) :], planted_report


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("import os", "TID251"),
        ("import uuid", "TID251"),
        ("from time import sleep", "TID251"),
        ("import datetime; datetime.datetime.now()", "TID251"),
        ("from pathlib import Path", "TID251"),
        ("eval('1')", "S307"),
        ("def hide(): import json", "PLC0415"),
        ("from . import names", "TID252"),
    ],
)
def test_ruff_refuses(tree: Path, line: str, rule: str) -> None:
    plant(tree, "view/slicing.py", f"\n\n{line}\n")
    ruff = [str(Path(sys.executable).with_name("ruff")), "check", "--no-cache", "--select", rule]
    done = subprocess.run([*ruff, "src"], cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "src/lentic/view/slicing.py" in done.stdout


@pytest.mark.parametrize(
    ("check", "module", "text"),
    [
        (find_long_functions, "errors.py", f"\n\ndef long() -> None:\n{LONG_BODY}    x = 2\n"),
        (find_long_files, "errors.py", "\n" * 400),
        (find_hidden_imports, "errors.py", "\n\ndef hide() -> None:\n    import json\n"),
        (find_banned_names, "errors.py", "\n\nclass LockManager:\n    pass\n"),
        (find_banned_names, "errors.py", "\n\nclass BaseReader:\n    pass\n"),
        (find_banned_names, "string_utils.py", DOC),
        (find_undocumented_modules, "view/planted.py", "x = 1\n"),
        (find_unsafe_code, "errors.py", "import pickle\n"),
        (find_unsafe_code, "errors.py", "eval('1')\n"),
        (find_unsafe_code, "errors.py", "open('x')\n"),
        (find_unsafe_code, "errors.py", "import importlib\nimportlib.import_module('x')\n"),
        (find_unfinished_work, "errors.py", "# TO" + "DO later\n"),
        (find_machine_text, "errors.py", "# see /ro" + "ot/notes\n"),
        (find_machine_text, "errors.py", "# from py" + "pi.org\n"),
        (find_dead_files, "view/planted.py", DOC),
    ],
)
def test_a_tidy_check_finds(
    tree: Path, check: Callable[[Path], list[Finding]], module: str, text: str
) -> None:
    before = check(tree)
    path = plant(tree, module, text)
    (found,) = [finding for finding in check(tree) if finding not in before]
    assert tree / found.path == path
    assert "Fix: " in str(found)


def test_a_function_of_the_greatest_length_is_allowed(tree: Path) -> None:
    before = find_long_functions(tree)
    plant(tree, "errors.py", f"\n\ndef longest() -> None:\n{LONG_BODY}")
    assert find_long_functions(tree) == before


def test_every_tidy_check_is_shown_to_fail() -> None:
    marks = test_a_tidy_check_finds.pytestmark  # type: ignore[attr-defined]
    assert {case[0] for case in marks[0].args[1]} == set(CHECKS)
