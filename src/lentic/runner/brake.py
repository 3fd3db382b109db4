"""The brake: how an action ends that does not run on an engine just now.

Engines end their own work. Two things besides can last for long: waiting, for a lock or for a sign
of life, and deleting many files. Both heed the brake. Nothing else does, above all no read and no
write of the timeline: whether a commit took place is found out by reading back, and what failed
there must have failed. An action that is stopped here is left as by a crash at that call, which
whoever comes next makes good.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

from lentic.engine import stopped
from lentic.errors import StorageError
from lentic.format.layout import is_data_path
from lentic.storage.base import ConditionalStorage, Storage
from lentic.world import Clock, World

_LOOK_S = 0.5
"""How long a wait may go on once the brake is pulled."""


class Brake:
    """Pulled or not, for the action that is under way."""

    def __init__(self) -> None:
        self._pulled = threading.Event()

    @property
    def is_pulled(self) -> bool:
        return self._pulled.is_set()

    @contextmanager
    def ready(self) -> Iterator[Callable[[], None]]:
        """A block that another thread can end by calling what the block is given. Called too late
        it does nothing: the next block has a brake of its own."""
        before, self._pulled = self._pulled, threading.Event()
        try:
            yield self._pulled.set
        finally:
            self._pulled = before


def heeding_world(world: World, brake: Brake) -> World:
    """The same world, in which waiting ends when the brake is pulled. For opening tables: their
    locks wait by the clock they were made with."""
    return replace(world, clock=_HeedingClock(world.clock, brake))


def heeding_storage(storage: Storage, brake: Brake) -> Storage:
    """The same storage, which deletes no data files once the brake is pulled."""
    return cast(Storage, _HeedingStorage(storage, brake))


class _HeedingClock:
    def __init__(self, inner: Clock, brake: Brake) -> None:
        self._inner, self._brake = inner, brake

    def now_ms(self) -> int:
        return self._inner.now_ms()

    def monotonic(self) -> float:
        return self._inner.monotonic()

    def sleep(self, seconds: float) -> None:
        left_s = seconds
        while not self._brake.is_pulled and left_s > 0:
            self._inner.sleep(min(left_s, _LOOK_S))
            left_s -= _LOOK_S
        if self._brake.is_pulled:
            raise stopped()


class _HeedingStorage:
    """Can all that the inner one can, and is the inner one to whoever compares: what was read of it
    is remembered by storage. So it is on a worker in another process, too, where the engine ends
    the work."""

    def __init__(self, inner: Storage, brake: Brake) -> None:
        self._inner, self._brake = inner, brake
        for name in _PASSED_ON:
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))

    def __eq__(self, other: object) -> bool:
        return self._inner == (other._inner if isinstance(other, _HeedingStorage) else other)

    def __hash__(self) -> int:
        return hash(self._inner)

    def __reduce__(self) -> tuple[object, ...]:
        return (_itself, (self._inner,))

    def delete(self, path: str) -> bool:
        """Files of our own, such as heartbeats and markers, go all the same: signs of life end.

        The error is a storage's, as of any delete that was not carried out: whoever deletes knows
        what to make of it, for example that a commit has landed and only tidying up is left.
        """
        if self._brake.is_pulled and is_data_path(path):
            raise StorageError(
                f"{path!r} was not deleted: the work was stopped.",
                where=self._inner.root,
                safe="what has to go is named on the timeline or by markers, and goes later",
                next_step="none; it is tried again",
            )
        return self._inner.delete(path)


_PASSED_ON = sorted({name for name in dir(ConditionalStorage) if name[0] != "_"} - {"delete"})


def _itself(storage: Storage) -> Storage:
    return storage
