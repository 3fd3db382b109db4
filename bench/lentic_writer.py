"""lentic as the engine of a write benchmark: `python -m bench.lentic_writer ON TYPE CODEC IN OUT`.

ON is spark or local, TYPE cow or mor, IN the folder of orders, OUT the folder for the table.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import lentic
from bench.orders import SCHEMA, open_rows
from bench.serve import Writer, serve
from bench.workloads import (
    BUCKETS,
    CLUSTERED,
    KEY,
    ORDERING,
    PARTITION,
    SPARK_SETTINGS,
    range_sql,
)

_TYPES = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}


@dataclass(frozen=True, slots=True)
class LenticWriter:
    """Upserts into a bucketed table, on Spark or in this process."""

    table_type: str
    codec: str
    source: Path
    path: str
    spark: Any = None

    def create(self) -> None:
        lentic.create(
            self.path,
            SCHEMA,
            key=KEY,
            partition_by=PARTITION,
            ordering=ORDERING,
            table_type=_TYPES[self.table_type],
            buckets=BUCKETS,
        )

    def load(self, source: str) -> None:
        self._open().bulk_insert(self._rows(source))

    def upsert(self, source: str, within: Sequence[str]) -> None:
        self._open().upsert(self._rows(source))

    def compact(self) -> None:
        self._open().compact()

    def cluster(self) -> None:
        self._open().cluster(sort_by=CLUSTERED, curve="zorder")

    def scan(self) -> int:
        rows = self._open().read(columns=["quantity"], filter=range_sql())
        return int(rows.count() if self.spark is not None else rows.num_rows)

    def settle(self) -> None:
        gc.collect()
        pa.default_memory_pool().release_unused()
        if self.spark is not None:
            self.spark._jvm.java.lang.System.gc()

    def summarize(self) -> tuple[int, int, int]:
        rows = self._open().read(columns=["quantity", "ts"])
        if self.spark is not None:
            count, quantity, ts = rows.selectExpr("count(*)", "sum(quantity)", "sum(ts)").first()
            return count, quantity, ts
        return rows.num_rows, pc.sum(rows["quantity"]).as_py(), pc.sum(rows["ts"]).as_py()

    def stop(self) -> None:
        if self.spark is not None:
            self.spark.stop()

    def _open(self) -> lentic.Table:
        options = {"hoodie.parquet.compression.codec": self.codec}
        return lentic.open(self.path, options=options, spark=self.spark)

    def _rows(self, source: str) -> Any:
        if self.spark is not None:
            return self.spark.read.parquet(str(self.source / source))
        return open_rows(self.source / source)


def main() -> None:
    on, table_type, codec, source, out = sys.argv[1:]

    def start() -> Writer:
        spark = None
        if on == "spark":
            settings = SPARK_SETTINGS | {"spark.local.dir": f"{out}/spark-local"}
            spark = lentic.spark.session("lentic-bench", "local[2]", settings)
            spark.range(1000).selectExpr("sum(id)").collect()
        return LenticWriter(table_type, codec, Path(source), f"{out}/table", spark)

    serve(start)


if __name__ == "__main__":
    main()
