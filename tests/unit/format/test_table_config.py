"""hoodie.properties as a typed value."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lentic.errors import Corrupt, UnsupportedFormat
from lentic.format.properties import decode_properties, encode_properties, table_checksum
from lentic.format.table_config import (
    KeyGenerator,
    MergeMode,
    TableConfig,
    TableType,
    decode_table_config,
    encode_table_config,
    infer_keygen,
    infer_merge_mode,
)
from lentic.format.times import Zone

V8_BY_HUDI = b"""#Updated at 2026-11-15T09:49:28.771635273Z
#Sun Nov 15 09:49:28 UTC 2026
hoodie.table.keygenerator.type=SIMPLE
hoodie.table.type=MERGE_ON_READ
hoodie.timeline.layout.version=2
hoodie.timeline.history.path=history
hoodie.table.checksum=1515652819
hoodie.datasource.write.drop.partition.columns=false
hoodie.record.merge.strategy.id=eeb8d96f-b1e4-49fd-bbf8-28ac514178e5
hoodie.table.format=native
hoodie.datasource.write.hive_style_partitioning=false
hoodie.table.metadata.partitions.inflight=
hoodie.table.index.defs.path=.hoodie/.index_defs/index.json
hoodie.datasource.write.partitionpath.urlencode=false
hoodie.record.merge.mode=EVENT_TIME_ORDERING
hoodie.table.version=8
hoodie.compaction.payload.class=org.apache.hudi.common.model.DefaultHoodieRecordPayload
hoodie.table.initial.version=8
hoodie.table.metadata.partitions=column_stats,files,partition_stats
hoodie.table.partition.fields=part
hoodie.archivelog.folder=history
hoodie.table.cdc.enabled=false
hoodie.table.multiple.base.file.formats.enable=false
hoodie.table.timeline.timezone=LOCAL
hoodie.table.name=mor_v8
hoodie.table.recordkey.fields=id
hoodie.timeline.path=timeline
hoodie.table.ordering.fields=ts
hoodie.partition.metafile.use.base.format=false
hoodie.populate.meta.fields=true
hoodie.table.base.file.format=PARQUET
"""

NEW = TableConfig(
    name="trips",
    table_type=TableType.COPY_ON_WRITE,
    key_fields=("id", "seq"),
    partition_fields=("city",),
    ordering_fields=("ts",),
    merge_mode=MergeMode.EVENT_TIME_ORDERING,
    keygen=KeyGenerator.COMPLEX,
    hive_style=True,
    buckets=16,
    create_schema='{"type":"record"}',
)


def _with(**changes: str | None) -> bytes:
    """A small table's properties; `changes` with `_` for `.`, None to leave a key out."""
    values: dict[str, str] = {
        "hoodie.table.name": "t",
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.version": "9",
    }
    for key, value in changes.items():
        if value is None:
            values.pop(key.replace("_", "."))
        else:
            values[key.replace("_", ".")] = value
    return encode_properties(values, "")


def test_a_table_of_hudi_decodes() -> None:
    config = decode_table_config(V8_BY_HUDI, "x")
    assert replace(config, extra={}) == TableConfig(
        name="mor_v8",
        table_type=TableType.MERGE_ON_READ,
        version=8,
        key_fields=("id",),
        partition_fields=("part",),
        ordering_fields=("ts",),
        merge_mode=MergeMode.EVENT_TIME_ORDERING,
        keygen=KeyGenerator.SIMPLE,
        zone=Zone.LOCAL,
        metadata_partitions=("column_stats", "files", "partition_stats"),
    )
    assert config.extra == decode_properties(V8_BY_HUDI, "x")


def test_a_table_of_hudi_is_rewritten_without_any_change() -> None:
    config = decode_table_config(V8_BY_HUDI, "x")
    written = decode_properties(encode_table_config(config), "x")
    assert written == decode_properties(V8_BY_HUDI, "x")


def test_dropping_the_metadata_table_changes_nothing_else() -> None:
    config = decode_table_config(V8_BY_HUDI, "x")
    written = decode_properties(encode_table_config(replace(config, metadata_partitions=())), "x")
    gone = {"hoodie.table.metadata.partitions", "hoodie.table.metadata.partitions.inflight"}
    before = decode_properties(V8_BY_HUDI, "x")
    assert written == {key: value for key, value in before.items() if key not in gone}


def test_partition_types_and_aliases_survive_a_rewrite() -> None:
    data = _with(
        hoodie_table_partition_fields="day:timestamp,city:simple",
        hoodie_table_precombine_field="ts",
        hoodie_table_recordkey_fields="id",
    )
    config = decode_table_config(data, "x")
    assert config.partition_fields == ("day", "city")
    assert config.ordering_fields == ("ts",)
    assert config.keygen is KeyGenerator.CUSTOM
    written = decode_properties(encode_table_config(replace(config, buckets=4)), "x")
    assert written == decode_properties(data, "x") | {"lentic.buckets": "4"}


def test_a_new_table_round_trips() -> None:
    config = decode_table_config(encode_table_config(NEW), "x")
    assert replace(config, extra={}) == NEW


def test_a_new_table_has_the_properties_that_hudi_gives_one() -> None:
    assert decode_properties(encode_table_config(NEW), "x") == {
        "hoodie.archivelog.folder": "history",
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "false",
        "hoodie.partition.metafile.use.base.format": "false",
        "hoodie.populate.meta.fields": "true",
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.table.cdc.enabled": "false",
        "hoodie.table.checksum": str(table_checksum("", "trips")),
        "hoodie.table.create.schema": '{"type":"record"}',
        "hoodie.table.format": "native",
        "hoodie.table.initial.version": "9",
        "hoodie.table.keygenerator.type": "COMPLEX",
        "hoodie.table.multiple.base.file.formats.enable": "false",
        "hoodie.table.name": "trips",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.table.partition.fields": "city",
        "hoodie.table.recordkey.fields": "id,seq",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.version": "9",
        "hoodie.timeline.history.path": "history",
        "hoodie.timeline.layout.version": "2",
        "hoodie.timeline.path": "timeline",
        "lentic.buckets": "16",
    }


def test_a_new_table_leaves_out_what_it_has_not() -> None:
    config = replace(NEW, ordering_fields=(), buckets=None, create_schema=None, database="db")
    written = decode_properties(encode_table_config(config), "x")
    for key in (
        "hoodie.table.ordering.fields",
        "lentic.buckets",
        "hoodie.table.create.schema",
        "hoodie.table.metadata.partitions",
    ):
        assert key not in written
    assert written["hoodie.database.name"] == "db"
    assert written["hoodie.table.checksum"] == str(table_checksum("db", "trips"))


def test_absent_properties_mean_what_they_mean_to_hudi() -> None:
    config = decode_table_config(_with(), "x")
    assert config.merge_mode is MergeMode.COMMIT_TIME_ORDERING
    assert config.keygen is KeyGenerator.NON_PARTITION
    assert config.zone is Zone.LOCAL
    assert config.populate_meta_fields
    assert not (config.hive_style or config.url_encode or config.drop_partition_columns)
    assert config.buckets is None and config.create_schema is None and config.database == ""


def test_metadata_partitions_being_built_count_too() -> None:
    data = _with(
        hoodie_table_metadata_partitions="files",
        hoodie_table_metadata_partitions_inflight="record_index,files",
    )
    assert decode_table_config(data, "x").metadata_partitions == ("files", "record_index")


def test_a_key_generator_may_be_named_by_its_class() -> None:
    known = _with(hoodie_table_keygenerator_class="org.apache.hudi.keygen.ComplexKeyGenerator")
    assert decode_table_config(known, "x").keygen is KeyGenerator.COMPLEX
    own = _with(hoodie_table_keygenerator_class="com.example.MyKeys")
    assert decode_table_config(own, "x").keygen is KeyGenerator.USER_PROVIDED


def test_key_generator_and_merge_mode_follow_from_the_fields() -> None:
    assert infer_keygen(["a"], []) is KeyGenerator.NON_PARTITION
    assert infer_keygen(["a", "b"], []) is KeyGenerator.NON_PARTITION
    assert infer_keygen(["a"], ["p"]) is KeyGenerator.SIMPLE
    assert infer_keygen(["a", "b"], ["p"]) is KeyGenerator.COMPLEX
    assert infer_keygen(["a"], ["p", "q"]) is KeyGenerator.COMPLEX
    assert infer_keygen([], ["p"]) is KeyGenerator.COMPLEX
    assert infer_merge_mode([]) is MergeMode.COMMIT_TIME_ORDERING
    assert infer_merge_mode(["ts"]) is MergeMode.EVENT_TIME_ORDERING


@pytest.mark.parametrize(("version", "advice"), [("6", "upgrade"), ("10", "release")])
def test_another_version_is_refused_with_what_to_do(version: str, advice: str) -> None:
    with pytest.raises(UnsupportedFormat, match=f"version {version}") as caught:
        decode_table_config(_with(hoodie_table_version=version), "x")
    assert advice in caught.value.next_step


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie_timeline_layout_version", "1"),
        ("hoodie_table_base_file_format", "ORC"),
        ("hoodie_table_multiple_base_file_formats_enable", "true"),
        ("hoodie_timeline_path", "elsewhere"),
        ("hoodie_bootstrap_base_path", "/old"),
        ("hoodie_table_format", "iceberg"),
    ],
)
def test_a_layout_we_would_misread_is_refused(key: str, value: str) -> None:
    with pytest.raises(UnsupportedFormat, match=value):
        decode_table_config(_with(**{key: value}), "x")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie_table_name", None),
        ("hoodie_table_name", ""),
        ("hoodie_table_type", None),
        ("hoodie_table_version", None),
        ("hoodie_table_version", "nine"),
        ("hoodie_table_version", "-9"),
        ("hoodie_table_type", "COW"),
        ("hoodie_record_merge_mode", "LAST"),
        ("hoodie_table_keygenerator_type", "MAGIC"),
        ("hoodie_table_timeline_timezone", "MARS"),
        ("hoodie_populate_meta_fields", "perhaps"),
        ("hoodie_table_checksum", "1"),
        ("hoodie_table_checksum", "x"),
        ("lentic_buckets", "0"),
        ("lentic_buckets", "1_0"),
        ("lentic_buckets", "100000000"),
    ],
)
def test_a_missing_or_senseless_value_is_corrupt(key: str, value: str | None) -> None:
    with pytest.raises(Corrupt) as caught:
        decode_table_config(_with(**{key: value}), "x")
    assert caught.value.safe and "copy of the table" in caught.value.next_step
    assert ".backup" not in str(caught.value), "there may be none"


def test_a_missing_checksum_is_fine_and_a_right_one_too() -> None:
    data = _with(hoodie_table_checksum=str(table_checksum("", "t")))
    assert decode_table_config(data, "x").name == "t"
