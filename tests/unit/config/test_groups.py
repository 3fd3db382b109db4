"""The registry: every option is in it once, with a default that its own parser accepts."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from lentic.config import cancellation, clustering, groups, retention, services, sharing, zookeeper
from lentic.config.groups import (
    REGISTRY,
    Codec,
    IndexType,
    OnMetadataTable,
    OnRerun,
    TableOptions,
    WriteOptions,
    storage_options,
)
from lentic.config.options import Option, Settings, format_value, resolve
from lentic.config.sharing import LockKind, LockOptions
from lentic.errors import ConfigError


def test_every_option_of_the_modules_is_registered_once() -> None:
    modules = (groups, cancellation, clustering, retention, services, sharing, zookeeper)
    defined = [o for module in modules for o in vars(module).values() if isinstance(o, Option)]
    assert sorted(option.key for option in REGISTRY) == sorted(option.key for option in defined)


def test_no_name_belongs_to_two_options() -> None:
    names = [name for option in REGISTRY for name in (option.key, *option.aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("option", REGISTRY, ids=lambda option: option.key)
def test_every_option_is_documented_and_named_after_hudi_or_us(option: Option[Any]) -> None:
    assert option.key.startswith(("hoodie.", "lentic."))
    assert option.doc.endswith(".")
    assert "|" not in option.doc, "a table row of the page"
    assert option.since


@pytest.mark.parametrize("option", REGISTRY, ids=lambda option: option.key)
def test_every_default_reads_back_from_its_own_text(option: Option[Any]) -> None:
    text = format_value(option.default)
    if option.default is None:
        return
    assert option.parse(text) == option.default


def test_the_defaults_are_the_documented_ones() -> None:
    nothing = Settings({})
    assert WriteOptions.parse(nothing) == WriteOptions(
        codec=Codec.ZSTD,
        row_group_rows=131_072,
        shuffle_tasks=0,
        on_metadata_table=OnMetadataTable.REFUSE,
        index=IndexType.AUTO,
        moves_partitions=True,
        file_size=120 * 1024 * 1024,
        small_file_size=100 * 1024 * 1024,
        row_size=0,
        combine_before_insert=False,
        combine_before_upsert=True,
        on_rerun=OnRerun.FAIL,
        exact_counts=True,
    )
    assert LockOptions.parse(nothing) == LockOptions(LockKind.AUTO, 60_000, 30_000, 200)
    table = TableOptions.parse(nothing)
    assert table.buckets is None
    assert (table.key_fields, table.partition_fields, table.ordering_fields) == ((), (), ())
    assert not table.hive_style
    assert not table.url_encode


@pytest.mark.parametrize(
    ("key", "value", "name", "parsed"),
    [
        ("hoodie.table.name", "orders", "name", "orders"),
        ("hoodie.database.name", "db", "database", "db"),
        ("hoodie.datasource.write.table.type", "x", "table_type", "x"),
        ("hoodie.datasource.write.recordkey.field", "a,b", "key_fields", ("a", "b")),
        ("hoodie.datasource.write.partitionpath.field", "day", "partition_fields", ("day",)),
        ("hoodie.datasource.write.precombine.field", "at", "ordering_fields", ("at",)),
        ("hoodie.table.precombine.field", "at", "ordering_fields", ("at",)),
        ("hoodie.write.record.merge.mode", "x", "merge_mode", "x"),
        ("hoodie.datasource.write.hive_style_partitioning", True, "hive_style", True),
        ("hoodie.datasource.write.partitionpath.urlencode", "true", "url_encode", True),
        ("lentic.buckets", 8, "buckets", 8),
        ("hoodie.bucket.index.num.buckets", "99999999", "buckets", 99_999_999),
    ],
)
def test_table_options_take_hudis_names(key: str, value: object, name: str, parsed: object) -> None:
    options = TableOptions.parse(resolve({key: value}, REGISTRY))
    assert getattr(options, name) == parsed
    default = TableOptions.parse(Settings({}))
    for other in fields(TableOptions):
        if other.name != name:
            assert getattr(options, other.name) == getattr(default, other.name)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.bucket.index.num.buckets", 0),
        ("hoodie.bucket.index.num.buckets", 100_000_000),
        ("hoodie.datasource.write.hive_style_partitioning", "maybe"),
    ],
)
def test_a_table_option_that_cannot_be_is_refused(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
        TableOptions.parse(resolve({key: value}, REGISTRY))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.parquet.compression.codec", "brotli"),
        ("lentic.parquet.row_group_rows", 999),
        ("hoodie.upsert.shuffle.parallelism", -1),
        ("lentic.metadata.on_write", "ignore"),
        ("hoodie.index.type", "RECORD_INDEX"),
        ("hoodie.simple.index.update.partition.path", "maybe"),
        ("hoodie.parquet.max.file.size", 1_023),
        ("hoodie.parquet.small.file.limit", -1),
        ("hoodie.copyonwrite.record.size.estimate", -1),
        ("hoodie.combine.before.insert", "maybe"),
        ("hoodie.combine.before.upsert", "maybe"),
        ("lentic.write.finalize.on_rerun", "ignore"),
        ("lentic.write.exact_counts", "maybe"),
    ],
)
def test_a_write_option_that_cannot_be_is_refused(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
        WriteOptions.parse(resolve({key: value}, REGISTRY))


@pytest.mark.parametrize(
    ("key", "value", "name", "parsed"),
    [
        ("hoodie.index.type", "bloom", "index", IndexType.BLOOM),
        ("hoodie.index.type", "GLOBAL_SIMPLE", "index", IndexType.GLOBAL_SIMPLE),
        ("hoodie.simple.index.update.partition.path", "false", "moves_partitions", False),
        ("hoodie.bloom.index.update.partition.path", False, "moves_partitions", False),
        ("hoodie.parquet.max.file.size", "4096", "file_size", 4096),
        ("hoodie.parquet.small.file.limit", 0, "small_file_size", 0),
        ("hoodie.copyonwrite.record.size.estimate", 64, "row_size", 64),
        ("hoodie.combine.before.insert", "true", "combine_before_insert", True),
        ("hoodie.combine.before.upsert", "false", "combine_before_upsert", False),
        ("lentic.write.finalize.on_rerun", "recover", "on_rerun", OnRerun.RECOVER),
        ("hoodie.write.finalize.marker.on.retrigger", "recover", "on_rerun", OnRerun.RECOVER),
        ("lentic.write.exact_counts", "false", "exact_counts", False),
    ],
)
def test_write_options_take_hudis_names(key: str, value: object, name: str, parsed: object) -> None:
    options = WriteOptions.parse(resolve({key: value}, REGISTRY))
    assert getattr(options, name) == parsed
    default = WriteOptions.parse(Settings({}))
    for other in fields(WriteOptions):
        if other.name != name:
            assert getattr(options, other.name) == getattr(default, other.name)


def test_an_index_is_global_by_its_name() -> None:
    assert {kind for kind in IndexType if kind.is_global} == {
        IndexType.GLOBAL_SIMPLE,
        IndexType.GLOBAL_BLOOM,
    }


def test_a_lock_may_be_named_as_hudi_users_name_it() -> None:
    name = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
    settings = resolve({"hoodie.write.lock.provider": name}, REGISTRY)
    assert LockOptions.parse(settings).kind is LockKind.IN_PROCESS


def test_a_lock_class_that_is_not_built_in_is_refused_and_never_imported() -> None:
    settings = resolve({"hoodie.write.lock.provider": "os.system"}, REGISTRY)
    with pytest.raises(ConfigError, match="auto, file, storage, in_process"):
        LockOptions.parse(settings)


def test_storage_options_lose_their_prefix_and_nothing_else_is_among_them() -> None:
    given = {"lentic.storage.endpoint": "x", "lentic.storage.region": "y", "hoodie.table.name": "t"}
    assert storage_options(resolve(given, REGISTRY)) == {"endpoint": "x", "region": "y"}
