"""`hoodie.properties` as a typed value: what the table is, fixed at its creation.

Only what this package can read comes out of `decode_table_config`: a version, layout or file format
that it would misread is refused there, once, and nothing above asks again. Keys that the typed view
does not know survive a rewrite through `extra`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from lentic.config.column_groups import (
    NO_GROUPS,
    ColumnGroups,
    format_column_groups,
    parse_column_groups,
)
from lentic.errors import Corrupt, UnsupportedFormat
from lentic.format.properties import decode_properties, encode_properties, table_checksum
from lentic.format.times import Zone

T = TypeVar("T")
_LATEST_VERSION = 9
_VERSIONS = (8, 9)
_BUCKETS_MAX = 99_999_999  # a file id has eight digits for the bucket

_NAME = "hoodie.table.name"
_DATABASE = "hoodie.database.name"
_TYPE = "hoodie.table.type"
_VERSION = "hoodie.table.version"
_KEY_FIELDS = "hoodie.table.recordkey.fields"
_PARTITION_FIELDS = "hoodie.table.partition.fields"
_ORDERING_FIELDS = "hoodie.table.ordering.fields"
_ORDERING_ALIAS = "hoodie.table.precombine.field"
_MERGE_MODE = "hoodie.record.merge.mode"
_KEYGEN_TYPE = "hoodie.table.keygenerator.type"
_KEYGEN_CLASS = "hoodie.table.keygenerator.class"
_HIVE_STYLE = "hoodie.datasource.write.hive_style_partitioning"
_URL_ENCODE = "hoodie.datasource.write.partitionpath.urlencode"
_DROP_COLUMNS = "hoodie.datasource.write.drop.partition.columns"
_ZONE = "hoodie.table.timeline.timezone"
_META_FIELDS = "hoodie.populate.meta.fields"
_CREATE_SCHEMA = "hoodie.table.create.schema"
_MDT_PARTITIONS = "hoodie.table.metadata.partitions"
_MDT_INFLIGHT = "hoodie.table.metadata.partitions.inflight"
_CHECKSUM = "hoodie.table.checksum"
_BUCKETS = "lentic.buckets"
_COLUMN_GROUPS = "lentic.partial.groups"

# Any other value would make us misread the table; an absent key means the value given here.
_ONLY_SUPPORTED = {
    "hoodie.timeline.layout.version": "2",
    "hoodie.timeline.path": "timeline",
    "hoodie.timeline.history.path": "history",
    "hoodie.table.format": "native",
    "hoodie.table.base.file.format": "PARQUET",
    "hoodie.table.multiple.base.file.formats.enable": "false",
    "hoodie.bootstrap.base.path": "",
}
_NEW_TABLE = {
    **{key: value for key, value in _ONLY_SUPPORTED.items() if value},
    "hoodie.archivelog.folder": "history",
    "hoodie.table.cdc.enabled": "false",
    "hoodie.partition.metafile.use.base.format": "false",
}


class TableType(StrEnum):
    """How updates are stored: in rewritten base files, or in log files beside them."""

    COPY_ON_WRITE = "COPY_ON_WRITE"
    MERGE_ON_READ = "MERGE_ON_READ"


class MergeMode(StrEnum):
    """Which of two versions of a record wins."""

    COMMIT_TIME_ORDERING = "COMMIT_TIME_ORDERING"
    EVENT_TIME_ORDERING = "EVENT_TIME_ORDERING"
    CUSTOM = "CUSTOM"


class KeyGenerator(StrEnum):
    """How record keys and partition paths are made from a record's fields."""

    SIMPLE = "SIMPLE"
    SIMPLE_AVRO = "SIMPLE_AVRO"
    COMPLEX = "COMPLEX"
    COMPLEX_AVRO = "COMPLEX_AVRO"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_AVRO = "TIMESTAMP_AVRO"
    CUSTOM = "CUSTOM"
    CUSTOM_AVRO = "CUSTOM_AVRO"
    NON_PARTITION = "NON_PARTITION"
    NON_PARTITION_AVRO = "NON_PARTITION_AVRO"
    GLOBAL_DELETE = "GLOBAL_DELETE"
    GLOBAL_DELETE_AVRO = "GLOBAL_DELETE_AVRO"
    AUTO_RECORD = "AUTO_RECORD"
    AUTO_RECORD_AVRO = "AUTO_RECORD_AVRO"
    HOODIE_TABLE_METADATA = "HOODIE_TABLE_METADATA"
    SPARK_SQL = "SPARK_SQL"
    SPARK_SQL_UUID = "SPARK_SQL_UUID"
    SPARK_SQL_MERGE_INTO = "SPARK_SQL_MERGE_INTO"
    USER_PROVIDED = "USER_PROVIDED"


# Tables that name a class instead of a type, by the last part of the class name.
_KEYGEN_OF_CLASS = {
    "SimpleKeyGenerator": KeyGenerator.SIMPLE,
    "SimpleAvroKeyGenerator": KeyGenerator.SIMPLE_AVRO,
    "ComplexKeyGenerator": KeyGenerator.COMPLEX,
    "ComplexAvroKeyGenerator": KeyGenerator.COMPLEX_AVRO,
    "TimestampBasedKeyGenerator": KeyGenerator.TIMESTAMP,
    "TimestampBasedAvroKeyGenerator": KeyGenerator.TIMESTAMP_AVRO,
    "CustomKeyGenerator": KeyGenerator.CUSTOM,
    "CustomAvroKeyGenerator": KeyGenerator.CUSTOM_AVRO,
    "NonpartitionedKeyGenerator": KeyGenerator.NON_PARTITION,
    "NonpartitionedAvroKeyGenerator": KeyGenerator.NON_PARTITION_AVRO,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConfig:
    """What a table is. `extra` holds every property as read, empty for a table not yet written."""

    name: str
    database: str = ""
    table_type: TableType
    version: int = _LATEST_VERSION
    key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...] = ()
    ordering_fields: tuple[str, ...] = ()
    merge_mode: MergeMode
    keygen: KeyGenerator
    hive_style: bool = False
    url_encode: bool = False
    zone: Zone = Zone.UTC
    populate_meta_fields: bool = True
    buckets: int | None = None
    column_groups: ColumnGroups = NO_GROUPS
    create_schema: str | None = None
    metadata_partitions: tuple[str, ...] = ()
    drop_partition_columns: bool = False
    extra: Mapping[str, str] = field(default_factory=dict)


def infer_keygen(key_fields: Sequence[str], partition_fields: Sequence[str]) -> KeyGenerator:
    """The key generator of a table that names none.

    A partition field with a type (`day:timestamp`) is one only the custom generator understands.
    """
    if any(":" in entry for entry in partition_fields):
        return KeyGenerator.CUSTOM
    if not partition_fields:
        return KeyGenerator.NON_PARTITION
    if len(key_fields) == 1 and len(partition_fields) == 1:
        return KeyGenerator.SIMPLE
    return KeyGenerator.COMPLEX


def infer_merge_mode(ordering_fields: Sequence[str]) -> MergeMode:
    """The merge mode of a table that names none."""
    return MergeMode.EVENT_TIME_ORDERING if ordering_fields else MergeMode.COMMIT_TIME_ORDERING


def decode_table_config(data: bytes, where: str) -> TableConfig:
    """The table that a properties file describes.

    `UnsupportedFormat` if this release would misread it, `Corrupt` if it contradicts itself.
    """
    if not data.strip():
        raise _damaged("The file is empty.", where)
    config = _parse_config(decode_properties(data, where), where)
    # Whoever writes this file ends it with a line end. A bucket count that lost its last digit
    # would still be one, and rows would be looked for in the wrong places; so with column groups.
    if (config.buckets is not None or config.column_groups) and not data.endswith(b"\n"):
        raise _damaged("The last line of the file is cut short.", where)
    return config


def _damaged(what: str, where: str, next_step: str = "") -> Corrupt:
    return Corrupt(
        what,
        where=where,
        safe="nothing was read or written",
        next_step=next_step or "bring the file back from a copy of the table",
    )


def _parse_config(values: Mapping[str, str], where: str) -> TableConfig:
    version = _parse(values, _VERSION, _parse_int, where)
    _ensure_supported(values, version, where)
    name = _required(values, _NAME, where)
    database = values.get(_DATABASE, "")
    _ensure_checksum(values, database, name, where)
    keys = _parse_list(values.get(_KEY_FIELDS, ""))
    partition_entries = _parse_list(values.get(_PARTITION_FIELDS, ""))
    ordering = _parse_list(values.get(_ORDERING_FIELDS) or values.get(_ORDERING_ALIAS, ""))
    merge_mode = _parse(values, _MERGE_MODE, MergeMode, where, infer_merge_mode(ordering))
    if merge_mode is MergeMode.EVENT_TIME_ORDERING and not ordering:
        raise _damaged(f"{_MERGE_MODE}={merge_mode} without {_ORDERING_FIELDS}.", where)
    metadata_partitions = _parse_list(
        f"{values.get(_MDT_PARTITIONS, '')},{values.get(_MDT_INFLIGHT, '')}"
    )
    return TableConfig(
        name=name,
        database=database,
        table_type=_parse(values, _TYPE, TableType, where),
        version=version,
        key_fields=keys,
        partition_fields=tuple(entry.partition(":")[0] for entry in partition_entries),
        ordering_fields=ordering,
        merge_mode=merge_mode,
        keygen=_parse_keygen(values, keys, partition_entries, where),
        hive_style=_parse(values, _HIVE_STYLE, _parse_bool, where, False),
        url_encode=_parse(values, _URL_ENCODE, _parse_bool, where, False),
        zone=_parse(values, _ZONE, lambda text: Zone(text.upper()), where, Zone.LOCAL),
        populate_meta_fields=_parse(values, _META_FIELDS, _parse_bool, where, True),
        buckets=_parse_buckets(values, where),
        column_groups=_parse(values, _COLUMN_GROUPS, parse_column_groups, where, NO_GROUPS),
        create_schema=values.get(_CREATE_SCHEMA) or None,
        metadata_partitions=tuple(sorted(set(metadata_partitions))),
        drop_partition_columns=_parse(values, _DROP_COLUMNS, _parse_bool, where, False),
        extra=dict(values),
    )


def _ensure_supported(values: Mapping[str, str], version: int, where: str) -> None:
    if version not in _VERSIONS:
        older = "upgrade it to version 9 with Apache Hudi 1.1 or later"
        newer = "use a release of this package that knows the version"
        raise UnsupportedFormat(
            f"The table has version {version}; this release handles 8 and 9.",
            where=where,
            safe="nothing was read or written",
            next_step=older if version < min(_VERSIONS) else newer,
        )
    for key, supported in _ONLY_SUPPORTED.items():
        value = values.get(key, supported)
        if value.lower() != supported.lower():
            raise UnsupportedFormat(
                f"The table has {key}={value}; this release handles {supported or 'none'} only.",
                where=where,
                safe="nothing was read or written",
                next_step="use Apache Hudi for this table",
            )


def _ensure_checksum(values: Mapping[str, str], database: str, name: str, where: str) -> None:
    if _CHECKSUM not in values:
        return
    stored = _parse(values, _CHECKSUM, _parse_int, where)
    computed = table_checksum(database, name)
    if stored != computed:
        raise _damaged(
            f"{_CHECKSUM} is {stored}, but table {database}.{name} has {computed}.",
            where,
            "bring the file back from a copy of the table, or correct the table's name in it",
        )


def _parse_keygen(
    values: Mapping[str, str], keys: Sequence[str], partition_entries: Sequence[str], where: str
) -> KeyGenerator:
    java_class = values.get(_KEYGEN_CLASS, "")
    if java_class and not values.get(_KEYGEN_TYPE):
        return _KEYGEN_OF_CLASS.get(java_class.rpartition(".")[2], KeyGenerator.USER_PROVIDED)
    default = infer_keygen(keys, partition_entries)
    return _parse(values, _KEYGEN_TYPE, KeyGenerator, where, default)


def _parse_buckets(values: Mapping[str, str], where: str) -> int | None:
    if not values.get(_BUCKETS):
        return None
    buckets = _parse(values, _BUCKETS, _parse_int, where)
    if not 1 <= buckets <= _BUCKETS_MAX:
        raise _damaged(f"{_BUCKETS}={buckets} is not from 1 to {_BUCKETS_MAX}.", where)
    return buckets


def _required(values: Mapping[str, str], key: str, where: str) -> str:
    value = values.get(key, "")
    if not value:
        raise _damaged(f"{key} is missing.", where)
    return value


def _parse(
    values: Mapping[str, str],
    key: str,
    parse: Callable[[str], T],
    where: str,
    default: T | None = None,
) -> T:
    if default is not None and not values.get(key):
        return default
    text = _required(values, key, where)
    try:
        return parse(text)
    except ValueError as error:
        raise _damaged(f"{key}={text[:100]} has no meaning.", where) from error


def _parse_int(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return int(text)


def _parse_bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _parse_list(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (entry.strip() for entry in text.split(","))))


def encode_table_config(config: TableConfig) -> bytes:
    """The properties file of the table.

    For a table that was read before, properties whose meaning did not change keep their text.
    """
    written = _format_config(config)
    if _VERSION not in config.extra:
        return encode_properties({**_NEW_TABLE, **config.extra, **written}, "lentic")
    before = _format_config(_parse_config(config.extra, "the properties read before"))
    changed = {key: text for key, text in written.items() if before.get(key) != text}
    gone = before.keys() - written.keys()
    if _MDT_PARTITIONS in changed or _MDT_PARTITIONS in gone:
        gone = gone | {_MDT_INFLIGHT}
    if _ORDERING_FIELDS in gone:
        gone = gone | {_ORDERING_ALIAS}
    kept = {key: text for key, text in config.extra.items() if key not in gone}
    return encode_properties({**kept, **changed}, "lentic")


def _format_config(config: TableConfig) -> dict[str, str]:
    values = {
        _NAME: config.name,
        _TYPE: str(config.table_type),
        _VERSION: str(config.version),
        "hoodie.table.initial.version": str(config.version),
        _CHECKSUM: str(table_checksum(config.database, config.name)),
        _KEY_FIELDS: ",".join(config.key_fields),
        _PARTITION_FIELDS: ",".join(config.partition_fields),
        _KEYGEN_TYPE: str(config.keygen),
        _MERGE_MODE: str(config.merge_mode),
        _META_FIELDS: _format_bool(config.populate_meta_fields),
        _HIVE_STYLE: _format_bool(config.hive_style),
        _URL_ENCODE: _format_bool(config.url_encode),
        _DROP_COLUMNS: _format_bool(config.drop_partition_columns),
        _ZONE: str(config.zone),
    }
    only_when_set = {
        _DATABASE: config.database,
        _ORDERING_FIELDS: ",".join(config.ordering_fields),
        _BUCKETS: str(config.buckets or ""),
        _COLUMN_GROUPS: format_column_groups(config.column_groups),
        _CREATE_SCHEMA: config.create_schema or "",
        _MDT_PARTITIONS: ",".join(config.metadata_partitions),
    }
    return values | {key: text for key, text in only_when_set.items() if text}


def _format_bool(value: bool) -> str:
    return "true" if value else "false"
