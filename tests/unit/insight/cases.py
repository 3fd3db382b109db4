"""Tables in the states that operators ask about, and how tests ask."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

from lentic.config.groups import REGISTRY
from lentic.config.options import resolve
from lentic.config.services import ServiceOptions
from lentic.engine import LocalEngine
from lentic.format import layout
from lentic.format.names import Action
from lentic.format.times import RequestedAt
from lentic.insight.answers import Answer
from lentic.storage.memory import MemoryStorage
from lentic.table import Table
from lentic.txn.transaction import transaction
from tests.unit.builders import StillClock, new_table, rows, still_world
from tests.unit.verbs import COW

HOUR_MS = 3_600_000
STRAY = "f0000000-0000-0000-0000-000000000000-0_9-9-9"


class Case:
    """A table whose storage dates files by the clock that the table has, less `lag_ms`."""

    def __init__(self, table_type: str = COW, **given: Any) -> None:
        world = still_world()
        assert isinstance(world.clock, StillClock)
        self.clock = world.clock
        self.lag_ms = 0
        self.storage = MemoryStorage(lambda: self.clock.ms - self.lag_ms)
        given.setdefault("buckets", None)
        self.opened = new_table(storage=self.storage, world=world, table_type=table_type, **given)
        self.table = Table(self.opened, LocalEngine(threads=1))

    def reopened(self, options: dict[str, object]) -> Case:
        """The same table, opened by somebody with other options."""
        other = copy(self)
        services = ServiceOptions.parse(resolve(options, REGISTRY))
        other.opened = replace(self.opened, services=services)
        other.table = Table(other.opened, LocalEngine(threads=1))
        return other

    def write(self, *keys: str, value: int = 0, day: str = "d") -> RequestedAt:
        """Upsert these keys."""
        return self.table.upsert(rows(*((key, value, day) for key in keys))).requested_at

    def versions(self, count: int) -> list[str]:
        """The base files, oldest first, that so many writes to one key leave."""
        for number in range(count):
            self.write("a", value=number)
        return self.bases()

    def bases(self) -> list[str]:
        """Every base file, by the time of its write."""
        found = [f.path for f in self.storage.walk("") if f.path.endswith(".parquet")]
        data = [path for path in found if not path.startswith(layout.HOODIE)]
        return sorted(data, key=lambda path: path.rpartition("_")[2])

    def begin_write(self, action: Action = Action.COMMIT) -> RequestedAt:
        """A write that began and goes no further."""
        with transaction(self.opened) as txn:
            return txn.start(txn.request(action)).requested_at

    def beat(self, at: str, host: str = "far", pid: int = 7) -> None:
        """A sign of life, given now."""
        content = f'{{"host": "{host}", "pid": {pid}, "seq": 1}}'
        self.storage.replace(layout.heartbeat(RequestedAt(at)), content.encode())

    def put_stray(self, at: str, partition: str = "d") -> str:
        path = layout.data_file(partition, f"{STRAY}_{at}.parquet")
        assert self.storage.put_if_absent(path, b"x")
        return path

    def why(self, what: str, **more: Any) -> Answer:
        """Ask, and make sure that asking changed nothing."""
        before = {file.path: file for file in self.storage.walk("")}
        answer = self.table.why(what, **more)
        assert {file.path: file for file in self.storage.walk("")} == before
        return answer


def says(answer: Answer, code: str) -> str:
    """The sentence of one reason."""
    found = [reason.says for reason in answer.reasons if reason.code == code]
    assert found, f"no {code} among {[reason.code for reason in answer.reasons]}"
    return found[0]


def typed(answer: Answer) -> list[str]:
    """What to type next in Python."""
    return [step.python for step in answer.next_steps]
