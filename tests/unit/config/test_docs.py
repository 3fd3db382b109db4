"""docs/configuration.md is what the registry says today."""

from __future__ import annotations

from pathlib import Path

from lentic.config.docs import render
from lentic.config.groups import REGISTRY

PAGE = Path(__file__).resolve().parents[3] / "docs" / "configuration.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == render(), "run `make docs`"


def test_the_page_names_every_option_with_its_old_names_and_default() -> None:
    page = render()
    for option in REGISTRY:
        row = next(line for line in page.splitlines() if line.startswith(f"| `{option.key}` |"))
        assert option.doc in row
        assert all(f"`{alias}`" in row for alias in option.aliases)
        assert row.count("|") == 5
