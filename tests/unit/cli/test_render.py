"""Renderings show every value as it is, however wide the terminal."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console, RenderableType

from lentic.cli.facts import PartitionFacts, TableFacts
from lentic.cli.render import display, grid, render_table_facts, render_timeline, size
from lentic.cli.render_insight import render_answer, render_health
from lentic.format.names import Action, State
from lentic.insight.answers import Answer, Finding, Health, Severity, Version
from lentic.services import next_steps
from lentic.timeline.instant import Instant
from tests.unit.builders import completed, requested, time

FACTS = TableFacts(
    path="/lake/orders",
    name="orders",
    table_type="MERGE_ON_READ",
    version=9,
    key=["id", "seq"],
    partition_by=["day"],
    ordering=["at"],
    merge_mode="EVENT_TIME_ORDERING",
    buckets=4,
    columns={"id": "string", "at": "timestamp[us, tz=UTC]"},
    completed=3,
    pending=1,
    partitions=[PartitionFacts("d1", 2, 2048, 3, 512, 1), PartitionFacts("", 1, 0, 0, 0, 0)],
)


def _text(shown: RenderableType, width: int = 160) -> str:
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(shown)
    return out.getvalue()


def test_a_tables_facts_are_all_there() -> None:
    text = _text(render_table_facts(FACTS))
    for said in (
        "orders",
        "/lake/orders",
        "MERGE_ON_READ, version 9",
        "id, seq",
        "EVENT_TIME_ORDERING",
        "3 completed, 1 pending",
        "timestamp[us, tz=UTC]",
        "2.0 KiB",
        "512 B",
        "(root)",
    ):
        assert said in text, said


def test_what_a_table_lacks_is_said_in_words() -> None:
    bare = replace(FACTS, partition_by=[], ordering=[], buckets=None, partitions=[])
    text = _text(render_table_facts(bare))
    assert "nothing" in text
    assert "none" in text
    assert "unknown" in text


@pytest.mark.parametrize("name", ["a[b]c", "[red]x[/red]", "[/]", "[/nonsense]", "x[link=y]z"])
def test_names_that_look_like_markup_are_shown_as_they_are(name: str) -> None:
    assert name in _text(grid("title", ("column",), [(name,)]))
    odd = replace(FACTS, partitions=[PartitionFacts(name, 1, 1, 1, 1, 0)], name=name)
    assert _text(render_table_facts(odd)).count(name) == 2


def test_a_timeline_shows_both_times_action_and_state_in_order() -> None:
    instants = [
        Instant(requested(1), Action.DELTACOMMIT, State.COMPLETED, completed(2)),
        Instant(requested(3), Action.COMPACTION, State.INFLIGHT),
        Instant(requested(4), Action.CLUSTERING, State.ABORTED),
    ]
    text = _text(render_timeline(instants))
    lines = [line for line in text.splitlines() if "2026" in line]
    assert [time(1) in lines[0], time(3) in lines[1], time(4) in lines[2]] == [True] * 3
    assert time(2) in lines[0]
    assert "completed" in lines[0]
    assert "inflight" in lines[1]
    assert "aborted" in lines[2]


def test_nothing_is_cut_off_on_a_narrow_terminal() -> None:
    instant = Instant(requested(1), Action.DELTACOMMIT, State.COMPLETED, completed(2))
    text = _text(render_timeline([instant]), width=30)
    digits = "".join(char for char in text if char.isdigit())
    assert sorted(digits) == sorted(time(1) + time(2))
    assert "…" not in text


def test_numbers_stand_to_the_right_and_words_to_the_left() -> None:
    shown = grid("t", ("n", "w"), [(1, "a"), (100, "bbb")])
    assert [column.justify for column in shown.columns] == ["right", "left"]
    assert [column.justify for column in grid("t", ("n",), []).columns] == ["left"]


def test_an_absent_value_is_an_empty_cell() -> None:
    assert "None" not in _text(grid("t", ("n",), [(None,)]))


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024**2, "1.0 MiB"),
        (1024**3, "1.0 GiB"),
        (5 * 1024**4, "5120.0 GiB"),
    ],
)
def test_sizes_are_for_people(count: int, text: str) -> None:
    assert size(count) == text


def test_commands_and_paths_stay_whole_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else they cannot be copied, from a terminal or a log; sentences may be broken."""
    monkeypatch.setenv("COLUMNS", "30")
    root = "/lake/a folder/with-a-name-that-is-longer-than-a-line"
    step = next_steps.abort(root, time(1))
    sick = Finding(Severity.WARNING, "stuck", "A sentence that is longer than a line.", step)
    display(render_answer(Answer(f"{root}/file", "file", (("what", "base file"),), (), (step,))))
    display(render_health(Health(root, (sick,))))
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert f"next: {step.shell}" in lines
    assert step.shell in lines
    assert f"file {root}/file" in lines
    assert f"{root} needs care." in lines


def test_the_files_of_versions_stay_whole_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    names = [
        f"a day/00000000-0000-0000-0000-000000000000-0_0-1-2_{time(n)}.parquet" for n in (1, 2)
    ]
    first, second = (
        Version("a day", name, time(1), "base", time(number), time(3), ("7",))
        for number, name in enumerate(names)
    )
    display(render_answer(Answer("k", "key", (), (), versions=(first, second, second))))
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[-2:] == [f"file {n}: {name}" for n, name in enumerate(names, start=1)]
    assert not [line for line in lines if len(line) > 80 and "file" not in line]
