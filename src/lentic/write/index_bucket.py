"""The bucket index: a record's key alone says which file group it belongs to.

Every writer computes the same bucket from the same key, so no lookup is needed, several writers
meet in the same groups, and a task that runs twice sends its rows to the same place.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Set
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lentic.format.bucket import bucket_file_id, bucket_ids, parse_bucket
from lentic.write.placement import GroupRows, KeyRules, group_rows


@dataclass(frozen=True, slots=True)
class BucketIndex:
    """How rows of one table find their file group. A picklable value; its methods are pure."""

    rules: KeyRules
    buckets: int

    @property
    def columns(self) -> tuple[str, ...]:
        return self.rules.columns

    def route(self, rows: pa.RecordBatch) -> pa.Array:
        """Buckets of a partition get consecutive numbers, so that they spread over tasks."""
        keys, partitions = self.rules.keys(rows), self.rules.partitions(rows)
        codes = partitions.dictionary_encode()
        offsets = [zlib.crc32(path.encode()) & 0x3FFFFFFF for path in codes.dictionary.to_pylist()]
        offset = np.array(offsets, dtype=np.int64)[codes.indices.to_numpy()]
        buckets = bucket_ids(keys, self.buckets, hash_fields=self.rules.key_fields)
        return pa.array(((offset + buckets) & 0x7FFFFFFF).astype(np.int32))

    def split(self, rows: pa.Table) -> Iterator[GroupRows]:
        keys = self.rules.keys(rows)
        buckets = bucket_ids(keys, self.buckets, hash_fields=self.rules.key_fields)
        slots = pa.array(buckets).cast(pa.string())
        return group_rows(rows, keys, self.rules.partitions(rows), slots)

    def slot_of(self, file_id: str) -> str | None:
        bucket = parse_bucket(file_id)
        return str(bucket) if bucket is not None and bucket < self.buckets else None

    def new_file_id(self, slot: str, ended: Set[str] = frozenset()) -> str:
        return bucket_file_id(int(slot), ended)
