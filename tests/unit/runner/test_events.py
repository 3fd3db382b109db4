"""One line per action."""

from __future__ import annotations

import json

from lentic.errors import Corrupt
from lentic.runner.events import Event, Result, Work, format_json, format_text, say_error
from tests.unit.builders import START_MS

DONE = Event(
    START_MS + 1,
    "host:1",
    "lake/orders",
    "compaction",
    Result.DONE,
    "20260101000000001",
    1.234,
    Work(rows=1_200, files=2, bytes=3_072),
)


def test_a_line_says_when_where_what_how_it_ended_and_what_it_made() -> None:
    assert format_text(DONE) == (
        "2026-01-01T00:00:00.001Z  lake/orders  compaction  20260101000000001  done  1.23 s  "
        "1,200 rows, 2 files, 3.0 KiB"
    )


def test_a_json_line_has_every_key_every_time() -> None:
    told = json.loads(format_json(DONE))
    assert told == {
        "time": "2026-01-01T00:00:00.001Z",
        "worker": "host:1",
        "table": "lake/orders",
        "action": "compaction",
        "instant": "20260101000000001",
        "outcome": "done",
        "seconds": 1.234,
        "rows": 1200,
        "files": 2,
        "bytes": 3072,
        "deleted": 0,
        "instants": 0,
        "note": None,
    }
    bare = json.loads(format_json(Event(0, "w", "t", "look", Result.FAILED, note="x")))
    assert bare.keys() == told.keys()


def test_an_error_of_several_lines_stays_on_one_and_is_bounded() -> None:
    event = Event(0, "w", "t", "clean", Result.FAILED, note="first\n  second\n" + "x" * 10_000)
    for line in (format_text(event), format_json(event)):
        assert "\n" not in line
        assert "first second" in line
        assert len(line) < 1_000


def test_what_went_wrong_is_told_with_where_and_what_to_do_on_one_line() -> None:
    error = Corrupt("It does not decode.", where="a/b@7", next_step="bring it back\nfrom a copy")
    told = say_error(error)
    assert told == "Corrupt: It does not decode. [a/b@7]; next: bring it back from a copy"
    assert say_error(Corrupt("It does not decode.")) == "Corrupt: It does not decode."
    assert say_error(ZeroDivisionError("a bug")) == "ZeroDivisionError: a bug"


def test_of_a_long_error_where_and_what_to_do_are_left() -> None:
    error = Corrupt("x" * 10_000, where="a/b@7", next_step="bring it back")
    event = Event(0, "w", "t", "clean", Result.FAILED, note=say_error(error))
    assert json.loads(format_json(event))["note"].endswith("x… [a/b@7]; next: bring it back")
    endless = Corrupt("x" * 10_000, where="y" * 10_000, next_step="z" * 10_000)
    note = say_error(endless)
    assert "x…" in note and "y…" in note and note.endswith("z…") and len(note) <= 500


def test_cleans_and_archives_say_what_they_removed() -> None:
    clean = Event(0, "w", "t", "clean", Result.DONE, work=Work(deleted=3, strays=1))
    assert format_text(clean).endswith("4 files deleted")
    archive = Event(0, "w", "t", "archive", Result.DONE, work=Work(instants=1))
    assert format_text(archive).endswith("1 instant")
