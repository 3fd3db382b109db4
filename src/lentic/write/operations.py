"""The write operations: what each of them means for rows, files and the timeline. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from lentic.config.groups import WriteOptions
from lentic.errors import ConfigError, SchemaMismatch, UnsupportedFormat
from lentic.format.names import Action
from lentic.format.table_config import KeyGenerator, MergeMode, TableConfig, TableType
from lentic.records.base_writer import ParquetStyle
from lentic.records.grouped import Grouping

RUN_NUMBERS = 2**31
"""A run's nonce is one of the three integers of a write token."""


class Operation(StrEnum):
    """What a write does, in Apache Hudi's words, which go into the commit."""

    UPSERT = "UPSERT"
    INSERT = "INSERT"
    BULK_INSERT = "BULK_INSERT"
    DELETE = "DELETE"
    INSERT_OVERWRITE = "INSERT_OVERWRITE"
    INSERT_OVERWRITE_TABLE = "INSERT_OVERWRITE_TABLE"
    DELETE_PARTITION = "DELETE_PARTITION"


OVERWRITES = frozenset(
    {Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE, Operation.DELETE_PARTITION}
)
"""What was there before is gone, whatever its keys."""

LOOKS_UP = frozenset({Operation.UPSERT, Operation.DELETE})
"""Keys that exist are found first, where no bucket says where they are."""

_CDC = "hoodie.table.cdc.enabled"
_PARTIAL_MODE = "hoodie.table.partial.update.mode"
_KEYGENS = frozenset(
    {
        KeyGenerator.SIMPLE,
        KeyGenerator.SIMPLE_AVRO,
        KeyGenerator.COMPLEX,
        KeyGenerator.COMPLEX_AVRO,
        KeyGenerator.NON_PARTITION,
        KeyGenerator.NON_PARTITION_AVRO,
        KeyGenerator.SPARK_SQL,
    }
)
_FILLS_SMALL_FILES = frozenset({Operation.UPSERT, Operation.INSERT})


@dataclass(frozen=True, slots=True)
class Request:
    """A write as it was asked for.

    `flagged`: rows come with a column that says which of them delete their key. `partitions` are
    those that `DELETE_PARTITION` empties. `partial`: columns that the rows lack are left alone.
    """

    operation: Operation
    sort_by: tuple[str, ...] = ()
    flagged: bool = False
    partitions: tuple[str, ...] = ()
    partial: bool = False

    @property
    def fills_small_files(self) -> bool:
        return self.operation in _FILLS_SMALL_FILES

    @property
    def overwrites(self) -> bool:
        return self.operation in OVERWRITES

    def combines(self, options: WriteOptions) -> bool:
        """Whether of each key in the batch one row stays."""
        if self.operation is Operation.UPSERT:
            return options.combine_before_upsert
        if self.operation is Operation.DELETE:
            return True  # deleting a key twice is deleting it once
        return options.combine_before_insert


def choose_action(request: Request, config: TableConfig) -> Action:
    """The action that the write is on the timeline.

    In buckets an overwrite gives every file group a new base file and ends none (ADR 0009), so it
    is a plain write; elsewhere it replaces file groups by others.
    """
    if request.overwrites and config.buckets is None:
        return Action.REPLACECOMMIT
    is_cow = config.table_type is TableType.COPY_ON_WRITE
    return Action.COMMIT if is_cow else Action.DELTACOMMIT


def ensure_sortable(sort_by: tuple[str, ...], schema: pa.Schema) -> None:
    """`SchemaMismatch` if rows cannot be sorted as asked."""
    for name in sort_by:
        if name not in schema.names:
            raise SchemaMismatch(
                f"sort_by names column {name}, which the table does not have.",
                safe="nothing was written",
                next_step=f"choose among {', '.join(schema.names)}",
            )
        if pa.types.is_nested(schema.field(name).type):
            raise SchemaMismatch(
                f"sort_by names column {name} of type {schema.field(name).type}.",
                safe="nothing was written",
                next_step="choose a column with plain values",
            )


def ensure_merge_known(config: TableConfig) -> None:
    """`UnsupportedFormat` for tables whose logs mean something else than their columns say."""
    if (mode := config.extra.get(_PARTIAL_MODE)) and config.table_type is TableType.MERGE_ON_READ:
        raise UnsupportedFormat(
            f"Table {config.name} has {_PARTIAL_MODE}={mode}: some values in its logs stand for "
            "what was there before, which this release does not know how to merge.",
            safe="nothing was read or written",
            next_step="use Apache Hudi for this table",
        )


def ensure_supported(config: TableConfig) -> None:
    """`ConfigError` for tables that can be read but not written."""
    for is_so, what in (
        (not config.populate_meta_fields, "keeps no keys in its files (virtual keys)"),
        (config.drop_partition_columns, "keeps partition columns out of its files"),
        (config.extra.get(_CDC) == "true", f"keeps change logs ({_CDC})"),
        (config.keygen not in _KEYGENS, f"has a {config.keygen.value} key generator"),
        (config.merge_mode is MergeMode.CUSTOM, "merges records in a way of its own"),
        (
            bool(config.extra.get(_PARTIAL_MODE)),
            f"merges values in a way of its own ({_PARTIAL_MODE})",
        ),
    ):
        if is_so:
            raise ConfigError(
                f"Table {config.name} {what}, which this release does not write.",
                safe="nothing was written; reading works",
                next_step="write to it with Apache Hudi",
            )


def merge_fields(config: TableConfig) -> tuple[str, ...]:
    """The columns that decide between versions; none means the later commit wins."""
    return config.ordering_fields if config.merge_mode is MergeMode.EVENT_TIME_ORDERING else ()


def table_grouping(config: TableConfig) -> Grouping:
    """The column groups that decide between versions, beside `merge_fields`."""
    return Grouping(config.column_groups, (*config.key_fields, *config.partition_fields))


def parquet_style(options: WriteOptions) -> ParquetStyle:
    """How this table's Parquet is written."""
    return ParquetStyle(options.codec, options.row_group_rows)
