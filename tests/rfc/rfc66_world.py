"""A table for the tests of RFC-66, step by step, and slices cut by hand."""

from __future__ import annotations

from typing import Any

from lentic.table import Table
from lentic.testing.simulation import Simulation
from lentic.testing.tables import open_on
from lentic.view.files import BaseFile, FileGroupId, LogFile
from lentic.view.slicing import slice_file_group
from tests.simulation.flows import Rows, arrow, create
from tests.unit.write.attempts import begin, finish

GROUP = FileGroupId("p", "fg")


class World:
    """One table and what its users do to it, step by step."""

    def __init__(self, table_type: str = "MERGE_ON_READ") -> None:
        self.sim = Simulation(0)
        self.lock = self.sim.lock()
        self.storage = self.sim.memory
        create(table_type)(self.storage, self.sim.world("setup"), self.lock)

    @property
    def table(self) -> Table:
        return open_on(self.storage, self.sim.world("user"), self.lock)

    def begin(self) -> Any:
        return begin(self.table._opened)

    def finish(self, begun: Any, rows: Rows) -> Any:
        return finish(self.table._opened, arrow(rows), begun)

    def rows(self, **question: Any) -> Rows:
        found = self.table.read(**question).to_pylist()
        assert len({row["id"] for row in found}) == len(found)
        return {row["id"]: row["ts"] for row in found}


def slices(*files: BaseFile | LogFile) -> list[tuple[str, list[str]]]:
    bases = [file for file in files if isinstance(file, BaseFile)]
    logs = [file for file in files if isinstance(file, LogFile)]
    group = slice_file_group(GROUP, bases, logs)
    return [(str(part.barrier), [log.path for log in part.logs]) for part in group.slices]
