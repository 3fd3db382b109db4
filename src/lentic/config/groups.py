"""The options lentic reads, in frozen groups. A function takes the group it needs, never a mapping.

Hudi's own keys keep their names and meanings; keys of ours start with `lentic.`. A new option is
one constant here, one field in its group, and appears in docs/configuration.md by `make docs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from lentic.config.column_groups import NO_GROUPS, ColumnGroups, parse_column_groups
from lentic.config.options import (
    STORAGE_PREFIX,
    Option,
    Settings,
    parse_bool,
    parse_choice,
    parse_names,
    parse_whole,
)
from lentic.config.services import SERVICES
from lentic.config.sharing import SHARING

BUCKETS_MAX = 99_999_999
"""A bucket number has eight digits in a file id."""


class IndexType(StrEnum):
    """How records find their file group. Hudi's other names for a lookup mean the same here."""

    AUTO = ""
    BUCKET = "BUCKET"
    SIMPLE = "SIMPLE"
    BLOOM = "BLOOM"
    GLOBAL_SIMPLE = "GLOBAL_SIMPLE"
    GLOBAL_BLOOM = "GLOBAL_BLOOM"

    @property
    def is_global(self) -> bool:
        return self in (IndexType.GLOBAL_SIMPLE, IndexType.GLOBAL_BLOOM)


class Codec(StrEnum):
    ZSTD = "zstd"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    GZIP = "gzip"
    UNCOMPRESSED = "uncompressed"


class OnRerun(StrEnum):
    """What a task does that runs again after its write was finalized."""

    FAIL = "fail"
    RECOVER = "recover"


class OnMetadataTable(StrEnum):
    REFUSE = "refuse"
    DROP = "drop"


class ShowProgress(StrEnum):
    AUTO = "auto"
    OFF = "off"


_NO_NAMES: tuple[str, ...] = ()


def _text(text: str) -> str:
    return text


NAME = Option("hoodie.table.name", _text, "", "Name of the table; the last part of its path.")
DATABASE = Option("hoodie.database.name", _text, "", "Database the table belongs to.")
TABLE_TYPE = Option(
    "hoodie.table.type",
    _text,
    "",
    "MERGE_ON_READ or COPY_ON_WRITE; the argument table_type says the same.",
    aliases=("hoodie.datasource.write.table.type",),
)
KEY_FIELDS = Option(
    "hoodie.table.recordkey.fields",
    parse_names,
    _NO_NAMES,
    "Columns that identify a record; the argument key says the same.",
    aliases=("hoodie.datasource.write.recordkey.field",),
)
PARTITION_FIELDS = Option(
    "hoodie.table.partition.fields",
    parse_names,
    _NO_NAMES,
    "Columns whose values name the partition folders; the argument partition_by says the same.",
    aliases=("hoodie.datasource.write.partitionpath.field",),
)
ORDERING_FIELDS = Option(
    "hoodie.table.ordering.fields",
    parse_names,
    _NO_NAMES,
    "Columns that decide which version of a record is newer; the argument ordering says the same.",
    aliases=("hoodie.datasource.write.precombine.field", "hoodie.table.precombine.field"),
)
MERGE_MODE = Option(
    "hoodie.record.merge.mode",
    _text,
    "",
    "EVENT_TIME_ORDERING (needs ordering fields, default with them) or COMMIT_TIME_ORDERING.",
    aliases=("hoodie.write.record.merge.mode",),
)
PARTIAL_GROUPS = Option(
    "lentic.partial.groups",
    parse_column_groups,
    NO_GROUPS,
    "Column groups with an ordering column each, as `a_ts:a_name,a_price;b_ts:b_stock`: what one "
    "source of a partial update owns, newest by its own ordering.",
)
HIVE_STYLE = Option(
    "hoodie.datasource.write.hive_style_partitioning",
    parse_bool,
    False,
    "Partition folders are called field=value.",
)
URL_ENCODE = Option(
    "hoodie.datasource.write.partitionpath.urlencode",
    parse_bool,
    False,
    "Escape characters in partition values that file names should not hold.",
)
BUCKETS = Option(
    "hoodie.bucket.index.num.buckets",
    parse_whole(1, BUCKETS_MAX),
    None,
    "Buckets per partition; kept in the table as lentic.buckets, so that no writer can disagree.",
    aliases=("lentic.buckets",),
)
INDEX_TYPE = Option(
    "hoodie.index.type",
    parse_choice(IndexType),
    IndexType.AUTO,
    "How records find their file group. BUCKET: by a hash of the key, for tables with buckets. "
    "SIMPLE: by looking keys up in the base files of the partitions that are written to. "
    "GLOBAL_SIMPLE: in all partitions. Unless told, BUCKET with buckets and SIMPLE without.",
)
UPDATE_PARTITION = Option(
    "hoodie.simple.index.update.partition.path",
    parse_bool,
    True,
    "With a global index, a key that comes with another partition moves there; false: it stays "
    "where it is.",
    aliases=("hoodie.bloom.index.update.partition.path",),
)
FILE_SIZE = Option(
    "hoodie.parquet.max.file.size",
    parse_whole(1_024, 2**40),
    120 * 1024 * 1024,
    "Bytes that base files grow to where no bucket decides it.",
)
SMALL_FILE_SIZE = Option(
    "hoodie.parquet.small.file.limit",
    parse_whole(0, 2**40),
    100 * 1024 * 1024,
    "Base files below this many bytes take new keys before new files are made; 0: never.",
)
ROW_SIZE = Option(
    "hoodie.copyonwrite.record.size.estimate",
    parse_whole(0, 2**30),
    0,
    "Bytes that a row takes in a file; 0: as in the table's newest commits, or by its types.",
)
COMBINE_BEFORE_INSERT = Option(
    "hoodie.combine.before.insert",
    parse_bool,
    False,
    "Of rows with equal keys in one batch, insert the newest only.",
)
COMBINE_BEFORE_UPSERT = Option(
    "hoodie.combine.before.upsert",
    parse_bool,
    True,
    "Of rows with equal keys in one batch, upsert the newest only.",
)
ON_RERUN = Option(
    "lentic.write.finalize.on_rerun",
    parse_choice(OnRerun),
    OnRerun.FAIL,
    "When Spark runs a task again after the write was finalized: fail, or recover by serving what "
    "was accepted before. Neither writes a second set of files.",
    aliases=("hoodie.write.finalize.marker.on.retrigger",),
)
EXACT_COUNTS = Option(
    "lentic.write.exact_counts",
    parse_bool,
    True,
    "Tell inserted from updated keys on MERGE_ON_READ, which reads the keys of the file groups "
    "written to; false: every row into an existing group counts as updated.",
)
CODEC = Option(
    "hoodie.parquet.compression.codec",
    parse_choice(Codec),
    Codec.ZSTD,
    "Compression of Parquet data. zstd is smaller and far faster than gzip, Hudi's default.",
)
ROW_GROUP_ROWS = Option(
    "lentic.parquet.row_group_rows",
    parse_whole(1_000, 10_000_000),
    131_072,
    "Rows per Parquet row group; with the row width it bounds the memory of a write.",
)
SHUFFLE_TASKS = Option(
    "hoodie.upsert.shuffle.parallelism",
    parse_whole(0, 100_000),
    0,
    "Tasks that write; 0 means twice the cores.",
)
ON_METADATA_TABLE = Option(
    "lentic.metadata.on_write",
    parse_choice(OnMetadataTable),
    OnMetadataTable.REFUSE,
    "What a write does to a table whose metadata table lentic cannot keep true: refuse, or drop it "
    "from hoodie.properties first (readers then list files).",
)
PROGRESS = Option(
    "lentic.progress",
    parse_choice(ShowProgress),
    ShowProgress.AUTO,
    "auto: where standard error is a terminal, writes and compactions show there how far they are; "
    "off: nowhere.",
)


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What is decided once, when the table is created."""

    name: str
    database: str
    table_type: str
    key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    ordering_fields: tuple[str, ...]
    merge_mode: str
    column_groups: ColumnGroups
    hive_style: bool
    url_encode: bool
    buckets: int | None

    @classmethod
    def parse(cls, settings: Settings) -> Self:
        return cls(
            name=NAME.of(settings),
            database=DATABASE.of(settings),
            table_type=TABLE_TYPE.of(settings),
            key_fields=KEY_FIELDS.of(settings),
            partition_fields=PARTITION_FIELDS.of(settings),
            ordering_fields=ORDERING_FIELDS.of(settings),
            merge_mode=MERGE_MODE.of(settings),
            column_groups=PARTIAL_GROUPS.of(settings),
            hive_style=HIVE_STYLE.of(settings),
            url_encode=URL_ENCODE.of(settings),
            buckets=BUCKETS.of(settings),
        )


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How rows become files."""

    codec: Codec
    row_group_rows: int
    shuffle_tasks: int
    on_metadata_table: OnMetadataTable
    index: IndexType
    moves_partitions: bool
    file_size: int
    small_file_size: int
    row_size: int
    combine_before_insert: bool
    combine_before_upsert: bool
    on_rerun: OnRerun
    exact_counts: bool

    @classmethod
    def parse(cls, settings: Settings) -> Self:
        return cls(
            codec=CODEC.of(settings),
            row_group_rows=ROW_GROUP_ROWS.of(settings),
            shuffle_tasks=SHUFFLE_TASKS.of(settings),
            on_metadata_table=ON_METADATA_TABLE.of(settings),
            index=INDEX_TYPE.of(settings),
            moves_partitions=UPDATE_PARTITION.of(settings),
            file_size=FILE_SIZE.of(settings),
            small_file_size=SMALL_FILE_SIZE.of(settings),
            row_size=ROW_SIZE.of(settings),
            combine_before_insert=COMBINE_BEFORE_INSERT.of(settings),
            combine_before_upsert=COMBINE_BEFORE_UPSERT.of(settings),
            on_rerun=ON_RERUN.of(settings),
            exact_counts=EXACT_COUNTS.of(settings),
        )


REGISTRY: tuple[Option[Any], ...] = (
    NAME,
    DATABASE,
    TABLE_TYPE,
    KEY_FIELDS,
    PARTITION_FIELDS,
    ORDERING_FIELDS,
    MERGE_MODE,
    PARTIAL_GROUPS,
    HIVE_STYLE,
    URL_ENCODE,
    INDEX_TYPE,
    UPDATE_PARTITION,
    BUCKETS,
    COMBINE_BEFORE_INSERT,
    COMBINE_BEFORE_UPSERT,
    FILE_SIZE,
    SMALL_FILE_SIZE,
    ROW_SIZE,
    CODEC,
    ROW_GROUP_ROWS,
    SHUFFLE_TASKS,
    ON_RERUN,
    EXACT_COUNTS,
    ON_METADATA_TABLE,
    *SHARING,
    *SERVICES,
    PROGRESS,
)
"""Every option, in the order of the documentation."""


def storage_options(settings: Settings) -> dict[str, str]:
    """What goes to the object store, without its prefix."""
    return {
        key.removeprefix(STORAGE_PREFIX): value
        for key, value in settings.items()
        if key.startswith(STORAGE_PREFIX)
    }
