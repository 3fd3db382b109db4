"""The driver: a process of its own, because a process can be the driver of one cluster only.

The test sends it module-level functions; they run beside the session that the process holds.
"""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from lentic.spark import session
from tests.faults.processes import MARK
from tests.faults.waiting import PATIENCE_S

T = TypeVar("T")


class DriverFailed(AssertionError):
    """What was asked of the driver raised there; the message is its traceback."""


class Driver:
    """A driver, seen from the test. One call at a time."""

    def __init__(self, mark: str, settings: Mapping[str, str]) -> None:
        context = multiprocessing.get_context("spawn")
        self._answers, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, mark, dict(settings)), daemon=True
        )
        self._process.start()
        theirs.close()
        self.finish()

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run `function(spark, *arguments)` there, and wait for its result."""
        self.begin(function, *arguments)
        result: T = self.finish()
        return result

    def begin(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Start a call, whose result `finish` gives."""
        self._answers.send((function, arguments))

    def has_answered(self) -> bool:
        """Whether the call that was begun has ended."""
        return self._answers.poll(0)

    def finish(self) -> Any:
        """The result of the call that was begun."""
        assert self._answers.poll(2 * PATIENCE_S), "the driver does not answer"
        ok, answer = self._answers.recv()
        if not ok:
            raise DriverFailed(answer)
        return answer

    def end(self) -> None:
        """Stop the session and the process."""
        if self._process.is_alive():
            self._answers.send(None)
            self._process.join(30)
        self._process.kill()
        self._process.join()
        self._process.close()
        self._answers.close()


def _serve(calls: Connection, mark: str, settings: dict[str, str]) -> None:
    os.environ[MARK] = mark
    spark: SparkSession | None = None

    def start() -> None:
        nonlocal spark
        spark = session("lentic-faults", None, settings)

    _answer(calls, start)
    while (call := calls.recv()) is not None:
        function, arguments = call
        _answer(calls, function, spark, *arguments)
    if spark is not None:
        spark.stop()


def _answer(calls: Connection, work: Callable[..., Any], *arguments: Any) -> None:
    try:
        answer = (True, work(*arguments))
    except Exception:
        answer = (False, traceback.format_exc())
    calls.send(answer)
