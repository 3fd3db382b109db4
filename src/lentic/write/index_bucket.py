"""The bucket index: a record's key alone says which file group it belongs to.

Every writer computes the same bucket from the same key, so no lookup is needed, several writers
meet in the same groups, and a task that runs twice sends its rows to the same place.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lentic.errors import ConfigError
from lentic.format.bucket import bucket_ids
from lentic.format.keys import is_composite, record_keys
from lentic.format.partition_paths import partition_paths
from lentic.format.table_config import TableConfig


@dataclass(frozen=True, slots=True)
class Tagged:
    """Rows with what the index found out about them, one entry per row."""

    keys: pa.Array
    partitions: pa.Array
    buckets: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class BucketIndex:
    """How rows of one table find their file group. A picklable value; its methods are pure."""

    key_fields: tuple[str, ...]
    composite: bool
    partition_fields: tuple[str, ...]
    hive_style: bool
    url_encode: bool
    buckets: int

    @property
    def columns(self) -> tuple[str, ...]:
        """All that the index looks at."""
        return tuple(dict.fromkeys((*self.key_fields, *self.partition_fields)))

    def tag(self, rows: pa.RecordBatch | pa.Table) -> Tagged:
        """Key, partition and bucket of every row; `InvalidRecord` for a row that has none."""
        keys = record_keys(rows, self.key_fields, composite=self.composite)
        partitions = partition_paths(
            rows, self.partition_fields, hive_style=self.hive_style, url_encode=self.url_encode
        )
        buckets = bucket_ids(keys, self.buckets, hash_fields=self.key_fields)
        return Tagged(keys, partitions, buckets)

    def route(self, rows: pa.RecordBatch) -> pa.Array:
        """One number per row, equal for rows of one file group.

        Buckets of a partition get consecutive numbers, so that they spread evenly over tasks.
        """
        tagged = self.tag(rows)
        codes = tagged.partitions.dictionary_encode()
        offsets = [zlib.crc32(path.encode()) & 0x3FFFFFFF for path in codes.dictionary.to_pylist()]
        offset = np.array(offsets, dtype=np.int64)[codes.indices.to_numpy()]
        return pa.array(((offset + tagged.buckets) & 0x7FFFFFFF).astype(np.int32))


def bucket_index(config: TableConfig) -> BucketIndex:
    """The index of a table; `ConfigError` if the table has no bucket count."""
    if not config.key_fields:
        raise ConfigError(
            f"Table {config.name} has no key columns; its keys are made up when rows are written.",
            safe="nothing was written; reading works",
            next_step="write to it with Apache Hudi",
        )
    if config.buckets is None:
        raise ConfigError(
            f"Table {config.name} has no bucket count; this release writes bucketed tables.",
            safe="nothing was written; reading works",
            next_step='if its writers use N buckets: lentic.open(path, options={"'
            'hoodie.bucket.index.num.buckets": N})',
        )
    return BucketIndex(
        key_fields=config.key_fields,
        composite=is_composite(config.keygen.value, config.key_fields),
        partition_fields=config.partition_fields,
        hive_style=config.hive_style,
        url_encode=config.url_encode,
        buckets=config.buckets,
    )


@dataclass(frozen=True, slots=True)
class GroupRows:
    """The rows of one file group."""

    partition: str
    bucket: int
    keys: pa.Array
    rows: pa.Table


def split_by_group(rows: pa.Table, tagged: Tagged, buckets: int) -> Iterator[GroupRows]:
    """`rows` group by group; within a group they keep their order."""
    if not rows.num_rows:
        return
    codes = tagged.partitions.dictionary_encode()
    number = codes.indices.to_numpy().astype(np.int64) * buckets + tagged.buckets
    order = np.argsort(number, kind="stable")
    _, starts = np.unique(number[order], return_index=True)
    for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
        at = pa.array(order[start:stop])
        partition_code, bucket = divmod(int(number[order[start]]), buckets)
        partition = codes.dictionary[partition_code].as_py()
        yield GroupRows(partition, bucket, pc.take(tagged.keys, at), rows.take(at))
