"""A table that lentic and Apache Hudi write to in turns, with a model of what it must hold.

Every write is done to the table and to the model, then every reader is asked for the rows. The
model is what finds rows that all engines lose alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

import lentic
from tests.interop.compare import RowsDiffer, ensure_same_rows
from tests.interop.histories import COPY_ON_WRITE, MERGE_ON_READ
from tests.interop.histories import Shape as HudiShape
from tests.interop.readers import ApacheHudi, hudi_rs_rows
from tests.rows import PARTITIONS, SCHEMA, make_rows

KEY = ["id"]
BUCKETS = 3
QUERY = "hoodie.datasource.query.type"
_COMPACT = (
    "call run_compaction(op => '{op}', table => 'target',"
    " options => 'hoodie.compact.inline.max.delta.commits=1')"
)

_NO_HOUSEKEEPING = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


@dataclass(frozen=True, slots=True)
class Shape:
    """What a table is: its type, its buckets if it has any, and how versions are ordered."""

    table_type: str
    buckets: int | None
    ordering: str | None

    def __str__(self) -> str:
        kind = "mor" if self.is_mor else "cow"
        return f"{kind}-{self.buckets or 'join'}-{'event' if self.ordering else 'commit'}-time"

    @property
    def is_mor(self) -> bool:
        return self.table_type == MERGE_ON_READ

    def create(self, path: str) -> lentic.Table:
        return lentic.create(
            path,
            SCHEMA,
            key="id",
            partition_by="part",
            ordering=self.ordering,
            table_type=self.table_type,
            buckets=self.buckets,
        )

    def hudi_options(self, operation: str) -> dict[str, str]:
        """How an Apache Hudi job writes into the table."""
        buckets = {"hoodie.bucket.index.num.buckets": str(self.buckets)} if self.buckets else {}
        shape = HudiShape(
            table_type=self.table_type,
            index="BUCKET" if self.buckets else "SIMPLE",
            key=("id",),
            partition=("part",),
            ordering=(self.ordering,) if self.ordering else (),
            columns=(),
            settings={**_NO_HOUSEKEEPING, **buckets},
        )
        return shape.options | {
            "hoodie.table.name": "t",
            "hoodie.datasource.write.operation": operation,
            "hoodie.rollback.using.markers": "true",  # as it is unless told otherwise
        }


SHAPES = tuple(
    Shape(table_type, buckets, ordering)
    for table_type in (MERGE_ON_READ, COPY_ON_WRITE)
    for buckets in (BUCKETS, None)
    for ordering in ("ts", None)
)


def batch(
    first: int,
    last: int,
    ts: int,
    partitions: tuple[str, ...] = PARTITIONS,
    *,
    evolved: bool = False,
) -> pa.Table:
    """Rows with keys `first` up to `last` (exclusive) that lie in `partitions`.

    `evolved`: with one column more, and one of a wider type.
    """
    rows = make_rows(first, last, ts=ts, seed=ts)
    if evolved:
        small = rows.schema.get_field_index("small")
        rows = rows.set_column(small, "small", rows.column("small").cast(pa.int64()))
        added = [f"a{number}" if number % 3 else None for number in range(first, last)]
        rows = rows.append_column("added", pa.array(added, pa.string()))
    return rows.filter(pc.is_in(rows.column("part"), pa.array(partitions)))


@dataclass(slots=True)
class Model:
    """What the table holds, in plain Python; `is_ordered`: a row with a lower `ts` loses."""

    is_ordered: bool
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    schema: pa.Schema = SCHEMA

    def upsert(self, rows: pa.Table) -> None:
        self.schema = rows.schema
        for row in rows.to_pylist():
            old = self.rows.get(row["id"])
            if old is None or not self.is_ordered or row["ts"] >= old["ts"]:
                self.rows[row["id"]] = row

    def delete(self, ids: set[str]) -> None:
        self.rows = {key: row for key, row in self.rows.items() if key not in ids}

    def empty(self, partitions: set[str]) -> None:
        self.delete({key for key, row in self.rows.items() if row["part"] in partitions})

    def table(self) -> pa.Table:
        return self.table_of(self.rows)

    def table_of(self, rows: Mapping[str, Mapping[str, Any]]) -> pa.Table:
        """What it held once, in the schema of now."""
        return pa.Table.from_pylist(list(rows.values()), self.schema)


@dataclass(slots=True)
class Story:
    """The table, its model, and who reads it. `is_thorough`: Apache Hudi looks after every write,
    else only where `look` asks it to."""

    path: str
    shape: Shape
    hudi: ApacheHudi
    model: Model
    is_thorough: bool = True

    @classmethod
    def begin(cls, path: str, shape: Shape, hudi: ApacheHudi, *, is_thorough: bool = True) -> Self:
        shape.create(path)
        return cls(path, shape, hudi, Model(shape.ordering is not None), is_thorough)

    def open(self) -> lentic.Table:
        """The table as a new process opens it."""
        return lentic.open(self.path)

    # --- writes by lentic -------------------------------------------------------------------

    def bulk_insert(self, rows: pa.Table) -> None:
        self.open().bulk_insert(rows)
        self.model.upsert(rows)
        self._look_if_thorough("bulk_insert")

    def upsert(self, rows: pa.Table) -> None:
        self.open().upsert(rows)
        self.model.upsert(rows)
        self._look_if_thorough("upsert")

    def insert(self, rows: pa.Table) -> None:
        self.open().insert(rows)
        self.model.upsert(rows)
        self._look_if_thorough("insert")

    def delete_keys(self, rows: pa.Table) -> None:
        self.open().delete(rows.select(["id", "part"]))
        self.model.delete(set(rows.column("id").to_pylist()))
        self._look_if_thorough("delete by keys")

    def delete_from(self, first: int) -> None:
        """Delete every row whose `seq` is not below `first`."""
        self.open().delete(f"seq >= {first}")
        self.model.delete({key for key, row in self.model.rows.items() if row["seq"] >= first})
        self._look_if_thorough("delete by predicate")

    def insert_overwrite(self, rows: pa.Table) -> None:
        self.open().insert_overwrite(rows)
        self._overwrite(rows, set(rows.column("part").to_pylist()))
        self._look_if_thorough("insert_overwrite")

    def delete_partitions(self, *partitions: str) -> None:
        self.open().delete_partitions(list(partitions))
        self.model.empty(set(partitions))
        self._look_if_thorough("delete_partitions")

    def insert_overwrite_table(self, rows: pa.Table) -> None:
        self.open().insert_overwrite_table(rows)
        self._overwrite(rows, set(PARTITIONS))
        self._look_if_thorough("insert_overwrite_table")

    def compact(self) -> None:
        """Compact, if the table can be."""
        if self.shape.is_mor:
            self.open().compact()
            self._look_if_thorough("compaction")

    # --- writes by Apache Hudi --------------------------------------------------------------

    def hudi_writes(
        self, operation: str, rows: pa.Table, options: Mapping[str, str] | None = None
    ) -> None:
        given = self.shape.hudi_options(operation) | dict(options or {})
        self.hudi.write(self.path, rows, given)
        match operation:
            case "upsert":
                self.model.upsert(rows)
            case "delete":
                self.model.delete(set(rows.column("id").to_pylist()))
            case "insert_overwrite":
                self._overwrite(rows, set(rows.column("part").to_pylist()))
            case "insert_overwrite_table":
                self._overwrite(rows, set(PARTITIONS))
            case _:
                raise AssertionError(operation)
        self._look_if_thorough(f"Hudi's {operation}")

    def hudi_deletes_partition(self, partition: str) -> None:
        options = self.shape.hudi_options("delete_partition")
        options["hoodie.datasource.write.partitions.to.delete"] = partition
        self.hudi.write(self.path, batch(0, 1, 0), options)
        self.model.empty({partition})
        self._look_if_thorough("Hudi's delete_partition")

    def hudi_compacts(self, op: str = "scheduleAndExecute") -> None:
        told = self.hudi_runs(_COMPACT.format(op=op))
        assert told, "Hudi found nothing to compact"
        self._look_if_thorough(f"Hudi's compaction ({op})")

    def hudi_cleans(self) -> None:
        self.hudi_runs("call run_clean(table => 'target', retain_commits => 1)")
        self._look_if_thorough("Hudi's clean")

    def hudi_runs(self, statement: str) -> list[list[str]]:
        return self.hudi.sql(self.path, statement, settings={"hoodie.metadata.enable": "false"})

    # --- looks ------------------------------------------------------------------------------

    def look(self, what: str = "all that", **options: str) -> None:
        """Every reader sees exactly what the model holds, types included."""
        self._look_here(what)
        theirs = self.hudi.rows(self.path, **options)
        _ensure(self.model.table(), theirs, "the model", "Apache Hudi", what)

    def _look_if_thorough(self, what: str) -> None:
        if self.is_thorough:
            self.look(what)
        else:
            self._look_here(what)

    def _look_here(self, what: str) -> None:
        """The readers that need no Spark."""
        expected = self.model.table()
        _ensure(expected, self.open().read(), "the model", "lentic", what)
        _ensure(expected, hudi_rs_rows(self.path), "the model", "hudi-rs", what)

    def look_at_changes(self, after: str, upto: str, what: str) -> None:
        """lentic and Apache Hudi see the same rows changed in a window."""
        options = {
            QUERY: "incremental",
            "hoodie.datasource.read.begin.instanttime": after,
            "hoodie.datasource.read.end.instanttime": upto,
        }
        theirs = self.hudi.rows(self.path, **options)
        ours = self.open().changes(after=after, upto=upto, meta=True)
        _ensure(theirs, ours, "Apache Hudi", "lentic", f"changes of {what}")

    def look_back(self, requested_at: str, what: str) -> None:
        """lentic and Apache Hudi see the same rows as of an instant."""
        theirs = self.hudi.rows(self.path, **{"as.of.instant": requested_at})
        ours = self.open().read(as_of=requested_at)
        _ensure(theirs, ours, "Apache Hudi", "lentic", f"as of {what}")

    def look_at_base_files(self) -> None:
        """lentic and Apache Hudi see the same rows without the logs."""
        theirs = self.hudi.rows(self.path, **{QUERY: "read_optimized"})
        ours = self.open().read(mode="read_optimized")
        _ensure(theirs, ours, "Apache Hudi", "lentic", "read optimized")

    def _overwrite(self, rows: pa.Table, partitions: set[str]) -> None:
        self.model.empty(partitions)
        self.model.upsert(rows)


def _ensure(left: pa.Table, right: pa.Table, one: str, other: str, what: str) -> None:
    try:
        ensure_same_rows(left, right, KEY, one, other)
    except RowsDiffer as difference:
        difference.add_note(f"after {what}")
        raise
