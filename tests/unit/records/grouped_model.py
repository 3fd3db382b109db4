"""What a series of changes does to rows with column groups, one change at a time: the model that
the kernel on whole columns is held against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lentic.config.column_groups import ColumnGroups
from lentic.format.record_fields import COMMIT_TIME, RECORD_KEY

Row = dict[str, Any]
State = dict[str, Row]


@dataclass(frozen=True)
class Put:
    """A row with the columns it carries; what it does not name it leaves alone."""

    key: str
    values: Mapping[str, Any]
    commit: str


@dataclass(frozen=True)
class Gone:
    """A delete; `order` is None for one without an ordering value."""

    key: str
    order: int | None
    commit: str


@dataclass(frozen=True)
class Model:
    columns: tuple[str, ...]
    groups: ColumnGroups
    ordering: str | None = None

    def replay(self, state: State, changes: Iterable[Put | Gone]) -> State:
        """The rows after the changes; `state` is left as it is."""
        rows = {key: dict(row) for key, row in state.items()}
        for change in changes:
            if isinstance(change, Gone):
                self._remove(rows, change)
            else:
                self._put(rows, change)
        return rows

    def _remove(self, rows: State, gone: Gone) -> None:
        row = rows.get(gone.key)
        if row is None:
            return
        is_hard = self.ordering is None or gone.order is None
        if is_hard or self._reaches(gone.order, row[self.ordering or ""]):
            del rows[gone.key]

    def _put(self, rows: State, put: Put) -> None:
        old = rows.get(put.key)
        row = rows.setdefault(put.key, {RECORD_KEY: put.key} | dict.fromkeys(self.columns))
        changed = old is None
        before = dict(row)
        for name, value in put.values.items():
            by = self._by(name)
            if by is not None and not self._reaches(put.values.get(by), before[by]):
                continue
            row[name] = value
            changed = True
        if changed:
            row[COMMIT_TIME] = put.commit

    def _by(self, name: str) -> str | None:
        for group in self.groups:
            if name in group.names:
                return group.ordering
        return self.ordering

    @staticmethod
    def _reaches(new: int | None, old: int | None) -> bool:
        return old is None or (new is not None and new >= old)
