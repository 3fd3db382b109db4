"""Progress tells what a commit tells, on a terminal alone, and never harms a write."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from pathlib import Path

import pytest
from rich.console import Console

import lentic
from lentic import progress
from lentic.engine import LocalEngine
from lentic.errors import ConfigError, StorageError
from lentic.progress import Bar, Bars, Measure, Progress, Stage, bars, format_measure, watching
from lentic.table import Table
from lentic.write.commit import Commit
from tests.recorded_progress import Recording, measure_commit
from tests.unit.builders import SCHEMA, FailingStorage, new_table, rows

FIRST = rows(*((f"k{n}", n, f"d{n % 3}") for n in range(60)))
SECOND = rows(*((f"k{n}", -n, f"d{n % 3}") for n in range(40, 80)))

VERBS: dict[str, Callable[[Table], Commit]] = {
    "upsert": lambda table: table.upsert(SECOND),
    "insert": lambda table: table.insert(SECOND.slice(20)),
    "delete": lambda table: table.delete("v > 50"),
    "overwrite": lambda table: table.insert_overwrite(SECOND.slice(0, 1)),
    "delete_partitions": lambda table: table.delete_partitions(["d1"]),
    "merge": lambda table: (
        table.merge(SECOND).when_matched_update().when_not_matched_insert().execute()
    ),
}


def _recorded(threads: int, *, table_type: str, buckets: int | None) -> tuple[Table, Recording]:
    shown = Recording()
    opened = new_table(table_type=table_type, buckets=buckets)
    return Table(opened, LocalEngine(threads, shown)), shown


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("table_type", "buckets"), [("MERGE_ON_READ", 2), ("COPY_ON_WRITE", 2), ("COPY_ON_WRITE", None)]
)
@pytest.mark.parametrize("threads", [1, 4])
def test_all_that_is_shown_of_a_write_is_what_its_commit_counts(
    verb: str, table_type: str, buckets: int | None, threads: int
) -> None:
    table, shown = _recorded(threads, table_type=table_type, buckets=buckets)
    first = table.upsert(FIRST)
    assert shown.made == measure_commit(first)
    assert shown.made.rows == 60
    shown.stages.clear()
    commit = VERBS[verb](table)
    assert shown.made == measure_commit(commit)
    assert shown.stages
    assert all(stage.is_full for stage in shown.stages)


def test_a_lookup_is_a_stage_with_a_task_per_file() -> None:
    table, shown = _recorded(2, table_type="COPY_ON_WRITE", buckets=None)
    table.upsert(FIRST)
    assert shown.titles == ["writing"], "there is no file to look into yet"
    table.upsert(SECOND)
    assert shown.titles == ["writing", "looking keys up", "writing"]
    assert shown.stages[1].total == 3
    assert shown.stages[1].is_full


def test_a_bar_grows_with_every_task_that_ends() -> None:
    table, shown = _recorded(1, table_type="MERGE_ON_READ", buckets=4)
    table.upsert(FIRST)
    (stage,) = shown.stages
    assert stage.total is not None
    assert stage.total > 1
    done = [state[0] for state in stage.states]
    assert sorted(set(done)) == list(range(1, stage.total + 1))
    files = [state[2].files for state in stage.states]
    assert files == sorted(files)
    assert len(set(files)) > 1


@pytest.mark.parametrize("threads", [1, 4])
def test_a_compaction_shows_the_base_files_it_makes(threads: int) -> None:
    table, shown = _recorded(threads, table_type="MERGE_ON_READ", buckets=2)
    table.upsert(FIRST)
    table.upsert(SECOND)
    shown.stages.clear()
    table.compact()
    (stage,) = shown.stages
    slices = table.file_slices()
    assert (stage.title, stage.total, stage.is_full) == ("compacting", len(slices), True)
    sizes = [part.base.size for part in slices if part.base]
    assert stage.made == Measure(rows=80, files=len(sizes), bytes=sum(sizes))


def test_reading_and_writing_nothing_show_nothing() -> None:
    table, shown = _recorded(2, table_type="MERGE_ON_READ", buckets=2)
    table.read()
    table.upsert(SCHEMA.empty_table())
    assert table.compact() is None
    assert shown.stages == []


@pytest.mark.parametrize("threads", [1, 4])
def test_a_write_that_fails_ends_its_stage_where_it_was(threads: int) -> None:
    storage, shown = FailingStorage(), Recording()
    opened = new_table(storage=storage, buckets=4)
    storage.fail_before = lambda op, path: op == "open_output"
    with pytest.raises(StorageError):
        Table(opened, LocalEngine(threads, shown)).upsert(FIRST)
    (stage,) = shown.stages
    assert (stage.title, stage.ends, stage.states) == ("writing", 1, [])


class _Failing:
    """A progress that fails at one of its calls."""

    def __init__(self, at: str) -> None:
        self.at = at

    def _fail(self, call: str) -> None:
        if call == self.at:
            raise OSError("The terminal is gone.")

    def begin(self, title: str, total: int | None) -> Bar:
        self._fail("begin")
        return self

    def show(self, done: int, total: int | None, made: Measure) -> None:
        self._fail("show")

    def end(self) -> None:
        self._fail("end")


@pytest.mark.parametrize("at", ["begin", "show", "end"])
def test_a_progress_that_fails_harms_no_write(at: str) -> None:
    table = Table(new_table(), LocalEngine(2, _Failing(at)))
    assert table.upsert(FIRST).inserted == 60
    assert table.read().num_rows == 60


def test_a_text_that_cannot_be_measured_is_the_callers_matter_alone() -> None:
    def measure(text: str) -> Measure:
        raise ValueError(text)

    engine = LocalEngine(1, Recording())
    assert engine.run(lambda _, task: task, ["a", "b"], Stage("odd", measure)) == ["a", "b"]


def test_a_stage_whose_tasks_get_known_bit_by_bit_never_goes_back() -> None:
    shown = Recording()
    with watching(shown, Stage("jobs"), None) as watch:
        for done, total in [(0, 0), (1, 4), (0, 2), (4, 4), (5, 12)]:
            watch.reach(done, total)
    states = [(done, total) for done, total, _ in shown.stages[0].states]
    assert states == [(0, None), (1, 4), (1, 4), (4, 4), (5, 12), (12, 12)]


def test_a_stage_of_which_nothing_gets_known_still_ends_full() -> None:
    shown = Recording()
    with watching(shown, Stage("remote"), None):
        pass
    assert [state[:2] for state in shown.stages[0].states] == [(1, 1)]
    assert shown.stages[0].is_full


# On a terminal, and not


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Terminal]:
    """What standard error may be redirected to."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    progress._terminal.cache_clear()
    yield _Terminal()
    progress._terminal.cache_clear()


def _write(path: Path, **options: object) -> Table:
    table = lentic.create(
        str(path / "t"),
        SCHEMA,
        key="id",
        partition_by="day",
        buckets=2,
        options={key.replace("_", "."): value for key, value in options.items()},
    )
    table.upsert(FIRST)
    table.compact()
    return table


def test_where_no_terminal_is_nothing_is_written(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _write(tmp_path)
    assert capfd.readouterr() == ("", "")


def test_on_a_terminal_every_stage_leaves_its_bar_and_standard_output_is_left_alone(
    tmp_path: Path, terminal: _Terminal, capfd: pytest.CaptureFixture[str]
) -> None:
    with redirect_stderr(terminal):
        _write(tmp_path)
    text = terminal.getvalue()
    assert "writing" in text
    assert "compacting" in text
    assert "60 rows, 6 files" in text
    assert capfd.readouterr().out == ""


def test_progress_can_be_turned_off(tmp_path: Path, terminal: _Terminal) -> None:
    with redirect_stderr(terminal):
        _write(tmp_path, lentic_progress="off")
    assert terminal.getvalue() == ""


def test_an_unknown_kind_of_progress_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"lentic\.progress"):
        _write(tmp_path, lentic_progress="loud")


def test_without_a_standard_error_there_are_no_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert bars() is None
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BytesIO()))
    assert bars() is None
    sys.stderr.close()
    assert bars() is None


def test_a_terminal_that_breaks_while_writing_harms_neither_the_write_nor_standard_output(
    tmp_path: Path,
    terminal: _Terminal,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    tried: list[str] = []

    def broken(text: str) -> int:
        tried.append(text)
        raise BrokenPipeError

    monkeypatch.setattr(terminal, "write", broken)
    with redirect_stderr(terminal):
        assert _write(tmp_path).read().num_rows == 60
    assert tried
    print("still there")
    assert capfd.readouterr().out == "still there\n"


# Bars


def _bars() -> tuple[Progress, io.StringIO]:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, color_system=None, _environ={})
    return Bars(console), out


def _last_screen(out: io.StringIO) -> list[str]:
    """The lines as they stay on the terminal: after the last time that all were drawn anew."""
    text = out.getvalue().rpartition("\x1b[2K")[2].replace("\x1b[?25h", "")
    return [line.strip() for line in text.splitlines() if line.strip()]


def test_a_bar_shows_tasks_rows_files_and_bytes() -> None:
    shown, out = _bars()
    measure = Measure(rows=600, files=1, bytes=1536)
    with watching(shown, Stage("[writing]", lambda text: measure), 2) as watch:
        watch.advance(["a"])
        watch.advance(["b"])
    (line,) = _last_screen(out)
    assert line.startswith("[writing] "), "a title is no mark-up"
    assert "2/2 1,200 rows, 2 files, 3.0 KiB 0:00:0" in line
    assert out.getvalue().endswith("\x1b[?25h"), "the cursor is back"


def test_a_bar_of_a_stage_that_failed_stays_unfinished() -> None:
    shown, out = _bars()
    with pytest.raises(StorageError), watching(shown, Stage("writing"), 3) as watch:
        watch.advance()
        raise StorageError("Lost.")
    assert " 1/3 " in _last_screen(out)[0]
    assert out.getvalue().endswith("\x1b[?25h")


def test_stages_at_the_same_time_stand_below_each_other_in_one_display() -> None:
    shown, out = _bars()
    with watching(shown, Stage("outer"), 1):
        with watching(shown, Stage("first"), 5) as watch:
            watch.advance(tasks=2)
        with watching(shown, Stage("second"), None) as watch:
            watch.reach(1, 7)
    lines = _last_screen(out)
    assert [line.split()[0] for line in lines] == ["outer", "first", "second"]
    assert all(count in line for count, line in zip(["1/1", "5/5", "7/7"], lines, strict=True))
    assert out.getvalue().count("\x1b[?25h") == 1
    with watching(shown, Stage("later"), 1):
        pass
    assert [line.split()[0] for line in _last_screen(out)] == ["later"]


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (Measure(), ""),
        (Measure(1, 1, 1), "1 row, 1 file, 1 B"),
        (Measure(1_234_567, 0, 0), "1,234,567 rows"),
        (Measure(0, 2, 1023), "2 files, 1023 B"),
        (Measure(0, 0, 1024), "1.0 KiB"),
        (Measure(0, 0, 5 * 1024**3), "5.0 GiB"),
    ],
)
def test_measures_are_for_people(made: Measure, text: str) -> None:
    assert format_measure(made) == text
