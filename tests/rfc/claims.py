"""What the designs say, one statement at a time, and the tests that show it.

A statement that can be true or false stands in `statements/*.toml`, in our own words, with the
design, section and step it comes from. A test that shows it carries its id:
`@says("rfc79.execute.3")`. Where a rule of ours overrides a design, the statement says in `instead`
which one and what we do; then its tests show that.

Tests are found by reading the sources, so that nothing has to be imported to know what is shown.
"""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
STATEMENTS = Path(__file__).resolve().parent / "statements"
_MARK = "says"


def says(*ids: str) -> pytest.MarkDecorator:
    """The test shows the statements of these ids."""
    return pytest.mark.says(*ids)


@dataclass(frozen=True, slots=True)
class Statement:
    """One thing that a design, or a rule of ours, says."""

    id: str
    section: str
    step: str
    text: str
    instead: str = ""


@dataclass(frozen=True, slots=True)
class Design:
    """A catalogue: what one design says, in its order."""

    title: str
    about: str
    statements: tuple[Statement, ...]

    def sections(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.section for one in self.statements))


@dataclass(frozen=True, slots=True, order=True)
class Shown:
    """A test that shows something: its file below `tests`, and its name, with its class if any."""

    path: str
    name: str


def load_designs(folder: Path = STATEMENTS) -> tuple[Design, ...]:
    """Every catalogue, in the order in which the page has them."""
    found = [tomllib.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.toml"))]
    return tuple(map(_parse_design, sorted(found, key=lambda one: int(one["order"]))))


def _parse_design(given: Mapping[str, object]) -> Design:
    sections = given["section"]
    assert isinstance(sections, list)
    statements = [
        Statement(
            id=one["id"],
            section=section["name"],
            step=one.get("step", ""),
            text=one["says"],
            instead=one.get("instead", ""),
        )
        for section in sections
        for one in section["statements"]
    ]
    return Design(str(given["title"]), str(given["about"]).strip(), tuple(statements))


def find_shown(folder: Path = TESTS) -> dict[str, list[Shown]]:
    """By id of a statement: the tests that say they show it, in order."""
    found: dict[str, list[Shown]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_text("utf-8")
        if "@says(" not in text:
            continue
        for name, ids in _tagged(ast.parse(text)):
            for one in ids:
                found.setdefault(one, []).append(Shown(path.relative_to(folder).as_posix(), name))
    return found


def _tagged(tree: ast.Module) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each test, or class of tests, that is marked, with the ids it is marked with."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, _ids(node)
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    yield f"{node.name}::{inner.name}", _ids(inner)


def _ids(node: ast.FunctionDef | ast.ClassDef) -> tuple[str, ...]:
    found: list[str] = []
    for mark in node.decorator_list:
        if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == _MARK:
            found += [arg.value for arg in mark.args if isinstance(arg, ast.Constant)]
    return tuple(found)


def find_flaws(designs: Iterable[Design], shown: Mapping[str, list[Shown]]) -> list[str]:
    """What keeps the catalogues and the tests from fitting together."""
    statements = [one for design in designs for one in design.statements]
    known = [one.id for one in statements]
    flaws = [f"{one}: two statements have this id" for one in sorted(_twice(known))]
    flaws += [
        f"{one.id}: no test shows that {one.text}" for one in statements if one.id not in shown
    ]
    for one in sorted(shown.keys() - set(known)):
        flaws += [f"{one}: {test.path}::{test.name} shows what nobody says" for test in shown[one]]
    for one, tests in sorted(shown.items()):
        flaws += [
            f"{one}: {test.path}::{test.name} is no test, and so shows nothing"
            for test in tests
            if not test.name.rpartition("::")[2].startswith(("test_", "Test"))
        ]
    return flaws


def _twice(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}
