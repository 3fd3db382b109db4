"""How a runner is told to end."""

from __future__ import annotations

import os
import signal

import pyarrow as pa
import pytest

from lentic.engine import Attempt, LocalEngine, Scan
from lentic.errors import Unavailable
from lentic.runner.stop import SignalStop, StoppableEngine, leaving_at_once


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_for_the_end_and_a_second_one_is_urgent(number: signal.Signals) -> None:
    stop, before = SignalStop(), signal.getsignal(number)
    with stop.listening():
        assert not stop.is_asked
        os.kill(os.getpid(), number)
        stop.wait(60)
        assert stop.is_asked and not stop.is_urgent
        os.kill(os.getpid(), number)
        assert stop.is_urgent
    assert signal.getsignal(number) is before


def test_work_under_way_is_ended_also_within_a_block_of_its_own() -> None:
    engine = StoppableEngine(LocalEngine(threads=1))
    done: list[int] = []

    def work(attempt: Attempt, task: int) -> str:
        done.append(task)
        engine.stop()
        return ""

    with engine.stoppable(), engine.stoppable(), pytest.raises(Unavailable, match="stopped"):
        engine.run(work, [1, 2, 3])
    assert done == [1]


def test_what_comes_after_a_stop_runs() -> None:
    engine = StoppableEngine(LocalEngine(threads=1))
    with engine.stoppable():
        engine.stop()
    engine.stop()
    assert engine.run(lambda attempt, task: str(task), [1, 2]) == ["1", "2"]


def test_after_a_stop_nothing_begins_before_the_outermost_block_ends() -> None:
    """Otherwise a stop between two stages would come to nothing."""
    engine = StoppableEngine(LocalEngine(threads=1))
    with engine.stoppable():
        engine.stop()
        with engine.stoppable(), pytest.raises(Unavailable, match="stopped"):
            engine.run(lambda attempt, task: str(task), [1])
        with pytest.raises(Unavailable, match="stopped"):
            engine.collect(Scan(pa.schema([]), (), lambda payload: iter(())))
    assert engine.run(lambda attempt, task: str(task), [1]) == ["1"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_before_anything_is_under_way_a_signal_ends_the_process_in_good_order(
    number: signal.Signals,
) -> None:
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as ended, leaving_at_once():
        os.kill(os.getpid(), number)
    assert ended.value.code == 0
    assert signal.getsignal(number) is before
