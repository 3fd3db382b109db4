"""Somebody's storage that notes, of each call, whether the table's lock was held then."""

from __future__ import annotations

from typing import Any

from lentic.format import layout
from tests.rfc.guard_scenes import Gate, Stage

WRITES = ("put_if_absent", "replace", "open_output", "delete")


class LockWatch(Gate):
    """`seen` has, for each call: what, where, and whether under the lock."""

    def __init__(self, scene: Stage) -> None:
        super().__init__(scene.memory, lambda op, path: False, lambda: None)
        self._scene = scene
        self.seen: list[tuple[str, str, bool]] = []

    def before(self, op: str, path: str) -> None:
        self.seen.append((op, path, not self._scene.lock_is_free()))
        super().before(op, path)

    def changes(self) -> list[tuple[str, bool]]:
        """Where something was changed, in order, and whether under the lock."""
        return [(path, held) for op, path, held in self.seen if op in WRITES]

    def held_when(self, *words: str) -> set[bool]:
        """Whether the lock was held, at each change of a path that has all these words."""
        return {held for path, held in self.changes() if all(word in path for word in words)}


def is_data(path: str) -> bool:
    return bool(path) and not path.startswith(layout.HOODIE)


def first_of(changes: list[tuple[str, Any]], *words: str) -> int:
    """The place of the first change of a path that has all these words."""
    return next(n for n, (path, _) in enumerate(changes) if all(word in path for word in words))
