"""One file slice -> its rows, as a stream of Arrow batches.

Memory is bounded by the slice's logs and one batch of its base file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from lentic.errors import Corrupt
from lentic.format.record_fields import RECORD_KEY
from lentic.records.align import align
from lentic.records.log_scan import scan_logs
from lentic.records.merge import IS_DELETED, Changes, Merge, reduce_changes
from lentic.storage.base import Storage
from lentic.view.files import BaseFile, FileSlice

# Matching a batch hashes the changed keys anew, so batches must not be small.
BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class SliceReader:
    """How to read slices of one table: its schema with `_hoodie_*` columns and its merge order."""

    storage: Storage
    schema: pa.Schema
    ordering: tuple[str, ...]

    def read(self, part: FileSlice, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """The current rows of `part`, `columns` of them."""
        needed = set(columns)
        if part.logs:
            needed |= {RECORD_KEY, IS_DELETED, *self.ordering}
        schema = pa.schema([f for f in self.schema if f.name in needed])
        out = pa.schema([self.schema.field(name) for name in columns])
        base = read_base(self.storage, part.base, schema) if part.base else iter(())
        if part.logs:
            changes = self.changes(part, schema)
            base = Merge(changes, self.ordering).batches(base)
        for batch in base:
            if batch.num_rows:
                yield batch.select(columns) if batch.schema != out else batch

    def changes(self, part: FileSlice, schema: pa.Schema) -> Changes:
        """The net effect of the slice's logs, rows in `schema`."""
        found = scan_logs(self.storage, part.logs, schema, self.ordering)
        return reduce_changes(found, schema, self.ordering)


def read_base(storage: Storage, base: BaseFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a base file, in `schema`; page checksums are verified."""
    try:
        with storage.open_input(base.path) as source:
            file = pq.ParquetFile(source, page_checksum_verification=True)
            present = [name for name in schema.names if name in file.schema_arrow.names]
            rows = 0
            for batch in file.iter_batches(BATCH_ROWS, columns=present, use_threads=False):
                rows += batch.num_rows
                yield align(batch, schema, base.path)
            if present and rows != file.metadata.num_rows:
                raise Corrupt(
                    f"Base file holds {rows} rows where its footer says {file.metadata.num_rows}.",
                    where=base.path,
                )
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Corrupt(f"Base file does not read: {error}", where=base.path) from error
