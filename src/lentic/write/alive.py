"""Work that others can see is going on, and that stops when they may believe it is not, or when it
is not wanted any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from lentic.coordination.heartbeat import Heart, beating
from lentic.engine import Engine
from lentic.errors import StorageError
from lentic.format.times import RequestedAt
from lentic.txn.transaction import OpenTable


@dataclass(frozen=True, slots=True)
class StopWhen:
    """Stop as soon as `is_over`, which is asked every so often and may fail to answer."""

    is_over: Callable[[], bool]
    every_s: float


@contextmanager
def staying_alive(
    table: OpenTable,
    engine: Engine,
    at: RequestedAt,
    *,
    epoch: int,
    watch: StopWhen | None = None,
) -> Iterator[Heart]:
    """Give signs of life for the instant `at`; should that fail for too long, or should `watch` say
    so, stop at once what runs on `engine` in this block."""
    with ExitStack() as held:
        beats = beating(table.storage, table.world, at, table.pulse, epoch=epoch)
        heart = held.enter_context(beats)
        stop = held.enter_context(engine.stoppable())
        heart.when_lost(stop)
        if watch is not None:
            look = _stopping(watch, stop)
            held.enter_context(table.world.background.every(watch.every_s, look))
        yield heart


def _stopping(watch: StopWhen, stop: Callable[[], None]) -> Callable[[], None]:
    def look() -> None:
        with suppress(StorageError):  # then the next look tells
            if watch.is_over():
                stop()

    return look
