"""delta-rs as the engine of a write benchmark; runs in an environment of its own.

python -m bench.deltalake_writer CODEC IN OUT
"""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from bench.serve import serve
from bench.workloads import CLUSTERED, KEY, ORDERING, PARTITION, RANGE

# By name: the environment of the benchmark itself does not have it.
_deltalake: Any = importlib.import_module("deltalake")


@dataclass(frozen=True, slots=True)
class DeltaLakeWriter:
    """Merges by key and partition, rows streamed in."""

    codec: str
    source: str
    path: str

    def create(self) -> None:
        """The load makes the table."""

    def load(self, source: str) -> None:
        _deltalake.write_deltalake(
            self.path,
            self._rows(source),
            partition_by=[PARTITION],
            writer_properties=self._properties(),
        )

    def upsert(self, source: str, within: Sequence[str]) -> None:
        known = ", ".join(f"'{name}'" for name in within)
        pruned = f" AND t.{PARTITION} IN ({known})" if known else ""
        merging = _deltalake.DeltaTable(self.path).merge(
            self._rows(source).read_all(),
            f"t.{KEY} = s.{KEY} AND t.{PARTITION} = s.{PARTITION}{pruned}",
            source_alias="s",
            target_alias="t",
            writer_properties=self._properties(),
        )
        merging = merging.when_matched_update_all(f"s.{ORDERING} >= t.{ORDERING}")
        merging.when_not_matched_insert_all().execute()

    def compact(self) -> None:
        _deltalake.DeltaTable(self.path).optimize.compact(writer_properties=self._properties())

    def cluster(self) -> None:
        optimize = _deltalake.DeltaTable(self.path).optimize
        optimize.z_order(list(CLUSTERED), writer_properties=self._properties())

    def scan(self) -> int:
        filters = [
            term
            for column, low, high in RANGE
            for term in ((column, ">=", low), (column, "<", high))
        ]
        table = _deltalake.DeltaTable(self.path)
        return int(table.to_pyarrow_table(columns=["quantity"], filters=filters).num_rows)

    def settle(self) -> None:
        gc.collect()
        pa.default_memory_pool().release_unused()

    def summarize(self) -> tuple[int, int, int]:
        table = _deltalake.DeltaTable(self.path)
        rows = table.to_pyarrow_table(columns=["quantity", "ts"])
        return rows.num_rows, pc.sum(rows["quantity"]).as_py(), pc.sum(rows["ts"]).as_py()

    def stop(self) -> None:
        """There is nothing to stop."""

    def _rows(self, source: str) -> pa.RecordBatchReader:
        return ds.dataset(f"{self.source}/{source}", format="parquet").scanner().to_reader()

    def _properties(self) -> Any:
        return _deltalake.WriterProperties(compression=self.codec.upper())


def main() -> None:
    codec, source, out = sys.argv[1:]
    serve(lambda: DeltaLakeWriter(codec, source, f"{out}/table"))


if __name__ == "__main__":
    main()
