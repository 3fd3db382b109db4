"""docs/rfc-coverage.md, from the catalogues and the tests: `python -m tests.rfc.coverage`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

from tests.rfc.claims import Design, Shown, Statement, find_shown, load_designs

_HEAD = """# What the designs say, and the tests that show it

lentic follows five designs of Apache Hudi. Every statement of theirs that can be true or false is
listed here in our own words, with the place it comes from and the tests that show it. The designs
are right in outline and have holes: what goes wrong if they are taken literally, and the rules that
close the holes, are listed and tested likewise. Where a rule overrides a design the line says so,
and its tests show what we do.

This page is written by `make docs` from `tests/rfc/statements/*.toml` and the marks `@says(...)`
of the tests. A test fails if the page is stale, if a statement has no test, or if a test shows what
nobody says.
"""


def render(designs: Iterable[Design], shown: Mapping[str, list[Shown]]) -> str:
    """The page."""
    designs = tuple(designs)
    lines = [_HEAD, "| | statements | tests |", "|---|---|---|"]
    for design in designs:
        tests = {test for one in design.statements for test in shown.get(one.id, [])}
        anchor = _anchor(design.title)
        lines.append(f"| [{design.title}](#{anchor}) | {len(design.statements)} | {len(tests)} |")
    for design in designs:
        lines += ["", f"## {design.title}", "", design.about]
        for section in design.sections():
            lines += ["", f"### {section}", "", "| | says | shown by |", "|---|---|---|"]
            lines += [
                _row(one, shown.get(one.id, []))
                for one in design.statements
                if one.section == section
            ]
    return "\n".join(lines) + "\n"


def _anchor(title: str) -> str:
    kept = "".join(char for char in title.lower() if char.isalnum() or char in " -")
    return kept.replace(" ", "-")


def _row(one: Statement, tests: Iterable[Shown]) -> str:
    text = one.text
    if one.instead:
        text += f" **Here otherwise:** {one.instead}"
    found = "<br>".join(f"[{_short(test)}](../tests/{test.path})" for test in tests)
    place = f"`{one.id}`" + (f"<br>{one.step}" if one.step else "")
    return f"| {place} | {text} | {found} |"


def _short(test: Shown) -> str:
    return test.name.removeprefix("test_").replace("_", " ")


def main() -> None:
    sys.stdout.write(render(load_designs(), find_shown()))


if __name__ == "__main__":
    main()
