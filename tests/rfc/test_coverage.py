"""docs/rfc-coverage.md is what the catalogues and the tests say today, and nothing is left open."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rfc.claims import Design, Shown, Statement, find_flaws, find_shown, load_designs
from tests.rfc.coverage import render

PAGE = Path(__file__).resolve().parents[2] / "docs" / "rfc-coverage.md"

ONE = Design("A design", "About it.", (Statement("a.1", "Steps", "step 1", "It is so."),))


def test_every_statement_has_a_test_and_every_mark_a_statement() -> None:
    flaws = find_flaws(load_designs(), find_shown())
    assert not flaws, "\n" + "\n".join(flaws)


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == render(load_designs(), find_shown()), "run `make docs`"


def test_a_statement_says_something_in_a_sentence_of_its_own() -> None:
    statements = [one for design in load_designs() for one in design.statements]
    assert len({one.text for one in statements}) == len(statements)
    for one in statements:
        assert one.text.endswith(".") and len(one.text) > 20 and "|" not in one.text, one
        assert not one.instead or one.instead.endswith("."), one


@pytest.mark.parametrize(
    ("shown", "flaw"),
    [
        ({}, "no test shows"),
        ({"a.1": [Shown("test_x.py", "helper")]}, "is no test"),
        ({"a.1": [Shown("test_x.py", "test_it")], "a.2": [Shown("x", "test_y")]}, "nobody says"),
    ],
)
def test_what_does_not_fit_together_is_found(shown: dict[str, list[Shown]], flaw: str) -> None:
    (found,) = find_flaws([ONE], shown)
    assert flaw in found
    assert find_flaws([ONE], {"a.1": [Shown("test_x.py", "test_it")]}) == []
    assert find_flaws([ONE, ONE], {"a.1": [Shown("test_x.py", "test_it")]})


def test_marks_are_read_from_functions_and_classes(tmp_path: Path) -> None:
    text = """
@says("a.1", "a.2")
@other
def test_one(): ...

@says("a.1")
class TestIt(Contract):
    @says("a.3")
    def test_two(self): ...
"""
    (tmp_path / "test_it.py").write_text(text)
    assert find_shown(tmp_path) == {
        "a.1": [Shown("test_it.py", "test_one"), Shown("test_it.py", "TestIt")],
        "a.2": [Shown("test_it.py", "test_one")],
        "a.3": [Shown("test_it.py", "TestIt::test_two")],
    }


def test_the_page_tells_place_statement_and_test() -> None:
    page = render([ONE], {"a.1": [Shown("rfc/test_x.py", "test_it_is_so")]})
    assert "| `a.1`<br>step 1 | It is so. | [it is so](../tests/rfc/test_x.py) |" in page
