"""The local engine: everything is routed before anything is handled, and order is kept."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lentic.engine import Attempt, LocalEngine, Scan, ScanTask, Shuffle, ensure_not_stopped
from lentic.errors import InvalidRecord, SchemaMismatch, Unavailable


def _route(rows: pa.RecordBatch) -> pa.Array:
    return rows.column("n").cast(pa.int32())


def _texts(attempt: Attempt, batches: Iterator[pa.RecordBatch]) -> Iterator[str]:
    """What the attempt got, row by row."""
    for batch in batches:
        for row in batch.to_pylist():
            yield f"{attempt.task}/{attempt.number}/{row['n']}/{row['i']}"


def _table(numbers: list[int]) -> pa.Table:
    return pa.table({"n": pa.array(numbers, pa.int64()), "i": list(range(len(numbers)))})


@given(
    st.lists(st.integers(0, 1000), max_size=40),
    st.integers(1, 5),
    st.integers(0, 7),
    st.integers(1, 3),
)
@settings(max_examples=100, deadline=None)
def test_every_row_is_handled_once_with_its_kind_and_in_its_order(
    numbers: list[int], threads: int, tasks: int, chunk: int
) -> None:
    table = _table(numbers)
    chunks = [table.slice(at, chunk) for at in range(0, len(numbers), chunk)] or [table]
    texts = LocalEngine(threads).shuffle(
        pa.concat_tables(chunks), Shuffle(("n",), _route, _texts, tasks)
    )
    got = [tuple(map(int, text.split("/"))) for text in texts]
    assert sorted(i for _, _, _, i in got) == list(range(len(numbers)))
    assert all(numbers[i] == n for _, _, n, i in got)
    task_of: dict[int, set[int]] = {}
    for task, attempt, n, _ in got:
        task_of.setdefault(n, set()).add(task)
        assert attempt == 0
        assert 0 <= task < (tasks or 2 * threads)
    assert all(len(found) == 1 for found in task_of.values())
    for task in {task for task, *_ in got}:
        order = [i for of, _, _, i in got if of == task]
        assert order == sorted(order), "rows of one task keep their order"


@pytest.mark.parametrize(
    ("rows", "rows_per_task", "tasks"), [(3, 10, 2), (45, 10, 4), (500, 10, 8), (3, 0, 8)]
)
def test_few_rows_are_not_spread_over_many_tasks(rows: int, rows_per_task: int, tasks: int) -> None:
    shuffle = Shuffle(("n",), _route, _texts, rows_per_task=rows_per_task)
    texts = LocalEngine(4).shuffle(_table(list(range(rows))), shuffle)
    used = {int(text.split("/")[0]) for text in texts}
    assert used == set(range(min(rows, tasks)))


@pytest.mark.parametrize("threads", [1, 3])
def test_a_row_that_route_refuses_stops_the_run_before_any_handle(threads: int) -> None:
    handled: list[Attempt] = []

    def route(rows: pa.RecordBatch) -> pa.Array:
        if 13 in rows.column("n").to_pylist():
            raise InvalidRecord("Thirteen.")
        return _route(rows)

    def handle(attempt: Attempt, batches: Iterator[pa.RecordBatch]) -> Iterator[str]:
        handled.append(attempt)
        yield from ()

    table = pa.concat_tables([_table([1, 2]), _table([3]), _table([13])])
    with pytest.raises(InvalidRecord):
        LocalEngine(threads).shuffle(table, Shuffle(("n",), route, handle))
    assert handled == []


def test_route_sees_only_the_columns_it_asked_for() -> None:
    seen: list[list[str]] = []

    def route(rows: pa.RecordBatch) -> pa.Array:
        seen.append(rows.schema.names)
        return _route(rows)

    LocalEngine(1).shuffle(_table([1, 2]), Shuffle(("n",), route, _texts))
    assert seen == [["n"]]


@pytest.mark.parametrize("threads", [1, 3])
def test_no_rows_give_no_attempts(threads: int) -> None:
    assert LocalEngine(threads).shuffle(_table([]), Shuffle(("n",), _route, _texts)) == []


@pytest.mark.parametrize("kind", ["table", "batch", "reader"])
def test_rows_may_come_in_every_arrow_form(kind: str) -> None:
    table = _table([1, 2, 3])
    source = {
        "table": lambda: table,
        "batch": lambda: table.to_batches()[0],
        "reader": lambda: table.to_reader(),
    }[kind]()
    engine = LocalEngine(1)
    assert engine.schema(source) == table.schema
    texts = engine.shuffle(source, Shuffle(("n",), _route, _texts))
    assert sorted(text.rpartition("/")[2] for text in texts) == ["0", "1", "2"]


@pytest.mark.parametrize("source", [[{"n": 1}], None, "rows", 7])
def test_what_is_no_rows_is_refused_with_the_remedy(source: object) -> None:
    with pytest.raises(SchemaMismatch) as caught:
        LocalEngine().schema(source)
    assert type(source).__name__ in caught.value.what
    assert "pa.table" in caught.value.next_step


@pytest.mark.parametrize("threads", [1, 4])
def test_results_come_in_the_order_of_the_tasks(threads: int) -> None:
    squares = LocalEngine(threads).run(lambda _, n: str(n * n), range(50))
    assert squares == [str(n * n) for n in range(50)]
    assert LocalEngine(threads).run(lambda _, n: n, []) == []


@pytest.mark.parametrize("threads", [1, 4])
def test_every_task_runs_as_an_attempt_of_its_own(threads: int) -> None:
    texts = LocalEngine(threads).run(lambda a, n: f"{a.task}/{a.number}/{n}", ["a", "b", "c"])
    assert texts == ["0/0/a", "1/0/b", "2/0/c"]


def test_one_thread_means_the_callers_own() -> None:
    me = threading.get_ident()
    assert set(LocalEngine(1).run(lambda *_: str(threading.get_ident()), range(5))) == {str(me)}
    shuffle = Shuffle(("n",), _route, lambda a, b: iter([str(threading.get_ident())]))
    assert set(LocalEngine(1).shuffle(_table([1, 2, 3]), shuffle)) == {str(me)}


@pytest.mark.parametrize("threads", [1, 4])
def test_an_error_in_a_task_reaches_the_caller(threads: int) -> None:
    def work(attempt: Attempt, number: int) -> str:
        if number == 3:
            raise InvalidRecord("Three.")
        return str(number)

    with pytest.raises(InvalidRecord):
        LocalEngine(threads).run(work, range(6))


@pytest.mark.parametrize("threads", [1, 4])
def test_a_scan_gives_its_batches_in_task_order_and_its_schema_even_when_empty(
    threads: int,
) -> None:
    schema = pa.schema([("n", pa.int64())])

    def read(count: int) -> Iterator[pa.RecordBatch]:
        for number in range(count):
            yield pa.record_batch([pa.array([count * 10 + number])], schema=schema)

    tasks = tuple(ScanTask(count) for count in (2, 0, 3))
    assert LocalEngine(threads).collect(Scan(schema, tasks, read)).to_pydict() == {
        "n": [20, 21, 30, 31, 32]
    }
    assert LocalEngine(threads).collect(Scan(schema, (), read)).schema == schema


def test_work_of_threads_can_be_stopped() -> None:
    engine, begun, go = LocalEngine(threads=2), threading.Event(), threading.Event()

    def work(_: Any, number: int) -> str:
        begun.set()
        assert go.wait(10)
        return str(number)

    def stop_it(stop: Any) -> None:
        begun.wait(10)
        stop()
        go.set()

    with engine.stoppable() as stop:
        stopper = threading.Thread(target=stop_it, args=(stop,))
        stopper.start()
        with pytest.raises(Exception, match="was stopped"):
            engine.run(work, list(range(50)))
        stopper.join()
    assert engine.run(lambda _, n: str(n), [1, 2]) == ["1", "2"]


@pytest.mark.parametrize("threads", [1, 2])
def test_work_that_asks_ends_before_its_task_does(threads: int) -> None:
    engine = LocalEngine(threads)

    def work(stop: Any, number: int) -> str:
        stop()
        ensure_not_stopped()
        raise AssertionError("nobody told it")

    with engine.stoppable() as stop, pytest.raises(Unavailable, match="was stopped"):
        engine.run(lambda _, number: work(stop, number), [1, 2])
    ensure_not_stopped()
