"""Work that others can see is going on, and that stops when they may believe it is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lentic.coordination.heartbeat import Heart, beating
from lentic.engine import Engine
from lentic.format.times import RequestedAt
from lentic.txn.transaction import OpenTable


@contextmanager
def staying_alive(
    table: OpenTable, engine: Engine, at: RequestedAt, *, epoch: int
) -> Iterator[Heart]:
    """Give signs of life for the instant `at`; should that fail for too long, stop at once what
    runs on `engine` in this block."""
    with (
        beating(table.storage, table.world, at, table.pulse, epoch=epoch) as heart,
        engine.stoppable() as stop,
    ):
        heart.when_lost(stop)
        yield heart
