"""Random operations on a table and on a plain dict of rows; after every step they must be equal.

The dict knows no files, instants or indexes. What it does know is which version of a record wins:
without an ordering column the later one, with it the one with the greater value, ties to the later.
One thing is left to the format, and so not drawn: on MERGE_ON_READ a row that follows the delete of
its key is compared with what the base file still holds, so it always comes with a new time here.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import lentic
from lentic import Commit, Table

PARTITIONS = ("d1", "d2", "d3")
SCHEMA = pa.schema(
    [("id", pa.string()), ("day", pa.string()), ("v", pa.int64()), ("ts", pa.int64())]
)
Key = tuple[str, str]
Row = dict[str, Any]

ids = st.lists(st.integers(0, 14).map(lambda n: f"k{n}"), min_size=1, max_size=6, unique=True)
days = st.sampled_from(PARTITIONS)
values = st.integers(-5, 5)


class TableMachine(RuleBasedStateMachine):
    """One table, one dict. Subclasses say which engine works and what happens at the end."""

    spark: ClassVar[Any] = None
    at_end: ClassVar[Callable[[str, pa.Table], None] | None] = None

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="lentic-model-"))
        self.rows: dict[Key, Row] = {}
        self.deleted: set[Key] = set()
        self.clock = 0

    @initialize(
        table_type=st.sampled_from(["MERGE_ON_READ", "COPY_ON_WRITE"]),
        buckets=st.sampled_from([None, 1, 3]),
        ordering=st.sampled_from([None, "ts"]),
    )
    def create(self, table_type: str, buckets: int | None, ordering: str | None) -> None:
        self.ordering, self.buckets, self.table_type = ordering, buckets, table_type
        options = {"hoodie.combine.before.insert": "true", "hoodie.parquet.max.file.size": 20_000}
        options |= {"hoodie.parquet.small.file.limit": 8_000}
        self.table: Table = lentic.create(
            str(self.folder / "table"),
            SCHEMA,
            key="id",
            partition_by="day",
            ordering=ordering,
            table_type=table_type,
            buckets=buckets,
            options=options,
            spark=self.spark,
        )

    # --- operations ---------------------------------------------------------------------------

    @rule(keys=ids, day=days, v=values, late=st.booleans())
    def upsert(self, keys: list[str], day: str, v: int, late: bool) -> None:
        batch = self._batch(keys, day, v, late)
        self._expect(self.table.upsert(_table(batch)), self._put(batch))

    @rule(keys=ids, day=days, v=values)
    def insert(self, keys: list[str], day: str, v: int) -> None:
        batch = self._batch(self._unused(keys, day), day, v, late=False)
        if batch:
            self._expect(self.table.insert(_table(batch)), self._put(batch))

    @rule(keys=ids, day=days, v=values)
    def bulk_insert(self, keys: list[str], day: str, v: int) -> None:
        batch = self._batch(self._unused(keys, day), day, v, late=False)
        if batch:
            done = self.table.bulk_insert(_table(batch), sort_by=["v", "id"])
            self._expect(done, self._put(batch))

    @rule(keys=ids, day=days)
    def delete(self, keys: list[str], day: str) -> None:
        named = pa.table({"id": keys, "day": [day] * len(keys)})
        self._expect(self.table.delete(named), self._drop([(day, key) for key in keys]))

    @rule(v=values)
    def delete_where(self, v: int) -> None:
        gone = [key for key, row in self.rows.items() if row["v"] > v]
        self._expect(self.table.delete(f"v > {v}"), self._drop(gone))

    @rule(keys=ids, day=days, v=values)
    def insert_overwrite(self, keys: list[str], day: str, v: int) -> None:
        before = [key for key in self.rows if key[0] == day]
        batch = self._batch(keys, day, v, late=False)
        _, _, deleted = self._drop(before)
        inserted, _, _ = self._put(batch)
        self._expect(self.table.insert_overwrite(_table(batch)), (inserted, 0, deleted))

    @rule(keys=ids, day=days, v=values)
    def insert_overwrite_table(self, keys: list[str], day: str, v: int) -> None:
        batch = self._batch(keys, day, v, late=False)
        _, _, deleted = self._drop(list(self.rows))
        inserted, _, _ = self._put(batch)
        self._expect(self.table.insert_overwrite_table(_table(batch)), (inserted, 0, deleted))

    @rule(chosen=st.lists(days, min_size=1, max_size=2, unique=True))
    def delete_partitions(self, chosen: list[str]) -> None:
        gone = [key for key in self.rows if key[0] in chosen]
        self._expect(self.table.delete_partitions(chosen), self._drop(gone))

    @rule(keys=ids, day=days, v=values)
    def merge(self, keys: list[str], day: str, v: int) -> None:
        """Add to what is there, delete what becomes zero, insert what is new and positive."""
        batch = self._batch(keys, day, v, late=False)
        counts = [0, 0, 0]
        for row in batch:
            key = (row["day"], row["id"])
            if (old := self.rows.get(key)) is None:
                if v > 0:
                    self.rows[key] = row
                    counts[0] += 1
            elif old["v"] + v == 0:
                counts[2] += self._drop([key])[2]
            else:
                self.rows[key] = row | {"v": old["v"] + v}
                counts[1] += 1
        done = (
            self.table.merge(_table(batch))
            .when_matched_delete(condition="target.v + source.v = 0")
            .when_matched_update({"v": "target.v + source.v", "ts": "source.ts"})
            .when_not_matched_insert(condition="source.v > 0")
            .execute()
        )
        self._expect(done, (counts[0], counts[1], counts[2]))

    @precondition(lambda self: self.table_type == "MERGE_ON_READ")
    @rule()
    def compact(self) -> None:
        self.table.compact()

    # --- what must hold -----------------------------------------------------------------------

    @invariant()
    def rows_are_equal(self) -> None:
        if hasattr(self, "table"):
            assert _sorted(self._read()) == _sorted(list(self.rows.values()))

    def teardown(self) -> None:
        at_end = type(self).at_end
        if at_end is not None and hasattr(self, "table") and self.table.timeline():
            at_end(self.table.path, _table(list(self.rows.values())))
        shutil.rmtree(self.folder, ignore_errors=True)

    # --- the model ----------------------------------------------------------------------------

    def _batch(self, keys: Sequence[str], day: str, v: int, late: bool) -> list[Row]:
        """Rows with a time of their own; late ones lie before others that were written."""
        self.clock += 10
        times = {
            key: self.clock - (15 if late and (day, key) not in self.deleted else 0) for key in keys
        }
        return [{"id": key, "day": day, "v": v, "ts": times[key]} for key in keys]

    def _unused(self, keys: Sequence[str], day: str) -> list[str]:
        """Without buckets an insert does not look keys up: only new ones stay unique."""
        return [key for key in keys if self.buckets or (day, key) not in self.rows]

    def _put(self, batch: Sequence[Row]) -> tuple[int, int, int]:
        inserted = updated = 0
        for row in batch:
            key = (row["day"], row["id"])
            old = self.rows.get(key)
            if old is None:
                inserted += 1
            elif self.ordering and row["ts"] < old["ts"]:
                continue
            else:
                updated += 1
            self.rows[key] = row
        return inserted, updated, 0

    def _drop(self, keys: Sequence[Key]) -> tuple[int, int, int]:
        there = [key for key in keys if key in self.rows]
        for key in there:
            del self.rows[key]
        self.deleted |= set(there)
        return 0, 0, len(there)

    def _expect(self, done: Commit, counts: tuple[int, int, int]) -> None:
        assert (done.inserted, done.updated, done.deleted) == counts, done

    def _read(self) -> list[Row]:
        found = self.table.read()
        rows = found if isinstance(found, pa.Table) else found.toArrow()
        return list(rows.to_pylist())


def _table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def _sorted(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["day"], row["id"]))


def play(machine: type[TableMachine], runs: int, steps: int) -> None:
    """Run a machine that often; a failure prints the shortest series of steps that shows it."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=runs,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
