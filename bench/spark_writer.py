"""A peer on Spark as the engine of a write benchmark; runs in an environment of its own.

    python -m bench.spark_writer NAME TYPE CODEC IN OUT JARS

NAME is iceberg, delta or hudi, TYPE cow or mor, JARS a list with commas. Each is set up as its
users would for upserts by key: Iceberg and Delta merge, with positional deletes or deletion vectors
for mor; Hudi upserts into a simple bucket index and never compacts meanwhile.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

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


@dataclass(frozen=True, slots=True)
class SparkPeer(ABC):
    """What the peers have in common."""

    spark: SparkSession
    table_type: str
    codec: str
    source: str
    out: str

    def create(self) -> None:  # noqa: B027
        """Peers that need no table in advance make it when they load."""

    def settle(self) -> None:
        assert self.spark._jvm is not None
        self.spark._jvm.java.lang.System.gc()

    def stop(self) -> None:
        self.spark.stop()

    @abstractmethod
    def load(self, source: str) -> None: ...

    @abstractmethod
    def upsert(self, source: str, within: Sequence[str]) -> None: ...

    @abstractmethod
    def read(self) -> DataFrame: ...

    @abstractmethod
    def compact(self) -> None: ...

    @abstractmethod
    def cluster(self) -> None: ...

    def scan(self) -> int:
        return self.read().where(range_sql()).select("quantity").count()

    def summarize(self) -> tuple[int, int, int]:
        sums = self.read().selectExpr("count(*)", "sum(quantity)", "sum(ts)").first()
        assert sums is not None
        return sums[0], sums[1], sums[2]

    def rows(self, source: str) -> DataFrame:
        return self.spark.read.parquet(f"{self.source}/{source}")

    def merge(self, table: str, source: str, within: Sequence[str]) -> None:
        """Upsert by SQL; who knows the partitions says so, which is what prunes the target."""
        self.rows(source).createOrReplaceTempView("changes")
        known = ", ".join(f"'{name}'" for name in within)
        pruned = f"AND t.{PARTITION} IN ({known})" if known else ""
        merged = self.spark.sql(
            f"MERGE INTO {table} t USING changes s "
            f"ON t.{KEY} = s.{KEY} AND t.{PARTITION} = s.{PARTITION} {pruned} "
            f"WHEN MATCHED AND s.{ORDERING} >= t.{ORDERING} THEN UPDATE SET * "
            "WHEN NOT MATCHED THEN INSERT *"
        )
        merged.collect()


class Iceberg(SparkPeer):
    """A table of format 2 in a catalog of folders."""

    table = "ice.db.orders"

    def create(self) -> None:
        mode = "copy-on-write" if self.table_type == "cow" else "merge-on-read"
        properties = {
            "format-version": "2",
            "write.delete.mode": mode,
            "write.update.mode": mode,
            "write.merge.mode": mode,
            "write.parquet.compression-codec": self.codec,
        }
        columns = ", ".join(
            f"{field.name} {field.dataType.simpleString()}" for field in self.rows("base").schema
        )
        listed = ", ".join(f"'{key}'='{value}'" for key, value in properties.items())
        self.spark.sql(
            f"CREATE TABLE {self.table} ({columns}) USING iceberg "
            f"PARTITIONED BY ({PARTITION}) TBLPROPERTIES ({listed})"
        )

    def load(self, source: str) -> None:
        self.rows(source).writeTo(self.table).append()

    def upsert(self, source: str, within: Sequence[str]) -> None:
        self.merge(self.table, source, within)

    def compact(self) -> None:
        self._rewrite("options => map('delete-file-threshold', '1', 'min-input-files', '2')")

    def cluster(self) -> None:
        order = f"zorder({', '.join(CLUSTERED)})"
        self._rewrite(
            f"strategy => 'sort', sort_order => '{order}', options => map('rewrite-all', 'true')"
        )

    def read(self) -> DataFrame:
        return self.spark.table(self.table)

    def _rewrite(self, how: str) -> None:
        call = f"CALL ice.system.rewrite_data_files(table => 'db.orders', {how})"
        self.spark.sql(call).collect()


class Delta(SparkPeer):
    """A table at a path; mor means with deletion vectors."""

    @property
    def path(self) -> str:
        return f"{self.out}/table"

    def load(self, source: str) -> None:
        rows = self.rows(source).repartition(PARTITION)
        rows.write.format("delta").partitionBy(PARTITION).save(self.path)

    def upsert(self, source: str, within: Sequence[str]) -> None:
        self.merge(f"delta.`{self.path}`", source, within)

    def compact(self) -> None:
        self.spark.sql(f"OPTIMIZE delta.`{self.path}`").collect()

    def cluster(self) -> None:
        columns = ", ".join(CLUSTERED)
        self.spark.sql(f"OPTIMIZE delta.`{self.path}` ZORDER BY ({columns})").collect()

    def read(self) -> DataFrame:
        return self.spark.read.format("delta").load(self.path)


class Hudi(SparkPeer):
    """A table at a path with a simple bucket index, as ours has it."""

    @property
    def path(self) -> str:
        return f"{self.out}/table"

    def load(self, source: str) -> None:
        self._write(source, "bulk_insert")

    def upsert(self, source: str, within: Sequence[str]) -> None:
        self._write(source, "upsert")

    def compact(self) -> None:
        options = (
            "hoodie.compact.inline.max.delta.commits=1,"
            f"hoodie.parquet.compression.codec={self.codec}"
        )
        for op in ("schedule", "run"):
            self.spark.sql(
                f"CALL run_compaction(op => '{op}', path => '{self.path}', options => '{options}')"
            ).collect()

    def cluster(self) -> None:
        options = f"hoodie.parquet.compression.codec={self.codec}"
        self.spark.sql(
            f"CALL run_clustering(path => '{self.path}', order => '{','.join(CLUSTERED)}', "
            f"order_strategy => 'z-order', options => '{options}')"
        ).collect()

    def read(self) -> DataFrame:
        return self.spark.read.format("hudi").load(self.path)

    def _write(self, source: str, operation: str) -> None:
        kinds = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
        options = {
            "hoodie.table.name": "orders",
            "hoodie.datasource.write.table.type": kinds[self.table_type],
            "hoodie.datasource.write.recordkey.field": KEY,
            "hoodie.datasource.write.partitionpath.field": PARTITION,
            "hoodie.datasource.write.precombine.field": ORDERING,
            "hoodie.datasource.write.operation": operation,
            "hoodie.parquet.compression.codec": self.codec,
            "hoodie.index.type": "BUCKET",
            "hoodie.index.bucket.engine": "SIMPLE",
            "hoodie.bucket.index.num.buckets": str(BUCKETS),
            "hoodie.bucket.index.hash.field": KEY,
            "hoodie.compact.inline": "false",
        }
        self.rows(source).write.format("hudi").options(**options).mode("append").save(self.path)


def settings_of(name: str, table_type: str, codec: str, out: str) -> dict[str, str]:
    """What a session needs for this peer."""
    extensions, catalog = "spark.sql.extensions", "spark.sql.catalog"
    if name == "iceberg":
        return {
            extensions: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            f"{catalog}.ice": "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.ice.type": "hadoop",
            f"{catalog}.ice.warehouse": f"{out}/table",
        }
    if name == "delta":
        vectors = "spark.databricks.delta.properties.defaults.enableDeletionVectors"
        return {
            extensions: "io.delta.sql.DeltaSparkSessionExtension",
            f"{catalog}.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.parquet.compression.codec": codec,
            vectors: "true" if table_type == "mor" else "false",
        }
    return {
        extensions: "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        f"{catalog}.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    }


def main() -> None:
    name, table_type, codec, source, out, jars = sys.argv[1:]
    kinds: dict[str, type[Iceberg | Delta | Hudi]]
    kinds = {"iceberg": Iceberg, "delta": Delta, "hudi": Hudi}

    def start() -> Writer:
        folders = {
            "spark.local.dir": f"{out}/spark-local",
            "spark.sql.warehouse.dir": f"{out}/warehouse",
        }
        settings = SPARK_SETTINGS | settings_of(name, table_type, codec, out) | folders
        builder = SparkSession.builder.master("local[2]").appName(f"{name}-bench")
        builder = builder.config("spark.jars", jars)
        for key, value in settings.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        spark.range(1000).selectExpr("sum(id)").collect()
        return kinds[name](spark, table_type, codec, source, out)

    serve(start)


if __name__ == "__main__":
    main()
